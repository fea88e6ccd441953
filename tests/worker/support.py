"""Workers in the test's own process: run until they have judged, run beside the test, or run into an error.

What tests share beyond that is in tests/harness.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import StreamDedupError, StreamError
from stream_dedup.kafka.runtime import REAL, no_deadline
from stream_dedup.kafka.topics import check_topics
from stream_dedup.settings import Settings
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.state_store import StateStore
from stream_dedup.worker.worker import Worker
from tests.harness.wait import PATIENCE, wait_until


def context(settings: Settings) -> WorkerContext:
    return WorkerContext(settings, Observer(), REAL, Decider, no_deadline)


def open_store(settings: Settings) -> StateStore:
    """The state store of the task of scope global, as a worker makes it."""
    return StateStore(context(settings), "global", 0, check_topics(settings)[settings.topics.changelog].id)


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
