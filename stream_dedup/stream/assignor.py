"""Who works: one member of the group gets every partition, the others stand by.

In: the members with what each says of itself. Out: an assignment. The present active member keeps its role
through every rebalance, so a joining standby causes no take-over; when it is gone the first of the others by
member id gets it. Each member says in its user data whether it is active and since which generation: a
zombie that comes back claims an older generation than the member that replaced it, and loses. A member that has given
the role up, as it could not work, is reluctant: it gets the role back only if nobody else is there.

It is EAGER in Kafka's terms, which costs nothing here: the active member gets back in the same rebalance
exactly what it gave up.
"""

import struct
from collections.abc import Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_CLAIM = struct.Struct(">Bi?")  # layout, generation, active
_LAYOUT = 1
_NO_CLAIM = -1
_RELUCTANT = -2


class SingleActiveAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python ships no types
    """One active member a topic."""

    name = "stream-dedup-single-active"
    version = 0

    def __init__(self, *, is_reluctant: bool = False) -> None:
        self._generation = _RELUCTANT if is_reluctant else _NO_CLAIM
        self._active = False

    def metadata(self, topics: set[str]) -> Any:
        claim = _CLAIM.pack(_LAYOUT, self._generation, self._active)
        return ConsumerProtocolSubscription(self.version, sorted(topics), claim)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self._active = bool(assignment.partitions())
        if self._active or self._generation != _RELUCTANT:
            self._generation = generation

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        shares: dict[str, list[tuple[str, list[int]]]] = {member.member_id: [] for member in members}
        for topic in sorted({topic for member in members for topic in member.metadata.topics}):
            partitions = sorted(cluster.partitions_for_topic(topic) or ())
            candidates = [member for member in members if topic in member.metadata.topics]
            if partitions:
                shares[_elect(candidates)].append((topic, partitions))
        return {one: ConsumerProtocolAssignment(self.version, share, b"") for one, share in shares.items()}


def _elect(candidates: Sequence[Any]) -> str:
    """The member with the newest claim; without any claim the first by id that is not reluctant, so that every leader
    agrees.
    """
    best = min(candidates, key=lambda member: (-_claimed(member.metadata.user_data), member.member_id))
    return str(best.member_id)


def _claimed(user_data: bytes | None) -> int:
    if not user_data or len(user_data) != _CLAIM.size:
        return _NO_CLAIM
    layout, generation, active = _CLAIM.unpack(user_data)
    if layout != _LAYOUT:
        return _NO_CLAIM
    return int(generation) if active or generation == _RELUCTANT else _NO_CLAIM


class CooperativeAssignor(CooperativeStickyAssignor):  # type: ignore[misc]  # kafka-python ships no types
    """kafka-python's, for scope partition; call `on_lost` when the member has lost what it had.

    kafka-python 3.0.12 does not tell the assignor. A member that was asleep then claims, when it is back, what others
    have had since: the partition is withheld from its new owner until the old one gives it up, which has nothing to
    give up and asks for no further rebalance. So the partition could stay without an owner.
    """

    def on_lost(self) -> None:
        self.member_assignment = None
