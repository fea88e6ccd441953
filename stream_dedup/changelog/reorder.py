"""Put the entries of an index's two partitions back into the order in which they were written, without duplicates.

In: blocks and merged blocks with their sequence numbers (entries.py), each partition in its own order, as far as it was
read. Out: the entries in sequence. A merged block repeats blocks of the other partition; whichever comes first counts,
the other is passed over. A number that neither partition has is a gap. The rest of the other partition may close it; if
not, part of the changelog was lost.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from stream_dedup.changelog.entries import SequenceRange

T = TypeVar("T")


class OrderedEntry(NamedTuple, Generic[T]):
    """The next entry. `is_redundant`: a merged block whose content the blocks have brought, or will bring."""

    span: SequenceRange
    is_merged: bool
    is_redundant: bool
    content: T


class Resequencer(Generic[T]):
    """Orders the entries of two partitions by sequence number. `next` is the number it expects, 0 before the first.

    The first merged block is the beginning, since everything before it has expired. Before the first block there may
    still be a merged block.

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
        self._merged_to = 0  # the last number of any merged block: the blocks up to it must exist
        self._blocks: deque[tuple[SequenceRange, T]] = deque()
        self._merged: deque[tuple[SequenceRange, T]] = deque()

    def add_block(self, span: SequenceRange, content: T) -> None:
        self._blocks.append((span, content))

    def add_merged(self, span: SequenceRange, content: T) -> None:
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
        """Go on with the lowest number in the queues."""
        span = self.first_waiting
        if span is not None:
            self.next = max(self.next, span.first)

    def skip_to(self, number: int) -> None:
        """Take everything before this number for read. The queues must be empty."""
        if self._blocks or self._merged:
            raise ValueError(f"cannot skip to {number}: {self.first_waiting} is still queued")
        self.next = number

    def ready(self) -> Iterator[OrderedEntry[T]]:
        """Remove and yield the entries that follow without a gap."""
        while True:
            if not self.next and self._merged:
                self.next = self._merged[0][0].first
            if self._merged and self._merged[0][0].first <= self.next:
                span, content = self._merged.popleft()
                # If its first blocks were delivered, the rest of its blocks will come in the other partition.
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
