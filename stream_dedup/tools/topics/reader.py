"""Read topics without leaving a trace: stored records (`TopicReader`); live_reader.py reads a live topic.

Readers see committed records alone, as a read_committed consumer downstream does. Commands read topics that others
depend on, so the readers assign partitions by hand, join no group, commit and write nothing, and need only the rights
to read and describe the topic.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from stream_dedup.errors import StreamError, TopicError
from stream_dedup.kafka import client, errors, patches
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.errors import KafkaError
from stream_dedup.kafka.runtime import make_consumer
from stream_dedup.settings import Settings

# Per partition and response; a larger record comes all the same (KIP-74). Some 250 articles of 4 KB.
_FETCH_BYTES = 2**20
POLL_SECONDS = 0.5
# Offsets of each partition that `newest` reads at a time.
_STEP = 5000
# After this long without progress before the end, raise: a broker is away or a transaction hangs.
STALL_SECONDS = 60.0


def throttle(consumer: Any, waiting: Mapping[Any, int], most: int) -> None:
    """Pause each partition of which more than `most` records are waiting, until half of those are used up."""
    paused = consumer.paused()
    for place, count in waiting.items():
        if place not in paused and count > most:
            consumer.pause(place)
        elif place in paused and count <= most // 2:
            patches.resume(consumer, place, consumer.position(place, timeout_ms=0))


class Reader:
    """What readers share. Use them in a `with`. `most_of_record`: see `fetch.install`.

    Raises TopicError for a missing topic, StreamError where Kafka cannot be read.
    """

    def __init__(self, settings: Settings, most_of_record: int = sys.maxsize) -> None:
        self._servers = settings.kafka.bootstrap_servers
        config = client.changelog_reader(settings) | {"max_partition_fetch_bytes": _FETCH_BYTES}
        try:
            self._consumer: Any = make_consumer(config, most_of_record)
        except KafkaError as error:
            raise errors.not_reached(error, settings) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _limits(self, topic: str) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first offset and the end of each partition, in their order."""
        numbers = self._consumer.partitions_for_topic(topic)
        if not numbers:
            raise TopicError(f"there is no topic {topic} at {self._servers}, or this user may not see it")
        places = [TopicPartition(topic, number) for number in sorted(numbers)]
        begins, ends = self._consumer.beginning_offsets(places), self._consumer.end_offsets(places)
        return {place: (int(begins[place]), int(ends[place])) for place in places}

    def _since(self, limits: Mapping[TopicPartition, tuple[int, int]], since: int) -> dict[TopicPartition, int]:
        """Return the offset of each partition's first record with this time (ms) or a later one, or its end."""
        firsts = self._consumer.offsets_for_times(dict.fromkeys(limits, max(0, since)))
        return {place: int(firsts[place].offset) if firsts.get(place) else end for place, (_, end) in limits.items()}

    def _begin(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, and no others, from these offsets on."""
        self._consumer.assign(list(starts))
        for place, offset in starts.items():
            self._consumer.seek(place, offset)


class TopicReader(Reader):
    """Reads what is stored: all records, the last ones, or single ones by offset."""

    def beginnings(self, topic: str) -> Mapping[int, int]:
        """Return the first readable offset of each partition."""
        with errors.translated(f"reading {topic}"):
            return {place.partition: begin for place, (begin, _) in self._limits(topic).items()}

    def all(self, topic: str, count: int = sys.maxsize) -> Iterator[Any]:
        """Yield every record up to the topic's present end, partition by partition, so that the order never varies.

        `count`: only those at the last `count` offsets of each partition, fewer where transaction markers or gaps lie.
        """
        for number in self.beginnings(topic):
            yield from self.partition(topic, number, count)

    def partition(self, topic: str, number: int, count: int = sys.maxsize) -> Iterator[Any]:
        """Yield the records at the last `count` offsets of one partition, up to its present end."""
        with errors.translated(f"reading {topic}"):
            place = TopicPartition(topic, number)
            begin, end = self._limits(topic)[place]
            yield from self._read(place, max(begin, end - count), end)

    def newest(
        self, topic: str, wanted: Callable[[Any], bool], since: int, report: Callable[[int, int], None]
    ) -> Any | None:
        """Return the wanted record with the latest time among the last ones of the partitions; None: there is none.

        Reads from the ends back, to the first record with a time of `since` (ms) or later. `report` gets the number of
        offsets that are read, and of all.
        """
        with errors.translated(f"reading {topic}"):
            limits = self._limits(topic)
            starts, ends = self._since(limits, since), {place: end for place, (_, end) in limits.items()}
            total = left = sum(max(0, ends[place] - starts[place]) for place in limits)
            while left:
                matching = []
                for place, start in starts.items():
                    begin = max(start, ends[place] - _STEP)
                    matching += [record for record in self._read(place, begin, ends[place]) if wanted(record)]
                    ends[place] = max(start, begin)
                left = sum(max(0, ends[place] - starts[place]) for place in limits)
                report(total - left, total)
                if matching:
                    return max(matching, key=lambda record: (record.timestamp, record.offset))
        return None

    def at(self, topic: str, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Any]:
        """Return the records at these (partition, offset); deleted ones are missing from the result."""
        records: dict[tuple[int, int], Any] = {}
        with errors.translated(f"reading {topic}"):
            limits = self._limits(topic)
            for number, offset in sorted(set(places)):
                place = TopicPartition(topic, number)
                begin, end = limits.get(place, (0, 0))
                if begin <= offset < end:
                    for record in self._read(place, offset, offset + 1):  # at most one
                        records[number, offset] = record
        return records

    def _read(self, place: TopicPartition, start: int, end: int) -> Iterator[Any]:
        self._begin({place: start})
        last_position, moved_at = -1, time.monotonic()
        while (position := self._consumer.position(place)) < end:
            if position != last_position:
                last_position, moved_at = position, time.monotonic()
            elif time.monotonic() - moved_at > STALL_SECONDS:
                raise StreamError(f"{place.topic}, partition {place.partition}: no progress for {STALL_SECONDS:.0f} s")
            for records in self._consumer.poll(int(POLL_SECONDS * 1000)).values():
                yield from (record for record in records if record.offset < end)
