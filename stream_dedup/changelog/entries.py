"""Number the entries of the changelog while writing, merge small blocks, and put the entries that are read in order.

An index has two partitions of the changelog, one of blocks and one of merged blocks. Each entry has a range of sequence
numbers. A small delta is written as a block and retained here. When enough blocks wait, the next transaction also
writes a merged block: one entry with the content and the number range of all of them. A large delta goes directly to
the merged blocks, after a merge of the waiting blocks. So the merged blocks hold everything up to some number without a
gap, and the blocks hold the few entries after it, whatever the sizes of the batches.

A trickle is written twice, as blocks and merged; a flood is written once. A merged block is younger than its blocks, so
retention by time deletes the blocks first. It also says from which offset on the blocks are not merged yet, so that a
restore reads only those. A reader takes a block or the merged block that repeats it, whichever it reads first. A number
that it has read in neither partition is a gap. The rest of the other partition may close it; if not, part of the
changelog was lost.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from stream_dedup.changelog import ENTRY_BYTES
from stream_dedup.changelog.block import merge_deltas, size_of, split_delta
from stream_dedup.changelog.headers import SequenceRange
from stream_dedup.dedup.batch import Delta

# A restore takes .2 ms for a block (its record, its transaction's marker, its unpacking) and 2 µs for a row. So blocks
# that are not merged yet take .2 s at most. Merged blocks of this size, and large deltas, take half as much again as
# their rows alone.
MAX_BLOCKS = 1000
_MOST_ROWS = 2000
_LARGE_ROWS = 500
_LARGE_BYTES = ENTRY_BYTES // 4


class ChangelogEntry(NamedTuple):
    """An entry to write: its numbers, its partition (of merged blocks or of blocks), and its content."""

    span: SequenceRange
    is_merged: bool
    delta: Delta


class BuilderSnapshot(NamedTuple):
    """The state of an `EntryBuilder`; each change replaces it."""

    next: int = 0  # the number of the next entry; 0: not known yet
    last: int = 0  # the last number in use
    merged_to: int = 0  # entries up to this number are merged, or have expired
    waiting: "tuple[_Waiting, ...]" = ()  # the blocks that wait to be merged


class _Waiting(NamedTuple):
    """A block that is not merged yet: its last number, its delta and the delta's bytes."""

    last: int
    delta: Delta
    bytes: int


class EntryBuilder:
    """Numbers the entries of one index, and retains the deltas of the blocks that are not merged yet.

    The reader of the changelog reports what it reads (`read_block`, `read_merged`), and the writer goes on from there
    (`build`). If the transaction of the entries from `build` fails, set `state` to what it was before.
    """

    def __init__(self) -> None:
        self.state = BuilderSnapshot()

    @property
    def next(self) -> int:
        """The number of the next entry; 0: not known yet."""
        return self.state.next

    def begin(self, number: int) -> None:
        """Start with this number; nothing before it will be merged."""
        self.state = BuilderSnapshot(number, number - 1, number - 1)

    def use_none_before(self, number: int) -> None:
        """Skip the numbers before this one, which expired entries may have used."""
        if not self.next:
            self.begin(number)
        self.state = self.state._replace(next=max(self.next, number))

    def read_block(self, span: SequenceRange, delta: Delta) -> None:
        """Note a block that was read before any merged block with its content. O(waiting blocks)."""
        if not self.next:
            self.begin(span.first)
        state, waiting = self.state, self.state.waiting
        if span.last > state.merged_to:
            waiting = (*waiting, _Waiting(span.last, delta, size_of(delta)))
        self.state = BuilderSnapshot(span.last + 1, span.last, state.merged_to, waiting)

    def read_merged(self, span: SequenceRange) -> None:
        """Note a merged block that was read, whether or not its content was known."""
        if not self.next:
            self.begin(span.first)
        state = self.state
        merged_to = max(state.merged_to, span.last)
        self.state = BuilderSnapshot(
            max(state.next, span.last + 1),
            max(state.last, span.last),
            merged_to,
            tuple(block for block in state.waiting if block.last > merged_to),
        )

    def build(self, delta: Delta) -> list[ChangelogEntry]:
        """Build the entries of the next delta, for one transaction. O(bytes), with the waiting blocks if it merges.

        An entry has at most about `ENTRY_BYTES`. Also an empty delta has one, since the watermark counts too.
        """
        if not self.next:
            raise ValueError("the changelog has not been read yet, so the next sequence number is unknown")
        is_large = len(delta) >= _LARGE_ROWS or size_of(delta) >= _LARGE_BYTES
        entries = []
        for part in split_delta(delta, ENTRY_BYTES) if is_large else [delta]:
            # Never merge across skipped numbers, because a reader that has one of a merged block's numbers takes the
            # block as read.
            is_merged = is_large and self.next == self.state.last + 1
            waiting = self.state.waiting
            if waiting and (is_merged or self._is_full(part)):
                span = SequenceRange(self.state.merged_to + 1, self.state.last)
                entries.append(ChangelogEntry(span, True, merge_deltas([block.delta for block in waiting])))
                self.read_merged(span)
            span = SequenceRange(self.state.last + 1, self.next)
            entries.append(ChangelogEntry(span, is_merged, part))
            if is_merged:
                self.read_merged(span)
            else:
                self.read_block(span, part)
        return entries

    def _is_full(self, delta: Delta) -> bool:
        """Return whether a merged block of the waiting deltas and this one would be too large."""
        waiting = self.state.waiting
        return (
            len(waiting) >= MAX_BLOCKS
            or sum(len(block.delta) for block in waiting) + len(delta) > _MOST_ROWS
            or sum(block.bytes for block in waiting) + size_of(delta) > ENTRY_BYTES
        )


class OrderedEntry(NamedTuple):
    """The next entry. `is_redundant`: a merged block whose content is read as blocks."""

    span: SequenceRange
    is_merged: bool
    is_redundant: bool
    content: Any


class Resequencer:
    """Orders the entries of two partitions by sequence number. `next` is the number it expects, 0 before the first.

    The first merged block is the beginning, since everything before it has expired. A merged block may still come
    before the first block.

    >>> order = Resequencer()
    >>> order.add_block(SequenceRange(3, 3), "c")
    >>> list(order.ready()), order.has_gap
    ([], True)
    >>> order.skip_gap()    # everything was read, and there is nothing before it
    >>> list(order.ready()), order.next
    ([OrderedEntry(span=SequenceRange(first=3, last=3), is_merged=False, is_redundant=False, content='c')], 4)
    >>> order.add_block(SequenceRange(5, 5), "e"); list(order.ready()), order.has_gap
    ([], True)
    >>> order.add_merged(SequenceRange(3, 3), "c"); order.add_merged(SequenceRange(4, 4), "d")
    >>> [(entry.content, entry.is_redundant) for entry in order.ready()], order.has_gap
    ([('c', True), ('d', False), ('e', False)], False)
    """

    def __init__(self) -> None:
        self.next = 0
        self._merged_to = 0  # the last number of any merged block; the blocks up to it must exist
        self._blocks: deque[tuple[SequenceRange, Any]] = deque()
        self._merged: deque[tuple[SequenceRange, Any]] = deque()

    def add_block(self, span: SequenceRange, content: Any) -> None:
        self._blocks.append((span, content))

    def add_merged(self, span: SequenceRange, content: Any) -> None:
        self._merged.append((span, content))

    @property
    def has_gap(self) -> bool:
        """Whether a number is missing. Valid once `ready` has no more entries."""
        return bool(self._blocks or self._merged) or self._merged_to >= self.next > 0

    @property
    def first_waiting(self) -> SequenceRange | None:
        """The lowest span in the queues."""
        return min((queue[0][0] for queue in (self._blocks, self._merged) if queue), default=None)

    def skip_gap(self) -> None:
        """Continue with the lowest number in the queues."""
        span = self.first_waiting
        if span is not None:
            self.next = max(self.next, span.first)

    def mark_read(self, number: int) -> None:
        """Consider everything before this number read. The queues must be empty."""
        if self._blocks or self._merged:
            raise ValueError(f"not all before {number} is read: {self.first_waiting} is still queued")
        self.next = number

    def ready(self) -> Iterator[OrderedEntry]:
        """Remove and yield the entries that follow without a gap."""
        while True:
            if not self.next and self._merged:
                self.next = self._merged[0][0].first
            if self._merged and self._merged[0][0].first <= self.next:
                span, content = self._merged.popleft()
                # If its first blocks were yielded, the rest of its blocks will come in the other partition.
                is_redundant = span.first < self.next
                self._merged_to = max(self._merged_to, span.last)
                self.next = self.next if is_redundant else span.last + 1
                yield OrderedEntry(span, True, is_redundant, content)
            elif self.next and self._blocks and self._blocks[0][0].first <= self.next:
                span, content = self._blocks.popleft()
                if span.last >= self.next:
                    self.next = span.last + 1
                    yield OrderedEntry(span, False, False, content)
            else:
                return
