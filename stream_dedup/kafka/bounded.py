"""Run blocking calls with a time limit.

kafka-python's commit, abort and send_offsets wait without a time-out (measured: still blocked 20 s after the broker was
killed, and 3 s after a close). So each client gets a daemon thread that runs its calls one after the other, and the
caller waits for a bounded time. When a call does not return in time, its thread is given up: it ends if the call ever
returns, and does not delay the end of the process.

A wait counts its slices, not the clock: a process that is stopped, or starved by others, has not waited meanwhile. By
the clock a healthy worker would end after each pause that is longer than its bound, because its poll took as long.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from stream_dedup.errors import Fenced, Stalled, StreamError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.settings import Settings

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
        remaining = seconds
        while (share := min(remaining, self._left(), _SLICE)) > 0:
            try:
                return future.result(share)
            except TimeoutError:
                if future.done():  # a TimeoutError of the function itself, or it ended between the two lines
                    return future.result()
            remaining -= share
        self.is_given_up = True
        raise Stalled(f"{self._name}: {what} did not end within its bound of {seconds:.0f} s")

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


log = logging.getLogger(__name__)

# Most short failures are a coordinator or a leader that has moved, and are over by then; a task shall be open again
# within half a second. In an outage there is a try every five seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_DOUBLINGS = 6  # the longest pause is reached; 2.0**1024 would be too large for a float


class Retry:
    """`name` says in the log what failed."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.failures = 0  # in a row
        self._settings, self._name = settings, name
        self._last_logged = ""  # the last failure that was logged as a warning
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the pause after the last failure is over, or nothing has failed."""
        return time.monotonic() >= self._due

    def failed(self, error: StreamError, last_poll: float) -> float:
        """Count a failure; return the seconds until the next try. `last_poll`: of the group, monotonic seconds.

        Opening a task fences its owner. A member may have been replaced without knowing it: it was fenced, or it was
        asleep or stuck for so long that its session may have ended. Such a member waits until it hears what the group
        says: for a heartbeat, and perhaps before it for a search for the coordinator, after which the client counts a
        heartbeat interval anew.
        """
        worker = self._settings.worker
        seconds: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self.failures, _DOUBLINGS))
        # The session began anew with the last heartbeat before that poll: at most two intervals of it were over.
        was_away = time.monotonic() - last_poll > worker.session_timeout.total_seconds() / 2
        # Kafka's verdict on single records says nothing about the member.
        is_about_records = isinstance(error, TransactionFailed) and error.sources
        if not is_about_records and (was_away or isinstance(error, Fenced)):
            seconds = max(seconds, 2 * client.heartbeat_ms(self._settings) / 1000)
        self.failures += 1
        # An outage is logged once, not at each try; another reason is logged again.
        level = logging.DEBUG if str(error) == self._last_logged else logging.WARNING
        log.log(
            level, "%s: %s; trying again", self._name, error,
            extra={"kind": type(error).__name__, "retry_in": round(seconds, 1)},
        )  # fmt: skip
        self._last_logged = str(error)
        self._due = time.monotonic() + seconds
        return seconds

    def postpone(self, seconds: float) -> None:
        """Put the next try off for at least this long."""
        self._due = max(self._due, time.monotonic() + seconds)

    def succeeded(self) -> None:
        """End the row of failures."""
        if self.failures:
            log.info("%s works again", self._name)
        self.failures, self._last_logged, self._due = 0, "", 0.0
