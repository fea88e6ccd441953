"""Store what is kept of each remembered item (row) beside its keys: signature, id, story and, with MinHash, its body.
Headlines and texts are not kept.

Rows arrive in order and have the same numbers as in the index. The store consists of segments of 65,536 rows, so it
grows without copying, and frees memory segment by segment as the window moves on; what is not written yet takes no
memory. The ids of a segment are one byte string with offsets, and so are the bodies: this saves about 50 bytes per id
compared with Python strings. A story that differs from the row's own id stands behind it; the others take nothing.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_dedup import core

Signatures: TypeAlias = NDArray[np.void]
Strings: TypeAlias = Sequence[bytes]

# 65,536 rows are some 20 MB of default signatures: small compared with the window, so freeing whole segments wastes
# little, and large enough that a gather touches few segments, each at the cost of a NumPy call.
_SEGMENT_BITS = 16
_SEGMENT = 1 << _SEGMENT_BITS
_MAX_UINT32 = 2**32 - 1
SEQUENCE_HEAD = 8  # bytes before the codes of a sequence
_STORY = b"\xff"  # before a row's story; never a byte of UTF-8


class _Strings:
    """The byte strings of a segment's rows, concatenated."""

    def __init__(self) -> None:
        # ends[i + 1] is the end of row i's string in the arena. 32 bits, or 64 beyond 4 GiB.
        self._ends: NDArray[np.unsignedinteger[Any]] = np.zeros(_SEGMENT + 1, np.uint32)
        self._arena = bytearray()

    def nbytes(self, length: int) -> int:
        """Return the bytes of the first `length` strings."""
        return self._ends.itemsize * length + len(self._arena)

    def append(self, length: int, strings: Strings) -> None:
        """Append strings to the `length` existing ones."""
        ends = len(self._arena) + np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)))
        if len(ends) and ends[-1] > _MAX_UINT32:
            self._ends = self._ends.astype(np.uint64)
        self._ends[length + 1 : length + len(strings) + 1] = ends
        self._arena += b"".join(strings)

    def place(self) -> tuple[int, int, int]:
        """Return the addresses of the bytes and of the ends, and the size of an end; valid until the next `append`."""
        start = ctypes.addressof((ctypes.c_char * 0).from_buffer(self._arena))
        return start, core.address(self._ends), self._ends.itemsize

    def take(self, offset: int) -> bytes:
        return bytes(self._arena[int(self._ends[offset]) : int(self._ends[offset + 1])])

    def shortened(self, length: int) -> "_Strings":
        """Return the first `length` strings as bodies without their sequences."""
        bodies = _Strings()
        bodies.append(0, [without_sequence(self.take(offset)) for offset in range(length)])
        return bodies


def without_sequence(body: bytes) -> bytes:
    """Return a body without the sequence of its words (core/sequences.c).

    >>> without_sequence(bytes([1, 0, 0, 0, 0, 0, 0, 0, 7, 7, 9])), without_sequence(bytes(8))
    (b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\t', b'')
    """
    members = set_in(body)
    return bytes(SEQUENCE_HEAD) + members if members else b""


def set_in(body: bytes) -> bytes:
    """Return the packed set of a body, b"" without one."""
    return body[SEQUENCE_HEAD + 2 * int.from_bytes(body[:4], "little") :]


def as_bytes(signatures: Signatures) -> Signatures:
    """Return a view of each signature as plain bytes: NumPy copies structured ones field by field, 2 to 6 times slower.

    >>> as_bytes(np.array([(1, 2)], "<u2, <u2")).tolist()
    [b'\\x01\\x00\\x02\\x00']
    """
    return signatures.view(np.dtype((np.void, signatures.dtype.itemsize)))


class _Segment:
    """Up to 65,536 consecutive rows."""

    def __init__(self, dtype: np.dtype[np.void], with_bodies: bool) -> None:
        self.length = 0
        self.signatures: Signatures = np.empty(_SEGMENT, dtype)
        self.ids = _Strings()
        self.bodies = _Strings() if with_bodies else None
        self.has_sequences = with_bodies

    def place(self) -> tuple[int, int, int, int]:
        """Return a row of SEGMENT."""
        return core.address(self.signatures), *(self.bodies.place() if self.bodies else (0, 0, 0))

    def append(self, signatures: Signatures, ids: Sequence[str], bodies: Strings, stories: Sequence[str]) -> None:
        """Append rows, which must fit."""
        end = self.length + len(signatures)
        as_bytes(self.signatures)[self.length : end] = as_bytes(signatures)
        # JSON can contain lone surrogates, which are not valid UTF-8; an id must be returned unchanged.
        encoded = [id_.encode("utf-8", "surrogatepass") for id_ in ids]
        for i, story in enumerate(stories):
            if story:
                encoded[i] += _STORY + story.encode("utf-8", "surrogatepass")
        self.ids.append(self.length, encoded)
        if self.bodies:
            self.bodies.append(self.length, bodies)
        self.length = end


SEGMENT = core.record("segment", [*core.fields("<u8", "signatures bodies ends"), ("end_bytes", "<i8")])
"""Where a segment is in memory. ends: those of the bodies, with a 0 in front; end_bytes: of one of them, or 0."""


class RowStore:
    """Signatures, ids and bodies of the rows `first_row` to `next_row - 1`.

    `dtype`: structured dtype of the signatures; `with_bodies`: each row has a body.

    >>> store = RowStore(np.dtype([("time", "i8"), ("words", "u2")]))
    >>> store.append(np.array([(10, 3), (20, 5)], store.dtype), ["a", "b"])
    0
    >>> store.take(np.array([1, 0, 1]))["words"].tolist(), store.name(1), len(store)
    ([5, 3, 5], ('b', 'b'), 2)
    >>> store.append(np.array([(30, 4)], store.dtype), ["c"], stories=["a"]), store.name(2), store.name(1)
    (2, ('c', 'a'), ('b', 'b'))
    """

    def __init__(self, dtype: np.dtype[Any], with_bodies: bool = False) -> None:
        self.dtype = dtype
        self._with_bodies = with_bodies
        self.first_row = 0
        self.next_row = 0
        self._segments: list[_Segment] = []  # the first one begins at first_row

    def __len__(self) -> int:
        """Number of rows, including those below the last `trim` whose segment is not freed yet."""
        return self.next_row - self.first_row

    def parts(self) -> tuple[int, int, int]:
        """Count the bytes of signatures, ids with stories, and bodies. Any thread may call it.

        The unused capacity of the last segment does not count, because it is never written to.
        """
        segments = list(self._segments)
        signatures = sum(segment.signatures.itemsize * segment.length for segment in segments)
        ids = sum(segment.ids.nbytes(segment.length) for segment in segments)
        return signatures, ids, sum(part.bodies.nbytes(part.length) for part in segments if part.bodies)

    def append(
        self, signatures: Signatures, ids: Sequence[str], bodies: Strings = (), stories: Sequence[str] = ()
    ) -> int:
        """Append n rows: signatures (n,), ids and bodies; return the number of the first one. O(n) amortised.

        stories: as in a `Delta`.
        """
        first, appended = self.next_row, 0
        while appended < len(signatures):
            if self.next_row % _SEGMENT == 0:
                self._segments.append(_Segment(self.dtype, self._with_bodies))
            part = slice(appended, appended + _SEGMENT - self.next_row % _SEGMENT)
            self._segments[-1].append(signatures[part], ids[part], bodies[part], stories[part])
            appended = min(part.stop, len(signatures))
            self.next_row = first + appended
        return first

    def take(self, rows: NDArray[np.int64]) -> Signatures:
        """Return the signatures of `rows` (n,), which may repeat, as a copy (n,).

        One NumPy gather for each segment involved. Raises IndexError for a row that is not in the store.
        """
        taken: Signatures = np.empty(len(rows), self.dtype)
        if not len(rows):
            return taken
        if rows.min() < self.first_row or rows.max() >= self.next_row:
            span = f"rows {rows.min()} to {rows.max()}"
            raise IndexError(f"{span}: the store has rows {self.first_row} to {self.next_row - 1}")
        offsets = rows - self.first_row
        segments = offsets >> _SEGMENT_BITS
        offsets &= _SEGMENT - 1
        for segment in np.unique(segments).tolist():
            selected = np.flatnonzero(segments == segment)
            as_bytes(taken)[selected] = as_bytes(self._segments[segment].signatures)[offsets[selected]]
        return taken

    def segments(self) -> NDArray[np.void]:
        """Return the SEGMENT of each 65,536 rows from `first_row` on, for the core. Valid until the next change."""
        return np.array([segment.place() for segment in self._segments], SEGMENT)

    def name(self, row: int) -> tuple[str, str]:
        """Return the id of a row and that of its story; O(1). Raises IndexError for a row that is not in the store."""
        segment, offset = self._locate(row)
        encoded, _, story = segment.ids.take(offset).partition(_STORY)
        name = encoded.decode("utf-8", "surrogatepass")
        return name, story.decode("utf-8", "surrogatepass") or name

    def bodies(self, rows: NDArray[np.int64]) -> Strings:
        """Return the bodies of `rows` (n,), b"" without one; O(bytes). Raises IndexError for a row that is absent."""
        places = map(self._locate, rows.tolist())
        return [segment.bodies.take(offset) if segment.bodies else b"" for segment, offset in places]

    def drop_sequences(self, first_row: int) -> None:
        """Free the sequences of all segments that lie below `first_row`; O(rows), once a segment."""
        for number in range(min(first_row, self.next_row) - self.first_row >> _SEGMENT_BITS):
            segment = self._segments[number]
            if segment.has_sequences and segment.bodies:
                segment.bodies, segment.has_sequences = segment.bodies.shortened(segment.length), False

    def _locate(self, row: int) -> tuple[_Segment, int]:
        if not self.first_row <= row < self.next_row:
            raise IndexError(f"row {row}: the store has rows {self.first_row} to {self.next_row - 1}")
        segment, offset = divmod(row - self.first_row, _SEGMENT)
        return self._segments[segment], offset

    def trim(self, first_row: int) -> None:
        """Free all segments that lie below `first_row`; O(segments)."""
        segment_count = max(first_row - self.first_row, 0) >> _SEGMENT_BITS
        del self._segments[:segment_count]
        self.first_row += segment_count << _SEGMENT_BITS
