"""Apply a function to many inputs in several threads, with the results in input order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


def map_in_order(executor: Executor, function: Callable[[In], Out], inputs: Iterable[In], ahead: int) -> Iterator[Out]:
    """Yield function(value) for each input, in order. At most `ahead` results are in the making or not yet taken.

    `Executor.map` would read all inputs at once. After an error, calls that have started still run to their end.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     list(map_in_order(pool, str, range(4), 3))
    ['0', '1', '2', '3']
    """
    pending: deque[Future[Out]] = deque()
    try:
        for value in inputs:
            pending.append(executor.submit(function, value))
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
