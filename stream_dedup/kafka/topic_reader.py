"""Read the committed records of a topic: all of them, the last ones, or single ones by offset.

In: settings and a topic. Out: records. Commands use it to look at what the worker wrote. It joins no group, commits
nothing and sees what a read_committed consumer downstream sees.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_dedup.errors import StreamError
from stream_dedup.kafka import client
from stream_dedup.kafka.standalone_reader import StandaloneReader

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
            raise client.translate(error, f"looking at {topic}") from error
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
            raise client.translate(error, f"reading {topic}") from error

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
            raise client.translate(error, f"reading {topic}") from error

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
            raise client.translate(error, f"reading {topic}") from error
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
