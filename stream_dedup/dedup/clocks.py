"""Which times count: the items' stated times -> times to judge by, and the watermark; no date is trusted alone.

In: each item's event time and input partition, in order. Out: `Reading`: the time that counts for each item, what is
odd about the stated one, and the watermark at it. Nothing here reads a clock on the wall, and nothing depends on how
items are batched: the state is one `CLOCK` a partition and the watermark, and the changelog carries both.

- **Level** of a partition: the median of its last nine stated times. So up to four wrong dates among nine do not move
  it; where a new era begins, in either direction, it is there after five items.
- A partition is **steady** while seven of the nine lie within a window of the level. A time further than a window from
  the level of a steady partition stands *alone*: it is doubted, and the level counts instead. Where dates differ
  widely anyway (archives of several years mixed) none of them is doubted.
- **Watermark**: the highest level that half of the recent items have reached, by the steady partitions that they came
  from. It never goes back. Stream processors merge by the minimum (Flink, Beam), which one partition that lags for ever
  holds back until memory is full, or by the maximum (Kafka Streams), which one that is ahead drags to its own time. The
  weighted median does neither, and needs no time-out for idle partitions: who sends nothing has no weight.

The watermark only says when an original may be dropped. What an item is compared with follows from its own time.
**Progress** is how far the watermark has come, where a leap counts as a quarter of a window. By it the originals of the
last window are held when the watermark leaps to another year; some of the new year are among them, doubted as long as
they were few.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

START = -(2**62)
"""The watermark before any; also an empty place among a clock's times."""
FAR_FUTURE = 2**62
# Odd, so that the median is one of them. More would take longer to believe a new era, and 8 bytes each in every block
# of the changelog; fewer would give in to a burst of three.
_TIMES = 9
_AGREE = 7
# Counts of items are halved every so many items of the task: "recent" is some tens of thousands, more than one fetch
# takes from a single partition.
_HALVED = 15
_LEAP = 4

CLOCK = np.dtype([("partition", "<i4"), ("weight", "<i4"), ("count", "<i8"), ("times", "<i8", (_TIMES,))])
"""State of a partition: how many of the task's recent items came from it, as of item `count` of the task, and its last
stated times, oldest first."""


class Odd(IntEnum):
    """What is odd about an item's time. MISSING: it states none; FUTURE: it is ahead of the clock on the wall; ALONE:
    see the module's first lines; LATE: behind the watermark by more than a window, but not doubted.
    """

    NOTHING = 0
    MISSING = 1
    FUTURE = 2
    ALONE = 3
    LATE = 4


_MISSING, _FUTURE, _ALONE, _LATE = int(Odd.MISSING), int(Odd.FUTURE), int(Odd.ALONE), int(Odd.LATE)


class BatchTimes(NamedTuple):
    """Times of m items, (m,) each, ms. times: those that count; stated: those that the items state, where they state
    any that may be true, else as `times`; odd: int8, `Odd`; watermarks, elapsed: after each item. clocks: the new
    state of the partitions that had items.
    """

    times: NDArray[np.int64]
    stated: NDArray[np.int64]
    odd: NDArray[np.int8]
    watermarks: NDArray[np.int64]
    elapsed: NDArray[np.int64]
    clocks: NDArray[np.void]

    @property
    def is_doubted(self) -> NDArray[np.bool_]:
        """Whose time says nothing: (m,)."""
        doubted: NDArray[np.bool_] = (self.odd != Odd.NOTHING) & (self.odd != Odd.LATE)
        return doubted


class Clocks:
    """The clocks of a task's partitions. `window` in ms.

    >>> clocks = Clocks(window=100)
    >>> times = np.array([*range(1000, 1009), 9000, -1, 1010])
    >>> reading = clocks.read(times, np.zeros(12, np.int32))
    >>> reading.times[-3:].tolist(), [Odd(one).name for one in reading.odd[-3:]]
    ([1004, 1005, 1010], ['ALONE', 'MISSING', 'NOTHING'])
    >>> reading.watermarks[[7, 8, 11]].tolist()
    [-4611686018427387904, 1004, 1006]
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._held = np.zeros(0, CLOCK)
        self._places: dict[int, int] = {}
        self.watermark = START
        self.elapsed = 0

    def read(self, times: NDArray[np.int64], partitions: NDArray[np.integer], latest: int = FAR_FUTURE) -> BatchTimes:
        """Reads the times of the next items, (m,) each, and changes nothing. A negative time states none."""
        named, which = np.unique(partitions, return_inverse=True)
        known = dict(self._places)
        for one in named.tolist():
            known.setdefault(one, len(known))
        clocks = np.zeros(len(known), CLOCK)
        clocks["times"] = START
        clocks["partition"] = list(known)
        clocks[: len(self._held)] = self._held
        touched = np.array([known[one] for one in named.tolist()], np.int64)
        places = touched[which]
        counted, odd = times.copy(), np.zeros(len(times), np.int8)
        watermarks, elapsed = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
        rings, weights, counts = (np.ascontiguousarray(clocks[name]) for name in ("times", "weight", "count"))
        state = self.watermark, self.elapsed
        _read(times, places, latest, self._window, rings, weights, counts, *state, counted, odd, watermarks, elapsed)
        clocks["times"], clocks["weight"], clocks["count"] = rings, weights, counts
        stated = np.where(odd == _ALONE, times, counted)
        return BatchTimes(counted, stated, odd, watermarks, elapsed, clocks[touched])

    @property
    def held(self) -> NDArray[np.void]:
        """The state of every partition, for `set`: a copy."""
        return self._held.copy()

    def copy(self) -> "Clocks":
        """A copy that stays as it is; O(partitions)."""
        other = Clocks(self._window)
        other._held, other._places = self._held.copy(), dict(self._places)
        other.watermark, other.elapsed = self.watermark, self.elapsed
        return other

    def set(self, clocks: NDArray[np.void], watermark: int, elapsed: int) -> None:
        """Takes over what was read, here or by another process."""
        new = [one for one in clocks["partition"].tolist() if one not in self._places]
        if new:
            self._places |= {one: place for place, one in enumerate(new, len(self._places))}
            self._held = np.concatenate([self._held, np.zeros(len(new), CLOCK)])
        self._held[_places(self._places, clocks)] = clocks
        self.watermark = max(self.watermark, watermark)
        self.elapsed = max(self.elapsed, elapsed)


def times_that_count(times: NDArray[np.int64], before: int) -> int:
    """Gives items that state no time (negative) the highest time before them; that time was `before`, and is returned.

    For a corpus that is looked at as a whole, without a window.

    >>> times = np.array([5, -1, 3, -1])
    >>> times_that_count(times, START), times.tolist()
    (5, [5, 5, 3, 5])
    """
    highest = np.maximum.accumulate(np.append(before, np.where(times < 0, START, times)))[1:]
    times[times < 0] = np.maximum(highest[times < 0], 0)
    return int(highest[-1]) if len(times) else before


def _places(known: dict[int, int], clocks: NDArray[np.void]) -> Sequence[int]:
    return [known[one] for one in clocks["partition"].tolist()]


@njit(nogil=True, cache=True)
def _read(times, places, latest, window, rings, weights, counts, watermark, reached, counted, odd, watermarks, elapsed):
    partitions = weights.size
    levels, steady = np.empty(partitions, np.int64), np.empty(partitions, np.bool_)
    scratch = np.empty(rings.shape[1], np.int64)
    count = np.int64(0)
    for p in range(partitions):
        levels[p], steady[p] = _level(rings[p], scratch, window)
        count = max(count, counts[p])
    for j in range(times.size):
        p, time = places[j], times[j]
        if time < 0:
            odd[j] = _MISSING
        elif time > latest:
            odd[j] = _FUTURE
        elif steady[p] and abs(time - levels[p]) > window:
            odd[j] = _ALONE
        if odd[j]:
            counted[j] = levels[p] if levels[p] > START else max(watermark, 0)
        if 0 <= time <= latest:
            for k in range(rings.shape[1] - 1):
                rings[p, k] = rings[p, k + 1]
            rings[p, -1] = time
            levels[p], steady[p] = _level(rings[p], scratch, window)
        weights[p] = _faded(weights[p], counts[p], count) + 1
        count += 1
        counts[p] = count
        if steady[p] and levels[p] > watermark:
            there, of = 0, 0
            for q in range(partitions):
                if steady[q]:
                    weight = _faded(weights[q], counts[q], count)
                    of += weight
                    if levels[q] >= levels[p]:
                        there += weight
            if 2 * there >= of:
                if watermark > START:
                    reached += min(levels[p] - watermark, window // _LEAP)
                watermark = levels[p]
        if odd[j] == 0 and watermark > START and time < watermark - window:
            odd[j] = _LATE
        watermarks[j], elapsed[j] = watermark, reached


@njit(nogil=True, cache=True)
def _level(ring, scratch, window):
    """The median of the times there are, and whether they are all there and nearly all of them near it."""
    n = 0
    for time in ring:
        if time > START:
            at = n
            while at > 0 and scratch[at - 1] > time:
                scratch[at] = scratch[at - 1]
                at -= 1
            scratch[at] = time
            n += 1
    if n == 0:
        return np.int64(START), False
    level, near = scratch[n // 2], 0
    for k in range(n):
        near += abs(scratch[k] - level) <= window
    return level, n == ring.size and near >= _AGREE


@njit(nogil=True, cache=True, inline="always")
def _faded(weight, then, now):
    """A count of items as of item `then` of the task, at item `now`."""
    halvings = (now >> _HALVED) - (then >> _HALVED)
    return np.int64(weight) >> min(halvings, 31)
