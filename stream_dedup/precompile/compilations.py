"""Count and report the compilations of numba kernels, as numba's events announce them.

From an empty cache the first items wait half a minute for compilations, spread over the first batches. Without a
message that looks like a worker that hangs, and its lag like a broker's.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

COMPILING = (
    "compiling the decision for this processor: about half a minute in all, once, and items wait meanwhile. "
    "`stream-dedup warm` does it at install"
)


@contextmanager
def count_compilations(report: Callable[[int], None] = lambda count: None) -> Iterator[list[str]]:
    """Collect the names of the kernels that are compiled within the block; kernels from the cache do not count.

    Calls `report` before each compilation with the number of compilations so far, this one included.
    """
    names: list[str] = []

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            names.append(str(event.data["dispatcher"].py_func.__qualname__))
            report(len(names))

        def on_end(self, event: Any) -> None:
            pass

    listener = Listener()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]  # numba ships no types
    try:
        yield names
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


@contextmanager
def report_first_compilation(log: Callable[[str], None]) -> Iterator[None]:
    """Log the first compilation within the block, before it begins."""
    with count_compilations(lambda count: log(COMPILING) if count == 1 else None):
        yield
