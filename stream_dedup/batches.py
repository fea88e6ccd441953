"""Cut a stream of values into batches that are bounded by count and by bytes."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batches(values: Iterable[T], size_of: Callable[[T], int], most: int, most_bytes: int) -> Iterator[list[T]]:
    """Yield the values in order, in batches that end once they reach `most` values or `most_bytes` bytes.

    `size_of` gives the bytes of a value. A batch is yielded before the next value is read.

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
