"""Count and report the compilations of numba kernels, as numba's events announce them.

From an empty cache the first items wait a minute for compilations, spread over the first batches. Without a message
that looks like a worker that hangs, and its lag like a broker's. A single kernel that the cache lacks takes less than a
second, and is not logged.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

# From an empty cache: 16 s on two idle cores, 86 s on two busy ones.
COMPILING = (
    "compiling the decision for this processor: a minute or more in all, once, and items wait meanwhile. "
    "`stream-dedup warm` does it at install"
)
_PATIENCE_SECONDS = 2.0


@contextmanager
def _listening(on_start: Callable[[Any], None], on_end: Callable[[], None] = lambda: None) -> Iterator[None]:
    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            on_start(event)

        def on_end(self, event: Any) -> None:
            on_end()

    listener = Listener()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]  # numba ships no types
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


@contextmanager
def count_compilations(report: Callable[[int], None] = lambda count: None) -> Iterator[list[str]]:
    """Collect the names of the kernels that are compiled within the block; kernels from the cache do not count.

    Calls `report` before each compilation with the number of compilations so far, this one included.
    """
    names: list[str] = []

    def count(event: Any) -> None:
        names.append(str(event.data["dispatcher"].py_func.__qualname__))
        report(len(names))

    with _listening(count):
        yield names


@contextmanager
def report_long_compilation(log: Callable[[str], None]) -> Iterator[None]:
    """Log once that kernels are compiled, as soon as that has taken two seconds within the block."""
    left, began, is_said = _PATIENCE_SECONDS, 0.0, False
    depth = 0  # a kernel that calls another compiles it within its own compilation
    timer: threading.Timer | None = None

    def on_start(_: Any) -> None:
        nonlocal depth, began, timer
        depth += 1
        if depth == 1 and not is_said:
            began = time.monotonic()
            timer = threading.Timer(max(left, 0.0), say)
            timer.daemon = True
            timer.start()

    def say() -> None:
        nonlocal is_said
        is_said = True
        log(COMPILING)

    def on_end() -> None:
        nonlocal depth, left
        depth -= 1
        if depth == 0 and timer is not None:
            timer.cancel()
            left -= time.monotonic() - began

    with _listening(on_start, on_end):
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
