"""A worker in a process of its own that reports events, and that a test kills, freezes or makes fail.

After SIGUSR2 the next transaction fails: alternately before its commit, and after it. The other faults are orders:

    kill, freeze    [step, n]: send SIGKILL or SIGSTOP to itself when that step is announced for the n-th time
    slow            seconds to sleep after each batch
    deadly          a text at whose sight it kills itself, as the kernel kills a process that takes too much memory
    tell_standby    report the number of originals twice a second while it stands by
    cannot_open     no task can be opened
    metadata_ms     how often the clients refresh their metadata
    clock           the file that its wall clock follows (tests/worker/clock.py)
"""

import faulthandler
import logging
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partialmethod
from multiprocessing.connection import Connection
from typing import Any

from stream_dedup.dedup.batch import Prepared
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import StreamDedupError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.settings import Settings
from stream_dedup.worker import opening
from stream_dedup.worker.observer import BatchReport, CommitStep, Observer
from stream_dedup.worker.worker import Worker
from tests.worker import clock

_prepare = Decider.prepare


class Events:
    """Where the process reports its events; the test opens it."""

    pipe: Connection
    lock = threading.Lock()


def emit(event: str, **fields: Any) -> None:
    with Events.lock:
        Events.pipe.send({"event": event, "at": time.time(), **fields})


class Saboteur(Observer):
    def __init__(self, orders: Mapping[str, Any]) -> None:
        self._orders = orders
        self._seen: Counter[CommitStep] = Counter()
        self._index: Decider | None = None
        self._reported_at = 0.0

    def decider(self, settings: Settings) -> Decider:
        """Make the worker's index, and keep a reference to it."""
        self._index = Decider(settings)
        return self._index

    def loop_completed(self, tasks: Sequence[str]) -> None:
        if "tell_standby" in self._orders and not tasks and self._index and time.monotonic() - self._reported_at > 0.5:
            self._reported_at = time.monotonic()
            emit("stands_by", remembered=len(self._index))

    def step(self, step: CommitStep, task: str) -> None:
        self._seen[step] += 1
        for order, number in (("kill", signal.SIGKILL), ("freeze", signal.SIGSTOP)):
            if self._orders.get(order) == [step, self._seen[step]]:
                emit(order, step=step, task=task)
                # To this thread: a signal to the process may reach another one, and this one would go on meanwhile.
                signal.pthread_kill(threading.get_ident(), number)

    def batch(self, report: BatchReport) -> None:
        emit("batch", task=report.task, records=report.count, lag=sum(report.lag.values()))
        time.sleep(self._orders.get("slow", 0))

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        emit("opened", task=task, partitions=list(partitions), remembered=remembered, seconds=seconds)

    def task_lost(self, task: str, reason: str) -> None:
        emit("lost", task=task, reason=reason)

    def rebalanced(self, partitions: Sequence[int]) -> None:
        emit("rebalanced", partitions=list(partitions))

    def batch_stuck(self, task: str) -> None:
        emit("stuck", task=task)

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        emit("error", kind=type(error).__name__, error=str(error), retry_in=retry_in)


class Stumbling(TaskProducer):
    """A producer that fails after SIGUSR2."""

    requested = 0  # failures
    done = 0

    def flush(self) -> None:
        super().flush()
        if self.requested > self.done and self.done % 2 == 0:
            self.stumble("not enough replicas")

    def commit(self) -> None:
        super().commit()
        if self.requested > self.done:
            self.stumble("the outcome is unknown")

    def stumble(self, reason: str) -> None:
        Stumbling.done = self.requested
        emit("stumble", reason=reason)
        raise TransactionFailed(reason)


def request_stumble(*_: Any) -> None:
    Stumbling.requested = Stumbling.done + 1


class Unreachable(TaskProducer):
    """A producer that finds no coordinator."""

    def __init__(self, *_: Any, **__: Any) -> None:
        time.sleep(0.1)
        raise TransactionFailed("no coordinator can be reached from here")


def prepare_or_die(dedup: Decider, deadly: str, items: Sequence[Any]) -> Prepared:
    if any(deadly in getattr(item, "text", "") for item in items):
        os.kill(os.getpid(), signal.SIGKILL)
    return _prepare(dedup, items)


def run(settings: Settings, orders: Mapping[str, Any], pipe: Connection) -> None:
    """The whole life of the process."""
    Events.pipe = pipe
    if "clock" in orders:
        clock.follow(orders["clock"])
    logging.basicConfig(level=os.environ.get("MEMBER_LOG", "WARNING"), format="%(asctime)s %(name)s %(message)s")
    if "deadly" in orders:
        Decider.prepare = partialmethod(prepare_or_die, orders["deadly"])  # type: ignore[assignment]
    opening.TaskProducer = Unreachable if orders.get("cannot_open") else Stumbling  # type: ignore[misc]
    client._METADATA_MS = orders.get("metadata_ms", client._METADATA_MS)
    signal.signal(signal.SIGUSR2, request_stumble)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    emit("ready")
    saboteur = Saboteur(orders)
    Worker(settings, observer=saboteur, decider=saboteur.decider).run(stop)
    emit("ended")
