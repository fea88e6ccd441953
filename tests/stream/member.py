"""A worker in a process of its own, for the tests that kill and freeze it, and make it stumble (SIGUSR2).

In: one line of JSON on stdin: settings, and orders: `kill` or `freeze`: [step, n]: SIGKILL or SIGSTOP to itself
when that step is announced for the n-th time; `slow`: seconds to sleep after each batch; `tell_standby`: while it
stands by, say twice a second how many originals it knows; `cannot_open`: no task can be opened here. Out: a line
of JSON an event. At SIGUSR2 the next transaction fails: by turns before anything is committed, and after all is.
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


def say(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, "at": time.time(), **fields}), flush=True)


class Saboteur(Observer):
    def __init__(self, orders: dict[str, Any]) -> None:
        self._orders = orders
        self._seen: Counter[CommitStep] = Counter()
        self._memory: Deduplicator | None = None
        self._said = 0.0

    def deduplicator(self, settings: Settings) -> Deduplicator:
        """The worker's index, made here so that it can be looked at."""
        self._memory = Deduplicator(settings)
        return self._memory

    def turn(self, tasks: Sequence[str]) -> None:
        if "tell_standby" in self._orders and not tasks and self._memory and time.monotonic() - self._said > 0.5:
            self._said = time.monotonic()
            say("stands_by", remembered=len(self._memory))

    def step(self, step: CommitStep, task: str) -> None:
        self._seen[step] += 1
        for order, number in (("kill", signal.SIGKILL), ("freeze", signal.SIGSTOP)):
            if self._orders.get(order) == [step, self._seen[step]]:
                say(order, step=step, task=task)
                # To this thread: a signal to the process may find another one, and this one would go on meanwhile.
                signal.pthread_kill(threading.get_ident(), number)

    def batch(self, report: BatchReport) -> None:
        say("batch", task=report.task, records=len(report.verdicts), lag=sum(report.lag.values()))
        time.sleep(self._orders.get("slow", 0))

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        say("opened", task=task, partitions=list(partitions), remembered=remembered, seconds=seconds)

    def task_lost(self, task: str, reason: str) -> None:
        say("lost", task=task, reason=reason)

    def gave_up(self) -> None:
        say("gave_up")

    def stuck(self, task: str) -> None:
        say("stuck", task=task)

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        say("error", kind=type(error).__name__, error=str(error), retry_in=retry_in)


class Stumbling(TaskProducer):
    """A producer that fails when it is told to."""

    told = 0  # how often
    done = 0

    def flush(self) -> None:
        super().flush()
        if self.told > self.done and self.done % 2 == 0:
            self.stumble("not enough replicas")

    def commit(self) -> None:
        super().commit()
        if self.told > self.done:
            self.stumble("the outcome is unknown")

    def stumble(self, reason: str) -> None:
        Stumbling.done = self.told
        say("stumble", reason=reason)
        raise TransactionFailed(reason)


def tell_to_stumble(*_: Any) -> None:
    Stumbling.told = Stumbling.done + 1


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
    signal.signal(signal.SIGUSR2, tell_to_stumble)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    say("ready")
    saboteur = Saboteur(orders)
    Worker(settings, observer=saboteur, deduplicator=saboteur.deduplicator).run(stop)
    say("ended")


if __name__ == "__main__":
    main()
