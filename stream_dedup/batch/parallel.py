"""A function over many inputs by several threads, its results in the order of the inputs."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


def in_order(executor: Executor, function: Callable[[In], Out], inputs: Iterable[In], ahead: int) -> Iterator[Out]:
    """function(one) for each input, in order; at most `ahead` of them are begun or done and not yet taken.

    `Executor.map` would read all inputs at once. What is begun when an error comes is waited for.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     list(in_order(pool, str, range(4), 3))
    ['0', '1', '2', '3']
    """
    begun: deque[Future[Out]] = deque()
    try:
        for one in inputs:
            begun.append(executor.submit(function, one))
            if len(begun) >= ahead:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()
