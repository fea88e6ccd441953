"""Small deltas -> folds: a restore reads what is remembered, not how many transactions it took.

In: each batch's `Delta`, in order. Out: the pieces to be written of it. An index has two partitions of the changelog:
*blocks* and *folds*. Every piece has a sequence number. A small delta is written as a block, and kept here. When enough
of them wait, the next transaction also writes a fold, one piece that says what all of them said, under the range of
their numbers. A large delta goes straight to the folds, behind a fold of what waits. So the folds without a gap hold
everything up to some number, and the blocks hold the few pieces after it, whatever the sizes of the batches.

A trickle is written twice, as blocks and as folds. A flood is written once. Folds are younger than what they hold, so
a retention by time deletes the blocks first.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.changelog.limits import ENTRY_BYTES
from stream_dedup.dedup.batch import FORGOTTEN, Delta, joined_times
from stream_dedup.errors import CorruptBlock

SEQUENCE_HEADER = "sequence"
# A block costs a restore .2 ms (its record, its transaction's marker, its unpacking), a row 2 µs. So the blocks that no
# fold holds yet cost it .2 s at most, and folds of this size, or deltas that go straight to them, half as much again as
# their rows alone.
MOST_BLOCKS = 1000
_MOST_ROWS = 2000
_LARGE_ROWS = 500
_LARGE_BYTES = ENTRY_BYTES // 4


class Span(NamedTuple):
    """The sequence numbers of a piece: from the one behind its predecessor's last to its own last.

    A block has one number; where numbers before it were given up (`Folding.skip_to`), they count as its own too.

    >>> Span.parse(Span(7, 9).header()[1])
    Span(first=7, last=9)
    """

    first: int
    last: int

    def header(self) -> tuple[str, bytes]:
        return SEQUENCE_HEADER, f"{self.first}-{self.last}".encode()

    @staticmethod
    def parse(value: bytes) -> "Span":
        """Raises CorruptBlock for what `header` has not written."""
        first, dash, last = value.partition(b"-")
        if not (dash and first.isdigit() and last.isdigit()) or not 0 < int(first) <= int(last):
            raise CorruptBlock(f"{value!r} in the header {SEQUENCE_HEADER!r} is no range of sequence numbers")
        return Span(int(first), int(last))


class ChangelogEntry(NamedTuple):
    """A part of what is to be remembered, and the partition that it goes to."""

    span: Span
    is_fold: bool
    delta: Delta


class Snapshot(NamedTuple):
    """A `Folding`'s state; `next` is the number of the piece that came next."""

    next: int
    last: int
    folded: int
    waiting: tuple[tuple[int, Delta], ...]
    rows: int
    bytes: int


class Folding:
    """The numbers of one index's pieces, and the deltas that no fold holds yet.

    Whoever reads the changelog says what it has read (`read_block`, `read_fold`). Whoever then writes goes on from
    there (`take`). What `take` returned may be pending: if its transaction fails, put back the `snapshot` from before.
    """

    def __init__(self) -> None:
        self.next = 0
        """The number of the next piece; 0: not known yet."""
        self._last = 0  # the last number before it that is in use
        self._folded = 0  # all up to this number stands in folds, or has expired
        self._waiting: deque[tuple[int, Delta]] = deque()
        self._rows = self._bytes = 0

    @property
    def waiting(self) -> int:
        """Blocks that no fold holds yet."""
        return len(self._waiting)

    def begin(self, number: int) -> None:
        """The next piece has this number, and nothing before it is to be folded."""
        self.next, self._last, self._folded = number, number - 1, number - 1

    def skip_to(self, number: int) -> None:
        """Gives up the numbers before this one: they may have been in use for pieces that have expired."""
        self.next = max(self.next, number)

    def snapshot(self) -> "Snapshot":
        """The state as it is now, for `put_back`. O(blocks that wait)."""
        return Snapshot(self.next, self._last, self._folded, tuple(self._waiting), self._rows, self._bytes)

    def put_back(self, state: "Snapshot") -> None:
        """As if nothing had been read or taken since."""
        self.next, self._last, self._folded, waiting, self._rows, self._bytes = state
        self._waiting = deque(waiting)

    def read_block(self, span: Span, delta: Delta) -> None:
        """A block that was read, and was not known yet."""
        if not self.next:
            self.begin(span.first)
        self._last, self.next = span.last, span.last + 1
        if span.last > self._folded:
            self._waiting.append((span.last, delta))
            self._rows += len(delta)
            self._bytes += size_of(delta)

    def read_fold(self, span: Span) -> None:
        """A fold that was read, known or not."""
        if not self.next:
            self.begin(span.first)
        self._last = max(self._last, span.last)
        self.next = max(self.next, span.last + 1)
        self._folded = max(self._folded, span.last)
        while self._waiting and self._waiting[0][0] <= self._folded:
            _, delta = self._waiting.popleft()
            self._rows -= len(delta)
            self._bytes -= size_of(delta)

    def take(self, delta: Delta, limit: int = ENTRY_BYTES) -> list[ChangelogEntry]:
        """What is to be written of the next delta, in one transaction. O(bytes), and of a fold those that wait.

        Pieces have at most about `limit` bytes. There is at least one, since the watermark counts too.
        """
        if not self.next:
            raise ValueError("the changelog has not been read yet, so nobody knows the next sequence number")
        is_large = len(delta) >= _LARGE_ROWS or size_of(delta) >= min(limit, _LARGE_BYTES)
        pieces = []
        for part in parts(delta, limit) if is_large else [delta]:
            # A fold shows no numbers that were given up: whoever knows some of them takes the rest for known as well.
            goes_to_folds = is_large and self.next == self._last + 1
            if self._waiting and (goes_to_folds or self._has_no_room_for(part, limit)):
                together = ChangelogEntry(
                    Span(self._folded + 1, self._last), True, fold([one for _, one in self._waiting])
                )
                self.read_fold(together.span)
                pieces.append(together)
            span = Span(self._last + 1, self.next)
            pieces.append(ChangelogEntry(span, goes_to_folds, part))
            if goes_to_folds:
                self.read_fold(span)
            else:
                self.read_block(span, part)
        return pieces

    def _has_no_room_for(self, delta: Delta, limit: int) -> bool:
        return (
            len(self._waiting) >= MOST_BLOCKS
            or self._rows + len(delta) > _MOST_ROWS
            or self._bytes + size_of(delta) > limit
        )


def fold(deltas: Sequence[Delta]) -> Delta:
    """One delta that leaves the memory as all of these do, in their order. There must be at least one. O(bytes)."""
    forgotten, rows = [np.zeros(0, FORGOTTEN)], 0
    for one in deltas:
        if len(one.forgotten):
            later = one.forgotten.astype(FORGOTTEN)
            later["before"] += np.uint32(rows)
            forgotten.append(later)
        rows += len(one)
    knows_passages = any(len(one.passage_counts) for one in deltas)
    counts = [one.passage_counts if len(one.passage_counts) else np.zeros(len(one), np.uint8) for one in deltas]
    return Delta(
        _joined([one.signatures for one in deltas]),
        np.concatenate([one.keys for one in deltas]),
        [name for one in deltas for name in one.ids],
        np.concatenate(forgotten),
        max(one.watermark for one in deltas),
        [body for one in deltas for body in one.bodies],
        np.concatenate([one.passages for one in deltas]),
        np.concatenate(counts) if knows_passages else np.zeros(0, np.uint8),
        *joined_times(deltas),
    )


def _joined(arrays: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """Structured arrays, one behind the other. NumPy would go by fields, and take 30 times as long."""
    return np.frombuffer(b"".join([one.tobytes() for one in arrays]), arrays[0].dtype)


def parts(delta: Delta, limit: int = ENTRY_BYTES) -> Iterator[Delta]:
    """The delta in parts of at most about `limit` bytes; at least one.

    They must go into one transaction: only all of them together are the delta.
    """
    bounds = _bounds(delta, limit)
    last = bounds[-1]
    of_passages = np.concatenate([np.zeros(1, np.int64), np.cumsum(delta.passage_counts, dtype=np.int64)])
    for start, end in pairwise(bounds):
        before = delta.forgotten["before"]
        mine = (before >= start) & ((before < end) | (end == last))
        forgotten = delta.forgotten[mine].astype(FORGOTTEN)
        forgotten["before"] -= np.uint32(start)
        yield Delta(
            delta.signatures[start:end],
            delta.keys[start:end],
            delta.ids[start:end],
            forgotten,
            delta.watermark,
            delta.bodies[start:end],
            delta.passages[of_passages[start] : of_passages[end]] if len(of_passages) > 1 else delta.passages,
            delta.passage_counts[start:end],
            delta.arrivals[start:end],
            delta.clocks,
            delta.elapsed,
        )


def size_of(delta: Delta) -> int:
    """Bytes of a delta's block before compression. O(rows)."""
    return int(_sizes(delta).sum()) + _beside(delta)


def _bounds(delta: Delta, limit: int) -> list[int]:
    room = limit - _beside(delta)
    bounds, size = [0], 0
    for i, row in enumerate(_sizes(delta).tolist()):
        if size + row > room and size:
            bounds.append(i)
            size = 0
        size += row
    return [*bounds, len(delta)]


def _beside(delta: Delta) -> int:
    """Bytes of what stands beside the rows."""
    return len(delta.forgotten) * FORGOTTEN.itemsize + delta.clocks.nbytes


def _sizes(delta: Delta) -> NDArray[np.int64]:
    """Bytes of each row."""
    rows = len(delta)
    fixed = delta.signatures.dtype.itemsize + 4 * delta.keys.shape[1] + 4 + delta.arrivals.itemsize
    sizes = np.full(rows, fixed, np.int64)
    sizes += np.fromiter((len(one.encode("utf-8", "surrogatepass")) for one in delta.ids), np.int64, rows)
    if delta.bodies:
        sizes += np.fromiter((4 + len(one) for one in delta.bodies), np.int64, rows)
    if len(delta.passage_counts):
        sizes += 1 + 4 * delta.passage_counts.astype(np.int64)
    return sizes
