"""Log the first dead letter of each reason, and each minute how many more there were.

In: committed batches. Out: a WARNING with place and detail for the first of a reason, then one line a minute for all. A
line for each would hide everything else where a producer sends nothing but bad records.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest

from stream_dedup.dedup.verdict import Kind
from stream_dedup.worker.observer import BatchReport, Observer

log = logging.getLogger(__name__)

_SECONDS = 60.0
_DETAIL_CHARS = 300


class DeadLetterLog(Observer):
    """Logs the dead letters of committed batches. `clock`: monotonic seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: set[str] = set()  # reasons: a dozen fixed words
        self._more: Counter[str] = Counter()  # not yet said
        self._last = ""  # the place of the last one
        self._since = 0.0

    def batch(self, report: BatchReport) -> None:
        for verdict, record in zip_longest(report.verdicts, report.records) if report.counts.get(Kind.BAD) else ():
            if verdict is None or verdict.kind is not Kind.BAD:
                continue
            reason, _, detail = verdict.reason.partition(": ")
            place = f"{record.topic}/{record.partition}/{record.offset}" if record is not None else "unknown"
            if reason in self._said:
                self._since = self._since if self._more else self._clock()
                self._more[reason] += 1
                self._last = place
                continue
            self._said.add(reason)
            log.warning(
                "a record is a dead letter (%s): %s; at %s. More of them are summed up each minute",
                reason, detail[:_DETAIL_CHARS], place, extra={"reason": reason},
            )  # fmt: skip
        self.loop_completed([])

    def loop_completed(self, tasks: Sequence[str]) -> None:
        if self._more and self._clock() - self._since >= _SECONDS:
            self.sum_up()

    def sum_up(self) -> None:
        """Log what was not logged yet."""
        if self._more:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in self._more.most_common())
            log.warning(
                "%d more dead letters in %.0f s: %s; the last at %s",
                self._more.total(), self._clock() - self._since, reasons, self._last,
            )  # fmt: skip
            self._more.clear()
