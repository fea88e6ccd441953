"""Read a live topic without changing anything on the brokers.

In: settings and a topic's name. Out: its committed records. People try the program on topics that others depend on, so
this reader must leave no trace: it joins no group, commits and writes nothing, and needs only the rights to read and
describe the topic.

    with LiveReader(settings, "news") as reader:
        reader.begin(since=1_700_000_000_000)
        while not reader.caught_up:
            records = reader.poll()

Records come in timestamp order across partitions, about as a worker that keeps up with the topic sees them. Without
this the first thousand would be those of one partition.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Self, TypeVar

from stream_dedup.errors import StreamError, TopicError
from stream_dedup.kafka import client, errors, patches
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.errors import KafkaError
from stream_dedup.kafka.record_batch import Record
from stream_dedup.settings import Settings

# Per partition and response; a larger record comes all the same (KIP-74). Some 250 articles of 4 KB.
_FETCH_BYTES = 2**20


class StandaloneReader:
    """Use it in a `with`. `most_of_record`: as of `make_consumer`. Raises StreamError where Kafka cannot be read."""

    def __init__(self, settings: Settings, most_of_record: int = sys.maxsize) -> None:
        self._servers = settings.kafka.bootstrap_servers
        config = client.changelog_reader(settings) | {"max_partition_fetch_bytes": _FETCH_BYTES}
        try:
            self._consumer: Any = client.make_consumer(config, most_of_record)
        except KafkaError as error:
            raise errors.not_reached(error, settings) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _find_partitions(self, topic: str) -> list[TopicPartition]:
        """Raises TopicError for a topic that does not exist."""
        try:
            partitions = self._consumer.partitions_for_topic(topic)
        except KafkaError as error:
            raise errors.translate(error, f"reading {topic}") from error
        if not partitions:
            raise TopicError(f"there is no topic {topic} at {self._servers}, or this user may not see it")
        return [TopicPartition(topic, number) for number in sorted(partitions)]


_POLL_MS = 500
# After so long without progress before the end, the broker is away or a transaction hangs.
_STALL_SECONDS = 60.0


class TopicReader(StandaloneReader):
    """Use it in a `with`. Raises TopicError for a missing topic, StreamError where Kafka cannot be read."""

    def beginnings(self, topic: str) -> Mapping[int, int]:
        """The first readable offset of each partition."""
        try:
            begins = self._consumer.beginning_offsets(self._find_partitions(topic))
        except KafkaError as error:
            raise errors.translate(error, f"looking at {topic}") from error
        return {partition.partition: int(offset) for partition, offset in begins.items()}

    def all(self, topic: str) -> Iterator[Any]:
        """Every record up to the topic's present end, partition by partition, so that the order never varies."""
        for partition in self._find_partitions(topic):
            yield from self.partition(topic, partition.partition)

    def partition(self, topic: str, number: int) -> Iterator[Any]:
        """Every record of one partition, up to its present end."""
        partition = TopicPartition(topic, number)
        try:
            end = int(self._consumer.end_offsets([partition])[partition])
            self._consumer.assign([partition])
            self._consumer.seek_to_beginning(partition)
            yield from self._read_to(partition, end)
        except KafkaError as error:
            raise errors.translate(error, f"reading {topic}") from error

    def last(self, topic: str, count: int) -> Iterator[Any]:
        """The records at the last `count` offsets of each partition; fewer where transaction markers or gaps lie."""
        partitions = self._find_partitions(topic)
        try:
            ends, begins = self._consumer.end_offsets(partitions), self._consumer.beginning_offsets(partitions)
            for partition in partitions:
                self._consumer.assign([partition])
                self._consumer.seek(partition, max(int(begins[partition]), int(ends[partition]) - count))
                yield from self._read_to(partition, int(ends[partition]))
        except KafkaError as error:
            raise errors.translate(error, f"reading {topic}") from error

    def at(self, topic: str, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Any]:
        """The records at these (partition, offset); deleted ones are missing from the result."""
        records = {}
        begins = self.beginnings(topic)
        try:
            ends = self._consumer.end_offsets(self._find_partitions(topic))
            for number, offset in sorted(set(places)):
                partition = TopicPartition(topic, number)
                if not begins.get(number, 0) <= offset < ends.get(partition, 0):
                    continue
                self._consumer.assign([partition])
                self._consumer.seek(partition, offset)
                for record in self._read_to(partition, offset + 1):  # at most one
                    records[number, offset] = record
        except KafkaError as error:
            raise errors.translate(error, f"reading {topic}") from error
        return records

    def _read_to(self, partition: TopicPartition, end: int) -> Iterator[Any]:
        last_position, moved_at = -1, time.monotonic()
        while (position := self._consumer.position(partition)) < end:
            if position != last_position:
                last_position, moved_at = position, time.monotonic()
            elif time.monotonic() - moved_at > _STALL_SECONDS:
                raise StreamError(
                    f"{partition.topic}, partition {partition.partition}: no progress for {_STALL_SECONDS:.0f} s"
                )
            for records in self._consumer.poll(_POLL_MS).values():
                yield from (record for record in records if record.offset < end)


T = TypeVar("T")

_POLL_SECONDS = 0.5
# A partition with more buffered records than this is paused until older records of other partitions have come. Topics
# have tens of partitions: with articles of 4 KB this is 2 MB each.
_BUFFERED = 500
# The merge stops waiting for a partition that brings nothing for this long: its leader is slow or away.
_PARTITION_SECONDS = 2.0
# After this long without a record, ask the brokers for the ends to see whether they answer.
_SILENCE_SECONDS = 10.0
# After this long without a record although there are more, raise: the brokers need attention.
_STALL_SECONDS = 60.0


class LiveReader(StandaloneReader):
    """Use it in a `with`. Raises TopicError for a missing topic, StreamError where Kafka cannot be read."""

    def __init__(self, settings: Settings, topic: str) -> None:
        super().__init__(settings, settings.worker.max_record_bytes)
        self.topic = topic
        self._buffers: dict[Any, deque[Record]] = {}
        self._ends: dict[Any, int] = {}
        self._paused: set[Any] = set()
        self._last_record_at: dict[Any, float] = {}  # per partition, monotonic; from `begin` on
        self._last_response_at = 0.0  # monotonic; when the brokers last proved to be there
        try:
            self._partitions = self._find_partitions(topic)
        except BaseException:
            self._consumer.close()
            raise

    # -- where to begin ----------------------------------------------------------------------------------

    def begin(self, since: int) -> int:
        """Start each partition at its first record with this time (ms since 1970) or a later one.

        Returns the number of offsets between there and the topic's present end.
        """
        ends = self._fetch_ends()
        by_time = self._call(lambda: self._consumer.offsets_for_times(dict.fromkeys(self._partitions, max(0, since))))
        starts = {
            partition: int(by_time[partition].offset) if by_time.get(partition) else ends[partition]
            for partition in self._partitions
        }

        def assign_and_seek() -> None:
            self._consumer.assign(self._partitions)
            for partition, offset in starts.items():
                self._consumer.seek(partition, offset)

        self._call(assign_and_seek)
        self._ends, self._last_response_at = ends, time.monotonic()
        self._buffers = {partition: deque() for partition in self._partitions}
        self._last_record_at = dict.fromkeys(self._partitions, self._last_response_at)
        self._paused = set()
        return sum(max(0, ends[partition] - starts[partition]) for partition in self._partitions)

    @property
    def is_empty(self) -> bool:
        """Whether the topic has no record at all."""
        begins = self._call(lambda: self._consumer.beginning_offsets(self._partitions))
        return all(int(begins[partition]) >= end for partition, end in self._fetch_ends().items())

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """Whether `poll` has returned everything up to the end that was fetched last."""
        return not any(self._buffers.values()) and not self._behind()

    def poll(self, seconds: float = _POLL_SECONDS) -> list[Record]:
        """The next records, perhaps none; waits at most about `seconds`. Raises StreamError when reading stalls."""
        polled = self._call(lambda: self._consumer.poll(int(seconds * 1000)))
        now = time.monotonic()
        for partition, records in polled.items():
            self._buffers[partition].extend(records)
            self._last_record_at[partition] = now
        if polled:
            self._last_response_at = now
        elif now - self._last_response_at > _SILENCE_SECONDS:
            self._update_ends()
            self._last_response_at = time.monotonic()
        behind = self._behind()
        if behind and now - max(self._last_record_at.values()) > _STALL_SECONDS:
            raise StreamError(
                f"{self.topic}: partitions {sorted(each.partition for each in behind)} have more records, but nothing "
                f"could be read for {_STALL_SECONDS:.0f} s; look at their leaders"
            )
        merged = self._merge(
            {partition for partition in behind if now - self._last_record_at[partition] < _PARTITION_SECONDS}
        )
        self._pause_and_resume()
        return merged

    def _merge(self, expected: Set[Any]) -> list[Record]:
        """Take buffered records, oldest first, until the buffer of an expected partition is empty.

        Within a partition the order is that of the offsets, whatever the timestamps are.
        """
        buffers = {partition: records for partition, records in self._buffers.items() if records}
        merged: list[Record] = []
        while buffers and all(partition in buffers for partition in expected):
            partition = min(buffers, key=lambda partition: _head_time(buffers[partition]))
            merged.append(buffers[partition].popleft())
            if not buffers[partition]:
                del buffers[partition]
        return merged

    def _behind(self) -> list[Any]:
        """The partitions whose position is before the end."""
        return [partition for partition, end in self._ends.items() if self._position(partition) < end]

    def _pause_and_resume(self) -> None:
        for partition, records in self._buffers.items():
            if partition not in self._paused and len(records) > _BUFFERED:
                self._consumer.pause(partition)
                self._paused.add(partition)
            elif partition in self._paused and len(records) <= _BUFFERED // 2:
                self._consumer.seek(partition, self._position(partition))
                patches.forget_parked(self._consumer, partition)
                self._consumer.resume(partition)
                self._paused.discard(partition)

    def _update_ends(self) -> None:
        """Fetch the ends. An empty poll cannot tell a quiet topic from brokers that are away; this request can."""
        try:
            ends = self._consumer.end_offsets(list(self._buffers), timeout_ms=int(_SILENCE_SECONDS * 1000))
        except KafkaError as error:
            raise StreamError(
                f"{self.topic}: the brokers no longer answer ({type(error).__name__}); run it again when they are back"
            ) from error
        self._ends = {partition: int(end) for partition, end in ends.items()}

    # -- requests ----------------------------------------------------------------------------------------

    def _fetch_ends(self) -> dict[Any, int]:
        ends = self._call(lambda: self._consumer.end_offsets(self._partitions))
        return {partition: int(ends[partition]) for partition in self._partitions}

    def _position(self, partition: Any) -> int:
        return int(self._consumer.position(partition, timeout_ms=0))

    def _call(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except KafkaError as error:
            raise errors.translate(error, f"reading {self.topic}") from error


def _head_time(buffer: Sequence[Record]) -> int:
    """The time by which the first record is merged. A lone date in the future does not hold up those behind it."""
    return min(buffer[0].timestamp, buffer[1].timestamp) if len(buffer) > 1 else buffer[0].timestamp
