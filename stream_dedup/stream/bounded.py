"""Blocking calls with a bound: a function in, its result or `Stalled` out.

kafka-python's commit, abort and send_offsets wait without a time-out (measured: still blocked 20 s after the
broker was killed, and 3 s after a close). So each client gets a daemon thread in which its calls run one after
the other, and whoever waits does so for a bounded time. A thread whose call does not come back is given up: it
ends by itself if the call ever returns, and does not hold up the end of the process.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from stream_dedup.errors import Stalled

T = TypeVar("T")

# A stop is heard within this time while a call is waited for.
_SLICE = 0.2


def no_hurry() -> float:
    """The `left` of whoever is never stopped."""
    return float("inf")


class Bounded:
    """One thread for one client. `left()` says how many seconds remain before everything must be over."""

    def __init__(self, name: str, left: Callable[[], float] = no_hurry) -> None:
        self._left = left
        self._name = name
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._given_up = False
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def call(self, what: str, seconds: float, function: Callable[[], T]) -> T:
        """The function's result or error; `Stalled` if it does not end within `seconds`, or within `left()`."""
        future = self.start(what, function)
        end = time.monotonic() + seconds
        while True:
            remaining = min(end - time.monotonic(), self._left())
            if remaining <= 0:
                self._given_up = True
                raise Stalled(f"{self._name}: {what} did not end within its bound of {seconds:.0f} s")
            try:
                return future.result(min(remaining, _SLICE))
            except TimeoutError:
                if future.done():  # the error is the function's own, or it ended between the two lines
                    return future.result()

    def start(self, what: str, function: Callable[[], T]) -> Future[T]:
        """Begins a call that bounds itself, and does not wait for it. Raises `Stalled` as `call` does."""
        if self._given_up:
            raise Stalled(f"{self._name}: {what} was not begun, an earlier call has not come back")
        future: Future[T] = Future()
        self._jobs.put((future, function))
        return future

    def end(self, last: Callable[[], object] | None = None) -> None:
        """No more calls. `last` runs after what is still under way, waited for by nobody."""
        self._given_up = True
        if last is not None:
            self._jobs.put((Future(), last))
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function = job
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the one who waits
                future.set_exception(error)
            del job, future, function  # a waiting thread must not keep the last result alive
