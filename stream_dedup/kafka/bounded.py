"""Run blocking calls with a time limit.

kafka-python's commit, abort and send_offsets wait without a time-out (measured: still blocked 20 s after the broker was
killed, and 3 s after a close). So each client gets a daemon thread that runs its calls one after the other, and the
caller waits for a bounded time. When a call does not return in time, its thread is given up: it ends if the call ever
returns, and does not delay the end of the process.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from stream_dedup.errors import Stalled

T = TypeVar("T")

# Seconds within which a waiting caller notices a stop.
_SLICE = 0.2


def no_deadline() -> float:
    """The `left` of a caller that is never stopped."""
    return float("inf")


class Bounded:
    """One thread for the calls of one client. `left()`: seconds until everything must be over."""

    def __init__(self, name: str, left: Callable[[], float] = no_deadline) -> None:
        self._left = left
        self._name = name
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self.is_given_up = False  # a call has not come back, or no more are accepted
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def call(self, what: str, seconds: float, function: Callable[[], T]) -> T:
        """Run the function and return its result or raise its error. Raises `Stalled` after `seconds` or `left()`."""
        return self.wait(what, seconds, self.start(what, function))

    def wait(self, what: str, seconds: float, future: Future[T]) -> T:
        """The result or the error of a call that was started. Raises `Stalled` after `seconds` or `left()`."""
        end = time.monotonic() + seconds
        while True:
            remaining = min(end - time.monotonic(), self._left())
            if remaining <= 0:
                self.is_given_up = True
                raise Stalled(f"{self._name}: {what} did not end within its bound of {seconds:.0f} s")
            try:
                return future.result(min(remaining, _SLICE))
            except TimeoutError:
                if future.done():  # a TimeoutError of the function itself, or it ended between the two lines
                    return future.result()

    def start(self, what: str, function: Callable[[], T]) -> Future[T]:
        """Begin a call without waiting. Raises `Stalled` if an earlier call hangs."""
        if self.is_given_up:
            raise Stalled(f"{self._name}: {what} was not begun, an earlier call has not come back")
        future: Future[T] = Future()
        self._jobs.put((future, function))
        return future

    def end(self, last: Callable[[], object] | None = None) -> None:
        """Accept no more calls. `last` runs after the current call, and `end` does not wait for it."""
        self.is_given_up = True
        if last is not None:
            self._jobs.put((Future(), last))
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function = job
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - any error belongs to the caller
                future.set_exception(error)
            del job, future, function  # an idle thread must not keep the last result alive
