"""Notice when numba compiles a kernel while items wait: name the kernels, and say so in the log.

In: a block of code. Out: the names of the kernels that it compiled, or a line of the log. From an empty cache the first
items wait a minute for compilations, spread over the first batches. Without a message that looks like a worker that
hangs, and its lag like a broker's. A single kernel that the cache lacks takes less than a second, and is not logged.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from stream_dedup.compiled import shipped

_PATIENCE_SECONDS = 2.0


def compiling() -> str:
    """Return what the log says of a long compilation. From an empty cache: 33 to 75 s on an idle core."""
    return (
        "compiling the decision for this processor: a minute or more in all, once, and items wait meanwhile. "
        f"`stream-dedup warm` does it at install. The reason: {shipped()[1]}"
    )


class _Listener(event.Listener):
    """Calls `report` before each compilation with their number, this one included, and the seconds that they took."""

    def __init__(self, report: Callable[[int, float], None]) -> None:
        self.names: list[str] = []
        self._report = report
        self._depth = 0  # a kernel that calls another compiles it within its own compilation
        self._seconds = self._began = 0.0

    def on_start(self, event: Any) -> None:
        if not self._depth:
            self._began = time.monotonic()
        self._depth += 1
        self.names.append(str(event.data["dispatcher"].py_func.__qualname__))
        self._report(len(self.names), self._seconds + time.monotonic() - self._began)

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if not self._depth:
            self._seconds += time.monotonic() - self._began


@contextmanager
def count_compilations(report: Callable[[int, float], None] = lambda count, seconds: None) -> Iterator[list[str]]:
    """Collect the names of the kernels that are compiled within the block; kernels from the cache do not count."""
    listener = _Listener(report)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]  # numba ships no types
    try:
        yield listener.names
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


@contextmanager
def report_long_compilation(log: Callable[[str], None]) -> Iterator[None]:
    """Log once that kernels are compiled, when another one begins after two seconds of that within the block."""
    is_said = False

    def report(count: int, seconds: float) -> None:
        nonlocal is_said
        if seconds > _PATIENCE_SECONDS and not is_said:
            is_said = True
            log(compiling())

    with count_compilations(report):
        yield
