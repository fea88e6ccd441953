"""Store the time of each remembered item (row), and say which times count for a new item: `Windows`.

Lookups read the times as one contiguous int64 array. A row with an unknown time (`ANY_TIME`) counts while it is recent;
a forgotten row has the lowest possible time. So expiry and deletion cost nothing at lookup, and an expired row never
matches, whether a merge has dropped it or not.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FORGOTTEN = int(np.iinfo(np.int64).min)
EARLIEST = FORGOTTEN + 2**61
"""The lowest time that a row may have: the difference of two times fits into 64 bits."""
ANY_TIME = int(np.iinfo(np.int64).max)
"""The time of a row whose time is doubted."""
NO_ROW = 2**62
"""Larger than every row number: as a bound, no row is recent."""
# Smallest capacity; a smaller buffer is not worth shrinking.
_SMALLEST = 1024

Windows: TypeAlias = NDArray[np.int64]
"""Which rows count for each of m items, (m, 5), with the columns RECENT, LOW, HIGH, OLD_LOW and OLD_HIGH: from row
RECENT on, rows with a time from LOW to HIGH or with ANY_TIME; before it, from OLD_LOW to OLD_HIGH. All inclusive."""
RECENT, LOW, HIGH, OLD_LOW, OLD_HIGH = range(5)
AliveMask: TypeAlias = Callable[[int, int], NDArray[np.bool_]]
"""(base, end) -> (end - base,): which of these rows are alive."""


class RowTimes:
    """The times, ms, of the rows `first <= row < next_row`, in a buffer that is trimmed at the front.

    >>> times = RowTimes()
    >>> times.append(np.array([10, 30, 20]))
    0
    >>> times.forget(1)
    >>> times.alive(15, NO_ROW)(0, 3).tolist()
    [False, False, True]
    >>> times.advance(20, NO_ROW), times.first, times.next_row
    (2, 2, 3)
    """

    def __init__(self) -> None:
        self.first = 0
        self.next_row = 0
        # The time of row `first`, or if unknown the last known one before it. Any thread may read it.
        self.oldest: int | None = None
        self._start = 0  # the position of `first` in the buffer
        self._buffer = np.empty(_SMALLEST, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer."""
        return self._buffer.nbytes

    def values(self) -> NDArray[np.int64]:
        """Return a view of the times of the rows first to next_row - 1; valid until the next append or advance."""
        return self._buffer[self._start : self._start + self.next_row - self.first]

    def append(self, times: NDArray[np.int64]) -> int:
        """Append the times (n,) of the next rows; return the number of the first one. O(n) amortised."""
        row = self.next_row
        used = row - self.first
        if self._start + used + len(times) > len(self._buffer):
            self._move(max(2 * (used + len(times)), _SMALLEST))
        end = self._start + used
        self._buffer[end : end + len(times)] = times
        self.next_row += len(times)
        if not used and len(times):
            self._note_oldest()
        return row

    def forget(self, row: int) -> None:
        """Forget a row; trimmed rows are dead already. O(1)."""
        if row >= self.first:
            self._buffer[self._start + row - self.first] = FORGOTTEN

    def newest(self, row: int) -> int:
        """Return the highest time of the rows from `row` on. O(rows)."""
        return int(self.values()[max(row - self.first, 0) :].max(initial=FORGOTTEN))

    def alive(self, horizon: int, recent: int) -> AliveMask:
        """Tell live rows: from row `recent` on all that are not forgotten, before it those with a time from `horizon`
        on. For use in any thread, also later: rows that are forgotten meanwhile may still count as alive.
        """
        return partial(_are_alive, self.values(), self.first, horizon, recent)

    def advance(self, horizon: int, recent: int) -> int:
        """Trim the dead rows at the front and their memory; return the new first row. O(rows)."""
        alive = _are_alive(self.values(), self.first, horizon, recent, self.first, self.next_row)
        return self.drop(self.first + int(alive.argmax()) if alive.any() else self.next_row)

    def drop(self, first: int) -> int:
        """Trim the rows below `first`, dead or alive, and their memory; return the new first row. O(1) amortised."""
        dropped = max(first - self.first, 0)
        self._start += dropped
        self.first += dropped
        used = self.next_row - self.first
        self._note_oldest()
        if len(self._buffer) > max(4 * used, _SMALLEST):
            self._move(max(2 * used, _SMALLEST))
        return self.first

    def _note_oldest(self) -> None:
        if self.first == self.next_row:
            self.oldest = None
        elif FORGOTTEN < (oldest := int(self.values()[0])) < ANY_TIME:
            self.oldest = oldest

    def _move(self, capacity: int) -> None:
        held = self.values()
        self._buffer = np.empty(capacity, np.int64)
        self._buffer[: len(held)] = held
        self._start = 0


def _are_alive(
    values: NDArray[np.int64], first: int, horizon: int, recent: int, base: int, end: int
) -> NDArray[np.bool_]:
    """Return which of the rows base to end - 1 are alive, (end - base,); `values` are the times from row `first` on.

    O(rows), 1 ms per million.
    """
    alive = np.zeros(end - base, np.bool_)
    low = max(base, first)
    if low < end:
        times, old = values[low - first : end - first], max(min(recent, end) - low, 0)
        alive[low - base :] = times != FORGOTTEN
        alive[low - base : low - base + old] = (times[:old] >= horizon) & (times[:old] != ANY_TIME)
    return alive
