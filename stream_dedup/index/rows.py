"""What is kept of each remembered row: a record of fixed size and a string id.

In: structured records and ids in order of arrival. Out: records by row number, and the id of a row. Rows have
the same numbers as in the index: 0, 1, 2, …, never reused. They stand in segments of 65,536 rows, so the store
grows without copying what it has (but for the youngest segment, which grows by doubling to keep an empty store
small) and gives memory back segment by segment as the window moves on. Ids are one byte string a segment with
offsets: about 50 bytes less an id than Python strings.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Records: TypeAlias = NDArray[np.void]

# 65,536 rows are some 20 MB of the default records: small beside the window, so freeing whole segments wastes
# little, and large beside NumPy's cost for a call, so a gather touches few segments.
_SEGMENT_BITS = 16
_SEGMENT = 1 << _SEGMENT_BITS
_SMALLEST = 64


class _Segment:
    """Up to 65,536 consecutive rows."""

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self.length = 0
        self.records: Records = np.empty(_SMALLEST, dtype)
        # ends[i + 1] is where the id of row i ends in the arena. 64 bits: no sum of ids can overflow them.
        self.ends = np.zeros(_SMALLEST + 1, np.int64)
        self.arena = bytearray()

    def append(self, records: Records, ids: Sequence[str]) -> None:
        """Take in rows that fit."""
        end = self.length + len(records)
        if end > len(self.records):
            capacity = min(max(2 * len(self.records), end), _SEGMENT)
            self.records = _longer(self.records, self.length, capacity)
            self.ends = _longer(self.ends, self.length + 1, capacity + 1)
        self.records[self.length : end] = records
        # A lone surrogate is no valid UTF-8, but JSON can carry one, and an id must come back as it was.
        encoded = [id_.encode("utf-8", "surrogatepass") for id_ in ids]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self.ends[self.length + 1 : end + 1] = len(self.arena) + np.cumsum(sizes)
        self.arena += b"".join(encoded)
        self.length = end

    def id(self, place: int) -> str:
        return self.arena[self.ends[place] : self.ends[place + 1]].decode("utf-8", "surrogatepass")


class RowStore:
    """Records and ids of the rows `first_row … next_row - 1`.

    `dtype` is the records' structured dtype.

    >>> store = RowStore(np.dtype([("time", "i8"), ("words", "u2")]))
    >>> store.append(np.array([(10, 3), (20, 5)], store.dtype), ["a", "b"])
    0
    >>> store.take(np.array([1, 0, 1]))["words"].tolist(), store.id(1), len(store)
    ([5, 3, 5], 'b', 2)
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.first_row = 0
        self.next_row = 0
        self._segments: list[_Segment] = []  # the first one begins at first_row

    def __len__(self) -> int:
        """Rows held. Rows below the last `trim` count as long as their segment does."""
        return self.next_row - self.first_row

    @property
    def bytes(self) -> int:
        """Bytes of all segments, with the room the youngest one keeps to grow."""
        return sum(s.records.nbytes + s.ends.nbytes + len(s.arena) for s in self._segments)

    def append(self, records: Records, ids: Sequence[str]) -> int:
        """Keep records (n,) and their n ids; returns the first row's number. O(n) amortised.

        Raises TypeError for another dtype, ValueError for another shape or another number of ids.
        """
        if records.dtype != self.dtype:
            raise TypeError(f"records must be {self.dtype}, not {records.dtype}")
        if records.ndim != 1 or len(records) != len(ids):
            raise ValueError(f"{len(ids)} ids for records of the shape {records.shape}")
        first, done = self.next_row, 0
        while done < len(records):
            room = -self.next_row % _SEGMENT
            if not room:
                self._segments.append(_Segment(self.dtype))
                room = _SEGMENT
            part = slice(done, done + room)
            self._segments[-1].append(records[part], ids[part])
            done = min(done + room, len(records))
            self.next_row = first + done
        return first

    def take(self, rows: NDArray[np.int64]) -> Records:
        """The records of `rows` (n,), in that order, repeats allowed: a contiguous copy (n,).

        One NumPy gather for each segment that is touched. Raises IndexError for a row not held.
        """
        found: Records = np.empty(len(rows), self.dtype)
        if not len(rows):
            return found
        if rows.min() < self.first_row or rows.max() >= self.next_row:
            raise IndexError(f"rows {rows.min()} to {rows.max()}: held are {self.first_row} to {self.next_row - 1}")
        places = rows - self.first_row
        segments = places >> _SEGMENT_BITS
        places &= _SEGMENT - 1
        for segment in np.unique(segments).tolist():
            wanted = np.flatnonzero(segments == segment)
            found[wanted] = self._segments[segment].records[places[wanted]]
        return found

    def id(self, row: int) -> str:
        """The id of a row; O(1). Raises IndexError for a row not held."""
        if not self.first_row <= row < self.next_row:
            raise IndexError(f"row {row}: held are {self.first_row} to {self.next_row - 1}")
        segment, place = divmod(row - self.first_row, _SEGMENT)
        return self._segments[segment].id(place)

    def trim(self, first_row: int) -> None:
        """Free every whole segment below `first_row`; O(segments). A lower number than before frees nothing.

        Raises IndexError if rows that do not exist yet are to be freed.
        """
        if first_row > self.next_row:
            raise IndexError(f"row {first_row} does not exist yet; the next one is {self.next_row}")
        whole = max(first_row - self.first_row, 0) >> _SEGMENT_BITS
        del self._segments[:whole]
        self.first_row += whole << _SEGMENT_BITS


def _longer(array: NDArray[Any], used: int, length: int) -> NDArray[Any]:
    """A copy of the used part with room for `length`."""
    longer = np.empty(length, array.dtype)
    longer[:used] = array[:used]
    return longer
