"""Decide which originals are close enough in time to be compared with an item, and not yet expired.

In: the items' times (clocks.py) and the arrivals of the rows in the index. Out: a `Scope`: `Windows` for the index, and
what resolve.py needs to apply them to items of one batch.

- An original is **in the window** of an item if their times are at most a window apart. If one of the two times is
  doubted, the original is in the window if it arrived at most a window ago, in elapsed event time of the watermark. So
  a wrong date hides neither an original from its copies nor a copy from its original.
- An original **expires** when the watermark is more than a window past its time, and a window of event time has
  elapsed since its arrival. So an original that comes late is remembered as long as any other.

`Arrivals` stores the first row of each step of 1/64 window: some 70 numbers in all.
"""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.clocks import START, BatchTimes
from stream_dedup.index.times import ANY_TIME, FORGOTTEN, NO_ROW, Windows

_STEPS_PER_WINDOW = 64
# One more step, because both ends are rounded down and a window need not be a multiple of the step.
RECENT_STEPS = _STEPS_PER_WINDOW + 1
"""Steps for which an arrival is recent."""


class Arrivals:
    """The elapsed event time at which each row arrived (`BatchTimes.elapsed`). `window` in ms.

    >>> arrivals = Arrivals(window=64_000)
    >>> arrivals.add(0, np.array([0, 500, 900, 5_000]))
    >>> arrivals.before_or_at(np.array([0, 1, 2, 3])).tolist()
    [0, 0, 0, 5000]
    >>> arrivals.first_recent(np.array([64_000, 66_000])).tolist()
    [0, 3]
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self._step = max(1, window // _STEPS_PER_WINDOW)
        self._rows: list[int] = []  # the first row of each step
        self._steps: list[int] = []

    def add(self, first: int, elapsed: NDArray[np.int64]) -> None:
        """Record the arrivals of the rows from `first` on; `elapsed` (n,) never decreases."""
        steps = self.steps(elapsed)
        begins = np.append(True, steps[1:] != steps[:-1])[: len(steps)]
        for i in np.flatnonzero(begins).tolist():
            step = int(steps[i])
            if not self._steps or step > self._steps[-1]:
                self._rows.append(first + i)
                self._steps.append(step)

    def copy(self) -> "Arrivals":
        """An independent copy; O(steps)."""
        other = Arrivals(self.window)
        other._rows, other._steps = list(self._rows), list(self._steps)
        return other

    def forget(self, elapsed: int) -> None:
        """Drop the steps that are no longer recent at `elapsed`."""
        dropped = min(bisect_left(self._steps, elapsed // self._step - RECENT_STEPS), len(self._steps) - 1)
        if dropped > 0:
            del self._rows[:dropped], self._steps[:dropped]

    def before_or_at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The elapsed event time at which rows arrived, rounded down to a step, ms; START if no longer recent."""
        steps = np.array(self._steps, np.int64) * self._step
        return np.append(START, steps)[np.searchsorted(self._rows, rows, "right")]

    @property
    def step(self) -> int:
        """The length of a step, ms."""
        return self._step

    def steps(self, elapsed: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the steps."""
        return elapsed // self._step

    def is_recent(self, then: int, now: int) -> bool:
        """Whether an arrival at `then` is at most a window before `now`; both elapsed event times."""
        return then // self._step >= now // self._step - RECENT_STEPS

    def first_recent(self, elapsed: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each arrival in `elapsed`, the first row that arrived at most a window before."""
        steps, inverse = np.unique(self.steps(elapsed), return_inverse=True)
        rows = [*self._rows, NO_ROW]
        first = [rows[bisect_left(self._steps, step - RECENT_STEPS)] for step in steps.tolist()]
        return np.array(first, np.int64)[inverse]


class Scope(NamedTuple):
    """Which originals count for each item of a batch.

    windows: for lookups in the index; resolve.py applies the same to items of the batch. steps: (m,) of the items'
    arrivals; times: (m,) of the items, as the index would store them.
    """

    windows: Windows
    steps: NDArray[np.int64]
    times: NDArray[np.int64]


def scope_of(batch_times: BatchTimes, arrivals: Arrivals) -> Scope:
    """Apply the conditions of the module docstring to a batch."""
    window, doubted = arrivals.window, batch_times.is_doubted
    steps = arrivals.steps(batch_times.elapsed)
    low, high = batch_times.stated - window, batch_times.stated + window
    windows = Windows(
        arrivals.first_recent(batch_times.elapsed),
        np.where(doubted, FORGOTTEN + 1, low),
        np.where(doubted, ANY_TIME, high),
        np.maximum(low, batch_times.watermarks - window),
        high,
    )
    return Scope(windows, steps, np.where(doubted, ANY_TIME, batch_times.times))
