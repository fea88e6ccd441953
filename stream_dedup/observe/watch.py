"""All observers of a worker behind one object: metrics, health, status page and HTTP server.

    with Watch(settings, version) as watch:
        Worker(settings, observer=watch, deduplicator=watch.deduplicator).run(stop)

The server listens before the worker starts: health is "starting" while the worker connects to the cluster.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from stream_dedup.errors import StreamDedupError
from stream_dedup.observe.board import Board
from stream_dedup.observe.dead_letter_log import DeadLetterLog
from stream_dedup.observe.health import Health, stall_seconds
from stream_dedup.observe.http import ObserveServer
from stream_dedup.observe.incoming import Incoming
from stream_dedup.observe.memory_watch import MemoryWatch
from stream_dedup.observe.metrics import Metrics
from stream_dedup.observe.page import Page
from stream_dedup.observe.recent import Recent
from stream_dedup.settings import Settings
from stream_dedup.stream.observer import BatchReport, Observer, TaskState
from stream_dedup.stream.transaction import CommitStep

log = logging.getLogger(__name__)


class ObserverGroup(Observer):
    """Passes each event to several observers, in order. A test compares its hooks with those of `Observer`.

    What an observer raises ends neither the worker nor the other observers: it is logged, the first time of its kind.
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers
        self._logged: set[tuple[str, str]] = set()

    def _tell(self, hook: str, *arguments: Any) -> None:
        for observer in self._observers:
            try:
                getattr(observer, hook)(*arguments)
            except Exception:
                name = type(observer).__name__
                if (name, hook) not in self._logged:
                    self._logged.add((name, hook))
                    log.exception("%s could not take in %s (a bug; logged once); the worker goes on", name, hook)

    def heartbeat(self) -> None:
        self._tell("heartbeat")

    def step(self, step: CommitStep, task: str) -> None:
        self._tell("step", step, task)

    def batch(self, report: BatchReport) -> None:
        self._tell("batch", report)

    def loop_completed(self, tasks: Sequence[str]) -> None:
        self._tell("loop_completed", tasks)

    def positions_advanced(self, task: str, lag: Mapping[int, int]) -> None:
        self._tell("positions_advanced", task, lag)

    def restore_progress(self, task: str, done: int, total: int) -> None:
        self._tell("restore_progress", task, done, total)

    def rebalanced(self, partitions: Sequence[int]) -> None:
        self._tell("rebalanced", partitions)

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        self._tell("task_opened", task, partitions, remembered, seconds)

    def task_lost(self, task: str, reason: str) -> None:
        self._tell("task_lost", task, reason)

    def state_lost(self, reason: str) -> None:
        self._tell("state_lost", reason)

    def changelog_record_skipped(self) -> None:
        for observer in self._observers:
            observer.changelog_record_skipped()

    def tasks(self, states: Mapping[str, TaskState]) -> None:
        self._tell("tasks", states)

    def standby_progress(self, task: str, offsets: int, seconds: float) -> None:
        self._tell("standby_progress", task, offsets, seconds)

    def gave_up_role(self) -> None:
        self._tell("gave_up_role")

    def blocks_not_contiguous(self, partition: int) -> None:
        self._tell("blocks_not_contiguous", partition)

    def batch_stuck(self, task: str) -> None:
        self._tell("batch_stuck", task)

    def brokers_unreachable(self, seconds: float, reason: str) -> None:
        self._tell("brokers_unreachable", seconds, reason)

    def brokers_reachable(self) -> None:
        self._tell("brokers_reachable")

    def brokers_distrusted(self, problems: Mapping[str, str]) -> None:
        self._tell("brokers_distrusted", problems)

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        self._tell("error", error, retry_in)


class Watch(ObserverGroup):
    """Metrics, health, the status page and other observers. `url` is None if [observe] enabled is false."""

    def __init__(self, settings: Settings, version: str, *others: Observer, role: str = "all") -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, open files, processor time
        # Without this the client exports a creation time for each counter: twice the series, without use.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no annotation there
        self.health = Health(stall_seconds(settings))
        self.incoming = Incoming(settings)
        self.metrics = Metrics(
            self.registry,
            version=version,
            role=role,
            group=settings.kafka.group_id,
            status=lambda: self.health.state().status,
            memory_limit=settings.worker.memory,
        )
        self.deduplicator = self.metrics.deduplicator
        self._server: ObserveServer | None = None
        self._dead_letters = DeadLetterLog()
        others = (MemoryWatch(settings), self._dead_letters, *others)
        if not settings.observe.enabled:
            super().__init__(self.metrics, self.health, self.incoming, *others)
            return
        board, self.recent = Board(), Recent(settings.observe.recent_items)
        page = Page(settings, version, self.health.state, board, self.recent, self.registry, self.incoming.latest)
        self._server = ObserveServer(settings.observe, self.registry, self.health.state, page.respond)
        super().__init__(self.metrics, self.health, board, self.recent, self.incoming, *others)

    @property
    def url(self) -> str | None:
        """Base URL of the status page, /metrics and health."""
        return self._server.url if self._server else None

    @property
    def health_url(self) -> str | None:
        """Base URL of the listener for health alone."""
        return self._server.health_url if self._server else None

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self._dead_letters.sum_up()
        if self._server:
            self._server.close()
