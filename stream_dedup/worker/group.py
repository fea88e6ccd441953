"""This process as a member of the consumer group: kafka-python's consumer, its calls bounded, its errors translated.

The client calls the rebalance listener (`Changes`) on its I/O thread, which also sends heartbeats (P6). So the listener
only records changes; the worker acts on them after the poll. Except that it pauses a new partition, at offset 0:
otherwise this poll would read the committed offset before the former owner is fenced, and could wait for that owner's
transaction. Calls that cannot block (`pause`, `ends`) are not bounded.

A consumer whose call does not return ends the worker. Otherwise its I/O thread would go on sending heartbeats for a
member that does not work, and no other member could take over.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from stream_dedup.errors import Interrupted, RecordsGone, Stalled, StreamError, TransactionFailed
from stream_dedup.kafka import client, errors, patches
from stream_dedup.kafka.assignor import CooperativeAssignor, SingleActiveAssignor
from stream_dedup.kafka.client import ConsumerRebalanceListener, MemberState, TopicPartition
from stream_dedup.kafka.errors import KafkaError, error_text, kafka_errors
from stream_dedup.kafka.fetch import LeaderEpochs
from stream_dedup.kafka.runtime import Bounded, make_consumer
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.resume import Committed, Note, offset_command, out_of_range_message, truncated_message

T = TypeVar("T")
log = logging.getLogger(__name__)

# The position of a new partition; nothing is fetched from it, as the partition is paused until its task is open.
_PLACEHOLDER = 0
# Nothing depends on leaving, but another member takes over at once.
_LEAVE_SECONDS = 2.0


class Changes(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python ships no types
    """The changes of the assignment. `count`: changes so far. `lost`: partitions that other members may have worked on
    since; `on_lost` is called when there are such.
    """

    def __init__(self, consumer: Any, on_lost: Callable[[], None] = lambda: None) -> None:
        self._consumer, self._on_lost = consumer, on_lost
        self.count = 0
        self.lost: set[int] = set()

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        for place in assigned:
            self._consumer.pause(place)
            self._consumer.seek(place, _PLACEHOLDER)
        self.count += 1

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.count += 1

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.lost |= {place.partition for place in lost}
        self._on_lost()
        self.count += 1


def is_member(snapshot: Any) -> bool:
    """Return whether offsets may be committed under this snapshot of the group's metadata (P4).

    After max_poll_interval the client reports generation -1 and no member id, and a broker accepts that without a
    fence.
    """
    return bool(snapshot.generation_id >= 0 and snapshot.member_id and snapshot.state == MemberState.STABLE)


class Group:
    """A membership, which begins with the first poll. `is_reluctant`: see assignor.py."""

    def __init__(self, context: WorkerContext, *, is_reluctant: bool = False) -> None:
        self._context, self._settings = context, context.settings
        settings, self._topic = context.settings, context.settings.topics.input
        self.epochs = LeaderEpochs()
        self._calls = context.thread("consumer")
        self._consumer: Any = None
        self._assignor = assignor = (
            SingleActiveAssignor(is_reluctant=is_reluctant) if settings.worker.is_global else CooperativeAssignor()
        )
        on_lost = assignor.on_lost if isinstance(assignor, CooperativeAssignor) else lambda: None

        def construct() -> None:
            config, most = client.consumer(settings, assignor), settings.worker.max_record_bytes
            self._consumer = make_consumer(config, most, self.epochs, context.runtime)
            self.changes = Changes(self._consumer, on_lost)
            self._consumer.subscribe([self._topic], listener=self.changes)

        try:
            self._call("joining the group", construct)
        except StreamError:
            self._calls.end(lambda: self._consumer and self._consumer.close(autocommit=False))
            raise

    # -- the group's state ------------------------------------------------------------------------------

    def poll(self, milliseconds: int) -> tuple[dict[int, list[Any]], Any]:
        """Return records by partition, and the membership as it is right after the poll (P4)."""

        def poll() -> tuple[dict[int, list[Any]], Any]:
            records = self._consumer.poll(milliseconds)
            snapshot = self._consumer.group_metadata()
            if snapshot.state == MemberState.REBALANCING:
                patches.request_rejoin(self._consumer)
            return {place.partition: batch for place, batch in records.items()}, snapshot

        return self._call("polling", poll)

    def assignment(self) -> frozenset[int]:
        """Return the partitions of this member."""
        return frozenset(place.partition for place in self._consumer.assignment())

    @property
    def active_member(self) -> str:
        """The id of the active member in scope global; empty if it is not known."""
        return self._assignor.active_member if isinstance(self._assignor, SingleActiveAssignor) else ""

    @property
    def is_connected(self) -> bool:
        """Whether it has a connection to any broker."""
        return patches.is_connected(self._consumer)

    def partitions(self) -> frozenset[int]:
        """Return all partitions of the topic. Raises TransactionFailed while no broker knows them."""
        numbers = self._call("asking for the partitions", lambda: self._consumer.partitions_for_topic(self._topic))
        if not numbers:
            raise TransactionFailed(f"no broker knows the partitions of {self._topic} at present")
        return frozenset(numbers)

    def committed(self, partitions: Iterable[int]) -> dict[int, Committed]:
        """Return the group's offsets of the partitions that have one, once no transaction can change them any more."""
        bound, committed = int(self._context.call_timeout * 1000), {}

        def read(partition: int) -> Any:
            place = TopicPartition(self._topic, partition)
            return self._consumer.committed(place, metadata=True, timeout_ms=bound)

        for partition in sorted(partitions):
            if (found := self._call("reading the committed offsets", partial(read, partition))) is not None:
                committed[partition] = Committed(int(found.offset), Note.parse(found.metadata), int(found.leader_epoch))
        return committed

    def beginnings(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the first offset of each partition that can still be read."""
        places = [TopicPartition(self._topic, partition) for partition in partitions]

        offsets = self._call("looking for the first offsets", lambda: self._consumer.beginning_offsets(places))
        return {place.partition: int(offset) for place, offset in offsets.items()}

    def positions(self) -> dict[int, int]:
        """Return the offset up to which each assigned partition was polled, past markers and aborted records."""

        def ask() -> dict[int, int]:
            positions = {}
            for place in self._consumer.assignment():
                with suppress(kafka_errors.IllegalStateError):  # revoked in this very moment
                    positions[place.partition] = self._consumer.position(place, timeout_ms=0)
            return {partition: int(offset) for partition, offset in positions.items() if offset is not None}

        return self._call("asking for the positions", ask)

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the end of each partition as of its last fetch."""
        ends = {number: self._consumer.highwater(TopicPartition(self._topic, number)) for number in partitions}
        return {number: end for number, end in ends.items() if end is not None}

    # -- fetching: state of the client alone --------------------------------------------------------------

    def pause(self, partitions: Iterable[int] | None = None) -> None:
        """Stop fetching from these partitions (None: from all) until `go_on`; polls still keep the membership."""
        places = self._consumer.assignment()
        if partitions is not None:
            places &= {TopicPartition(self._topic, partition) for partition in partitions}
        self._consumer.pause(*places)

    def go_on(self, positions: Mapping[int, int]) -> None:
        """Fetch from these partitions again, from these offsets on."""
        for partition, offset in positions.items():
            place = TopicPartition(self._topic, partition)
            patches.resume(self._consumer, place, offset, self.epochs.before(place, offset))

    def leave(self) -> None:
        """Leave the group, so that other members need not wait for the session's end. A failure is logged."""
        leaving = Bounded(f"{self._settings.kafka.group_id}-leaving", runtime=self._context.runtime)
        try:
            leaving.call(
                "leaving the group", _LEAVE_SECONDS, lambda: self._consumer.close(autocommit=False, timeout_ms=1000)
            )
        except (StreamError, KafkaError) as error:
            problem = error_text(error) if isinstance(error, KafkaError) else str(error)
            log.warning("%s; the group removes this member when its session ends", problem)
        finally:
            leaving.end()
            self._calls.end()

    # -- errors ------------------------------------------------------------------------------------------

    def _call(self, action: str, function: Callable[[], T]) -> T:
        try:
            return self._calls.call(action, self._context.call_timeout + 1, function)
        except Stalled as error:
            if self._context.remaining() <= 0:
                raise Interrupted(f"a stop came while {action}") from error
            if self._consumer is None:
                raise
            raise StreamError(f"the Kafka client hangs ({error}); the process must be started anew") from error
        except KafkaError as error:
            raise self._explain(error, action) from error
        except KeyError as error:
            raise errors.unknown_partition(error, action) from error

    def _explain(self, error: KafkaError, action: str) -> StreamError:
        if isinstance(error, kafka_errors.LogTruncationError):
            ends = error.divergent_offsets.items()  # the records before a position are not those that were read
            return RecordsGone(
                truncated_message(self._settings, {place.partition: end and int(end.offset) for place, end in ends})
            )
        if isinstance(error, kafka_errors.OffsetOutOfRangeError):
            return self._out_of_range(error)
        if isinstance(error, kafka_errors.CorruptRecordError):
            # Without a whole header nothing says where its batch ends.
            partition, offset = getattr(error, "damaged", ("PARTITION", "OFFSET"))
            return StreamError(
                f"a record of {self._topic} cannot be read ({error_text(error)}): its bytes on the broker are damaged. "
                "To skip its batch, stop every member and run: "
                f"{offset_command(self._settings, str(offset), [partition])}"
            )
        return errors.translate(error, action)

    def _out_of_range(self, error: KafkaError) -> StreamError:
        """Name the partitions and their offsets.

        The client names the partitions; the topic's limits tell whether the offsets are too low or too high.
        """
        places = list(error.args[0]) if error.args and isinstance(error.args[0], Mapping) else []
        try:
            positions = {place: self._consumer.position(place, timeout_ms=0) for place in places}
            beginnings, ends = self._consumer.beginning_offsets(places), self._consumer.end_offsets(places)
        except (KafkaError, KeyError):  # the message then lacks the command
            beginnings, ends, positions = {}, {}, {}
        gone = {place.partition: (positions[place], beginnings[place], ends[place]) for place in beginnings}
        return RecordsGone(
            out_of_range_message(self._settings, gone) if gone else f"{self._topic}: {error_text(error)}"
        )
