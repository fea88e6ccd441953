"""A live topic, read without leaving a trace: settings and a topic's name -> its committed records.

Why apart: whoever tries the program on a topic that others depend on must be able to trust that nothing of it changes.
The partitions are assigned by hand, so no consumer group appears; nothing is committed and nothing written. It needs
the right to read and describe the topic, and no other.

    with LiveReader(settings, "news") as reading:
        reading.begin(since=1_700_000_000_000)
        while not reading.caught_up:
            records = reading.poll()

Records come in the order of their timestamps across partitions, as they came when the topic was written: a worker that
keeps up with the topic sees them so, and the first thousand are of all partitions and not of one.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import Any, TypeVar

from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_dedup.errors import StreamError, TopicError
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.record_batch import Record

T = TypeVar("T")

_POLL_SECONDS = 0.5
# Of one answer and partition; a larger record comes all the same (KIP-74). Some 250 articles of 4 KB.
_FETCH = 2**20
# So many records of a partition wait for older ones of other partitions before it is paused. Topics have tens of
# partitions: with articles of 4 KB this is 2 MB each.
_WAITING = 500
# A partition that brings nothing for so long is not waited for: its leader is slow or away.
_PATIENCE = 2.0
# After so long without a record the brokers are asked whether they are there.
_SILENCE = 10.0
# Although there is more, nothing comes for so long: somebody must look at the brokers.
_STANDSTILL = 60.0


class LiveReader:
    """Use it in a `with`. Raises TopicError for a topic that is not there, StreamError where Kafka cannot be read."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self.topic = topic
        self._waiting: dict[Any, deque[Record]] = {}
        self._ends: dict[Any, int] = {}
        self._paused: set[Any] = set()
        self._came: dict[Any, float] = {}  # monotonic: when a partition brought something last, or was begun
        self._heard = 0.0  # the same: when the brokers are known to have answered
        config = client.changelog_reader(settings) | {"max_partition_fetch_bytes": _FETCH}
        servers = settings.kafka.bootstrap_servers
        self._access = client.access(settings.kafka.client)
        try:
            self._consumer = client.make_consumer(settings, config)
        except KafkaError as error:
            raise client.not_reached(error, settings) from error
        try:
            self._places = self._find_places(servers)
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> "LiveReader":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    # -- where to begin ----------------------------------------------------------------------------------

    def begin(self, since: int) -> int:
        """The next `poll` begins at the first record of each partition with this time (ms since 1970) or a later one.

        Returns how many offsets lie between there and the topic's end as it is now.
        """
        ends = self._ends_now()
        found = self._ask(lambda: self._consumer.offsets_for_times(dict.fromkeys(self._places, max(0, since))))
        starts = {one: int(found[one].offset) if found.get(one) else ends[one] for one in self._places}

        def go() -> None:
            self._consumer.assign(self._places)
            for place, offset in starts.items():
                self._consumer.seek(place, offset)

        self._ask(go)
        self._ends, self._heard = ends, time.monotonic()
        self._waiting = {one: deque() for one in self._places}
        self._came = dict.fromkeys(self._places, self._heard)
        self._paused = set()
        return sum(max(0, ends[one] - starts[one]) for one in self._places)

    @property
    def is_empty(self) -> bool:
        """Whether the topic has no record at all."""
        begins = self._ask(lambda: self._consumer.beginning_offsets(self._places))
        return all(int(begins[one]) >= end for one, end in self._ends_now().items())

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def caught_up(self) -> bool:
        """Whether everything was returned up to the topic's end, as it was last asked for."""
        return not any(self._waiting.values()) and not self._behind()

    def poll(self, seconds: float = _POLL_SECONDS) -> list[Record]:
        """What comes next, perhaps nothing yet; waits at most about `seconds`. Raises StreamError at a standstill."""
        got = self._ask(lambda: self._consumer.poll(int(seconds * 1000)))
        now = time.monotonic()
        for place, records in got.items():
            self._waiting[place].extend(records)
            self._came[place] = now
        if got:
            self._heard = now
        elif now - self._heard > _SILENCE:
            self._ask_for_the_ends()
            self._heard = time.monotonic()
        behind = self._behind()
        if behind and now - max(self._came.values()) > _STANDSTILL:
            raise StreamError(
                f"{self.topic}: partitions {sorted(one.partition for one in behind)} have more, and nothing could be "
                f"read for {_STANDSTILL:.0f} s; look at their leaders"
            )
        ready = self._merged({one for one in behind if now - self._came[one] < _PATIENCE})
        self._bound_what_waits()
        return ready

    def _merged(self, expected: Set[Any]) -> list[Record]:
        """What has come, oldest first, until one of the partitions that are expected to bring more is empty.

        Within a partition the order is that of the offsets, whatever the timestamps say.
        """
        waiting = {one: records for one, records in self._waiting.items() if records}
        merged: list[Record] = []
        while waiting and all(one in waiting for one in expected):
            place = min(waiting, key=lambda one: _time(waiting[one]))
            merged.append(waiting[place].popleft())
            if not waiting[place]:
                del waiting[place]
        return merged

    def _behind(self) -> list[Any]:
        """Partitions of which the client has not yet returned everything up to the end."""
        return [one for one, end in self._ends.items() if self._position(one) < end]

    def _bound_what_waits(self) -> None:
        for place, records in self._waiting.items():
            if place not in self._paused and len(records) > _WAITING:
                self._consumer.pause(place)
                self._paused.add(place)
            elif place in self._paused and len(records) <= _WAITING // 2:
                self._consumer.seek(place, self._position(place))
                self._access.before_resume(self._consumer, place)
                self._consumer.resume(place)
                self._paused.discard(place)

    def _ask_for_the_ends(self) -> None:
        """A poll cannot tell a quiet topic from brokers that are away (it returns nothing); this question can."""
        try:
            ends = self._consumer.end_offsets(list(self._waiting), timeout_ms=int(_SILENCE * 1000))
        except KafkaError as error:
            raise StreamError(
                f"{self.topic}: the brokers no longer answer ({type(error).__name__}); run it again when they are back"
            ) from error
        self._ends = {place: int(end) for place, end in ends.items()}

    # -- asking ------------------------------------------------------------------------------------------

    def _find_places(self, servers: str) -> list[TopicPartition]:
        partitions = self._ask(lambda: self._consumer.partitions_for_topic(self.topic))
        if not partitions:
            raise TopicError(f"there is no topic {self.topic} at {servers}, or this user may not see it")
        return [TopicPartition(self.topic, one) for one in sorted(partitions)]

    def _ends_now(self) -> dict[Any, int]:
        ends = self._ask(lambda: self._consumer.end_offsets(self._places))
        return {one: int(ends[one]) for one in self._places}

    def _position(self, place: Any) -> int:
        return int(self._consumer.position(place, timeout_ms=0))

    def _ask(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except KafkaError as error:
            raise client.translate(error, f"reading {self.topic}") from error


def _time(waiting: Sequence[Record]) -> int:
    """What the first of these counts as: a lone date in the future does not hold up those behind it."""
    return min(waiting[0].timestamp, waiting[1].timestamp) if len(waiting) > 1 else waiting[0].timestamp
