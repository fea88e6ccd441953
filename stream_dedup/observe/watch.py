"""All observers of a worker behind one object: metrics, health, status page, HTTP server, notices in the log, and
the watch on memory.

    with Watch(settings, version) as watch:
        Worker(settings, observer=watch, deduplicator=watch.deduplicator).run(stop)

The server listens before the worker starts: health is "starting" while the worker connects to the cluster.

Three observers write notices. `Incoming` logs a summary of the input, and each warning about it when it is new: a feed
without titles, or with dates in seconds instead of milliseconds, is judged without an error. `DeadLetterLog` logs the
first record of each reason; a line for each record would hide everything else where a producer sends only bad ones.
`MemoryWatch` logs that the process nears its memory limit, at which the kernel kills it without a word.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics

from stream_dedup.dedup.verdict import Kind
from stream_dedup.extras import EXTRAS
from stream_dedup.news.decode import Decoder
from stream_dedup.news.summary import Summary, summary_line
from stream_dedup.news.survey import FIRST, Survey
from stream_dedup.observe.board import Board, Recent
from stream_dedup.observe.health import Health, stall_seconds
from stream_dedup.observe.http import TEXT, Answer, ObserveServer, Pages
from stream_dedup.observe.metrics import Metrics
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.outgoing import trace_fields

log = logging.getLogger(__name__)
P = ParamSpec("P")

# Until the first summary of a slow feed, because a person who has just started the worker waits no longer; and between
# checks for new warnings. A summary takes .3 ms.
_SUMMARY_SECONDS = 60.0
_SURVEY_SECONDS = 3600.0
# From this many items on, the page shows a new survey instead of the previous one.
_ENOUGH_ITEMS = 100
# A task logs these with the record's position (worker/judge.py); the page shows both.
_LOGGED_BY_TASKS = frozenset({"dates-1970", "future-dates"})


class Incoming(Observer):
    """Surveys the input, for the log and the page. Any thread may call `latest`; `clock` is in seconds since 1970.

    A new survey begins each hour, so that a producer's change shows even after millions of items. It counts all items
    and decodes one in a hundred again, which takes 1 µs for an item of 4 KB; a verdict takes some 80 µs.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._clock, self._lock = settings, clock, threading.Lock()
        self._surveys: deque[tuple[float, Survey]] = deque(maxlen=2)  # when each began; the newest is the last
        self._is_summarized = False  # in the log
        self._due = 0.0  # when the log next says it
        self._logged: set[str] = set()  # kinds of warnings that were logged

    def latest(self) -> tuple[float, Summary] | None:
        """Return when this hour's survey began, and its summary; those of the last one while this has few items.

        None: there was no input.
        """
        with self._lock:
            if not self._surveys:
                return None
            began, survey = self._surveys[-1 if self._surveys[-1][1].items >= _ENOUGH_ITEMS else 0]
            return began, survey.summary()

    def batch(self, report: BatchReport) -> None:
        if not report.records or not report.items:
            return
        now = self._clock()
        with self._lock:
            survey = self._current(now)
            for item, record in zip(report.items, report.records, strict=True):
                survey.add(item, record.value, record.partition, record.offset, record.headers)
        self._report(survey, now)

    def loop_completed(self, tasks: Sequence[str]) -> None:
        if self._surveys and not self._is_summarized:
            self._report(self._surveys[-1][1], self._clock())

    def _current(self, now: float) -> Survey:
        settings = self._settings
        if self._surveys:
            began, survey = self._surveys[-1]
            is_over = now - began > _SURVEY_SECONDS and survey.items >= _ENOUGH_ITEMS
            if is_over:  # a warning that is gone is logged again when it comes back
                self._logged &= {warning.kind for warning in survey.summary().warnings}
        else:
            is_over, self._due = True, now + _SUMMARY_SECONDS
        if is_over:
            survey = Survey(
                Decoder(settings.item, settings.registry).read,
                settings,
                is_record=True,
                place=lambda partition, offset: f"{settings.topics.input}/{partition}/{offset}",
            )
            self._surveys.append((now, survey))
        survey.latest = settings.window.latest(int(now * 1000))
        return survey

    def _report(self, survey: Survey, now: float) -> None:
        if now < self._due and (self._is_summarized or survey.items < FIRST):
            return
        self._due = now + _SUMMARY_SECONDS
        with self._lock:
            summary = survey.summary()
        if not self._is_summarized:
            self._is_summarized = True
            log.info("input: %s", summary_line(summary))
        elif summary.items < _ENOUGH_ITEMS:
            return  # a new survey
        for warning in summary.warnings:
            if warning.kind not in self._logged | _LOGGED_BY_TASKS:
                self._logged.add(warning.kind)
                log.warning("input: %s", warning.text, extra={"kind": warning.kind})


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


def _no_page(path: str, _query: str) -> Answer | None:
    text = b"the status page needs the extra `page`, which is not installed; the log has the command for it\n"
    return Answer(TEXT, text, status=HTTPStatus.NOT_IMPLEMENTED) if path == "/" else None


class Watch(ObserverGroup):
    """Metrics, health, the status page and other observers.

    `url` is the base URL of the status page, /metrics and health, `health_url` that of the listener for health alone.
    Both are None if [observe] host is empty.
    """

    def __init__(self, settings: Settings, version: str, *observers: Observer) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, open files, processor time
        # Without this the client exports a creation time for each counter: twice the series, without use.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no annotation there
        self.health = Health(stall_seconds(settings))
        self.incoming = Incoming(settings)
        self.metrics = Metrics(self.registry, settings, version, self.health.state)
        self.deduplicator = self.metrics.deduplicator
        self._server: ObserveServer | None = None
        self.url: str | None = None
        self.health_url: str | None = None
        observers = (MemoryWatch(settings), DeadLetterLog(), *observers)
        if not settings.observe.host:
            super().__init__(self.metrics, self.health, self.incoming, *observers)
            return
        board, self.recent = Board(), Recent(settings.observe.recent_items)
        pages = self._pages(settings, version, board)
        self._server = ObserveServer(settings.observe, self.registry, self.health.state, pages)
        self.url, self.health_url = self._server.url, self._server.health_url
        super().__init__(self.metrics, self.health, board, self.recent, self.incoming, *observers)

    def _pages(self, settings: Settings, version: str, board: Board) -> Pages:
        """Return what answers requests for the page: the page, or without the extra `page` what it lacks."""
        try:
            from stream_dedup.observe.page import Page
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            return _no_page
        page = Page(settings, version, self.health.state, board, self.recent, self.registry, self.incoming.latest)
        return page.respond

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        if self._server:
            self._server.close()
