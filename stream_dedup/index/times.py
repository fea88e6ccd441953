"""When each held row was seen, and with it which rows are alive.

In: times of new rows, forgotten rows, expiry horizons. Out: one contiguous int64 array that the lookup
kernels read. Time is the only thing that decides life: a row is alive for a horizon if its time is not
below it, and a forgotten row has the lowest time there is. So expiry and withdrawal cost nothing at lookup,
and an expired row never matches, whether a merge has dropped it yet or not.

A row can be forgotten provisionally: its time is then shifted into a band of its own above that lowest time and below
all others. Lookups find it dead, merges keep it, and it can come back with the time it had. It is one word that
changes, so a merge in another thread sees the row before or after, and keeps it either way.
"""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

FORGOTTEN = int(np.iinfo(np.int64).min)
# Provisionally forgotten rows stand at FORGOTTEN + 1 + time, times from 0 to 2^61 ms: 73 million years.
_LATEST = 2**61
EARLIEST = FORGOTTEN + 1 + _LATEST
"""The lowest time that a row may have."""
# A store this small is not worth shrinking.
_SMALLEST = 1024


@dataclass(frozen=True, slots=True)
class Alive:
    """The rows' times as of one moment: a view, not a copy. A row that is forgotten provisionally counts as alive.

    >>> Alive(np.array([10, 30, 20]), first=1, horizon=20)(0, 4).tolist()
    [False, False, True, True]
    """

    times: NDArray[np.int64]
    first: int
    horizon: int

    def __call__(self, base: int, end: int) -> NDArray[np.bool_]:
        """Which of the rows base … end - 1 are alive: bool (end - base,), a copy. O(rows), 1 ms a million."""
        alive = np.zeros(end - base, np.bool_)
        low = max(base, self.first)
        if low < end:
            _mark_alive(self.times[low - self.first : end - self.first], self.horizon, alive[low - base :])
        return alive


class RowTimes:
    """Times in milliseconds of the rows `first <= row < next_row`, contiguous, trimmed at the front.

    >>> times = RowTimes()
    >>> times.append(np.array([10, 30, 20]))
    0
    >>> times.kill(1)
    >>> times.advance(20), times.first, times.next_row
    (2, 2, 3)
    """

    def __init__(self) -> None:
        self.first = 0
        self.next_row = 0
        self.oldest: int | None = None  # the time of row `first`, unless forgotten since; one word, any thread may ask
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
            self.oldest = int(times[0])
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
        if not 0 <= self._buffer[place] < _LATEST:
            raise ValueError(f"row {row} of time {self._buffer[place]} cannot be forgotten provisionally")
        self._buffer[place] += FORGOTTEN + 1

    def revive(self, row: int) -> None:
        """Give a suspended row its time back; any other row stays as it is. O(1)."""
        place = self._start + row - self.first
        if row >= self.first and FORGOTTEN < self._buffer[place] < EARLIEST:
            self._buffer[place] -= FORGOTTEN + 1

    def newest(self, row: int) -> int:
        """The highest time of the rows from `row` on, those of suspended rows included. O(rows)."""
        times = self.held()[max(row - self.first, 0) :]
        suspended = times[(times > FORGOTTEN) & (times < EARLIEST)]
        return max(int(times.max(initial=FORGOTTEN)), _time(int(suspended.max(initial=FORGOTTEN))))

    def alive(self, horizon: int) -> "Alive":
        """Which rows have a time not below the horizon, to be asked later and in any thread.

        A row that is forgotten meanwhile may still count as alive; one that is dead now never does.
        """
        return Alive(self.held(), self.first, horizon)

    def advance(self, horizon: int) -> int:
        """Trim the dead rows at the front; returns the new first row. O(rows trimmed), memory follows."""
        dead = int(_first_alive(self.held(), horizon))
        self._start += dead
        self.first += dead
        used = self.next_row - self.first
        self.oldest = _time(int(self.held()[0])) if used else None
        if len(self._buffer) > max(4 * used, _SMALLEST):
            self._move(max(2 * used, _SMALLEST))
        return self.first

    def _move(self, capacity: int) -> None:
        held = self.held()
        self._buffer = np.empty(capacity, np.int64)
        self._buffer[: len(held)] = held
        self._start = 0


def _time(word: int) -> int:
    """The time that a row has, or would have if it were not forgotten provisionally."""
    return word - FORGOTTEN - 1 if FORGOTTEN < word < EARLIEST else word


@numba.njit(inline="always")
def _is_kept(word: int, horizon: int) -> bool:
    """Whether a row may still be returned, now or once it is revived."""
    return word >= horizon or (FORGOTTEN < word < EARLIEST and word - FORGOTTEN - 1 >= horizon)


@numba.njit(nogil=True, cache=True)
def _mark_alive(times: NDArray[np.int64], horizon: int, alive: NDArray[np.bool_]) -> None:
    for place in range(len(times)):
        alive[place] = _is_kept(times[place], horizon)


@numba.njit(nogil=True, cache=True)
def _first_alive(times: NDArray[np.int64], horizon: int) -> int:
    for place in range(len(times)):
        if _is_kept(times[place], horizon):
            return place
    return len(times)
