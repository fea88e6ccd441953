"""Values -> batches of them, bounded in number and in bytes: whoever works batch by batch cuts by this rule."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(values: Iterable[T], size_of: Callable[[T], int], most: int, most_bytes: int) -> Iterator[list[T]]:
    """The values in order; a batch ends with the one that makes it `most` long, or `most_bytes` large or larger.

    It is handed out before the next value is asked for.

    >>> list(batches(["a", "b", "long", "c"], len, most=2, most_bytes=4))
    [['a', 'b'], ['long'], ['c']]
    """
    batch: list[T] = []
    size = 0
    for value in values:
        batch.append(value)
        size += size_of(value)
        if len(batch) >= most or size >= most_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
