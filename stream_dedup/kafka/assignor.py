"""Assign partitions to members: all to the active one (scope global), or shared among all (scope partition).

In scope global one active member gets every partition, and the others stand by. Each member sends a claim (user data):
whether it is active, and since which generation. The active member keeps its role through every rebalance, so a standby
that joins causes no take-over. When it is gone, the first of the others by member id gets the role. A zombie that comes
back claims an older generation than the member that replaced it, and loses. A member that has given the role up because
it could not open the task is reluctant: it gets the role back only if there is no other member.

Each assignment names the active member, so that the log of a standby can name it, too.

The assignor is EAGER in Kafka's terms, which costs nothing here: in the same rebalance the active member gets back
exactly what it gave up.
"""

import struct
from collections.abc import Sequence
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_CLAIM = struct.Struct(">Bi?")  # version, generation, active
_CLAIM_VERSION = 1
_NO_CLAIM = -1
_RELUCTANT = -2


class SingleActiveAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python ships no types
    """Assign all partitions of a topic to one active member."""

    name = "stream-dedup-single-active"
    version = 0

    def __init__(self, *, is_reluctant: bool = False) -> None:
        self._generation = _RELUCTANT if is_reluctant else _NO_CLAIM
        self._active = False
        self.active_member = ""  # the id of the active member, as far as the leader of the group names it

    def metadata(self, topics: set[str]) -> Any:
        claim = _CLAIM.pack(_CLAIM_VERSION, self._generation, self._active)
        return ConsumerProtocolSubscription(self.version, sorted(topics), claim)

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self._active = bool(assignment.partitions())
        self.active_member = bytes(assignment.user_data or b"").decode("utf-8", "replace")
        if self._active or self._generation != _RELUCTANT:
            self._generation = generation

    def assign(self, cluster: Any, members: Sequence[Any]) -> dict[str, Any]:
        shares: dict[str, list[tuple[str, list[int]]]] = {member.member_id: [] for member in members}
        elected = ""
        for topic in sorted({topic for member in members for topic in member.metadata.topics}):
            partitions = sorted(cluster.partitions_for_topic(topic) or ())
            candidates = [member for member in members if topic in member.metadata.topics]
            if partitions:
                elected = _elect(candidates)
                shares[elected].append((topic, partitions))
        name = elected.encode()
        return {member: ConsumerProtocolAssignment(self.version, share, name) for member, share in shares.items()}


def _elect(candidates: Sequence[Any]) -> str:
    """Return the newest claimant; without claims the first by id that is not reluctant. Every leader agrees."""
    best = min(candidates, key=lambda member: (-_claimed_generation(member.metadata.user_data), member.member_id))
    return str(best.member_id)


def _claimed_generation(user_data: bytes | None) -> int:
    if not user_data or len(user_data) != _CLAIM.size:
        return _NO_CLAIM
    version, generation, active = _CLAIM.unpack(user_data)
    if version != _CLAIM_VERSION:
        return _NO_CLAIM
    return int(generation) if active or generation == _RELUCTANT else _NO_CLAIM


class CooperativeAssignor(CooperativeStickyAssignor):  # type: ignore[misc]  # kafka-python ships no types
    """kafka-python's cooperative assignor, for scope partition, with a hook for lost partitions.

    The caller calls `on_lost` when the member has lost its partitions; kafka-python 3.0.12 does not tell the assignor.
    Without it a member that was asleep would still claim partitions that others have had since. Such a partition is
    withheld from its new owner until the old one gives it up; the old one has nothing to give up and asks for no
    further rebalance, so the partition could stay without an owner.
    """

    def on_lost(self) -> None:
        self.member_assignment = None
