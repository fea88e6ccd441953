"""What a worker takes from the machine (`Runtime`: clocks, threads, clients), and calls with a time limit (`Bounded`).

Everything that waits or reads a clock in the worker goes through one `Runtime`, so a test can run the whole worker in
virtual time (tests/lab/model).

kafka-python's commit, abort and send_offsets wait without a time-out (measured: still blocked 20 s after the broker was
killed, and 3 s after a close). So each client gets a daemon thread that runs its calls one after the other, and the
caller waits for a bounded time. A thread whose call does not return in time is given up: it ends if the call ever
returns, and does not delay the end of the process.

A wait counts its slices, not the clock, because a process that is stopped or starved has not waited meanwhile. By the
clock, a healthy worker would end after each pause longer than its bound.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from stream_dedup.errors import Stalled, TransactionFailed
from stream_dedup.kafka import client, errors, fetch
from stream_dedup.kafka.errors import KafkaError
from stream_dedup.kafka.fetch import LeaderEpochs
from stream_dedup.settings import Settings

T = TypeVar("T")


def _start_thread(name: str, function: Callable[[], object]) -> None:
    threading.Thread(target=function, name=name, daemon=True).start()


@dataclass(frozen=True, slots=True)
class Runtime:
    """Clocks, threads and clients; by default those of the standard library and of kafka-python."""

    monotonic: Callable[[], float] = time.monotonic  # seconds from any moment on
    wall: Callable[[], float] = time.time  # seconds since 1970
    start_thread: Callable[[str, Callable[[], object]], object] = _start_thread
    future: Callable[[], Future[Any]] = Future
    queue: Callable[[], Any] = SimpleQueue
    wait: Callable[..., Any] = wait
    make_client: Callable[[Callable[..., Any], Mapping[str, Any]], Any] = client.make


REAL = Runtime()


def make_consumer(
    config: Mapping[str, Any],
    most_of_record: int = sys.maxsize,
    epochs: LeaderEpochs | None = None,
    runtime: Runtime = REAL,
) -> Any:
    """Make a KafkaConsumer that reads as `fetch.install` says."""
    return fetch.install(runtime.make_client(client.KafkaConsumer, config), most_of_record, epochs)


# Seconds within which a waiting caller notices a stop.
_SLICE = 0.2


def no_deadline() -> float:
    """Return the `left` of a caller that nothing stops."""
    return float("inf")


@contextmanager
def administrator(settings: Settings, runtime: Runtime = REAL, **options: Any) -> Iterator[Any]:
    """An admin client with these options for a `with` block; its errors become ours."""
    action = f"asking Kafka at {settings.kafka.bootstrap_servers} for the topics"
    try:
        admin = runtime.make_client(client.KafkaAdminClient, client.connection(settings) | options)
    except KafkaError as error:
        failure = errors.translate(error, action)
        if isinstance(failure, TransactionFailed):  # the worker tries again, a command prints it
            failure = TransactionFailed(str(errors.not_reached(error, settings)), lasting=failure.lasting)
        raise failure from None
    try:
        with errors.translated(action):
            yield admin
    finally:
        admin.close()


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
