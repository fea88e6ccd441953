"""When each held row was seen, and with it which rows are alive.

In: times of new rows, forgotten rows, expiry horizons. Out: one contiguous int64 array that the lookup
kernels read. Time is the only thing that decides life: a row is alive for a horizon if its time is not
below it, and a forgotten row has the lowest time there is. So expiry and withdrawal cost nothing at lookup,
and an expired row never matches, whether a merge has dropped it yet or not.
"""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

FORGOTTEN = int(np.iinfo(np.int64).min)
# A store this small is not worth shrinking.
_SMALLEST = 1024


@dataclass(frozen=True, slots=True)
class Alive:
    """The rows' times as of one moment: a view, not a copy.

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
            times = self.times[low - self.first : end - self.first]
            np.greater_equal(times, self.horizon, out=alive[low - base :])
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
        self.oldest = int(self.held()[0]) if used else None
        if len(self._buffer) > max(4 * used, _SMALLEST):
            self._move(max(2 * used, _SMALLEST))
        return self.first

    def _move(self, capacity: int) -> None:
        held = self.held()
        self._buffer = np.empty(capacity, np.int64)
        self._buffer[: len(held)] = held
        self._start = 0


@numba.njit(nogil=True, cache=True)
def _first_alive(times: NDArray[np.int64], horizon: int) -> int:
    for place in range(len(times)):
        if times[place] >= horizon:
            return place
    return len(times)
