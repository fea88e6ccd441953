"""The row store: what is remembered of each row, by row number -> records for comparison, ids for evidence.

Fixed-size records stand in segments that are never copied as the store grows; the ids stand in one arena of
bytes a segment. Segments whose rows are all expired are dropped whole. Row numbers are the index's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# 65,536 records of 300 bytes are 20 MB: large enough that a store of 10 M rows has few segments, small enough
# that the memory over the window's need stays below one segment.
SEGMENT_ROWS = 65_536
_FIRST_ROWS = 1024


class RowStore:
    """Records and ids of the rows first..next-1.

    >>> store = RowStore(np.dtype([("n", "<u4")]))
    >>> store.append(np.array([(7,), (8,)], store.dtype), ["a", "b"])
    0
    >>> store.take(np.array([1, 0]))["n"].tolist(), store.id(1), len(store)
    ([8, 7], 'b', 2)
    """

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self.dtype = dtype
        self._segments: dict[int, _Segment] = {}
        self._first = 0
        self._next = 0

    def __len__(self) -> int:
        """Rows that were appended and not trimmed."""
        return self._next - self._first

    @property
    def bytes(self) -> int:
        """Memory of records and ids."""
        return sum(segment.nbytes for segment in self._segments.values())

    def append(self, records: NDArray[np.void], ids: Sequence[str]) -> int:
        """Stores rows, one id each; returns the first one's number. O(bytes), amortised."""
        if len(records) != len(ids):
            raise ValueError(f"{len(records)} records, but {len(ids)} ids")
        first, done = self._next, 0
        while done < len(records):
            number, used = divmod(self._next, SEGMENT_ROWS)
            count = min(SEGMENT_ROWS - used, len(records) - done)
            segment = self._segments.get(number)
            if segment is None:
                segment = self._segments[number] = _Segment(self.dtype)
            segment.append(used, records[done : done + count], ids[done : done + count])
            self._next += count
            done += count
        return first

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.void]:
        """The records of these rows, copied together: (len(rows),). Raises IndexError for a row not held."""
        out = np.empty(len(rows), self.dtype)
        if not len(rows):
            return out
        if rows.min() < self._first or rows.max() >= self._next:
            raise IndexError(f"rows {self._first} to {self._next - 1} are held, not {rows.min()} to {rows.max()}")
        numbers = rows // SEGMENT_ROWS
        for number in np.unique(numbers).tolist():
            here = numbers == number
            out[here] = self._segments[number].records[rows[here] - number * SEGMENT_ROWS]
        return out

    def id(self, row: int) -> str:
        """The id of one row. Raises IndexError for a row not held."""
        if not self._first <= row < self._next:
            raise IndexError(f"rows {self._first} to {self._next - 1} are held, not {row}")
        number, place = divmod(row, SEGMENT_ROWS)
        return self._segments[number].id(place)

    def trim(self, first_row: int) -> None:
        """Drops rows below `first_row`; memory is freed by whole segments."""
        self._first = max(self._first, min(first_row, self._next))
        for number in [one for one in self._segments if (one + 1) * SEGMENT_ROWS <= self._first]:
            del self._segments[number]


class _Segment:
    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self.records = np.empty(_FIRST_ROWS, dtype)
        self._ends = np.zeros(_FIRST_ROWS, np.int64)  # where each row's id ends in the arena
        self._arena = bytearray()

    @property
    def nbytes(self) -> int:
        return self.records.nbytes + self._ends.nbytes + len(self._arena)

    def append(self, used: int, records: NDArray[np.void], ids: Sequence[str]) -> None:
        end = used + len(records)
        if end > len(self.records):
            size = min(SEGMENT_ROWS, max(end, 2 * len(self.records)))
            self.records = _grown(self.records, used, size)
            self._ends = _grown(self._ends, used, size)
        self.records[used:end] = records
        names = [one.encode("utf-8", "surrogatepass") for one in ids]
        lengths = np.array([len(one) for one in names], np.int64)
        self._ends[used:end] = len(self._arena) + np.cumsum(lengths)
        self._arena += b"".join(names)

    def id(self, place: int) -> str:
        start = int(self._ends[place - 1]) if place else 0
        return self._arena[start : int(self._ends[place])].decode("utf-8", "surrogatepass")


def _grown(array: NDArray[Any], used: int, size: int) -> NDArray[Any]:
    out = np.empty(size, array.dtype)
    out[:used] = array[:used]
    return out
