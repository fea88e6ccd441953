"""Run the demo: create topics, send a feed, run the worker, and count the records in its outputs.

`run_demo` runs the real worker on a real Kafka and returns a `DemoResult`. At the end it reads the outputs back as a
downstream reader would (read_committed), so it counts the records that are there.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field

from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import StreamError
from stream_dedup.kafka.errors import error_text
from stream_dedup.observe.watch import Watch
from stream_dedup.settings import Settings
from stream_dedup.tools.demo.screen import Screen
from stream_dedup.tools.topics.reader import TopicReader
from stream_dedup.tools.topics.send import Record, Sender
from stream_dedup.tools.topics.setup import create_topics
from stream_dedup.worker.worker import Worker

# One partition: the verdicts come in the order of the feed, and two runs give the same ones.
_PARTITIONS = 1
# If items are left and no verdict comes for this long, something is broken, not slow.
_STALL_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class DemoRecord(Record):
    """A record of the demo's feed. meant: what its author meant ("": unknown)."""

    meant: str = ""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Counts of a run: items = unique + duplicate + update + bad + tombstone, as committed."""

    items: int
    unique: int
    duplicate: int
    update: int
    bad: int
    tombstone: int
    seconds: float
    items_per_second: float
    judged_us: float  # µs to decode and judge one item, on average
    read_output: int  # read_*: records read back from the topics
    read_duplicates: int
    read_dead_letters: int
    with_meaning: int = 0  # items of which the feed knows what their authors meant
    # kind and verdict -> how many of these were decided otherwise
    otherwise: dict[str, int] = field(default_factory=dict)


@contextmanager
def named(program: str) -> Iterator[None]:
    """Turn an exception that is no StreamError into one, which names what has ended."""
    try:
        yield
    except StreamError:
        raise
    except Exception as error:
        raise StreamError(f"{program} ended: {error_text(error)}") from error


def run_demo(
    settings: Settings,
    records: Iterable[DemoRecord],
    *,
    rate: float | None,
    screen: Screen,
    watch: Watch,
    stop: threading.Event,
    once: bool,
) -> DemoResult:
    """Run feed and worker until `stop` is set or, with `once`, all items of the feed are judged; return the counts.

    `watch` observes the worker and passes its events to `screen`. Raises StreamError if the worker or the feed fails,
    or if an item is not in exactly one output.
    """
    create_topics(settings, _PARTITIONS)
    worker = Worker(settings, observer=watch, decider=watch.decider)
    feed = Sender(settings, settings.topics.input, screen.announced(records), stop, rate=rate)
    pool = ThreadPoolExecutor(2, thread_name_prefix="demo")
    work = pool.submit(worker.run, stop), pool.submit(feed.run)
    judged, last_verdict = 0, time.monotonic()
    try:
        while not stop.wait(0.1):
            if screen.judged != judged:
                judged, last_verdict = screen.judged, time.monotonic()
            done = work[1].done() and judged >= feed.sent
            if any(future.done() and future.exception() for future in work) or (done and once):
                break
            if not done and feed.sent > judged and time.monotonic() - last_verdict > _STALL_SECONDS:
                raise StreamError(
                    f"no verdict for {_STALL_SECONDS:.0f} s; {judged:,} of {feed.sent:,} items are judged. If the "
                    "machine is busy with other work, wait until it is not, or send less: --rate 50"
                )
    finally:
        stop.set()
        wait(work, 30)
        pool.shutdown(wait=False)
    with named("the demo"):
        for future in work:
            if future.done():
                future.result()
    topics, kinds = settings.topics, (Kind.UNIQUE, Kind.DUPLICATE, Kind.UPDATE, Kind.BAD, Kind.TOMBSTONE)
    outputs = [count_committed(settings, name) for name in (topics.output, topics.duplicates, topics.dead_letters)]
    times = round(screen.seconds, 3), round(screen.items_per_second, 1), round(screen.judged_us, 1)
    unique, duplicate, update, bad, tombstone = (screen.counts[kind] for kind in kinds)
    counts = screen.judged, unique, duplicate, update, bad, tombstone
    output, duplicates, dead = outputs
    otherwise = dict(screen.otherwise.most_common())
    result = DemoResult(*counts, *times, output, duplicates, dead, screen.with_meaning, otherwise)
    if sum(outputs) != result.items:
        raise StreamError(f"not every item came out exactly once: {result}")
    return result


def count_committed(settings: Settings, topic: str) -> int:
    """Count the records of a topic that a read_committed reader sees."""
    with TopicReader(settings) as reader:
        return sum(1 for _ in reader.all(topic))
