"""Show a worker to people: the survey of its input, in the log and on the status page, and the page itself.

`run` finds `show` by name, and passes it to the `Watch`. A feed without titles, or with dates in seconds instead of
milliseconds, is judged without an error; so `Incoming` logs a summary of the input, and each warning about it when it
is new.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from http import HTTPStatus

from stream_dedup.extras import EXTRAS
from stream_dedup.news.decode import Decoder
from stream_dedup.observe.http import TEXT, Answer
from stream_dedup.observe.watch import Shown, Watch
from stream_dedup.settings import Settings
from stream_dedup.tools.page.board import Board, Recent
from stream_dedup.tools.survey.summary import Summary, summary_line
from stream_dedup.tools.survey.survey import FIRST, Survey
from stream_dedup.worker.observer import BatchReport, Observer

log = logging.getLogger(__name__)

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


def show(watch: Watch) -> Shown:
    """Return what surveys the input of this worker, and its status page; without the extra `page` what that lacks."""
    settings = watch.settings
    incoming = Incoming(settings)
    if not settings.observe.host:
        return Shown([incoming])
    board, recent = Board(), Recent(settings.observe.recent_items)
    observers = board, recent, incoming
    try:
        from stream_dedup.tools.page.page import Page
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        return Shown(observers, _no_page)
    return Shown(observers, Page(watch, board, recent, incoming.latest).respond)


def _no_page(path: str, _query: str) -> Answer | None:
    text = b"the status page needs the extra `page`, which is not installed; the log has the command for it\n"
    return Answer(TEXT, text, status=HTTPStatus.NOT_IMPLEMENTED) if path == "/" else None
