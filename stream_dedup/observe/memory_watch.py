"""Log once that the process nears its memory limit: at the limit the kernel kills it without a word.

In: the worker's events, as moments to look. Out: one WARNING, and another if the memory was well below in between.
The alert StreamDedupMemoryNearLimit uses the same share; this line is for those who have only the log.
"""

import logging
import time
from collections.abc import Callable, Sequence

from stream_dedup.observe import memory
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import BatchReport, Observer

log = logging.getLogger(__name__)

NEAR_LIMIT = 0.85
"""The share of the limit from which on the memory is short; that of the alert in deploy/prometheus."""
# A process that hovers around the limit logs once.
_WELL_BELOW = 0.75
# Reading /proc takes 10 µs; a restore grows by some 100 MB in this time at most.
_CHECK_SECONDS = 1.0


class MemoryWatch(Observer):
    """Looks at the resident memory at most once a second. `resident` and `clock` (monotonic) are for tests."""

    def __init__(
        self,
        settings: Settings,
        *,
        resident: Callable[[], int | None] = memory.resident,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = settings.worker.memory
        self._resident, self._clock = resident, clock
        self._due = 0.0
        self._is_near = False

    def batch(self, report: BatchReport) -> None:
        self._check(f"{report.remembered:,} originals are remembered")

    def loop_completed(self, tasks: Sequence[str]) -> None:
        self._check("")

    def restore_progress(self, task: str, done: int, total: int) -> None:
        share = done / total if total else 1.0
        self._check(f"{share:.0%} of the changelog is restored")

    def standby_progress(self, task: str, offsets: int, seconds: float) -> None:
        self._check("this member is a standby")

    def _check(self, situation: str) -> None:
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _CHECK_SECONDS
        resident = self._resident()
        if resident is None:
            return
        share = resident / self._limit
        if self._is_near:
            self._is_near = share > _WELL_BELOW
            return
        if share <= NEAR_LIMIT:
            return
        self._is_near = True
        log.warning(
            "memory: %.0f of %.0f MiB are taken (%.0f %%)%s. At the limit the kernel kills the process, and its "
            "successor restores the same state. Give it more memory now; then shorten [window] length, or choose what "
            "`stream-dedup plan --items N --memory SIZE` proposes",
            resident / 2**20, self._limit / 2**20, 100 * share, f"; {situation}" if situation else "",
            extra={"kind": "memory"},
        )  # fmt: skip
