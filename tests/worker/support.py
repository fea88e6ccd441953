"""Shared by the tests of the worker: made-up items, feeding and reading topics, members in processes of their own."""

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing import forkserver
from queue import Empty, SimpleQueue
from typing import Any
from unittest.mock import patch

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import StreamDedupError, StreamError
from stream_dedup.kafka.bounded import no_deadline
from stream_dedup.kafka.runtime import REAL
from stream_dedup.kafka.topics import create_topics
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import PREFIX, Settings, load_settings
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.state_store import StateStore
from stream_dedup.worker.worker import Worker

Make = Callable[..., Settings]  # the fixture `make`
# The longest wait for an event, in seconds. It ends with the event; a busy machine may need most of it.
PATIENCE = 120.0
START = 1_700_000_000_000  # the made-up items' first timestamp, ms
_PLACES = ["Elm", "Oak", "Ash", "Birch", "Cedar", "Hazel", "Holly", "Maple", "Rowan", "Willow"]
_BEGINNINGS = ("bri", "cla", "dor", "fen", "gal", "hum", "jor", "kel")
_ENDINGS = ("den", "lor", "mast", "ning", "quist", "rup", "sen", "tov", "vale", "wick", "zand", "ya")


def make_settings(bootstrap: str, topic_name: Callable[[str], str], **tables: Mapping[str, Any]) -> Settings:
    """Settings with topics and a group of their own, and a session short enough to wait for."""
    roles = ("input", "output", "duplicates", "dead_letters", "changelog")
    return load_settings(
        kafka={"bootstrap_servers": bootstrap, "group_id": topic_name("group"), **tables.pop("kafka", {})},
        topics={role: topic_name(role.replace("_", "-")) for role in roles},
        worker={"session_timeout": "1500ms", "transaction_timeout": "10s", **tables.pop("worker", {})},
        **tables,
    )


def ready(settings: Settings, partitions: int = 1) -> Settings:
    create_topics(settings, partitions=partitions)
    return settings


def variables_of(settings: Settings) -> dict[str, str]:
    """The environment of a process with the topics, the group and what else was set of `[kafka]` and `[worker]`."""
    tables = {
        table: getattr(settings, table).model_dump(exclude_none=True, exclude_unset=True)
        for table in ("kafka", "topics", "worker")
    }
    return {
        f"{PREFIX}{table}__{name}".upper(): f"{value.total_seconds()}s" if isinstance(value, timedelta) else str(value)
        for table, values in tables.items()
        for name, value in values.items()
    }


def under_another_scheme(settings: Settings, changelog: str, **fingerprint: Any) -> Settings:
    """The settings of workers after a migration, by default of another seed; creates their changelog."""
    made = load_settings(
        kafka=settings.kafka.model_dump(),
        topics={**settings.topics.model_dump(), "changelog": changelog},
        worker=settings.worker.model_dump(),
        fingerprint=fingerprint or {"seed": 2, "body_bins": 512},
    )
    create_topics(made)
    return made


def administrator(settings: Settings) -> Any:
    """A KafkaAdminClient for a `with` block."""
    return closing(KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers))


@dataclass(frozen=True)
class Sent:
    """A record as it was fed to the input topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int


def feed(
    settings: Settings,
    records: Iterable[tuple[bytes | None, bytes | None]],
    partition: int | None = 0,
    compression: str | None = None,
    **headers: bytes,
) -> list[Sent]:
    """Send (key, value) pairs to the input topic, a millisecond apart in event time."""
    config = {"batch_size": 2**18, "linger_ms": 20, "max_request_size": 2**25, "compression_type": compression}
    own, futures = list(headers.items()), []
    with closing(KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers, **config)) as producer:
        for i, (key, value) in enumerate(records):
            future = producer.send(settings.topics.input, value, key, own, partition=partition, timestamp_ms=START + i)
            futures.append((future, key, value, START + i))
        producer.flush()
        return [
            Sent(future.get(0).partition, future.get(0).offset, key, value, own, moment)
            for future, key, value, moment in futures
        ]


def article(name: str, text: str, title: str = "A headline of its own", source: str = "post.example") -> bytes:
    return json.dumps({"id": name, "title": title, "text": text, "source": source}).encode()


def made_up(count: int, seed: int = 1, updates: float = 0) -> Iterator[tuple[bytes, bytes]]:
    """Small articles; a third are copies of one of the last two hundred, some of them shortened.

    This share of the copies has twenty words more, and may be copied and continued in turn.
    """
    chance = random.Random(seed)
    vocabulary = [beginning + ending for beginning in _BEGINNINGS for ending in _ENDINGS]
    recent: list[tuple[str, str]] = []
    for i in range(count):
        if recent and chance.random() < 0.33:
            title, text = chance.choice(recent)
            if chance.random() < 0.3:
                text = text.rsplit(" ", 3)[0]
            if updates and chance.random() < updates:
                text += ". " + " ".join(chance.choices(vocabulary, k=20)).capitalize() + "."
                recent = [*recent[-199:], (title, text)]
        else:
            title = " ".join(chance.choices(vocabulary, k=6)) + " " + chance.choice(_PLACES)
            text = " ".join(chance.choices(vocabulary, k=40))
            recent = [*recent[-199:], (title, text)]
        name = f"item-{i}"
        yield name.encode(), article(name, text, title, f"site{chance.randrange(30)}.example")


def read_all(
    settings: Settings,
    topic: str,
    start: Mapping[int, int] | None = None,
    partitions: Iterable[int] = (),
) -> list[Any]:
    """Read every record of a topic, or of some partitions, up to the present end; `start` has first offsets."""
    config = {
        "bootstrap_servers": settings.kafka.bootstrap_servers,
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "max_partition_fetch_bytes": 2**25,
        "max_poll_records": 5000,
    }
    with closing(KafkaConsumer(**config)) as consumer:
        numbers = list(partitions) or sorted(consumer.partitions_for_topic(topic))
        places = [TopicPartition(topic, one) for one in numbers]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        for place in places:
            if start and place.partition in start:
                consumer.seek(place, start[place.partition])
        records: list[Any] = []
        deadline = time.monotonic() + PATIENCE
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, f"{topic} cannot be read to its end {ends} in {PATIENCE:.0f} s"
            for some in consumer.poll(200).values():
                records += some
        return records


def context(settings: Settings) -> WorkerContext:
    return WorkerContext(settings, Observer(), REAL, Deduplicator, no_deadline)


def open_store(settings: Settings) -> StateStore:
    """The state store of the task of scope global."""
    return StateStore(context(settings), "global", 0)


def header(record: Any, name: str) -> str | None:
    return next((value.decode() for key, value in reversed(record.headers) if key == name), None)


Decision = tuple[str | None, str | None, str | None]
"""What the headers of a record say: its verdict, its original, its story."""


def in_headers(verdict: Verdict) -> Decision:
    """What an outgoing record says: updates that are let through name an original too."""
    has_original = verdict.original is not None and (not verdict.forward or verdict.kind is Kind.UPDATE)
    return str(verdict.kind), verdict.original.id if has_original else None, verdict.story or None


@dataclass
class Outcome:
    """All output records, and the fate of each input record."""

    output: list[Any]
    duplicates: list[Any]
    dead_letters: list[Any]

    @property
    def every(self) -> list[Any]:
        return [*self.output, *self.duplicates, *self.dead_letters]

    @property
    def fates(self) -> Counter[bytes | None]:
        return Counter(record.key for record in self.every)

    def verdicts(self) -> dict[bytes | None, Decision]:
        def decision_of(one: Any) -> Decision:
            return header(one, "dedup-verdict"), header(one, "dedup-original"), header(one, "dedup-story")

        return {one.key: decision_of(one) for one in self.every}


def outcome(settings: Settings) -> Outcome:
    topics = settings.topics
    return Outcome(*(read_all(settings, one) for one in (topics.output, topics.duplicates, topics.dead_letters)))


def final_outcome(settings: Settings, count: int) -> Outcome:
    """The outcome once `count` records are visible, or without them after some time.

    The coordinator answers a commit before it writes the markers, so the last records become visible a moment later.
    """
    deadline = time.monotonic() + PATIENCE / 4
    while len((came := outcome(settings)).every) < count and time.monotonic() < deadline:
        time.sleep(0.2)
    return came


def from_scratch(
    settings: Settings, records: Iterable[Any], index: Deduplicator | None = None
) -> dict[bytes | None, Decision]:
    """The verdicts of one run over all these input records in order, in the form of `Outcome.verdicts()`.

    `index`: an empty one to fill, which stays open.
    """
    dedup, decode = (Deduplicator(settings) if index is None else index), Decoder(settings.item)
    verdicts: dict[bytes | None, Decision] = {}
    every = list(records)
    for start in range(0, len(every), 100):
        some = every[start : start + 100]
        batch = dedup.judge([decode(one.value, one.key, one.timestamp, one.partition, one.offset) for one in some])
        dedup.apply(batch)
        keys = (one.key for one in some)
        verdicts |= zip(keys, map(in_headers, batch.verdicts), strict=True)
    if index is None:
        dedup.close()
    return verdicts


def assert_exactly_once(settings: Settings, sent: Iterable[Sent]) -> Outcome:
    keys = [one.key for one in sent]
    came = final_outcome(settings, len(keys))
    fates = came.fates
    lost = [key for key in keys if key not in fates]
    twice = [key for key, count in fates.items() if count > 1]
    assert not lost, f"{len(lost)} of {len(keys)} are lost: {lost[:5]}"
    assert not twice, f"{len(twice)} of {len(keys)} came twice: {twice[:5]}"
    assert len(fates) == len(keys)
    return came


@dataclass
class Member:
    """A worker in a process of its own (member.py); `go()` starts it. A fork costs it nothing of a start's second."""

    settings: Settings
    orders: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        start_fork_server()
        self.events: list[dict[str, Any]] = []
        self._queue: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._pipe, self._its_end = _PROCESSES.Pipe(duplex=False)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self.process = _PROCESSES.Process(
            target=_run_member, args=(self.settings, dict(self.orders), self._its_end), daemon=True
        )

    def _listen(self) -> None:
        with self._pipe, suppress(EOFError):
            while True:
                self._queue.put(self._pipe.recv())

    def go(self) -> "Member":
        self.process.start()
        self._its_end.close()
        self._listener.start()
        self.wait_for("ready")
        return self

    def wait_for(self, kind: str, seconds: float = PATIENCE, **fields: Any) -> dict[str, Any]:
        """Wait for the next event of this kind with these fields."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                event = self._queue.get(timeout=min(left, 0.5))
            except Empty:
                if not self.process.is_alive() and self._queue.empty():
                    break
                continue
            self.events.append(event)
            if event["event"] == kind and all(event.get(name) == value for name, value in fields.items()):
                return event
        state = f"ended with {self.process.exitcode}"
        if self.process.is_alive():
            state = "runs, its threads are in its stderr"
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGUSR1)
            time.sleep(1)
        raise AssertionError(f"no event {kind} {fields} in {seconds} s; the member {state}: {self.events[-5:]}")

    def drain(self) -> list[dict[str, Any]]:
        """All events so far."""
        while not self._queue.empty():
            self.events.append(self._queue.get())
        return self.events

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait_ended(self, seconds: float = PATIENCE) -> int | None:
        """The exit code; None: it still runs."""
        self.process.join(seconds)
        return self.process.exitcode

    def wait_killed(self, seconds: float = PATIENCE) -> None:
        assert self.wait_ended(seconds) == -signal.SIGKILL, self.drain()[-5:]

    def kill(self) -> None:
        self.process.kill()
        self.process.join(10)

    def stop(self, seconds: float = PATIENCE) -> float:
        """Send SIGTERM; return the seconds until it ended cleanly."""
        began = time.monotonic()
        self.process.terminate()
        assert self.wait_ended(seconds) == 0, self.drain()[-5:]
        return time.monotonic() - began

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.pid is None:
            self._pipe.close()
            self._its_end.close()
            return
        if self.process.is_alive():
            self.signal(signal.SIGCONT)
            self.kill()
        self._listener.join(10)
        self.process.close()


# Environment variables that the fork server gets besides this process's own, and with it all members.
FORK_SERVER_VARIABLES: dict[str, str] = {}
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.worker.preload"])


def start_fork_server() -> None:
    """Start the process that members are forked from, if it does not run. It has one thread, so a fork is safe."""
    with patch.dict(os.environ, FORK_SERVER_VARIABLES):
        for name in [name for name in os.environ if name.startswith("COV_")]:
            del os.environ[name]
        forkserver.ensure_running()


def _run_member(*arguments: Any) -> None:
    from tests.worker.member import run  # not here: it would be imported by every test

    run(*arguments)


class Watching(Observer):
    """Records what a worker reports. Sets `stop` after `last` records (0: never); calls `on_batch` at each batch."""

    def __init__(self, last: int = 0, on_batch: Callable[["Watching"], object] = lambda _: None) -> None:
        self.last, self._on_batch = last, on_batch
        self.stop, self.opened = threading.Event(), threading.Event()
        self.judged = self.openings = self.remembered = self.stuck_times = 0
        self.reports: list[BatchReport] = []
        self.errors: list[StreamDedupError] = []
        self.lag: dict[int, int] = {}

    def batch(self, report: BatchReport) -> None:
        self.reports.append(report)
        self.judged += len(report.verdicts)
        self._on_batch(self)
        if self.last and self.judged >= self.last:
            self.stop.set()

    def positions_advanced(self, task: str, lag: Mapping[int, int]) -> None:
        self.lag |= lag

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        self.openings += 1
        self.remembered = remembered
        self.opened.set()

    def batch_stuck(self, task: str) -> None:
        self.stuck_times += 1

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        self.errors.append(error)

    def wait_judged(self, count: int) -> None:
        wait_until(lambda: self.judged >= count, f"{count} are judged")


def wait_until(met: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.05)


def run_until(
    settings: Settings,
    count: int,
    seconds: float = PATIENCE,
    on_batch: Callable[[Watching], object] = lambda _: None,
    **worker: Any,
) -> Watching:
    """Run a worker in this process until it has judged `count` records."""
    watching = Watching(count, on_batch)
    run_worker(settings, watching, seconds, **worker)
    assert watching.judged >= count, f"judged {watching.judged} of {count} in {seconds} s"
    return watching


@contextmanager
def running(settings: Settings, watching: Watching | None = None, **worker: Any) -> Iterator[Watching]:
    """Run a worker in a thread; yields its observer, which also has the error that ends it."""
    watching = watching or Watching()

    def run() -> None:
        with suppress(StreamDedupError):
            Worker(settings, observer=watching, **worker).run(watching.stop)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield watching
    finally:
        watching.stop.set()
        thread.join(60)


def run_worker(settings: Settings, ending: Any, seconds: float = PATIENCE, **worker: Any) -> None:
    """Run a worker in this process until `ending`, its observer unless another is given, sets its `stop`, for some
    seconds at most.
    """
    timer = threading.Timer(seconds, ending.stop.set)
    timer.start()
    try:
        Worker(settings, **{"observer": ending, **worker}).run(ending.stop)
    finally:
        timer.cancel()


def fails(settings: Settings, match: str, kind: type[StreamDedupError] = StreamError) -> str:
    """Run a worker that must end with an error; return the message. One that works instead is stopped."""
    with pytest.raises(kind, match=match) as caught:
        run_worker(settings, Watching())
    return str(caught.value)
