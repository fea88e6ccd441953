"""Number the entries of the changelog while writing, and merge small blocks so that a restore is short.

In: each batch's `Delta`, in order. Out: the entries to write for it. An index has two partitions of the changelog, one
of blocks and one of merged blocks. Each entry has a range of sequence numbers. A small delta is written as a block and
retained here. When enough blocks wait, the next transaction also writes a merged block, one entry with the content and
the number range of all of them. A large delta goes directly to the merged blocks, after a merge of the waiting blocks.
So the merged blocks hold everything up to some number without a gap, and the blocks hold the few entries after it,
whatever the sizes of the batches.

A trickle is written twice, as blocks and merged; a flood is written once. A merged block is younger than its blocks, so
retention by time deletes the blocks first. It also says from which offset on the blocks are not merged yet, so that a
restore reads only those.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.batch import FORGOTTEN, Delta, merge_arrivals
from stream_dedup.errors import CorruptBlock
from stream_dedup.kafka.record_batch import ENTRY_BYTES

SEQUENCE_HEADER = "sequence"
BLOCKS_HEADER = "blocks"
"""Of a merged block: an offset in the partition of blocks before all blocks that are not merged by then."""
# A restore takes .2 ms for a block (its record, its transaction's marker, its unpacking) and 2 µs for a row. So blocks
# that are not merged yet take .2 s at most, and merged blocks of this size, or large deltas, take half as much again as
# their rows alone.
MAX_BLOCKS = 1000
_MOST_ROWS = 2000
_LARGE_ROWS = 500
_LARGE_BYTES = ENTRY_BYTES // 4


_DIGITS = 20  # of a 64-bit number


class SequenceRange(NamedTuple):
    """The sequence numbers of an entry: from the number after its predecessor's last to its own last.

    A block has one number, and those that were given up just before it (`EntryBuilder.skip_to`).

    >>> SequenceRange.parse(SequenceRange(7, 9).header()[1])
    SequenceRange(first=7, last=9)
    """

    first: int
    last: int

    def header(self) -> tuple[str, bytes]:
        return SEQUENCE_HEADER, f"{self.first}-{self.last}".encode()

    @staticmethod
    def parse(value: bytes) -> "SequenceRange":
        """Raises CorruptBlock for a value that `header` cannot have written."""
        first, dash, last = value.partition(b"-")
        is_written = dash and first.isdigit() and last.isdigit() and len(first) <= _DIGITS >= len(last)
        if not is_written or not 0 < int(first) <= int(last):
            raise CorruptBlock(f"{value!r} in the header {SEQUENCE_HEADER!r} is no range of sequence numbers")
        return SequenceRange(int(first), int(last))


def blocks_header(offset: int) -> tuple[str, bytes]:
    """The header of a merged block that says where the blocks begin that are not merged."""
    return BLOCKS_HEADER, str(offset).encode()


class ChangelogEntry(NamedTuple):
    """An entry to write: its numbers, its partition (of merged blocks or of blocks), and its content."""

    span: SequenceRange
    is_merged: bool
    delta: Delta


class BuilderSnapshot(NamedTuple):
    """The state of a `EntryBuilder`; its fields are those of the class."""

    next: int
    last: int
    folded: int
    waiting: tuple[tuple[int, Delta], ...]
    rows: int
    bytes: int


class EntryBuilder:
    """Numbers the entries of one index, and retains the deltas of the blocks that are not merged yet.

    The reader of the changelog reports what it reads (`read_block`, `read_merged`), and the writer goes on from there
    (`build`). If the transaction of the entries from `build` fails, `roll_back` the `snapshot` from before.
    """

    def __init__(self) -> None:
        self.next = 0
        """The number of the next entry; 0: not known yet."""
        self._last = 0  # the last number before it that is in use
        self._merged_to = 0  # entries up to this number are merged, or have expired
        self._waiting: deque[tuple[int, Delta]] = deque()  # last number, delta; not merged yet
        self._rows = self._bytes = 0  # of the waiting deltas

    @property
    def waiting(self) -> int:
        """The number of blocks that are not merged yet."""
        return len(self._waiting)

    def begin(self, number: int) -> None:
        """Start with this number; nothing before it will be merged."""
        self.next, self._last, self._merged_to = number, number - 1, number - 1

    def skip_to(self, number: int) -> None:
        """Give up the numbers before this one, which expired entries may have used."""
        self.next = max(self.next, number)

    def snapshot(self) -> "BuilderSnapshot":
        """The present state, for `roll_back`. O(waiting blocks)."""
        return BuilderSnapshot(self.next, self._last, self._merged_to, tuple(self._waiting), self._rows, self._bytes)

    def roll_back(self, state: "BuilderSnapshot") -> None:
        """Return to the state of the snapshot."""
        self.next, self._last, self._merged_to, waiting, self._rows, self._bytes = state
        self._waiting = deque(waiting)

    def read_block(self, span: SequenceRange, delta: Delta) -> None:
        """Note a block that was read, and was not known from a merged block."""
        if not self.next:
            self.begin(span.first)
        self._last, self.next = span.last, span.last + 1
        if span.last > self._merged_to:
            self._waiting.append((span.last, delta))
            self._rows += len(delta)
            self._bytes += size_of(delta)

    def read_merged(self, span: SequenceRange) -> None:
        """Note a merged block that was read, whether its content was known or not."""
        if not self.next:
            self.begin(span.first)
        self._last = max(self._last, span.last)
        self.next = max(self.next, span.last + 1)
        self._merged_to = max(self._merged_to, span.last)
        while self._waiting and self._waiting[0][0] <= self._merged_to:
            _, delta = self._waiting.popleft()
            self._rows -= len(delta)
            self._bytes -= size_of(delta)

    def build(self, delta: Delta, limit: int = ENTRY_BYTES) -> list[ChangelogEntry]:
        """The entries to write for the next delta, in one transaction. O(bytes), with the waiting blocks if it merges.

        An entry has at most about `limit` bytes. There is at least one, since the watermark counts too.
        """
        if not self.next:
            raise ValueError("the changelog has not been read yet, so the next sequence number is unknown")
        is_large = len(delta) >= _LARGE_ROWS or size_of(delta) >= min(limit, _LARGE_BYTES)
        entries = []
        for part in split_delta(delta, limit) if is_large else [delta]:
            # A merged block covers no numbers that were given up: a reader that knows some of its numbers takes all of
            # them for known.
            is_merged = is_large and self.next == self._last + 1
            if self._waiting and (is_merged or self._is_full(part, limit)):
                waiting = [delta for _, delta in self._waiting]
                entries.append(
                    ChangelogEntry(SequenceRange(self._merged_to + 1, self._last), True, merge_deltas(waiting))
                )
                self.read_merged(entries[-1].span)
            span = SequenceRange(self._last + 1, self.next)
            entries.append(ChangelogEntry(span, is_merged, part))
            if is_merged:
                self.read_merged(span)
            else:
                self.read_block(span, part)
        return entries

    def _is_full(self, delta: Delta, limit: int) -> bool:
        """Whether a merged block of the waiting deltas and this one would be too large."""
        return (
            len(self._waiting) >= MAX_BLOCKS
            or self._rows + len(delta) > _MOST_ROWS
            or self._bytes + size_of(delta) > limit
        )


def merge_deltas(deltas: Sequence[Delta]) -> Delta:
    """Merge deltas into one that changes the index as all of them do in their order. At least one delta. O(bytes)."""
    forgotten, rows = [np.zeros(0, FORGOTTEN)], 0
    for delta in deltas:
        if len(delta.forgotten):
            later = delta.forgotten.astype(FORGOTTEN)
            later["before"] += np.uint32(rows)
            forgotten.append(later)
        rows += len(delta)
    has_passages = any(len(delta.passage_counts) for delta in deltas)
    counts = [delta.passage_counts if len(delta.passage_counts) else np.zeros(len(delta), np.uint8) for delta in deltas]
    return Delta(
        _joined([delta.signatures for delta in deltas]),
        np.concatenate([delta.keys for delta in deltas]),
        [name for delta in deltas for name in delta.ids],
        np.concatenate(forgotten),
        max(delta.watermark for delta in deltas),
        [body for delta in deltas for body in delta.bodies],
        np.concatenate([delta.passages for delta in deltas]),
        np.concatenate(counts) if has_passages else np.zeros(0, np.uint8),
        *merge_arrivals(deltas),
    )


def _joined(arrays: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """Concatenate structured arrays. NumPy would copy field by field, which takes 30 times as long."""
    return np.frombuffer(b"".join([array.tobytes() for array in arrays]), arrays[0].dtype)


def split_delta(delta: Delta, limit: int = ENTRY_BYTES) -> Iterator[Delta]:
    """Split the delta into parts of at most about `limit` bytes; at least one.

    The parts must be written in one transaction, since only all of them together are the delta.
    """
    bounds = _bounds(delta, limit)
    last = bounds[-1]
    passage_offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(delta.passage_counts, dtype=np.int64)])
    for start, end in pairwise(bounds):
        before = delta.forgotten["before"]
        in_part = (before >= start) & ((before < end) | (end == last))
        forgotten = delta.forgotten[in_part].astype(FORGOTTEN)
        forgotten["before"] -= np.uint32(start)
        yield Delta(
            delta.signatures[start:end],
            delta.keys[start:end],
            delta.ids[start:end],
            forgotten,
            delta.watermark,
            delta.bodies[start:end],
            delta.passages[passage_offsets[start] : passage_offsets[end]]
            if len(passage_offsets) > 1
            else delta.passages,
            delta.passage_counts[start:end],
            delta.arrivals[start:end],
            delta.clocks,
            delta.elapsed,
        )


def size_of(delta: Delta) -> int:
    """Bytes of a delta's block before compression. O(rows)."""
    return int(_row_bytes(delta).sum()) + _other_bytes(delta)


def _bounds(delta: Delta, limit: int) -> list[int]:
    capacity = limit - _other_bytes(delta)
    bounds, size = [0], 0
    for i, row in enumerate(_row_bytes(delta).tolist()):
        if size + row > capacity and size:
            bounds.append(i)
            size = 0
        size += row
    return [*bounds, len(delta)]


def _other_bytes(delta: Delta) -> int:
    """Bytes of forgotten ids and clocks."""
    return len(delta.forgotten) * FORGOTTEN.itemsize + delta.clocks.nbytes


def _row_bytes(delta: Delta) -> NDArray[np.int64]:
    """Bytes of each row."""
    rows = len(delta)
    fixed = delta.signatures.dtype.itemsize + 4 * delta.keys.shape[1] + 4 + delta.arrivals.itemsize
    sizes = np.full(rows, fixed, np.int64)
    sizes += np.fromiter((len(name.encode("utf-8", "surrogatepass")) for name in delta.ids), np.int64, rows)
    if delta.bodies:
        sizes += np.fromiter((4 + len(body) for body in delta.bodies), np.int64, rows)
    if len(delta.passage_counts):
        sizes += 1 + 4 * delta.passage_counts.astype(np.int64)
    return sizes
