"""Compute each item's effective time, its window, and the watermark, which is the stream's time.

In: the event times and input partitions of the items, in order. Out: `BatchTimes`: the effective time of each item,
what is unusual about its stated time (`Odd`), and the watermark after it; and from these a `Scope`: the originals that
the item may be compared with. No date is trusted alone. Nothing here reads the wall clock or depends on how items are
batched. The state is one `CLOCK` per partition and the watermark; the changelog stores both.

- **Level** of a partition: the median of its last nine stated times. Up to four wrong dates do not move it. If the
  dates of the feed jump, in either direction, it follows after five items.
- A partition is **steady** while seven of the nine times lie within a window of the level. A time further than a window
  from the level of a steady partition is *alone*: it is doubted, and the level counts instead. Where dates vary widely
  anyway (mixed archives of several years), no date is doubted.
- **Watermark**: the highest level that half of the recent items have reached, counting steady partitions. It never goes
  back. Flink and Beam take the minimum over partitions, so one lagging partition holds everything in memory; Kafka
  Streams takes the maximum, so one partition ahead drags the rest along. The weighted median does neither, and needs
  no time-out for idle partitions, since they have no weight.
- **Elapsed** event time: how far the watermark has advanced, where a leap counts as at most a quarter of a window.

The watermark only decides when an original may expire; an item's own time decides what it is compared with. Arrivals
are measured in elapsed event time, so that a watermark that leaps to another year does not expire the last window at
once. That window includes the first items of the new year, which were doubted while they were few.

- An original is **in the window** of an item if their times are at most a window apart. If one of the two times is
  doubted, the original is in the window if it arrived at most a window ago, in elapsed event time of the watermark. So
  a wrong date hides neither an original from its copies nor a copy from its original.
- An original **expires** when the watermark is more than a window past its time, and a window of event time has
  elapsed since its arrival. So an original that comes late is remembered as long as any other.

`Arrivals` stores the first row of each step of 1/64 window: some 70 numbers in all.
"""

from bisect import bisect_left
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, arena, call, record
from stream_dedup.index.times import (
    ANY_TIME,
    FORGOTTEN,
    HIGH,
    LOW,
    NO_ROW,
    OLD_HIGH,
    OLD_LOW,
    RECENT,
    Windows,
)

START = -(2**62)
"""The watermark before the first item; in a `CLOCK`, a time that is not there yet."""
FAR_FUTURE = 2**62
# An odd number, so that the median is one of the times. More would follow a jump later, at 8 bytes each in every
# changelog block; fewer would follow a burst of three wrong dates.
_RING_SIZE = 9

CLOCK = record(
    "partition_clock", [("partition", "<i4"), ("weight", "<i4"), ("count", "<i8"), ("times", "<i8", (_RING_SIZE,))]
)
"""State of a partition. weight: the number of the task's recent items that came from it, as of item `count` of the
task; times: its last stated times, oldest first."""


class Odd(IntEnum):
    """What is unusual about an item's stated time.

    MISSING: there is none; FUTURE: it is later than `latest`, which the caller derives from the wall clock; ALONE: it
    is more than a window from the level of its steady partition; LATE: it is trusted, but more than a window behind
    the watermark. All but LATE are doubted: the level of the partition counts instead.
    """

    NOTHING = 0
    MISSING = 1
    FUTURE = 2
    ALONE = 3
    LATE = 4


class _Reading(Struct, name="clock_reading"):
    _fields_ = (
        *[(name, POINTER) for name in ("clocks", "times", "slots", "effective", "watermarks", "elapsed", "odd")],
        *[(name, INT64) for name in ("partitions", "items", "latest", "window", "watermark", "total")],
    )


class BatchTimes(NamedTuple):
    """Times of m items, (m,) each, ms.

    times: effective times; stated: times that the items state, or `times` where they state none or one in the future;
    odd: `Odd`; watermarks, elapsed: after each item. clocks: CLOCK, the new states of the partitions that had items.
    """

    times: NDArray[np.int64]
    stated: NDArray[np.int64]
    odd: NDArray[np.int8]
    watermarks: NDArray[np.int64]
    elapsed: NDArray[np.int64]
    clocks: NDArray[np.void]

    @property
    def is_doubted(self) -> NDArray[np.bool_]:
        """(m,) whether the level of the partition replaces the stated time."""
        doubted: NDArray[np.bool_] = (self.odd != Odd.NOTHING) & (self.odd != Odd.LATE)
        return doubted


class Clocks:
    """The clocks of a task's partitions and the watermark. `window` in ms.

    >>> clocks = Clocks(window=100)
    >>> times = np.array([*range(1000, 1009), 9000, -1, 1010])
    >>> found = clocks.read(times, np.zeros(12, np.int32))
    >>> found.times[-3:].tolist(), [Odd(kind).name for kind in found.odd[-3:]]
    ([1004, 1005, 1010], ['ALONE', 'MISSING', 'NOTHING'])
    >>> found.watermarks[[7, 8, 11]].tolist()
    [-4611686018427387904, 1004, 1006]
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self.states = np.zeros(0, CLOCK)
        """Of all partitions, in order; never changed in place."""
        self.watermark = START
        self.elapsed = 0

    def read(self, times: NDArray[np.int64], partitions: NDArray[np.integer], latest: int = FAR_FUTURE) -> BatchTimes:
        """Return the `BatchTimes` of the next items, (m,) each; change nothing. A negative time means none."""
        known = self.states["partition"]
        clocks = np.zeros(len(every := np.union1d(known, partitions)), CLOCK)
        clocks["times"], clocks["partition"] = START, every
        clocks[np.searchsorted(every, known)] = self.states
        times, slots = np.ascontiguousarray(times), np.searchsorted(every, partitions)
        effective, watermarks, elapsed = np.empty((3, len(times)), np.int64)
        odd = np.empty(len(times), np.int8)
        limits = {"latest": latest, "window": self._window, "watermark": self.watermark, "total": self.elapsed}
        results = {"effective": effective, "watermarks": watermarks, "elapsed": elapsed, "odd": odd}
        inputs = {"clocks": clocks, "times": times, "slots": slots}
        reading = _Reading(**inputs, partitions=len(clocks), items=len(times), **limits, **results)
        call("clocks_read", arena(), reading)
        stated = np.where(odd == Odd.ALONE, times, effective)
        return BatchTimes(effective, stated, odd, watermarks, elapsed, clocks[np.unique(slots)])

    def set(self, clocks: NDArray[np.void], watermark: int, elapsed: int) -> None:
        """Apply the clocks of a batch, of this process or another one."""
        if len(clocks):
            self.states = newest_clocks([self.states, clocks])
        self.watermark, self.elapsed = max(self.watermark, watermark), max(self.elapsed, elapsed)


def newest_clocks(parts: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """The last of the states of each partition, by partition."""
    newest_first = np.concatenate(parts)[::-1]
    return newest_first[np.unique(newest_first["partition"], return_index=True)[1]]


def fill_missing_times(times: NDArray[np.int64], before: int) -> int:
    """Replace missing times (negative) in place by the highest time before them; return the highest time of all.

    `before`: the highest time of earlier items. For a corpus that is compared as a whole, without a window.

    >>> times = np.array([5, -1, 3, -1])
    >>> fill_missing_times(times, START), times.tolist()
    (5, [5, 5, 3, 5])
    """
    highest = np.maximum.accumulate(np.append(before, np.where(times < 0, START, times)))[1:]
    times[times < 0] = np.maximum(highest[times < 0], 0)
    return int(highest[-1]) if len(times) else before


# -- the window -----------------------------------------------------------------------------------------------------

_STEPS_PER_WINDOW = 64
# Steps for which an arrival is recent: one more, because both ends are rounded down and a window need not be a multiple
# of the step. The same in core.h.
_RECENT_STEPS = _STEPS_PER_WINDOW + 1


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
        self.step = max(1, window // _STEPS_PER_WINDOW)
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

    def forget(self, elapsed: int) -> None:
        """Drop the steps that are no longer recent at `elapsed`."""
        dropped = min(bisect_left(self._steps, elapsed // self.step - _RECENT_STEPS), len(self._steps) - 1)
        if dropped > 0:
            del self._rows[:dropped], self._steps[:dropped]

    def before_or_at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The elapsed event time at which rows arrived, rounded down to a step, ms; START if no longer recent."""
        first, times = self.table()
        return times[np.searchsorted(first, rows, "right")]

    def table(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first row of each step that is recent, (s,), and the elapsed event times of these steps, ms, with START
        in front, (s + 1,).
        """
        return np.array(self._rows, np.int64), np.append(START, np.array(self._steps, np.int64) * self.step)

    def steps(self, elapsed: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the steps."""
        return elapsed // self.step

    def is_recent(self, then: int, now: int) -> bool:
        """Whether an arrival at `then` is at most a window before `now`; both elapsed event times."""
        return then // self.step >= now // self.step - _RECENT_STEPS

    def first_recent(self, elapsed: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each arrival in `elapsed`, the first row that arrived at most a window before."""
        steps, inverse = np.unique(self.steps(elapsed), return_inverse=True)
        rows = [*self._rows, NO_ROW]
        first = [rows[bisect_left(self._steps, step - _RECENT_STEPS)] for step in steps.tolist()]
        return np.array(first, np.int64)[inverse]


class Scope(NamedTuple):
    """Which originals count for each of m items: the one place that says where a window ends.

    windows: for lookups in the index; judge.c applies the same to items of the batch, whose arrivals have the
    numbers `steps`, (m,), and whose times, as the index would store them, are `times`, (m,). begins: (m,) of the
    windows, ms, for passages.
    """

    windows: Windows
    steps: NDArray[np.int64]
    times: NDArray[np.int64]
    begins: NDArray[np.int64]


def scope_of(batch_times: BatchTimes, arrivals: Arrivals) -> Scope:
    """Apply the conditions of the module docstring to a batch."""
    window, doubted = arrivals.window, batch_times.is_doubted
    low, high = batch_times.stated - window, batch_times.stated + window
    windows = np.empty((len(low), 5), np.int64)
    windows[:, RECENT] = arrivals.first_recent(batch_times.elapsed)
    windows[:, LOW] = np.where(doubted, FORGOTTEN + 1, low)
    windows[:, HIGH] = np.where(doubted, ANY_TIME, high)
    windows[:, OLD_LOW] = np.maximum(low, batch_times.watermarks - window)
    windows[:, OLD_HIGH] = high
    times = np.where(doubted, ANY_TIME, batch_times.times)
    return Scope(windows, arrivals.steps(batch_times.elapsed), times, batch_times.times - window)


def sightings(times: NDArray[np.int64], watermarks: NDArray[np.int64], window: int) -> NDArray[np.int64]:
    """When the passages of items count as seen, ms. Those of late items do on arrival: by their own times, they would
    be the first to be replaced.
    """
    return np.where(times < watermarks - window, watermarks, times)
