"""Compute each item's effective time and the watermark, which is the stream's time.

No date is trusted alone. Nothing here reads the wall clock or depends on how items are batched. The state is one
`CLOCK` per partition and the watermark; the changelog stores both. window.py derives from these times which originals
an item may be compared with.

- **Level** of a partition: the median of its last nine stated times. Up to four wrong dates do not move it. If the
  dates of the feed jump, in either direction, it follows after five items.
- A partition is **steady** while seven of the nine times lie within a window of the level. A time further than a window
  from the level of a steady partition is *alone*: it is doubted, and the level counts instead. Where dates vary widely
  anyway (mixed archives of several years), no date is doubted.
- **Watermark**: the weighted median of the levels of steady partitions; a partition weighs as much as it has recent
  items. It never goes back. Flink and Beam take the minimum over partitions, so one lagging partition holds everything
  in memory; Kafka Streams takes the maximum, so one partition ahead drags the rest along. The weighted median does
  neither, and needs no time-out for idle partitions, since they have no weight.
- **Elapsed** event time: how far the watermark has advanced, where a leap counts as at most a quarter of a window.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, arena, call, fields, record

START = -(2**62)
"""The watermark before the first item; in a `CLOCK`, a time that does not exist yet."""
FAR_FUTURE = 2**62
# An odd number, so that the median is one of the times. More would follow a jump later, at 8 bytes each in every
# changelog block; fewer would follow a burst of three wrong dates.
_RING_SIZE = 9

CLOCK = record(
    "partition_clock", [("partition", "<i4"), ("weight", "<i4"), ("count", "<i8"), ("times", "<i8", (_RING_SIZE,))]
)
"""The state of a partition.

partition: its number.
weight: how many of the task's recent items came from it, as of item `count` of the task.
times: its last stated times, the oldest first."""


class Odd(IntEnum):
    """What is unusual about an item's stated time. All but LATE are doubted: the level of the partition replaces them.

    `count_odd_times` of worker/judge.py counts and logs them, and adds a kind of its own.
    """

    NOTHING = 0
    MISSING = 1  # there is none
    FUTURE = 2  # it is later than `latest`, which the caller derives from the wall clock
    ALONE = 3  # it is more than a window from the level of its steady partition
    LATE = 4  # it is trusted, but more than a window behind the watermark


class _Reading(Struct, name="clock_reading"):
    _fields_ = (
        *fields(POINTER, "clocks times slots effective watermarks elapsed odd"),
        *fields(INT64, "partitions items latest window watermark total"),
    )


class BatchTimes(NamedTuple):
    """Times of m items, (m,) each, ms.

    times: effective times.
    stated: the times that the items state; `times` where there is none, or one in the future.
    odd: `Odd`.
    watermarks, elapsed: the watermark and the elapsed event time after each item.
    clocks: CLOCK, the new states of the partitions that had items.
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
    >>> read = clocks.read(times, np.zeros(12, np.int32))
    >>> read.times[-3:].tolist(), [Odd(kind).name for kind in read.odd[-3:]]
    ([1004, 1005, 1010], ['ALONE', 'MISSING', 'NOTHING'])
    >>> read.watermarks[[7, 8, 11]].tolist()
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
        numbers = np.union1d(known, partitions)
        clocks = np.zeros(len(numbers), CLOCK)
        clocks["times"], clocks["partition"] = START, numbers
        clocks[np.searchsorted(numbers, known)] = self.states
        times, slots = np.ascontiguousarray(times), np.searchsorted(numbers, partitions)
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
    """Return the last of the states of each partition, by partition."""
    newest_first = np.concatenate(parts)[::-1]
    return newest_first[np.unique(newest_first["partition"], return_index=True)[1]]
