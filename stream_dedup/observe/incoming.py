"""What a running worker understands of its input: committed batches in, the log's lines and the page's figures out.

Why: a feed whose titles are never found, or whose dates are seconds where milliseconds are meant, is judged without an
error. It is said once what comes in, after the first items or the first minute, and each warning when it is new; the
page shows it all. A survey begins anew each hour, so that a producer's change shows although millions came before it.

All items are counted, one in a hundred is read again: 1 µs an item of 4 KB, measured with `Survey.add`, where a
verdict costs some eighty.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_dedup.news.decode import Decoder
from stream_dedup.news.summary import Summary, in_a_line
from stream_dedup.news.survey import FIRST, Survey
from stream_dedup.settings import Settings
from stream_dedup.stream.observer import BatchReport, Observer

log = logging.getLogger(__name__)

# A trickle is told of after a minute; a person who has just started the worker waits no longer.
_SOON = 60.0
# So often it is asked whether a warning is new: a summary takes .3 ms.
_OFTEN = 60.0
_AGE = 3600.0
# Of a new survey the page shows nothing before it has so many items, if there is an old one.
_ENOUGH = 100
# Odd times are said by the task that meets them, with the record's place (stream/odd_times.py); the page shows both.
_SAID_BY_TASKS = frozenset({"dates-1970", "future-dates", "jumps-back"})


@dataclass(frozen=True, slots=True)
class Came:
    """What came since a moment (seconds since 1970)."""

    since: float
    summary: Summary


class Incoming(Observer):
    """Surveys, logs, and tells the page. Any thread may call `came`; `clock` gives seconds since 1970."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._clock = settings, clock
        self._decode: Decoder | None = None
        self._lock = threading.Lock()
        self._survey: Survey | None = None  # None: nothing came yet
        self._begun = 0.0
        self._before: Came | None = None
        self._told = False
        self._asked = 0.0
        self._said: set[str] = set()  # warnings that were logged

    def came(self) -> Came | None:
        """What came in the hour that runs, or while that is young in the one before; None: nothing yet."""
        with self._lock:
            if self._survey is None:
                return self._before
            now = Came(self._begun, self._survey.summary())
            return self._before if self._before is not None and now.summary.items < _ENOUGH else now

    # -- hooks -------------------------------------------------------------------------------------------

    def batch(self, report: BatchReport) -> None:
        if not report.records:
            return
        now = self._clock()
        with self._lock:
            survey = self._current(now)
            for item, record in zip(report.items, report.records, strict=True):
                survey.add(item, record.value, record.partition, record.offset)
        self._tell(survey, now)

    def turn(self, tasks: Sequence[str]) -> None:
        if not self._told and self._survey is not None:
            self._tell(self._survey, self._clock())

    def _current(self, now: float) -> Survey:
        if self._survey is not None and now - self._begun > _AGE and self._survey.items >= _ENOUGH:
            summary = self._survey.summary()
            self._before = Came(self._begun, summary)
            self._said &= {one.kind for one in summary.warnings}  # one that was mended is news when it comes again
            self._survey = None
        if self._survey is None:
            self._survey, self._begun = self._new(), now
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
            place=lambda part, number: f"{settings.topics.input}/{part}/{number}",
        )

    def _tell(self, survey: Survey, now: float) -> None:
        is_first = not self._told
        if is_first and survey.items < FIRST and now - self._begun < _SOON:
            return
        if not is_first and now - self._asked < _OFTEN:
            return
        self._told, self._asked = True, now
        with self._lock:
            summary = survey.summary()
        if is_first:
            log.info("what comes in: %s", in_a_line(summary))
        if not is_first and summary.items < _ENOUGH:
            return  # of a new hour: too few to judge by
        for one in summary.warnings:
            if one.kind not in self._said | _SAID_BY_TASKS:
                self._said.add(one.kind)
                log.warning("what comes in: %s", one.text, extra={"kind": one.kind})
