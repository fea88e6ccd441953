"""Says that kernels are being compiled: numba's events in, one message out.

From an empty cache the first items wait half a minute for it, spread over the first batches. Without a word that looks
like a worker that hangs, and its lag like a broker's.
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
def compiling_is_said(say: Callable[[str], None]) -> Iterator[None]:
    """`say` hears of the first kernel within the block that no cache has, before it is compiled."""

    class Listener(event.Listener):
        said = False

        def on_start(self, event: Any) -> None:
            if not self.said:
                self.said = True
                say(COMPILING)

        def on_end(self, event: Any) -> None:
            pass

    listener = Listener()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]  # numba ships no types
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]
