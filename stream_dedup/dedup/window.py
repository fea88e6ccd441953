"""Compute the ends of the window: how far a lookup sees, what a passage counts, what memory and the changelog hold.

Each end has its own clock, and each later one must hold all that the earlier ones need. W is `window.length`.

- A **lookup** goes by the item's own time t. It sees the originals with a time within W of t, on both sides. If one of
  the two times is doubted (clocks.py), it sees what arrived at most W ago in elapsed event time. So a wrong date hides
  neither an original from its copies nor a copy from its original.
- **Passages** go by the item's effective time (clocks.py): one recurs if it was seen often enough from W before it on.
  There is no upper end. The table has a fixed size, so nothing must be freed.
- **Memory** goes by the watermark, since it serves all later items. It frees an original when the watermark is more
  than W past its time and more than W of event time has elapsed since it arrived. So an original that comes late is
  remembered as long as any other, and a watermark that leaps to another year does not free the last window at once. A
  lookup ignores rows that may be freed already, so no verdict depends on when they are.
- **Sequences**, by which an item is compared word by word, go by arrivals: an item sees those of originals that arrived
  at most `index.texts` ago, rounded up to a step. Older ones are compared by their filters. Memory frees sequences by
  the same clock, so that no verdict depends on when it does.
- The **changelog** goes by the broker's clock, which counts from the writing of a block. It outlasts W by the longest
  time that a record waits in the input, and by a day for clocks that differ (`changelog_retention_ms`).

Arrivals are counted in steps of W/64, rounded down. What arrived at most W ago is at most 65 steps old.

                               t - W                    t                     t + W
    lookup                      |----------------------+----------------------|   the item's time; arrivals: 65 steps
    passages                    |----------------------+------->                  the item's effective time
    memory                |------|----------------------|                          watermark, and arrivals: 65 steps
    changelog   |- a day -|- wait in the input -|-- W --|                          the broker's clock, from the writing

judge.c applies the same to the items of a batch (`is_in_window` in core.h).
"""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, fields
from stream_dedup.dedup.clocks import START, BatchTimes
from stream_dedup.index.times import ANY_TIME, FORGOTTEN, HIGH, LOW, NO_ROW, OLD_HIGH, OLD_LOW, RECENT, Windows

_STEPS_PER_WINDOW = 64
# Steps for which an arrival is recent: one more, because both ends are rounded down and a window need not be a multiple
# of the step.
_RECENT_STEPS = _STEPS_PER_WINDOW + 1


class CoreArrivals(Struct, name="arrivals"):
    """`Arrivals` as the core takes it."""

    _fields_ = (*fields(POINTER, "rows times"), *fields(INT64, "count step_length window text_steps"))


class Arrivals:
    """The elapsed event time at which each row arrived (`BatchTimes.elapsed`). `window`, and `texts` of sequences: ms.

    It stores the first row of each step of 1/64 window: some 70 numbers in all.

    >>> arrivals = Arrivals(window=64_000)
    >>> arrivals.add(0, np.array([0, 500, 900, 5_000]))
    >>> arrivals.before_or_at(np.array([0, 1, 2, 3])).tolist()
    [0, 0, 0, 5000]
    >>> arrivals.first_recent(np.array([64_000, 66_000])).tolist()
    [0, 3]
    """

    def __init__(self, window: int, texts: int = 0) -> None:
        self.window = window
        self.step = max(1, window // _STEPS_PER_WINDOW)
        self.text_steps = min(-(-texts // self.step), _RECENT_STEPS)
        self._rows: list[int] = []  # the first row of each step
        self._steps: list[int] = []

    def add(self, first: int, elapsed: NDArray[np.int64]) -> None:
        """Record the arrivals of the rows from `first` on; `elapsed` (n,) never decreases."""
        steps, starts = np.unique(self.steps(elapsed), return_index=True)
        for step, start in zip(steps.tolist(), starts.tolist(), strict=True):
            if not self._steps or step > self._steps[-1]:
                self._rows.append(first + start)
                self._steps.append(step)

    def forget(self, elapsed: int) -> None:
        """Drop the steps that are no longer recent at `elapsed`."""
        dropped = min(bisect_left(self._steps, elapsed // self.step - _RECENT_STEPS), len(self._steps) - 1)
        if dropped > 0:
            del self._rows[:dropped], self._steps[:dropped]

    def before_or_at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the elapsed event time, ms, when rows arrived, rounded down to a step; START if no longer recent."""
        first, times = self.table()
        return times[np.searchsorted(first, rows, "right")]

    def table(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first row of each recent step, (n,), and the elapsed event times of these steps, ms, (n + 1,).

        START stands in front, for the rows before.
        """
        return np.array(self._rows, np.int64), np.append(START, np.array(self._steps, np.int64) * self.step)

    def packed(self) -> CoreArrivals:
        """Return the arrivals for the core, as they are now."""
        rows, times = self.table()
        sizes = {"step_length": self.step, "window": self.window, "text_steps": self.text_steps}
        return CoreArrivals(rows=rows, times=times, count=len(rows), **sizes)

    def steps(self, elapsed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the steps."""
        return elapsed // self.step

    def first_with_text(self, elapsed: int) -> int:
        """Return the first row whose sequence may count for an item that arrives at `elapsed`."""
        step = bisect_left(self._steps, elapsed // self.step - self.text_steps)
        return [*self._rows, NO_ROW][step]

    def first_recent(self, elapsed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each arrival in `elapsed` the first row that arrived at most a window before."""
        steps, inverse = np.unique(self.steps(elapsed), return_inverse=True)
        rows = [*self._rows, NO_ROW]
        first = [rows[bisect_left(self._steps, step - _RECENT_STEPS)] for step in steps.tolist()]
        return np.array(first, np.int64)[inverse]


# -- lookup and passages ---------------------------------------------------------------------------------------------


class Scope(NamedTuple):
    """Which originals and passages count for each of m items.

    windows: for lookups in the index; judge.c applies them to items of the batch, too.
    steps: (m,) the steps at which the items arrive.
    times: (m,) as the index would store them.
    begins: (m,) of the windows, ms, for passages.
    """

    windows: Windows
    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    begins: NDArray[np.int64]


def scope_of(batch_times: BatchTimes, arrivals: Arrivals) -> Scope:
    """Return the originals and passages that count for the items of a batch."""
    window, doubted = arrivals.window, batch_times.is_doubted
    low, high = batch_times.stated - window, batch_times.stated + window
    windows = np.empty((len(low), 5), np.int64)
    windows[:, RECENT] = arrivals.first_recent(batch_times.elapsed)
    windows[:, LOW] = np.where(doubted, FORGOTTEN + 1, low)
    windows[:, HIGH] = np.where(doubted, ANY_TIME, high)
    # Of the rows that arrived before, memory may have freed those behind the watermark.
    windows[:, OLD_LOW] = np.maximum(low, batch_times.watermarks - window)
    windows[:, OLD_HIGH] = high
    times = np.where(doubted, ANY_TIME, batch_times.times)
    return Scope(windows, arrivals.steps(batch_times.elapsed), times, batch_times.times - window)


def sightings(times: NDArray[np.int64], watermarks: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """Return when the passages of items count as seen, ms: at the item's time, or on arrival if it is late.

    At its time, the passages of a late item would be the first to be replaced.
    """
    return np.where(times < watermarks - window, watermarks, times)


# -- memory -----------------------------------------------------------------------------------------------------------


def may_be_held(newest: float, then: int, watermark: int, elapsed: int, arrivals: Arrivals) -> bool:
    """Return whether memory may hold a row that arrived by `then` (elapsed event time), with a time up to `newest`."""
    return newest >= watermark - arrivals.window or then // arrivals.step >= elapsed // arrivals.step - _RECENT_STEPS
