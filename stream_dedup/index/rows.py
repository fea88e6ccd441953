"""What is kept of each remembered row: a signature of fixed size, a string id and, if wanted, a packed body.

In: structured signatures, ids and bodies in order of arrival. Out: signatures by row number, and the id of a row. Rows
have the same numbers as in the index: 0, 1, 2, …, never reused. They stand in segments of 65,536 rows, so the store
grows without copying what it has (but for the first segment, which grows by doubling to keep an empty store
small) and gives memory back segment by segment as the window moves on. Ids are one byte string a segment with
offsets, and bodies are another: about 50 bytes less an id than Python strings.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Signatures: TypeAlias = NDArray[np.void]
Strings: TypeAlias = Sequence[bytes]

# 65,536 rows are some 20 MB of the default signatures: small beside the window, so freeing whole segments wastes
# little, and large beside NumPy's cost for a call, so a gather touches few segments.
_SEGMENT_BITS = 16
_SEGMENT = 1 << _SEGMENT_BITS
_SMALLEST = 64
_NARROW = 2**32 - 1


class _Strings:
    """Byte strings of a segment's rows, one behind the other."""

    def __init__(self) -> None:
        # ends[i + 1] is where the string of row i ends in the arena. 32 bits, 64 once they are 4 GiB together.
        self._ends: NDArray[np.unsignedinteger[Any]] = np.zeros(_SMALLEST + 1, np.uint32)
        self._arena = bytearray()

    def nbytes(self, length: int) -> int:
        """Bytes of the first `length` strings."""
        return self._ends.itemsize * length + len(self._arena)

    def append(self, length: int, capacity: int, strings: Strings) -> None:
        """Take in strings behind the `length` there are; `capacity` is the segment's."""
        if capacity + 1 > len(self._ends):
            self._ends = _longer(self._ends, length + 1, capacity + 1)
        ends = len(self._arena) + np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)))
        if len(ends) and ends[-1] > _NARROW:
            self._ends = self._ends.astype(np.uint64)
        self._ends[length + 1 : length + len(strings) + 1] = ends
        self._arena += b"".join(strings)

    def take(self, place: int) -> bytes:
        return bytes(self._arena[int(self._ends[place]) : int(self._ends[place + 1])])


def as_bytes(signatures: Signatures) -> Signatures:
    """The same signatures, each one a piece of bytes: NumPy copies others field by field, in two to six times the time.

    >>> as_bytes(np.array([(1, 2)], "<u2, <u2")).tolist()
    [b'\\x01\\x00\\x02\\x00']
    """
    return signatures.view(np.dtype((np.void, signatures.dtype.itemsize)))


class _Segment:
    """Up to 65,536 consecutive rows."""

    def __init__(self, dtype: np.dtype[np.void], capacity: int, with_bodies: bool) -> None:
        self.length = 0
        self.signatures: Signatures = np.empty(capacity, dtype)
        self.ids = _Strings()
        self.bodies = _Strings() if with_bodies else None

    def append(self, signatures: Signatures, ids: Sequence[str], bodies: Strings) -> None:
        """Take in rows that fit."""
        end = self.length + len(signatures)
        if end > len(self.signatures):
            capacity = min(max(2 * len(self.signatures), end), _SEGMENT)
            self.signatures = _longer(self.signatures, self.length, capacity)
        as_bytes(self.signatures)[self.length : end] = as_bytes(signatures)
        # A lone surrogate is no valid UTF-8, but JSON can carry one, and an id must come back as it was.
        encoded = [id_.encode("utf-8", "surrogatepass") for id_ in ids]
        self.ids.append(self.length, len(self.signatures), encoded)
        if self.bodies:
            self.bodies.append(self.length, len(self.signatures), bodies)
        self.length = end


class RowStore:
    """Signatures and ids of the rows `first_row … next_row - 1`.

    `dtype` is the signatures' structured dtype; with_bodies: each row has a byte string beside its id.

    >>> store = RowStore(np.dtype([("time", "i8"), ("words", "u2")]))
    >>> store.append(np.array([(10, 3), (20, 5)], store.dtype), ["a", "b"])
    0
    >>> store.take(np.array([1, 0, 1]))["words"].tolist(), store.id(1), len(store)
    ([5, 3, 5], 'b', 2)
    """

    def __init__(self, dtype: np.dtype[Any], with_bodies: bool = False) -> None:
        self.dtype = dtype
        self._with_bodies = with_bodies
        self.first_row = 0
        self.next_row = 0
        self._segments: list[_Segment] = []  # the first one begins at first_row

    def __len__(self) -> int:
        """Rows held. Rows below the last `trim` count as long as their segment does."""
        return self.next_row - self.first_row

    @property
    def bytes(self) -> int:
        """Bytes of the rows held. The room that the youngest segment keeps to grow is not written to: not counted."""
        return sum(self.parts())

    def parts(self) -> tuple[int, int, int]:
        """The same by part: signatures, ids, bodies. Any thread may ask."""
        segments = list(self._segments)
        signatures = sum(one.signatures.itemsize * one.length for one in segments)
        ids = sum(one.ids.nbytes(one.length) for one in segments)
        return signatures, ids, sum(one.bodies.nbytes(one.length) for one in segments if one.bodies is not None)

    def append(self, signatures: Signatures, ids: Sequence[str], bodies: Strings = ()) -> int:
        """Keep signatures (n,), their n ids and bodies, if any; returns the first row's number. O(n) amortised.

        Raises TypeError for another dtype, ValueError for another shape or another number of ids or bodies.
        """
        if signatures.dtype != self.dtype:
            raise TypeError(f"signatures must be {self.dtype}, not {signatures.dtype}")
        if signatures.ndim != 1 or len(signatures) != len(ids):
            raise ValueError(f"{len(ids)} ids for signatures of the shape {signatures.shape}")
        if len(bodies) != (len(ids) if self._with_bodies else 0):
            raise ValueError(f"{len(bodies)} bodies for {len(ids)} rows; the store is made with_bodies or without")
        first, done = self.next_row, 0
        while done < len(signatures):
            capacity = -self.next_row % _SEGMENT
            if not capacity:
                # Memory that is not written to yet costs nothing; copying it over would cost as much as filling it.
                capacity = _SEGMENT if self._segments else _SMALLEST
                self._segments.append(_Segment(self.dtype, capacity, self._with_bodies))
                capacity = _SEGMENT
            part = slice(done, done + capacity)
            self._segments[-1].append(signatures[part], ids[part], bodies[part])
            done = min(done + capacity, len(signatures))
            self.next_row = first + done
        return first

    def take(
        self, rows: NDArray[np.int64], into: Signatures | None = None, at: NDArray[np.int64] | None = None
    ) -> Signatures:
        """The signatures of `rows` (n,), in that order, repeats allowed: a contiguous copy (n,), or `into` with them at
        the places `at` (n,).

        One NumPy gather for each segment that is touched. Raises IndexError for a row not held.
        """
        found: Signatures = np.empty(len(rows), self.dtype) if into is None else into
        if not len(rows):
            return found
        if rows.min() < self.first_row or rows.max() >= self.next_row:
            raise IndexError(f"rows {rows.min()} to {rows.max()}: held are {self.first_row} to {self.next_row - 1}")
        places = rows - self.first_row
        segments = places >> _SEGMENT_BITS
        places &= _SEGMENT - 1
        for segment in np.unique(segments).tolist():
            wanted = np.flatnonzero(segments == segment)
            to = wanted if at is None else at[wanted]
            as_bytes(found)[to] = as_bytes(self._segments[segment].signatures)[places[wanted]]
        return found

    def id(self, row: int) -> str:
        """The id of a row; O(1). Raises IndexError for a row not held."""
        segment, place = self._place(row)
        return segment.ids.take(place).decode("utf-8", "surrogatepass")

    def bodies(self, rows: NDArray[np.int64]) -> Strings:
        """The bodies of `rows` (n,), in that order; O(bytes). Raises IndexError for a row not held or without one."""
        found = []
        for row in rows.tolist():
            segment, place = self._place(row)
            if segment.bodies is None:
                raise IndexError("these rows have no bodies")
            found.append(segment.bodies.take(place))
        return found

    def _place(self, row: int) -> tuple[_Segment, int]:
        if not self.first_row <= row < self.next_row:
            raise IndexError(f"row {row}: held are {self.first_row} to {self.next_row - 1}")
        segment, place = divmod(row - self.first_row, _SEGMENT)
        return self._segments[segment], place

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
