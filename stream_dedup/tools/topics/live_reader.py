"""Follow a topic without leaving a trace: `LiveReader`, for `trial` and `tail`."""

import time
from collections import deque
from collections.abc import Sequence, Set

from stream_dedup.errors import StreamError
from stream_dedup.kafka import errors
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.errors import KafkaError
from stream_dedup.kafka.record_batch import Record
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.reader import POLL_SECONDS, STALL_SECONDS, Reader, throttle

# A partition of a live topic with more buffered records than this is paused until older records of other partitions
# have come. Topics have tens of partitions: with articles of 4 KB this is 2 MB each.
_BUFFERED = 500
# The merge stops waiting for a partition that brings nothing for this long: its leader is slow or away.
_PARTITION_SECONDS = 2.0
# Brokers that do not answer for this long are away.
_ANSWER_MS = 10_000


class LiveReader(Reader):
    """Follows a topic. Records come in timestamp order across partitions, about as a worker that keeps up sees them.
    Without that order the first thousand would be those of one partition.

        with LiveReader(settings, "news") as reader:
            reader.begin(since=1_700_000_000_000)
            while not reader.caught_up:
                records = reader.poll()

    `is_empty`: whether the topic had no record at all at the beginning.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        super().__init__(settings, settings.worker.max_record_bytes)
        self.topic = topic
        self.is_empty = False
        self._buffers: dict[TopicPartition, deque[Record]] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._last_record_at: dict[TopicPartition, float] = {}  # monotonic; from `begin` on

    def begin(self, since: int) -> int:
        """Start each partition at its first record with this time (ms since 1970) or a later one.

        Returns the number of offsets between there and the topic's present end.
        """
        with errors.translated(f"reading {self.topic}"):
            limits = self._limits(self.topic)
            starts = self._since(limits, since)
            self._begin(starts)
        self.is_empty = all(begin >= end for begin, end in limits.values())
        self._ends = {place: end for place, (_, end) in limits.items()}
        self._buffers = {place: deque() for place in limits}
        self._last_record_at = dict.fromkeys(limits, time.monotonic())
        return sum(max(0, end - starts[place]) for place, end in self._ends.items())

    @property
    def caught_up(self) -> bool:
        """Whether `poll` has returned everything up to the end that was fetched last."""
        return not any(self._buffers.values()) and not self._behind()

    def poll(self) -> list[Record]:
        """Return the next records, perhaps none; wait at most half a second. Raises StreamError when reading stalls."""
        with errors.translated(f"reading {self.topic}"):
            polled = self._consumer.poll(int(POLL_SECONDS * 1000))
        now = time.monotonic()
        for place, records in polled.items():
            self._buffers[place].extend(records)
            self._last_record_at[place] = now
        if not polled:
            self._update_ends()
        behind = self._behind()
        if behind and now - max(self._last_record_at.values()) > STALL_SECONDS:
            raise StreamError(
                f"{self.topic}: partitions {sorted(place.partition for place in behind)} have more records, but "
                f"nothing could be read for {STALL_SECONDS:.0f} s; look at their leaders"
            )
        merged = self._merge({place for place in behind if now - self._last_record_at[place] < _PARTITION_SECONDS})
        throttle(self._consumer, {place: len(records) for place, records in self._buffers.items()}, _BUFFERED)
        return merged

    def _merge(self, expected: Set[TopicPartition]) -> list[Record]:
        """Take buffered records, oldest first, until the buffer of an expected partition is empty.

        Within a partition the order is that of the offsets, whatever the timestamps are.
        """
        buffers = {place: records for place, records in self._buffers.items() if records}
        merged: list[Record] = []
        while buffers and all(place in buffers for place in expected):
            place = min(buffers, key=lambda place: _head_time(buffers[place]))
            merged.append(buffers[place].popleft())
            if not buffers[place]:
                del buffers[place]
        return merged

    def _behind(self) -> list[TopicPartition]:
        """Return the partitions whose position is before the end."""
        return [place for place, end in self._ends.items() if self._consumer.position(place, timeout_ms=0) < end]

    def _update_ends(self) -> None:
        """Fetch the ends. An empty poll cannot tell a quiet topic from brokers that are away; this request can."""
        try:
            ends = self._consumer.end_offsets(list(self._buffers), timeout_ms=_ANSWER_MS)
        except KafkaError as error:
            raise StreamError(
                f"{self.topic}: the brokers no longer answer ({type(error).__name__}); run it again when they are back"
            ) from error
        self._ends = {place: int(end) for place, end in ends.items()}


def _head_time(buffer: Sequence[Record]) -> int:
    """Return the time by which the first record is merged. A lone date in the future delays no record behind it."""
    return min(buffer[0].timestamp, buffer[1].timestamp) if len(buffer) > 1 else buffer[0].timestamp
