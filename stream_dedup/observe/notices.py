"""What the worker's events put into the log: the input at a glance, dead letters, and memory that runs short.

A feed whose titles are never found, or whose dates are seconds instead of milliseconds, is judged without an error; so
`Incoming` logs what the input looks like, and each warning about it when it is new. `DeadLetterLog` logs the first
record of each reason: a line for each would hide everything else where a producer sends nothing but bad records.
`MemoryWatch` logs that the process nears its memory limit: at it the kernel kills it without a word.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stream_dedup.dedup.verdict import Kind
from stream_dedup.news.decode import Decoder
from stream_dedup.news.survey import FIRST, Summary, Survey, summary_line
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import BatchReport, Observer

log = logging.getLogger(__name__)

# Seconds until the first summary of a slow feed, since a person who has just started the worker waits no longer, and
# between checks for new warnings: a summary takes .3 ms.
_SUMMARY_SECONDS = 60.0
_SURVEY_SECONDS = 3600.0
# Items from which on the page shows a new survey instead of the previous one.
_ENOUGH_ITEMS = 100
# The task that meets an odd time logs it with the record's position (worker/judge.py); the page shows both.
_LOGGED_BY_TASKS = frozenset({"dates-1970", "future-dates"})


class Incoming(Observer):
    """Surveys the input, for the log and the page. Any thread may call `latest`; `clock` is in seconds since 1970.

    Each hour begins a new survey, so that a producer's change shows after millions of items. It counts all items and
    decodes one in a hundred again, which takes 1 µs for an item of 4 KB; a verdict takes some 80 µs.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._clock = settings, clock
        self._lock = threading.Lock()
        self._survey: Survey | None = None  # None: no input yet
        self._survey_began = 0.0
        self._previous: tuple[float, Summary] | None = None
        self._checked_at: float | None = None  # None: the first summary is to come
        self._logged: set[str] = set()  # kinds of warnings that were logged

    def latest(self) -> tuple[float, Summary] | None:
        """Return since when and what: this hour, or the one before while this has few items; None: no input yet."""
        with self._lock:
            if self._survey is None or (self._previous is not None and self._survey.items < _ENOUGH_ITEMS):
                return self._previous
            return self._survey_began, self._survey.summary()

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
        if self._checked_at is None and self._survey is not None:
            self._report(self._survey, self._clock())

    def _current(self, now: float) -> Survey:
        survey, settings = self._survey, self._settings
        if survey is not None and now - self._survey_began > _SURVEY_SECONDS and survey.items >= _ENOUGH_ITEMS:
            summary = survey.summary()
            self._previous, survey = (self._survey_began, summary), None
            # A warning that is gone is logged again when it comes back.
            self._logged &= {warning.kind for warning in summary.warnings}
        if survey is None:
            survey = self._survey = Survey(
                Decoder(settings.item).read,
                settings,
                is_record=True,
                place=lambda partition, offset: f"{settings.topics.input}/{partition}/{offset}",
            )
            self._survey_began = now
        survey.latest = settings.window.latest(int(now * 1000))
        return survey

    def _report(self, survey: Survey, now: float) -> None:
        is_first = self._checked_at is None
        since = self._survey_began if self._checked_at is None else self._checked_at
        if now - since < _SUMMARY_SECONDS and not (is_first and survey.items >= FIRST):
            return
        self._checked_at = now
        with self._lock:
            summary = survey.summary()
        if is_first:
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
                extra={"reason": reason},
            )  # fmt: skip


NEAR_LIMIT = 0.85
"""The share of the limit from which on the memory is short; that of the alert in deploy/prometheus."""
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
    """Looks at the resident memory at most once a second. `resident` and `clock` (monotonic) are for tests."""

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
                "what `stream-dedup plan --items N --memory SIZE` proposes",
                taken / 2**20, self._limit / 2**20, 100 * taken / self._limit, situation, extra={"kind": "memory"},
            )  # fmt: skip
