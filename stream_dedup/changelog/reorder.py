"""Pieces of two partitions -> the order in which they were written, each said once.

In: blocks and folds with their sequence numbers (fold.py), in the order of their partitions, as far as each was read.
Out: what is to be remembered next. What a fold says and the blocks said already is passed over, and the other way
round. A number that neither partition has is a gap. It may be closed by what is still to be read of the other one; if
not, part of the memory was lost.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from stream_dedup.changelog.fold import Span

T = TypeVar("T")


class Ready(NamedTuple, Generic[T]):
    """What comes next. `is_known`: a fold whose content the blocks have said, or say further on."""

    span: Span
    is_fold: bool
    is_known: bool
    content: T


class InOrder(Generic[T]):
    """Puts the pieces of two partitions in order. `next` is the number to come, 0 until the first is known.

    The first fold is the beginning, as what was before it has expired. Before the first block there may be a fold yet.

    >>> order = InOrder()
    >>> order.block(Span(3, 3), "c")
    >>> list(order.ready()), order.has_gap
    ([], True)
    >>> order.skip_gap()    # all was read, and there is nothing before it
    >>> list(order.ready()), order.next
    ([Ready(span=Span(first=3, last=3), is_fold=False, is_known=False, content='c')], 4)
    >>> order.block(Span(5, 5), "e"); list(order.ready()), order.has_gap
    ([], True)
    >>> order.fold(Span(3, 3), "c"); order.fold(Span(4, 4), "d")
    >>> [(one.content, one.is_known) for one in order.ready()], order.has_gap
    ([('c', True), ('d', False), ('e', False)], False)
    """

    def __init__(self) -> None:
        self.next = 0
        self._promised = 0  # a fold said that the blocks up to this number exist
        self._blocks: deque[tuple[Span, T]] = deque()
        self._folds: deque[tuple[Span, T]] = deque()

    def block(self, span: Span, content: T) -> None:
        self._blocks.append((span, content))

    def fold(self, span: Span, content: T) -> None:
        self._folds.append((span, content))

    def forget_blocks(self) -> None:
        """The blocks are read again, from further back."""
        self._blocks.clear()

    @property
    def has_gap(self) -> bool:
        """Whether a number is missing. Asked when `ready` has nothing more."""
        return bool(self._blocks or self._folds) or self._promised >= self.next > 0

    @property
    def first_waiting(self) -> Span | None:
        """The lowest numbers that wait."""
        return min((queue[0][0] for queue in (self._blocks, self._folds) if queue), default=None)

    def skip_gap(self) -> None:
        """Goes on with the lowest number there is."""
        span = self.first_waiting
        if span is not None:
            self.next = max(self.next, span.first)

    def skip_to(self, number: int) -> None:
        """All before this number is known without reading it. Nothing may wait."""
        if self._blocks or self._folds:
            raise ValueError(f"{self.first_waiting} waits to be said, and is to be skipped up to {number}")
        self.next = number

    def ready(self) -> Iterator[Ready[T]]:
        """Takes out what follows without a gap."""
        while True:
            if not self.next and self._folds:
                self.next = self._folds[0][0].first
            if self._folds and self._folds[0][0].first <= self.next:
                span, content = self._folds.popleft()
                # From the middle of a fold on, its blocks are still to come: they stand in the other partition.
                is_known = span.first < self.next
                self._promised = max(self._promised, span.last)
                self.next = self.next if is_known else span.last + 1
                yield Ready(span, True, is_known, content)
            elif self.next and self._blocks and self._blocks[0][0].first <= self.next:
                span, content = self._blocks.popleft()
                if span.last >= self.next:
                    self.next = span.last + 1
                    yield Ready(span, False, False, content)
            else:
                return
