"""A worker in a process of its own, for tests that kill it, freeze it or make a transaction fail (SIGUSR2).

In: one line of JSON on stdin: settings, and orders. `kill` or `freeze`: [step, n] sends SIGKILL or SIGSTOP to itself
when that step is announced for the n-th time. `slow`: seconds to sleep after each batch. `tell_standby`: report the
number of originals twice a second while it stands by. `cannot_open`: no task can be opened. Out: a line of JSON per
event. After SIGUSR2 the next transaction fails: alternately before its commit, and after it.
"""

import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import StreamDedupError, TransactionFailed
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from stream_dedup.stream import task
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.producer import TaskProducer
from stream_dedup.stream.transaction import CommitStep
from stream_dedup.stream.worker import Worker


def emit(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, "at": time.time(), **fields}), flush=True)


class Saboteur(Observer):
    def __init__(self, orders: dict[str, Any]) -> None:
        self._orders = orders
        self._seen: Counter[CommitStep] = Counter()
        self._index: Deduplicator | None = None
        self._reported_at = 0.0

    def deduplicator(self, settings: Settings) -> Deduplicator:
        """Make the worker's index, and keep a reference to it."""
        self._index = Deduplicator(settings)
        return self._index

    def turn(self, tasks: Sequence[str]) -> None:
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
        emit("batch", task=report.task, records=len(report.verdicts), lag=sum(report.lag.values()))
        time.sleep(self._orders.get("slow", 0))

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        emit("opened", task=task, partitions=list(partitions), remembered=remembered, seconds=seconds)

    def task_lost(self, task: str, reason: str) -> None:
        emit("lost", task=task, reason=reason)

    def gave_up(self) -> None:
        emit("gave_up")

    def stuck(self, task: str) -> None:
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


def main() -> None:
    warm = Deduplicator()  # loads the compiled kernels before the clock runs
    warm.apply(warm.judge([Item("1", "A headline", "A text of some words to warm up with", "", 0)]))
    warm.close()
    logging.basicConfig(level=os.environ.get("MEMBER_LOG", "WARNING"), format="%(asctime)s %(name)s %(message)s")
    orders = json.loads(sys.stdin.readline())
    settings = load_settings(**orders.pop("settings"))
    task.TaskProducer = Unreachable if orders.get("cannot_open") else Stumbling  # type: ignore[misc]
    signal.signal(signal.SIGUSR2, request_stumble)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    emit("ready")
    saboteur = Saboteur(orders)
    Worker(settings, observer=saboteur, deduplicator=saboteur.deduplicator).run(stop)
    emit("ended")


if __name__ == "__main__":
    main()
