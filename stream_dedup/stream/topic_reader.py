"""Committed records of a topic, read by nobody's group: all of them once, or single ones by their place.

In: settings and a topic. Out: records. For those who look at what the worker wrote: it
commits nothing, joins no group, and sees what a read_committed reader downstream sees.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_dedup.errors import StreamError, TopicError
from stream_dedup.settings import Settings
from stream_dedup.stream import client

_POLL_MS = 500
# Of one answer; a larger record comes all the same (KIP-74). Single records lie far apart.
_FETCH = 2**20
# So long it stands still although there should be something: the broker is gone, or a transaction hangs.
_PATIENCE = 60.0


class TopicReader:
    """Use it in a `with`. Raises TopicError for a topic that is not there, StreamError where Kafka cannot be read."""

    def __init__(self, settings: Settings) -> None:
        self._servers = settings.kafka.bootstrap_servers
        try:
            self._consumer = client.make_consumer(
                settings, client.changelog_reader(settings) | {"max_partition_fetch_bytes": _FETCH}
            )
        except KafkaError as error:
            raise client.not_reached(error, settings) from error

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def beginnings(self, topic: str) -> Mapping[int, int]:
        """The first offset of each partition that can still be read."""
        try:
            found = self._consumer.beginning_offsets(self._places(topic))
        except KafkaError as error:
            raise client.translate(error, f"looking at {topic}") from error
        return {place.partition: int(offset) for place, offset in found.items()}

    def all(self, topic: str) -> Iterator[Any]:
        """Every record up to the topic's end as it is now, partition by partition, so that the order is always one."""
        for place in self._places(topic):
            yield from self.partition(topic, place.partition)

    def partition(self, topic: str, number: int) -> Iterator[Any]:
        """Every record of one partition, up to its end as it is now."""
        place = TopicPartition(topic, number)
        try:
            end = int(self._consumer.end_offsets([place])[place])
            self._consumer.assign([place])
            self._consumer.seek_to_beginning(place)
            yield from self._up_to(place, end)
        except KafkaError as error:
            raise client.translate(error, f"reading {topic}") from error

    def last(self, topic: str, count: int) -> Iterator[Any]:
        """The last so many records of each partition, as its end is now; fewer where markers or gaps lie between."""
        places = self._places(topic)
        try:
            ends, begun = self._consumer.end_offsets(places), self._consumer.beginning_offsets(places)
            for place in places:
                self._consumer.assign([place])
                self._consumer.seek(place, max(int(begun[place]), int(ends[place]) - count))
                yield from self._up_to(place, int(ends[place]))
        except KafkaError as error:
            raise client.translate(error, f"reading {topic}") from error

    def at(self, topic: str, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Any]:
        """The records at these (partition, offset); one that is gone is missing."""
        found = {}
        begun = self.beginnings(topic)
        try:
            ends = self._consumer.end_offsets(self._places(topic))
            for partition, offset in sorted(set(places)):
                place = TopicPartition(topic, partition)
                if not begun.get(partition, 0) <= offset < ends.get(place, 0):
                    continue
                self._consumer.assign([place])
                self._consumer.seek(place, offset)
                for record in self._up_to(place, offset + 1):  # one, or none where it is gone
                    found[partition, offset] = record
        except KafkaError as error:
            raise client.translate(error, f"reading {topic}") from error
        return found

    def _up_to(self, place: TopicPartition, end: int) -> Iterator[Any]:
        reached, moved = -1, time.monotonic()
        while (position := self._consumer.position(place)) < end:
            if position != reached:
                reached, moved = position, time.monotonic()
            elif time.monotonic() - moved > _PATIENCE:
                raise StreamError(f"{place.topic}, partition {place.partition}: no progress for {_PATIENCE:.0f} s")
            for records in self._consumer.poll(_POLL_MS).values():
                yield from (record for record in records if record.offset < end)

    def _places(self, topic: str) -> list[TopicPartition]:
        partitions = self._consumer.partitions_for_topic(topic)
        if not partitions:
            raise TopicError(f"there is no topic {topic} at {self._servers}, or this user may not see it")
        return [TopicPartition(topic, one) for one in sorted(partitions)]
