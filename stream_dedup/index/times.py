"""Store the time of each row, which decides whether the row is alive.

In: times of new rows, forgotten rows, expiry. Out: one contiguous int64 array that the lookup kernels read, and `Alive`
for merges. A lookup states which times count, separately for recent arrivals and older rows (`Windows`). A row with
an unknown time (`ANY_TIME`) counts while it is recent; a forgotten row has the lowest possible time. So expiry and
deletion cost nothing at lookup, and an expired row never matches, whether a merge has dropped it or not.

A suspended row is forgotten until it is revived: its time is shifted into a band between that lowest time and all valid
ones. Lookups skip the row, merges keep it, and `revive` restores its time. Only one word changes, so a merge in another
thread sees the row as it was before or after, and keeps it either way.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

FORGOTTEN = int(np.iinfo(np.int64).min)
# Suspended rows have FORGOTTEN + 1 + time, for times from 0 to 2^61 ms (73 million years); the word after these is for
# suspended rows with ANY_TIME.
_MAX_TIME = 2**61
_SUSPENDED_ANY_TIME = FORGOTTEN + 1 + _MAX_TIME
EARLIEST = _SUSPENDED_ANY_TIME + 1
"""The lowest time that a row may have."""
ANY_TIME = int(np.iinfo(np.int64).max)
"""The time of a row whose time is doubted."""
NO_ROW = 2**62
"""Larger than every row number: as a bound, no row is recent."""
# Smallest capacity; a smaller buffer is not worth shrinking.
_SMALLEST = 1024


class Windows(NamedTuple):
    """Which rows count for each of m items, (m,) int64 each; all bounds are inclusive.

    From row `recent` on, rows with a time from `low` to `high` or with ANY_TIME; before it, rows with a time from
    `old_low` to `old_high`.
    """

    recent: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    old_low: NDArray[np.int64]
    old_high: NDArray[np.int64]

    @staticmethod
    def since(horizons: NDArray[np.int64]) -> "Windows":
        """All rows with a time not below each horizon."""
        ends = np.full(len(horizons), ANY_TIME)
        return Windows(np.zeros(len(horizons), np.int64), horizons, ends, horizons, ends)


@dataclass(frozen=True, slots=True)
class Alive:
    """Which rows are alive, as of one moment: from row `recent` on all, before it those with a time from `horizon` on.

    A view of the times, not a copy. A suspended row counts as alive.

    >>> Alive(np.array([10, 30, 20, ANY_TIME]), first=1, horizon=20, recent=NO_ROW)(0, 5).tolist()
    [False, False, True, True, False]
    >>> Alive(np.array([10, 30, 20, ANY_TIME]), first=1, horizon=25, recent=3)(0, 5).tolist()
    [False, False, True, True, True]
    """

    times: NDArray[np.int64]
    first: int
    horizon: int
    recent: int

    def __call__(self, base: int, end: int) -> NDArray[np.bool_]:
        """Which of the rows base to end - 1 are alive: bool (end - base,), a copy. O(rows), 1 ms per million."""
        alive = np.zeros(end - base, np.bool_)
        low = max(base, self.first)
        if low < end:
            times = self.times[low - self.first : end - self.first]
            _mark_alive(times, self.horizon, self.recent - low, alive[low - base :])
        return alive


class RowTimes:
    """Times, ms, of the rows `first <= row < next_row`, in a buffer that is trimmed at the front.

    >>> times = RowTimes()
    >>> times.append(np.array([10, 30, 20]))
    0
    >>> times.forget(1)
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
        """A view of the times of the rows first to next_row - 1; valid until the next append or advance."""
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
        """Forget a row permanently; trimmed rows are dead already. O(1)."""
        if row >= self.first:
            self._buffer[self._start + row - self.first] = FORGOTTEN

    def suspend(self, row: int) -> None:
        """Forget a row until `revive`. Dead and trimmed rows do not change. O(1).

        Raises ValueError for a time that a suspended row cannot have.
        """
        position = self._start + row - self.first
        if row < self.first or self._buffer[position] < EARLIEST:
            return
        time = int(self._buffer[position])
        if time != ANY_TIME and not 0 <= time < _MAX_TIME:
            raise ValueError(f"row {row} with time {time} cannot be suspended")
        self._buffer[position] = _SUSPENDED_ANY_TIME if time == ANY_TIME else FORGOTTEN + 1 + time

    def revive(self, row: int) -> None:
        """Restore the time of a suspended row; other rows do not change. O(1)."""
        if row >= self.first:
            position = self._start + row - self.first
            self._buffer[position] = _actual_time(int(self._buffer[position]))

    def newest(self, row: int) -> int:
        """The highest time of the rows from `row` on, including suspended rows. O(rows)."""
        times = self.values()[max(row - self.first, 0) :]
        suspended = times[(times > FORGOTTEN) & (times < EARLIEST)]
        return max(int(times.max(initial=FORGOTTEN)), _actual_time(int(suspended.max(initial=FORGOTTEN))))

    def alive(self, horizon: int, recent: int) -> "Alive":
        """An `Alive` for use in any thread, also later: rows that are forgotten meanwhile may still count as alive."""
        return Alive(self.values(), self.first, horizon, recent)

    def advance(self, horizon: int, recent: int) -> int:
        """Trim the dead rows at the front and their memory; return the new first row. O(rows trimmed)."""
        return self.drop(self.first + int(_first_alive(self.values(), horizon, recent - self.first)))

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
        elif FORGOTTEN < (oldest := _actual_time(int(self.values()[0]))) < ANY_TIME:
            self.oldest = oldest

    def _move(self, capacity: int) -> None:
        held = self.values()
        self._buffer = np.empty(capacity, np.int64)
        self._buffer[: len(held)] = held
        self._start = 0


def _actual_time(word: int) -> int:
    """The time of a row; of a suspended row the one that `revive` restores."""
    if not FORGOTTEN < word < EARLIEST:
        return word
    return ANY_TIME if word == _SUSPENDED_ANY_TIME else word - FORGOTTEN - 1


@numba.njit(inline="always")
def _may_return(word: int, horizon: int, is_recent: bool) -> bool:
    """Whether a row may still be returned, now or after `revive`."""
    if word == FORGOTTEN or is_recent:
        return word != FORGOTTEN
    if word < EARLIEST:
        return word != _SUSPENDED_ANY_TIME and word - FORGOTTEN - 1 >= horizon
    return word >= horizon and word != ANY_TIME


@numba.njit(nogil=True, cache=True)
def _mark_alive(times: NDArray[np.int64], horizon: int, recent: int, alive: NDArray[np.bool_]) -> None:
    for position in range(len(times)):
        alive[position] = _may_return(times[position], horizon, position >= recent)


@numba.njit(nogil=True, cache=True)
def _first_alive(times: NDArray[np.int64], horizon: int, recent: int) -> int:
    for position in range(len(times)):
        if _may_return(times[position], horizon, position >= recent):
            return position
    return len(times)
