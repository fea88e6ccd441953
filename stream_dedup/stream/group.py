"""This process as a member of the consumer group: kafka-python's consumer, each call bounded, its errors ours.

What the group says is noticed in the client's listener and dealt with by the worker after the poll: listeners run
on the client's I/O thread, which also beats the heart (P6), so nothing is done there that could wait. A new
partition is paused and given a placeholder position at once. Otherwise the same poll would fetch its committed
offset, before the former owner is fenced, and could wait for that owner's transaction.

A consumer whose call does not come back ends the worker: its I/O thread would go on to beat the heart for a
member that does not work, and no other could take over.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.structs import MemberState

from stream_dedup.errors import Interrupted, RecordsGone, Stalled, StreamError
from stream_dedup.settings import Settings
from stream_dedup.stream import client, fetched
from stream_dedup.stream.assignor import CooperativeAssignor, SingleActiveAssignor
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.error_text import error_text
from stream_dedup.stream.resume import Committed, Note, out_of_range

T = TypeVar("T")

# Never fetched from: the partition is paused until its task says where it stands.
_PLACEHOLDER = 0
# Leaving is a courtesy, so that another member takes over at once.
_LEAVE_SECONDS = 2.0


class Changes(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python ships no types
    """`count` counts every event; `lost` holds partitions that others may have worked on since.

    `on_lost` is called when there are such.
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
    """Whether a snapshot of the group's metadata may vouch for offsets (P4).

    After max_poll_interval the client reports generation -1 and no member id, and a broker would accept that as
    "no group, no fence".
    """
    return bool(snapshot.generation_id >= 0 and snapshot.member_id and snapshot.state == MemberState.STABLE)


class Group:
    """Joins with the first poll. `left()`: seconds until everything must be over; `is_reluctant`: see the assignor."""

    def __init__(self, settings: Settings, left: Callable[[], float], *, is_reluctant: bool = False) -> None:
        self._settings = settings
        self._topic = settings.topics.input
        self._bound = settings.worker.transaction_timeout.total_seconds()
        self._left = left
        self._calls = Bounded(f"{settings.kafka.group_id}-consumer", left)
        self._consumer: Any = None
        is_global = settings.worker.scope == "global"
        assignor = SingleActiveAssignor(is_reluctant=is_reluctant) if is_global else CooperativeAssignor()
        on_lost = assignor.on_lost if isinstance(assignor, CooperativeAssignor) else lambda: None

        def construct() -> None:
            self._consumer = client.make(KafkaConsumer, client.consumer(settings, assignor))
            fetched.take_over(self._consumer)
            self.changes = Changes(self._consumer, on_lost)
            self._consumer.subscribe([self._topic], listener=self.changes)

        try:
            self._call("joining the group", construct)
        except StreamError:
            self._calls.end(lambda: self._consumer and self._consumer.close(autocommit=False))
            raise

    # -- what the group says -----------------------------------------------------------------------------

    def poll(self, milliseconds: int) -> tuple[dict[int, list[Any]], Any]:
        """Records by partition, and the membership as it is right after (P4)."""

        def poll() -> tuple[dict[int, list[Any]], Any]:
            records = self._consumer.poll(milliseconds)
            snapshot = self._consumer.group_metadata()
            if snapshot.state == MemberState.REBALANCING:
                # The client forgets a rebalance that new metadata has caused (its own first metadata, or new
                # partitions) if a poll's time ends between its two requests: it never asks for the answer, and
                # beats no heart. Measured: 7 of 8 starts stand still with polls of 1 ms, 1 of some 70 with 200 ms.
                # Said anew after each poll until it is over, it is not forgotten.
                self._consumer._coordinator.request_rejoin()
            return {place.partition: some for place, some in records.items()}, snapshot

        return self._call("polling", poll)

    def assignment(self) -> frozenset[int]:
        return frozenset(place.partition for place in self._consumer.assignment())

    def partitions(self) -> frozenset[int]:
        """All of the topic's."""
        return self._call(
            "asking for the partitions", lambda: frozenset(self._consumer.partitions_for_topic(self._topic))
        )

    def committed(self, partitions: Iterable[int]) -> dict[int, Committed]:
        """The group's offsets of those that have one, once no transaction can change them any more."""
        bound, found = int(self._bound * 1000), {}

        def read(partition: int) -> Any:
            place = TopicPartition(self._topic, partition)
            return self._consumer.committed(place, metadata=True, timeout_ms=bound)

        for partition in sorted(partitions):
            one = self._call("reading the committed offsets", partial(read, partition))
            if one is not None:
                found[partition] = Committed(int(one.offset), Note.parse(one.metadata))
        return found

    def beginnings(self, partitions: Iterable[int]) -> dict[int, int]:
        """The first offset of each that can still be read."""
        places = [TopicPartition(self._topic, one) for one in partitions]
        found = self._call("looking for the first offsets", lambda: self._consumer.beginning_offsets(places))
        return {place.partition: int(offset) for place, offset in found.items()}

    def positions(self) -> dict[int, int]:
        """Up to where everything of what is assigned was polled; markers and aborted records that follow are passed."""

        def ask() -> dict[int, int]:
            found = {}
            for place in self._consumer.assignment():
                with suppress(kafka_errors.IllegalStateError):  # revoked in this very moment
                    found[place.partition] = self._consumer.position(place, timeout_ms=0)
            return {partition: int(offset) for partition, offset in found.items() if offset is not None}

        return self._call("asking for the positions", ask)

    def ends(self, partitions: Iterable[int]) -> dict[int, int]:
        """Where the partitions end, as far as the last fetches knew."""
        ends = {one: self._consumer.highwater(TopicPartition(self._topic, one)) for one in partitions}
        return {one: end for one, end in ends.items() if end is not None}

    # -- what is fetched, and from where: local settings of the client ------------------------------------

    def pause(self, partitions: Iterable[int] | None = None) -> None:
        """Polls fetch nothing of these partitions (None: of any) until `go_on`; they keep the membership."""
        places = self._consumer.assignment()
        if partitions is not None:
            places &= {TopicPartition(self._topic, one) for one in partitions}
        self._consumer.pause(*places)

    def go_on(self, positions: Mapping[int, int]) -> None:
        """Polls fetch these partitions from there on."""
        for partition, offset in positions.items():
            place = TopicPartition(self._topic, partition)
            self._consumer.seek(place, offset)
            fetched.drop_parked(self._consumer, place)
            self._consumer.resume(place)

    def leave(self) -> str | None:
        """Leaves the group, so that the others need not wait for the session's end; None, or why it failed."""
        leaving = Bounded(f"{self._settings.kafka.group_id}-leaving")
        try:
            leaving.call(
                "leaving the group", _LEAVE_SECONDS, lambda: self._consumer.close(autocommit=False, timeout_ms=1000)
            )
        except (StreamError, kafka_errors.KafkaError) as error:
            return error_text(error) if isinstance(error, kafka_errors.KafkaError) else str(error)
        finally:
            leaving.end()
            self._calls.end()
        return None

    # -- errors ------------------------------------------------------------------------------------------

    def _call(self, what: str, function: Callable[[], T]) -> T:
        try:
            return self._calls.call(what, self._bound + 1, function)
        except Stalled as error:
            if self._left() <= 0:
                raise Interrupted(f"a stop came while {what}") from error
            if self._consumer is None:
                raise
            raise StreamError(f"the Kafka client hangs ({error}); the process must be started anew") from error
        except kafka_errors.KafkaError as error:
            raise self._explain(error, what) from error

    def _explain(self, error: kafka_errors.KafkaError, what: str) -> StreamError:
        if isinstance(error, (kafka_errors.OffsetOutOfRangeError, kafka_errors.LogTruncationError)):
            return self._out_of_range(error)
        at = f"--bootstrap-server {self._settings.kafka.bootstrap_servers} --group {self._settings.kafka.group_id}"
        if isinstance(error, kafka_errors.CorruptRecordError):
            positions: dict[int, int] = {}
            with suppress(kafka_errors.KafkaError):
                positions = {one: self._position(one) for one in sorted(self.assignment())}
            return StreamError(
                f"a record of {self._topic} cannot be read ({error_text(error)}), at or after these offsets: "
                f"{positions}. "
                "Its bytes on the broker are damaged. To skip it, stop every member "
                f"and run: kafka-consumer-groups.sh {at} --topic {self._topic}:PARTITION --reset-offsets "
                "--to-offset OFFSET --execute"
            )
        return client.translate(error, what)

    def _out_of_range(self, error: kafka_errors.KafkaError) -> StreamError:
        """The client names the place; which way it is out of range only the topic says."""
        found = error.args[0] if error.args and isinstance(error.args[0], Mapping) else {}
        places = list(found)
        try:
            asked = {one.partition: self._consumer.position(one, timeout_ms=0) for one in places}
            begins, ends = self._consumer.beginning_offsets(places), self._consumer.end_offsets(places)
        except kafka_errors.KafkaError:  # then without the command
            begins, ends, asked = {}, {}, {}
        gone = {one.partition: (asked[one.partition], begins[one], ends[one]) for one in begins}
        return RecordsGone(out_of_range(self._settings, gone) if gone else f"{self._topic}: {error_text(error)}")

    def _position(self, partition: int) -> int:
        return int(self._consumer.position(TopicPartition(self._topic, partition), timeout_ms=0))
