"""Survey of the worker's input, for the log and the status page.

A feed whose titles are never found, or whose dates are seconds instead of milliseconds, is judged without an error. So
the log gets a summary of the input once, after the first items or the first minute, and each warning when it is new.
The page shows all of it. Each hour begins a new survey, so that a producer's change shows after millions of items.

The survey counts all items and decodes one in a hundred again. That takes 1 µs for an item of 4 KB, measured with
`Survey.add`; a verdict takes some 80 µs.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_dedup.news.decode import Decoder
from stream_dedup.news.survey import FIRST, Summary, Survey, summary_line
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import BatchReport, Observer

log = logging.getLogger(__name__)

# Seconds until the first summary of a slow feed: a person who has just started the worker waits no longer.
_FIRST_SUMMARY_SECONDS = 60.0
# Seconds between checks for new warnings: a summary takes .3 ms.
_CHECK_SECONDS = 60.0
_SURVEY_SECONDS = 3600.0
# Items from which on the page shows a new survey instead of the previous one.
_ENOUGH_ITEMS = 100
# The task that meets an odd time logs it with the record's position (worker/judge.py); the page shows both.
_LOGGED_BY_TASKS = frozenset({"dates-1970", "future-dates", "backwards"})


@dataclass(frozen=True, slots=True)
class InputSurvey:
    """Summary of the input since a moment (seconds since 1970)."""

    since: float
    summary: Summary


class Incoming(Observer):
    """Surveys the input and logs the summary. Any thread may call `latest`; `clock` returns seconds since 1970."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._clock = settings, clock
        self._decode: Decoder | None = None
        self._lock = threading.Lock()
        self._survey: Survey | None = None  # None: no input yet
        self._survey_began = 0.0
        self._previous: InputSurvey | None = None
        self._summarised = False
        self._checked_at = 0.0
        self._logged: set[str] = set()  # kinds of warnings that were logged

    def latest(self) -> InputSurvey | None:
        """Return the survey of this hour, or of the previous one while this has few items; None: no input yet."""
        with self._lock:
            if self._survey is None:
                return self._previous
            current = InputSurvey(self._survey_began, self._survey.summary())
            return self._previous if self._previous is not None and current.summary.items < _ENOUGH_ITEMS else current

    # -- hooks -------------------------------------------------------------------------------------------

    def batch(self, report: BatchReport) -> None:
        if not report.records or not report.items:
            return
        now = self._clock()
        with self._lock:
            survey = self._current(now)
            for item, record in zip(report.items, report.records, strict=True):
                survey.add(item, record.value, record.partition, record.offset)
        self._report(survey, now)

    def loop_completed(self, tasks: Sequence[str]) -> None:
        if not self._summarised and self._survey is not None:
            self._report(self._survey, self._clock())

    def _current(self, now: float) -> Survey:
        if (
            self._survey is not None
            and now - self._survey_began > _SURVEY_SECONDS
            and self._survey.items >= _ENOUGH_ITEMS
        ):
            summary = self._survey.summary()
            self._previous = InputSurvey(self._survey_began, summary)
            # A warning that is gone is logged again when it comes back.
            self._logged &= {warning.kind for warning in summary.warnings}
            self._survey = None
        if self._survey is None:
            self._survey, self._survey_began = self._new(), now
        self._survey.latest = self._settings.window.latest(int(now * 1000))
        return self._survey

    def _new(self) -> Survey:
        settings = self._settings
        if self._decode is None:
            self._decode = Decoder(settings.item)
        return Survey(
            self._decode.read,
            settings,
            is_record=True,
            place=lambda partition, offset: f"{settings.topics.input}/{partition}/{offset}",
        )

    def _report(self, survey: Survey, now: float) -> None:
        is_first = not self._summarised
        if is_first and survey.items < FIRST and now - self._survey_began < _FIRST_SUMMARY_SECONDS:
            return
        if not is_first and now - self._checked_at < _CHECK_SECONDS:
            return
        self._summarised, self._checked_at = True, now
        with self._lock:
            summary = survey.summary()
        if is_first:
            log.info("input: %s", summary_line(summary))
        if not is_first and summary.items < _ENOUGH_ITEMS:
            return  # a new survey with too few items
        for warning in summary.warnings:
            if warning.kind not in self._logged | _LOGGED_BY_TASKS:
                self._logged.add(warning.kind)
                log.warning("input: %s", warning.text, extra={"kind": warning.kind})
