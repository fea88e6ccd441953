"""Which originals count for an item: near in time, and still held.

In: the items' times (clocks.py) and when the remembered rows arrived. Out: `Windows` for the index, and the same answer
for items of one batch.

An original is **near** an item if their times are at most a window apart. Where one of the two times is doubted, it is
near if it arrived at most a window ago, by the watermark's elapsed: so a wrong date neither hides an original from its
copies nor a copy from its original. An original is **held** until the watermark has passed its time by a window, and
has come by a window since its arrival. So one that came late is held as long as any other, and copies of late items are
found.

When a row arrived is kept by the row's number, in steps of a sixty-fourth of a window: at most some seventy numbers.
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.clocks import START, BatchTimes
from stream_dedup.dedup.similarity import HOUR
from stream_dedup.index.times import ANY_TIME, FORGOTTEN, NO_ROW, Windows

_STEPS = 64
# One more, because both ends are rounded down, and one because a window need not be a multiple of its steps.
_HELD = _STEPS + 1


class Arrivals:
    """How far the watermark had come when each row arrived (`Reading.elapsed`). `window` in ms.

    >>> arrivals = Arrivals(window=64_000)
    >>> arrivals.add(0, np.array([0, 500, 900, 5_000]))
    >>> arrivals.of(np.array([0, 1, 2, 3])).tolist()
    [0, 0, 0, 5000]
    >>> arrivals.first_recent(np.array([64_000, 66_000])).tolist()
    [0, 3]
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self._step = max(1, window // _STEPS)
        self._rows: list[int] = []  # the first row of each step
        self._steps: list[int] = []

    def add(self, first: int, elapsed: NDArray[np.int64]) -> None:
        """The rows from `first` on arrived at these, which never fall."""
        steps = self.steps(elapsed)
        begins = np.append(True, steps[1:] != steps[:-1])[: len(steps)]
        for place in np.flatnonzero(begins).tolist():
            step = int(steps[place])
            if not self._steps or step > self._steps[-1]:
                self._rows.append(first + place)
                self._steps.append(step)

    def copy(self) -> "Arrivals":
        """A copy that stays as it is; O(steps)."""
        other = Arrivals(self.window)
        other._rows, other._steps = list(self._rows), list(self._steps)
        return other

    def forget(self, elapsed: int) -> None:
        """Drops what is not asked for from now on."""
        kept = min(bisect_left(self._steps, elapsed // self._step - _HELD), len(self._steps) - 1)
        if kept > 0:
            del self._rows[:kept], self._steps[:kept]

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The elapsed at which the rows arrived, rounded down. Rows must be recent."""
        steps = [self._steps[max(bisect_right(self._rows, row) - 1, 0)] for row in rows.tolist()]
        return np.array(steps, np.int64) * self._step

    def before_or_at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """A elapsed at or before which the rows arrived, for `add`; START for those that are not recent any more."""
        steps = np.array(self._steps, np.int64) * self._step
        return np.append(START, steps)[np.searchsorted(self._rows, rows, "right")]

    def steps(self, elapsed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rounded down."""
        return elapsed // self._step

    def is_recent(self, then: int, now: int) -> bool:
        """Whether what arrived then arrived at most a window ago."""
        return then // self._step >= now // self._step - _HELD

    def first_recent(self, elapsed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of items that arrive at these: the first row that arrived at most a window before."""
        different, place = np.unique(self.steps(elapsed), return_inverse=True)
        rows = [*self._rows, NO_ROW]
        return np.array([rows[bisect_left(self._steps, one - _HELD)] for one in different.tolist()], np.int64)[place]


class Scope(NamedTuple):
    """Which originals count for each item of a batch. windows: of the index; steps: (m,) in which the items arrive;
    times: (m,) of the items, as the index would hold them.
    """

    reading: BatchTimes
    arrivals: Arrivals
    windows: Windows
    steps: NDArray[np.int64]
    times: NDArray[np.int64]


def scope_of(reading: BatchTimes, arrivals: Arrivals) -> Scope:
    """See the module's first lines."""
    window, doubted = arrivals.window, reading.is_doubted
    steps = arrivals.steps(reading.elapsed)
    low, high = reading.stated - window, reading.stated + window
    windows = Windows(
        arrivals.first_recent(reading.elapsed),
        np.where(doubted, FORGOTTEN + 1, low),
        np.where(doubted, ANY_TIME, high),
        np.maximum(low, reading.watermarks - window),
        high,
    )
    return Scope(reading, arrivals, windows, steps, np.where(doubted, ANY_TIME, reading.times))


def hours_apart(
    scope: Scope, items: NDArray[np.integer], rows: NDArray[np.int64], times: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Hours between the items of some pairs and their candidates: rows of the index, or -1-i for item i of the batch.

    times: (pairs,) of the candidates. Where times that were doubted or missing lie further apart than a window, the
    stated ones count if they do not, and else how far apart the two arrived.
    """
    reading, arrivals = scope.reading, scope.arrivals
    apart = np.abs(reading.times[items] - times)
    far = np.flatnonzero(apart > arrivals.window)
    if len(far):
        stated = np.abs(reading.stated[items[far]] - times[far])
        there = np.empty(len(far), np.int64)
        in_batch = rows[far] < 0
        there[in_batch] = reading.elapsed[-1 - rows[far[in_batch]]]
        there[~in_batch] = arrivals.of(rows[far[~in_batch]])
        arrived = np.clip(reading.elapsed[items[far]] - there, 0, arrivals.window)
        apart[far] = np.where(stated <= arrivals.window, stated, arrived)
    hours: NDArray[np.float32] = (apart / HOUR).astype(np.float32)
    return hours


def are_near(earlier: NDArray[np.integer], later: NDArray[np.integer], scope: Scope) -> NDArray[np.bool_]:
    """Of pairs of items of one batch: what the index would say of the later one, had it the earlier one already."""
    windows, time = scope.windows, scope.times[earlier]
    is_recent = scope.steps[earlier] >= scope.steps[later] - _HELD
    low = np.where(is_recent, windows.low[later], windows.old_low[later])
    high = np.where(is_recent, windows.high[later], windows.old_high[later])
    near: NDArray[np.bool_] = ((time >= low) & (time <= high)) | (is_recent & (time == ANY_TIME))
    return near
