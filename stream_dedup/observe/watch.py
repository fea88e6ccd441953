"""All observers of a worker behind one object: metrics, health, status page and HTTP server.

    with Watch(settings, version) as watch:
        Worker(settings, observer=watch, deduplicator=watch.deduplicator).run(stop)

The server listens before the worker starts: health is "starting" while the worker connects to the cluster.
"""

import logging
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from stream_dedup.observe.board import Board
from stream_dedup.observe.health import Health, stall_seconds
from stream_dedup.observe.http import ObserveServer
from stream_dedup.observe.metrics import Metrics
from stream_dedup.observe.notices import DeadLetterLog, Incoming, MemoryWatch
from stream_dedup.observe.page import Page
from stream_dedup.observe.recent import Recent
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import Observer

log = logging.getLogger(__name__)


class ObserverGroup(Observer):
    """Passes each event to several observers, in order.

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


def _passed_on(hook: str) -> Callable[..., None]:
    return lambda group, *arguments: group._tell(hook, *arguments)


for _hook in vars(Observer):
    if not _hook.startswith("_"):
        setattr(ObserverGroup, _hook, _passed_on(_hook))


class Watch(ObserverGroup):
    """Metrics, health, the status page and other observers. `url` is None if [observe] enabled is false."""

    def __init__(self, settings: Settings, version: str, *others: Observer) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, open files, processor time
        # Without this the client exports a creation time for each counter: twice the series, without use.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no annotation there
        self.health = Health(stall_seconds(settings))
        self.incoming = Incoming(settings)
        self.metrics = Metrics(
            self.registry,
            version=version,
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
