"""A consumer group as its coordinator keeps it: members, generations, sessions, offsets.

The members' own assignor makes the assignments. A member that does not belong to the generation gets a broker's error.
JoinGroup and SyncGroup are one step here; a member that has joined and has no assignment yet is `REBALANCING`, as in
the client.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition
from kafka import errors as kafka_errors

from tests.lab.model.simulation import Process

if TYPE_CHECKING:
    from tests.lab.model.broker import Broker

_EXPIRES = 7 * 24 * 3600.0  # offsets.retention.minutes


class Member:
    """The coordinator's state of one member."""

    def __init__(self, name: str, process: Process, assignor: Any, session: float, patience: float) -> None:
        self.name, self.process, self.assignor = name, process, assignor
        self.session, self.patience = session, patience
        self.metadata: Any = None
        self.has_joined = False
        self.given: Any = None  # an assignment that it has not fetched yet


class Group:
    """The state of a group and its coordinator."""

    def __init__(self, broker: "Broker", name: str) -> None:
        self._broker, self.name = broker, name
        self.members: dict[str, Member] = {}
        self.generation = 0
        self.is_rebalancing = False
        self.began = 0.0
        self.offsets: dict[TopicPartition, Any] = {}  # kafka-python's OffsetAndMetadata
        self.pending: dict[TopicPartition, set[int]] = {}
        self.empty_since = 0.0
        self._named = 0

    # -- members -----------------------------------------------------------------------------------------

    def enter(self, process: Process, assignor: Any, session: float, patience: float) -> Member:
        self._named += 1
        chance = self._broker.simulation.rng.getrandbits(16)  # the order of members by id is random
        member = Member(f"{chance:04x}-{process.name}-{self._named}", process, assignor, session, patience)
        self.members[member.name] = member
        self.rebalance()
        self._watch(member)
        return member

    def remove(self, name: str) -> None:
        if self.members.pop(name, None) is not None:
            if not self.members:
                self.empty_since = self._broker.simulation.now
                self.is_rebalancing = False
                self.generation += 1
                return
            self.rebalance()
            self._complete()

    def rebalance(self) -> None:
        if not self.is_rebalancing:
            self.is_rebalancing = True
            self.began = self._broker.simulation.now
            began = self.began
            for member in self.members.values():
                member.has_joined = False
            patience = max((member.patience for member in self.members.values()), default=0.0)
            self._broker.simulation.call_at(began + patience, lambda: self._give_up(began))

    def join(self, member: Member, metadata: Any) -> None:
        if member.name not in self.members:
            raise kafka_errors.UnknownMemberIdError(member.name)
        self.rebalance()
        member.metadata, member.has_joined, member.given = metadata, True, None
        self._complete()

    def metadata_changed(self) -> None:
        """Rebalance when the leader next refreshes its metadata and finds new partitions."""
        after = self._broker.simulation.rng.uniform(0, 5)
        self._broker.simulation.call_at(self._broker.simulation.now + after, lambda: self.members and self.rebalance())

    def _complete(self) -> None:
        if not self.is_rebalancing or not all(member.has_joined for member in self.members.values()):
            return
        self.is_rebalancing = False
        self.generation += 1
        leader = next(iter(self.members.values()))
        joined = [
            SimpleNamespace(member_id=one.name, group_instance_id=None, metadata=one.metadata)
            for one in self.members.values()
        ]
        shares = leader.assignor.assign(Metadata(self._broker), joined)
        for name, member in self.members.items():
            member.given = shares[name]
        self._broker.changed()

    def _give_up(self, began: float) -> None:
        if self.is_rebalancing and self.began == began:
            for name in [name for name, member in self.members.items() if not member.has_joined]:
                self.remove(name)

    def check_sessions(self) -> None:
        """Start the session time-outs of members whose process is dead or frozen."""
        for member in list(self.members.values()):
            self._watch(member)

    def _watch(self, member: Member) -> None:
        """Remove the member after its session time-out unless its process lives again."""
        process, now = member.process, self._broker.simulation.now
        if process.dead_since is not None or process.frozen_until > now:
            self._broker.simulation.call_at(now + member.session, lambda: self._judge(member))

    def _judge(self, member: Member) -> None:
        process = member.process
        if process.dead_since is not None or process.frozen_until > self._broker.simulation.now:
            self.remove(member.name)

    # -- offsets -----------------------------------------------------------------------------------------

    def check(self, membership: Any) -> None:
        """Raise unless the membership is current. As on a broker, generation -1 without a member id passes."""
        if membership.generation_id < 0 and not membership.member_id:
            return
        if membership.member_id not in self.members or membership.generation_id != self.generation:
            raise kafka_errors.CommitFailedError(f"{membership.member_id} of generation {membership.generation_id}")

    def end_transaction(self, producer: int, offsets: Mapping[TopicPartition, Any], commits: bool) -> None:
        for place, offset in offsets.items():
            self.pending.get(place, set()).discard(producer)
            if commits and place.topic in self._broker.topics:
                self.offsets[place] = offset

    def expire(self) -> None:
        """Drop the offsets of a group that was empty for too long."""
        if not self.members and self._broker.simulation.now - self.empty_since >= _EXPIRES:
            self.offsets.clear()


class Metadata:
    """The cluster metadata that assignors and producers read, always current."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        found = self._broker.topics.get(topic)
        return set(range(len(found.logs))) if found else None

    available_partitions_for_topic = partitions_for_topic

    def topics(self) -> set[str]:
        return set(self._broker.topics)
