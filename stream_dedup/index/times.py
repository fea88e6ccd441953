"""When each held row was seen, and with it which rows are alive.

In: times of new rows, forgotten rows, what is expired. Out: one contiguous int64 array that the lookup kernels read.
Time and order of arrival decide life. A lookup says which times count, of rows that are recent and of older ones; a
row whose time nobody knows (`ANY_TIME`) counts as long as it is recent, and a forgotten row has the lowest time there
is. So expiry and withdrawal cost nothing at lookup, and an expired row never matches, whether a merge has dropped it
yet or not.

A row can be forgotten provisionally: its time is then shifted into a band of its own above that lowest time and below
all others. Lookups find it dead, merges keep it, and it can come back with the time it had. It is one word that
changes, so a merge in another thread sees the row before or after, and keeps it either way.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

FORGOTTEN = int(np.iinfo(np.int64).min)
ANY_TIME = int(np.iinfo(np.int64).max)
"""Of a row whose time says nothing."""
NO_ROW = 2**62
"""Behind every row: with it as a bound no row is recent."""
# Provisionally forgotten rows stand at FORGOTTEN + 1 + time, times from 0 to 2^61 ms: 73 million years. The last of
# these words stands for ANY_TIME.
_LATEST = 2**61
EARLIEST = FORGOTTEN + 1 + _LATEST
"""The lowest time that a row may have."""
# A store this small is not worth shrinking.
_SMALLEST = 1024


class Windows(NamedTuple):
    """Which rows count for each of m items, (m,) int64 each: from row `recent` on those with a time from `low` to
    `high`, both included, and those with ANY_TIME; of the rows before it those with a time from `old_low` to
    `old_high`.
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
    """The rows' times as of one moment: a view, not a copy. Rows before `recent` live by their time. A row that is
    forgotten provisionally counts as alive.

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
        """Which of the rows base … end - 1 are alive: bool (end - base,), a copy. O(rows), 1 ms a million."""
        alive = np.zeros(end - base, np.bool_)
        low = max(base, self.first)
        if low < end:
            recent = self.recent - low
            _mark_alive(self.times[low - self.first : end - self.first], self.horizon, recent, alive[low - base :])
        return alive


class RowTimes:
    """Times in milliseconds of the rows `first <= row < next_row`, contiguous, trimmed at the front.

    >>> times = RowTimes()
    >>> times.append(np.array([10, 30, 20]))
    0
    >>> times.kill(1)
    >>> times.advance(20, NO_ROW), times.first, times.next_row
    (2, 2, 3)
    """

    def __init__(self) -> None:
        self.first = 0
        self.next_row = 0
        # The time of row `first`, or of one before it that was known; one word, any thread may ask.
        self.oldest: int | None = None
        self._start = 0  # where `first` stands in the buffer
        self._buffer = np.empty(_SMALLEST, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer."""
        return self._buffer.nbytes

    def held(self) -> NDArray[np.int64]:
        """A view of the times of the rows first … next_row - 1; valid until the next append or advance."""
        return self._buffer[self._start : self._start + self.next_row - self.first]

    def append(self, times: NDArray[np.int64]) -> int:
        """Take in the next rows' times (n,); returns the first new row's number. O(n) amortised."""
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

    def kill(self, row: int) -> None:
        """Make a row dead for ever; one that has been trimmed is dead already. O(1)."""
        if row >= self.first:
            self._buffer[self._start + row - self.first] = FORGOTTEN

    def suspend(self, row: int) -> None:
        """Make a row dead until `revive`, or for ever by `kill`. Dead and trimmed rows stay as they are. O(1).

        Raises ValueError for a time that cannot be kept meanwhile.
        """
        place = self._start + row - self.first
        if row < self.first or self._buffer[place] < EARLIEST:
            return
        time = int(self._buffer[place])
        if time == ANY_TIME:
            time = _LATEST - 1
        elif not 0 <= time < _LATEST - 1:
            raise ValueError(f"row {row} of time {time} cannot be forgotten provisionally")
        self._buffer[place] = FORGOTTEN + 1 + time

    def revive(self, row: int) -> None:
        """Give a suspended row its time back; any other row stays as it is. O(1)."""
        if row >= self.first:
            place = self._start + row - self.first
            self._buffer[place] = _time(int(self._buffer[place]))

    def newest(self, row: int) -> int:
        """The highest time of the rows from `row` on, those of suspended rows included. O(rows)."""
        times = self.held()[max(row - self.first, 0) :]
        suspended = times[(times > FORGOTTEN) & (times < EARLIEST)]
        return max(int(times.max(initial=FORGOTTEN)), _time(int(suspended.max(initial=FORGOTTEN))))

    def alive(self, horizon: int, recent: int) -> "Alive":
        """Which rows live, to be asked later and in any thread: those from `recent` on, and of those before it the ones
        with a time not below the horizon.

        A row that is forgotten meanwhile may still count as alive; one that is dead now never does.
        """
        return Alive(self.held(), self.first, horizon, recent)

    def advance(self, horizon: int, recent: int) -> int:
        """Trim the dead rows at the front; returns the new first row. O(rows trimmed), memory follows."""
        return self.drop(self.first + int(_first_alive(self.held(), horizon, recent - self.first)))

    def drop(self, first: int) -> int:
        """Trim the rows below `first`, dead or not; returns the new first row. O(1) amortised, memory follows."""
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
        elif FORGOTTEN < (oldest := _time(int(self.held()[0]))) < ANY_TIME:
            self.oldest = oldest

    def _move(self, capacity: int) -> None:
        held = self.held()
        self._buffer = np.empty(capacity, np.int64)
        self._buffer[: len(held)] = held
        self._start = 0


def _time(word: int) -> int:
    """The time that a row has, or would have if it were not forgotten provisionally."""
    if not FORGOTTEN < word < EARLIEST:
        return word
    time = word - FORGOTTEN - 1
    return ANY_TIME if time == _LATEST - 1 else time


@numba.njit(inline="always")
def _is_kept(word: int, horizon: int, is_recent: bool) -> bool:
    """Whether a row may still be returned, now or once it is revived."""
    if word == FORGOTTEN:
        return False
    if is_recent:
        return True
    if word >= EARLIEST:
        return word >= horizon and word != ANY_TIME
    time = word - FORGOTTEN - 1
    return time >= horizon and time != _LATEST - 1


@numba.njit(nogil=True, cache=True)
def _mark_alive(times: NDArray[np.int64], horizon: int, recent: int, alive: NDArray[np.bool_]) -> None:
    for place in range(len(times)):
        alive[place] = _is_kept(times[place], horizon, place >= recent)


@numba.njit(nogil=True, cache=True)
def _first_alive(times: NDArray[np.int64], horizon: int, recent: int) -> int:
    for place in range(len(times)):
        if _is_kept(times[place], horizon, place >= recent):
            return place
    return len(times)
