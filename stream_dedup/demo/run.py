"""The whole path on one machine: a broker, topics, a feed, the worker, and a count of what came out.

In: a feed of records. Out: `DemoResult`, and on the way whatever an observer shows. The worker is the real
one on a real Kafka; when the feed is used up, the outputs are read back as a reader downstream would read
them (read_committed), so that the count is of what is there, not of what was meant.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from stream_dedup.dedup.verdict import Kind
from stream_dedup.demo.screen import Screen
from stream_dedup.errors import StreamError
from stream_dedup.observe.watch import Watch
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.error_text import error_text
from stream_dedup.stream.topics import create_topics
from stream_dedup.stream.worker import Worker

# One partition: then the order of the feed is the order of the verdicts, and two runs give the same ones.
_PARTITIONS = 1
# Nothing judged for this long, although there is something left: something is broken, not slow.
_PATIENCE_SECONDS = 120.0
# The producer keeps what is not yet sent in memory without a bound of its own; a flush every so often bounds it.
_FLUSH_EVERY = 2000


@dataclass(frozen=True, slots=True)
class Record:
    """What the feed sends: key, value and timestamp in ms."""

    key: bytes | None
    value: bytes | None
    time: int


@dataclass(frozen=True, slots=True)
class DemoResult:
    """items = unique + duplicate + update + bad + tombstone, as committed; the read_* as read back.

    judged_us: to read and judge one item, in the last batches.
    """

    items: int
    unique: int
    duplicate: int
    update: int
    bad: int
    tombstone: int
    seconds: float
    items_per_second: float
    judged_us: float
    read_output: int
    read_duplicates: int
    read_dead_letters: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def check(self) -> None:
        """Raises StreamError if an item is not accounted for exactly once."""
        if self.read_output + self.read_duplicates + self.read_dead_letters != self.items:
            raise StreamError(f"not every item came out exactly once: {self.as_json()}")


class Feed:
    """Sends records to the input topic from a thread of its own, at most `rate` a second."""

    def __init__(
        self, settings: Settings, records: Iterable[Record], rate: float | None, stop: threading.Event
    ) -> None:
        self._settings, self._records, self._rate, self._stop = settings, records, rate, stop
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self.sent = 0
        self.finished = threading.Event()
        self.error: Exception | None = None
        self._thread.start()

    def join(self) -> None:
        self._thread.join(10)

    def _run(self) -> None:
        try:
            producer = KafkaProducer(
                **client.connection(self._settings), acks="all", linger_ms=5, batch_size=client.BATCH_BYTES
            )
            try:
                self._send_all(producer)
            finally:
                producer.close(timeout=5)
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits for the feed
            self.error = error
        finally:
            self.finished.set()

    def _send_all(self, producer: Any) -> None:
        start, waiting = time.monotonic(), []
        for record in self._records:
            if self._stop.is_set():
                break
            if self._rate:
                self._stop.wait(max(0.0, start + self.sent / self._rate - time.monotonic()))
            waiting.append(
                producer.send(
                    self._settings.topics.input, record.value, record.key, partition=0, timestamp_ms=record.time
                )
            )
            self.sent += 1
            if len(waiting) >= _FLUSH_EVERY:
                producer.flush()
                for one in waiting:
                    one.get(0)
                waiting.clear()
        producer.flush()
        for one in waiting:
            one.get(0)


def run_demo(
    settings: Settings,
    records: Iterable[Record],
    *,
    rate: float | None,
    screen: Screen,
    watch: Watch,
    tick: Callable[[], None],
    stop: threading.Event,
    once: bool,
) -> DemoResult:
    """Feeds, works and counts, until `stop` is set or, with `once`, the feed is used up and judged.

    `watch` observes the worker and tells `screen`; `tick` is called some times a second. Raises StreamError if
    the worker or the feed fails, or an item is
    not accounted for.
    """
    create_topics(settings, _PARTITIONS)
    worker = Worker(settings, observer=watch, deduplicator=watch.deduplicator)
    failure: list[Exception] = []

    def work() -> None:
        try:
            worker.run(stop)
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits
            failure.append(error)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    feed = Feed(settings, records, rate, stop)
    judged, progress = 0, time.monotonic()
    try:
        while not stop.wait(0.1):
            tick()
            if screen.judged != judged:
                judged, progress = screen.judged, time.monotonic()
            done = feed.finished.is_set() and judged >= feed.sent
            if failure or feed.error or (done and once):
                break
            if not done and feed.sent > judged and time.monotonic() - progress > _PATIENCE_SECONDS:
                raise StreamError(f"no verdict for {_PATIENCE_SECONDS:.0f} s; {judged} of {feed.sent} items are judged")
    finally:
        stop.set()
        feed.join()
        thread.join(30)
    for error in (*failure, feed.error):
        if error is not None:
            raise (
                error if isinstance(error, StreamError) else StreamError(f"the demo ended: {error_text(error)}")
            ) from error
    tick()
    result = _result(settings, screen)
    result.check()
    return result


def _result(settings: Settings, screen: Screen) -> DemoResult:
    topics, counts = settings.topics, screen.counts
    seconds = screen.seconds
    return DemoResult(
        screen.judged,
        counts[Kind.UNIQUE],
        counts[Kind.DUPLICATE],
        counts[Kind.UPDATE],
        counts[Kind.BAD],
        counts[Kind.TOMBSTONE],
        round(seconds, 3),
        round(screen.judged / seconds, 1) if seconds else 0.0,
        round(screen.judged_us, 1),
        *(count_committed(settings, name) for name in (topics.output, topics.duplicates, topics.dead_letters)),
    )


def count_committed(settings: Settings, topic: str) -> int:
    """Records of a topic that a read_committed reader sees."""
    reader = KafkaConsumer(
        **client.connection(settings),
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    try:
        places = [TopicPartition(topic, p) for p in reader.partitions_for_topic(topic) or ()]
        reader.assign(places)
        reader.seek_to_beginning(*places)
        ends = reader.end_offsets(places)
        count = 0
        while any(reader.position(place) < ends[place] for place in places):
            count += sum(len(one) for one in reader.poll(500).values())
        return count
    finally:
        reader.close()
