"""What the group says of this member: noticed in the client's listener, dealt with by the worker after the poll.

kafka-python calls listeners on its I/O thread, which also beats the heart (P6): so nothing is done here that
could wait. A new partition is paused and given a placeholder position at once. Otherwise the same poll would
fetch its committed offset, before the former owner is fenced, and could wait for that owner's transaction.
"""

from collections.abc import Iterable
from typing import Any

from kafka import ConsumerRebalanceListener
from kafka.structs import MemberState

# Never fetched from: the partition is paused until its lane says where it stands.
_PLACEHOLDER = 0


class Membership(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python ships no types
    """`changes` counts every event; `lost` holds partitions that others may have worked on since."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.changes = 0
        self.lost: set[int] = set()

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        for place in assigned:
            self._consumer.pause(place)
            self._consumer.seek(place, _PLACEHOLDER)
        self.changes += 1

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.changes += 1

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.lost |= {place.partition for place in lost}
        self.changes += 1


def is_member(membership: Any) -> bool:
    """Whether a snapshot of the group's metadata may vouch for offsets (P4).

    After max_poll_interval the client reports generation -1 and no member id, and a broker would accept that as
    "no group, no fence".
    """
    return bool(membership.generation_id >= 0 and membership.member_id and membership.state == MemberState.STABLE)
