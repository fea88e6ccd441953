"""Run blocking calls with a time limit (`Bounded`), and pause between failed tries (`Retry`).

kafka-python's commit, abort and send_offsets wait without a time-out (measured: still blocked 20 s after the broker was
killed, and 3 s after a close). So each client gets a daemon thread that runs its calls one after the other, and the
caller waits for a bounded time. A thread whose call does not return in time is given up: it ends if the call ever
returns, and does not delay the end of the process.

A wait counts its slices, not the clock, because a process that is stopped or starved has not waited meanwhile. By the
clock, a healthy worker would end after each pause longer than its bound.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from stream_dedup.errors import Fenced, Stalled, StreamError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.runtime import REAL, Runtime
from stream_dedup.settings import Settings

T = TypeVar("T")
log = logging.getLogger(__name__)

# Seconds within which a waiting caller notices a stop.
_SLICE = 0.2


def no_deadline() -> float:
    """Return the `left` of a caller that nothing stops."""
    return float("inf")


class Bounded:
    """One thread for the calls of one client. `left()`: seconds until everything must be over."""

    def __init__(self, name: str, left: Callable[[], float] = no_deadline, runtime: Runtime = REAL) -> None:
        self._name, self._left, self._runtime = name, left, runtime
        self._jobs = runtime.queue()  # of a future and its function; None: the end
        self.is_given_up = False  # a call has not come back, or no more are accepted
        runtime.start_thread(name, self._work)

    def call(self, action: str, seconds: float, function: Callable[[], T]) -> T:
        """Run the function and return its result or raise its error. Raises `Stalled` after `seconds` or `left()`."""
        return self.wait(action, seconds, self.start(action, function))

    def wait(self, action: str, seconds: float, future: Future[T]) -> T:
        """Return the result or the error of a call that was started. Raises `Stalled` after `seconds` or `left()`."""
        remaining = seconds
        while (share := min(remaining, self._left(), _SLICE)) > 0:
            try:
                return future.result(share)
            except TimeoutError:
                if future.done():  # a TimeoutError of the function itself, or it ended between the two lines
                    return future.result()
            remaining -= share
        self.is_given_up = True
        raise Stalled(f"{self._name}: {action} did not end within its bound of {seconds:.0f} s")

    def start(self, action: str, function: Callable[[], T]) -> Future[T]:
        """Begin a call without waiting. Raises `Stalled` if an earlier call hangs."""
        if self.is_given_up:
            raise Stalled(f"{self._name}: {action} was not begun, an earlier call has not come back")
        future: Future[T] = self._runtime.future()
        self._jobs.put((future, function))
        return future

    def end(self, last: Callable[[], object] | None = None) -> None:
        """Accept no more calls. `last` runs after the current call, and `end` does not wait for it."""
        self.is_given_up = True
        if last is not None:
            self._jobs.put((self._runtime.future(), last))
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, function = job
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - any error belongs to the caller
                future.set_exception(error)
            del job, future, function  # an idle thread must not keep the last result alive


# Most short failures are a coordinator or a leader that has moved, which takes less than half a second, and the task
# should be open again by then. In an outage there is a try every five seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_DOUBLINGS = 6  # the longest pause is reached; 2.0**1024 would be too large for a float


class Retry:
    """Counts failures in a row, and lets the pause before the next try grow. `name` says in the log what failed."""

    def __init__(self, settings: Settings, name: str, runtime: Runtime = REAL) -> None:
        self.failures = 0  # in a row
        self._settings, self._name, self._monotonic = settings, name, runtime.monotonic
        self._last_logged = ""  # the last failure that was logged as a warning
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether the pause after the last failure is over, or nothing has failed."""
        return self._monotonic() >= self._due

    def failed(self, error: StreamError, last_poll: float) -> float:
        """Count a failure; return the seconds until the next try. `last_poll`: of the group, monotonic seconds.

        Opening a task fences its owner. A member may have been replaced without knowing it: it was fenced, or it slept
        or hung for so long that its session may have ended. Such a member waits until it hears from the group: for two
        heartbeats, because the client may have to look for the coordinator first, and then counts the interval anew.
        """
        worker = self._settings.worker
        seconds: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self.failures, _DOUBLINGS))
        # The session began anew with the last heartbeat before that poll: at most two intervals of it were over.
        was_away = self._monotonic() - last_poll > worker.session_timeout.total_seconds() / 2
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
        self._due = self._monotonic() + seconds
        return seconds

    def postpone(self, seconds: float) -> None:
        """Put the next try off for at least this long."""
        self._due = max(self._due, self._monotonic() + seconds)

    def succeeded(self) -> None:
        """End the row of failures."""
        if self.failures:
            log.info("%s works again", self._name)
        self.failures, self._last_logged, self._due = 0, "", 0.0
