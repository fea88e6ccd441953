"""Everything that watches a worker, in one: settings -> an observer, a factory for its index, an HTTP server.

    with Watch(settings, version) as watch:
        Worker(settings, observer=watch, deduplicator=watch.deduplicator).run(stop)

The server listens before the worker starts: /healthz says "starting" while the worker reaches for the cluster.
"""

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from stream_dedup.errors import StreamDedupError
from stream_dedup.observe import memory
from stream_dedup.observe.board import Board
from stream_dedup.observe.health import Health, bound_of
from stream_dedup.observe.http import ObserveServer
from stream_dedup.observe.incoming import Incoming
from stream_dedup.observe.metrics import Metrics
from stream_dedup.observe.page import Page
from stream_dedup.observe.recent import Recent
from stream_dedup.settings import Settings
from stream_dedup.stream.observer import BatchReport, Observer, TaskState
from stream_dedup.stream.transaction import CommitStep


class Several(Observer):
    """Tells each of several observers, in order. A test holds its hooks against those of `Observer`."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def step(self, step: CommitStep, task: str) -> None:
        for one in self._observers:
            one.step(step, task)

    def batch(self, report: BatchReport) -> None:
        for one in self._observers:
            one.batch(report)

    def turn(self, tasks: Sequence[str]) -> None:
        for one in self._observers:
            one.turn(tasks)

    def stands(self, task: str, lag: Mapping[int, int]) -> None:
        for one in self._observers:
            one.stands(task, lag)

    def restoring(self, task: str, done: int, total: int) -> None:
        for one in self._observers:
            one.restoring(task, done, total)

    def rebalanced(self, partitions: Sequence[int]) -> None:
        for one in self._observers:
            one.rebalanced(partitions)

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        for one in self._observers:
            one.task_opened(task, partitions, remembered, seconds)

    def task_lost(self, task: str, reason: str) -> None:
        for one in self._observers:
            one.task_lost(task, reason)

    def state_lost(self, reason: str) -> None:
        for one in self._observers:
            one.state_lost(reason)

    def tasks(self, states: Mapping[str, TaskState]) -> None:
        for one in self._observers:
            one.tasks(states)

    def following(self, task: str, offsets: int, seconds: float) -> None:
        for one in self._observers:
            one.following(task, offsets, seconds)

    def gave_up(self) -> None:
        for one in self._observers:
            one.gave_up()

    def stuck(self, task: str) -> None:
        for one in self._observers:
            one.stuck(task)

    def brokers_away(self, seconds: float, reason: str) -> None:
        for one in self._observers:
            one.brokers_away(seconds, reason)

    def brokers_back(self) -> None:
        for one in self._observers:
            one.brokers_back()

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        for one in self._observers:
            one.error(error, retry_in)


class Watch(Several):
    """Metrics, health, the status page and whoever else wants to know; `url` is None if [observe] enabled is false."""

    def __init__(self, settings: Settings, version: str, *others: Observer) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, open files, processor time
        # Beside each counter the client would show when it was made, as a gauge: twice the series for nothing.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no annotation there
        self.health = Health(bound_of(settings))
        self.metrics = Metrics(
            self.registry,
            version=version,
            status=lambda: self.health.state().status,
            memory_limit=memory.limit(settings.observe.memory_limit),
        )
        self.deduplicator = self.metrics.deduplicator
        self._server: ObserveServer | None = None
        self.incoming = Incoming(settings)
        if not settings.observe.enabled:
            super().__init__(self.metrics, self.health, self.incoming, *others)
            return
        board, self.recent = Board(), Recent(settings.observe.recent_items)
        page = Page(settings, version, self.health.state, board, self.recent, self.registry, self.incoming.came)
        self._server = ObserveServer(settings.observe, self.registry, self.health.state, page.answer)
        super().__init__(self.metrics, self.health, board, self.recent, self.incoming, *others)

    @property
    def url(self) -> str | None:
        """Where the status page, /metrics and /healthz are."""
        return self._server.url if self._server else None

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
