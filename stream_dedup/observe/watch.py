"""All observers of a worker behind one object: metrics, health, HTTP server, notices in the log, watch on memory.

    with Watch(settings, version, show=show) as watch:
        Worker(settings, observer=watch, decider=watch.decider).run(stop)

The server listens before the worker starts: health is "starting" while the worker connects to the cluster.

`DeadLetterLog` logs the first record of each reason; a line for each record would hide everything else where a producer
sends only bad ones. `MemoryWatch` logs that the process nears its memory limit, at which the kernel kills it without a
word. The status page and the survey of the input are a tool, which `show` brings.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from stream_dedup.dedup.verdict import Kind
from stream_dedup.observe.health import Health, stall_seconds
from stream_dedup.observe.http import ObserveServer, Pages
from stream_dedup.observe.metrics import Metrics
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.outgoing import trace_fields

log = logging.getLogger(__name__)
P = ParamSpec("P")

_DETAIL_CHARS = 300


class DeadLetterLog(Observer):
    """Logs the first dead letter of each reason; a metric counts all."""

    def __init__(self) -> None:
        self._said: set[str] = set()  # reasons: a dozen fixed words

    def batch(self, report: BatchReport) -> None:
        for verdict, record in (
            zip(report.verdicts, report.records, strict=False) if report.counts.get(Kind.BAD) else ()
        ):
            reason, _, detail = verdict.reason.partition(": ")
            if verdict.kind is not Kind.BAD or reason in self._said:
                continue
            self._said.add(reason)
            log.warning(
                "a record is a dead letter (%s): %s; at %s/%d/%d. stream_dedup_bad_items_total counts more of them",
                reason, detail[:_DETAIL_CHARS], record.topic, record.partition, record.offset,
                extra={"reason": reason, **trace_fields(record)},
            )  # fmt: skip


NEAR_LIMIT = 0.85
"""Above this share of the limit the memory is short; the alert in deploy/prometheus has the same share."""
# A process that hovers around the limit logs once.
_WELL_BELOW = 0.75
# Reading /proc takes 10 µs; a restore grows by some 100 MB in this time at most.
_CHECK_SECONDS = 1.0


def resident_memory() -> int:
    """Return the bytes of this process that are resident in memory; 0 where the system does not say (not Linux)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class MemoryWatch(Observer):
    """Checks the resident memory at most once a second. `resident` and `clock` (monotonic) are for tests."""

    def __init__(
        self,
        settings: Settings,
        *,
        resident: Callable[[], int] = resident_memory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = settings.worker.memory
        self._resident, self._clock = resident, clock
        self._due = 0.0
        self._is_near = False

    def loop_completed(self, tasks: Sequence[str]) -> None:
        self._check("")

    def restore_progress(self, task: str, done: int, total: int) -> None:
        self._check(f"; {done / total if total else 1.0:.0%} of the changelog is restored")

    def _check(self, situation: str) -> None:
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _CHECK_SECONDS
        taken = self._resident()
        was_near, self._is_near = self._is_near, taken > self._limit * (_WELL_BELOW if self._is_near else NEAR_LIMIT)
        if self._is_near and not was_near:
            log.warning(
                "memory: %.0f of %.0f MiB are taken (%.0f %%)%s. At the limit the kernel kills the process, and its "
                "successor restores the same state. Give it more memory now; then shorten [window] length, or choose "
                "what `stream-dedup plan --per-day N --memory SIZE` proposes",
                taken / 2**20, self._limit / 2**20, 100 * taken / self._limit, situation, extra={"kind": "memory"},
            )  # fmt: skip


def _to_all(hook: Callable[Concatenate[Any, P], None]) -> Callable[Concatenate[Any, P], None]:
    """Make the method of a group that calls this hook of each of its observers."""

    def method(group: Any, /, *arguments: P.args, **keywords: P.kwargs) -> None:
        group.tell(hook.__name__, *arguments, **keywords)

    return method


class ObserverGroup(Observer):
    """Passes each event to several observers, in order.

    An error of an observer ends neither the worker nor the other observers: the first one of each hook is logged.
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers
        self._logged: set[tuple[str, str]] = set()

    def tell(self, hook: str, *arguments: Any, **keywords: Any) -> None:
        """Call this hook of each observer."""
        for observer in self._observers:
            try:
                getattr(observer, hook)(*arguments, **keywords)
            except Exception:
                name = type(observer).__name__
                if (name, hook) not in self._logged:
                    self._logged.add((name, hook))
                    log.exception("%s could not take in %s (a bug; logged once); the worker goes on", name, hook)

    heartbeat = _to_all(Observer.heartbeat)
    step = _to_all(Observer.step)
    batch = _to_all(Observer.batch)
    loop_completed = _to_all(Observer.loop_completed)
    positions_advanced = _to_all(Observer.positions_advanced)
    restore_progress = _to_all(Observer.restore_progress)
    rebalanced = _to_all(Observer.rebalanced)
    task_opened = _to_all(Observer.task_opened)
    task_lost = _to_all(Observer.task_lost)
    state_lost = _to_all(Observer.state_lost)
    tasks = _to_all(Observer.tasks)
    standby_progress = _to_all(Observer.standby_progress)
    batch_stuck = _to_all(Observer.batch_stuck)
    brokers_unreachable = _to_all(Observer.brokers_unreachable)
    brokers_reachable = _to_all(Observer.brokers_reachable)
    brokers_distrusted = _to_all(Observer.brokers_distrusted)
    waiting = _to_all(Observer.waiting)
    registry_away = _to_all(Observer.registry_away)
    error = _to_all(Observer.error)


class Shown(NamedTuple):
    """What shows a worker to people: observers, and what answers requests that no other path has."""

    observers: Sequence[Observer] = ()
    pages: Pages = lambda path, query: None


class Watch(ObserverGroup):
    """Metrics, health and other observers. `show` makes the status page and the like of them (tools/page/show.py).

    `url` is the base URL of the status page, /metrics and health, `health_url` that of the listener for health alone.
    Both are None if [observe] host is empty.
    """

    def __init__(
        self,
        settings: Settings,
        version: str,
        *observers: Observer,
        show: Callable[["Watch"], Shown] = lambda watch: Shown(),
    ) -> None:
        self.settings, self.version = settings, version
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, open files, processor time
        # Without this the client exports a creation time for each counter: twice the series, without use.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no annotation there
        self.health = Health(stall_seconds(settings))
        self.metrics = Metrics(self.registry, settings, version, self.health.state)
        self.decider = self.metrics.decider
        shown = show(self)
        self._server: ObserveServer | None = None
        self.url: str | None = None
        self.health_url: str | None = None
        if settings.observe.host:
            self._server = ObserveServer(settings.observe, self.registry, self.health.state, shown.pages)
            self.url, self.health_url = self._server.url, self._server.health_url
        own = MemoryWatch(settings), DeadLetterLog()
        super().__init__(self.metrics, self.health, *shown.observers, *own, *observers)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
