"""The phases of a task: what becomes of its state store when an opening is cancelled or fails."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from stream_dedup.errors import Interrupted, Outdated, TransactionFailed
from stream_dedup.settings import load_settings
from stream_dedup.worker import task as task_module
from stream_dedup.worker.observer import TaskState
from stream_dedup.worker.task import Phase, Task
from tests.harness.wait import wait_until
from tests.worker.support import context


class FakeStore:
    made: list["FakeStore"]

    def __init__(self, *_: Any) -> None:
        self.followed = self.rolled_back = 0
        self.closed = threading.Event()
        self.made.append(self)

    def follow(self) -> None:
        self.followed += 1

    def rollback(self) -> None:
        self.rolled_back += 1

    def close(self) -> None:
        self.closed.set()


class FakePipeline:
    """Opens as `how` does, which gets the check for a cancellation."""

    how: Callable[[Callable[[], None]], None]
    opened_in, is_busy = 0.0, False

    @classmethod
    def open(cls, *arguments: Any) -> "FakePipeline":
        cls.how(arguments[-1])
        return cls()

    def __len__(self) -> int:
        return 0

    def close(self, *, wait: bool = True) -> None: ...


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Task:
    FakeStore.made = []
    monkeypatch.setattr(task_module, "StateStore", FakeStore)
    monkeypatch.setattr(task_module, "open_pipeline", FakePipeline.open)
    return Task("global", 0, context(load_settings()), threading.Event())


def advance_until(task: Task, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        task.advance(None)  # type: ignore[arg-type]
        time.sleep(0.01)


def opens(_: Callable[[], None]) -> None: ...


def test_a_cancelled_opening_leaves_its_store_to_the_standby_and_to_the_next_opening(task: Task) -> None:
    def hangs(check: Callable[[], None]) -> None:
        under_way.set()
        while True:
            check()
            time.sleep(0.01)

    under_way = threading.Event()
    FakePipeline.how = staticmethod(hangs)
    task.assign(frozenset({0}), "")
    task.advance(None)  # type: ignore[arg-type]
    assert under_way.wait(30)
    assert task.state is TaskState.OPENING
    task.assign(frozenset(), "rebalance")
    [store] = FakeStore.made
    assert task.phase is Phase.CANCELLING
    wait_until(lambda: task.follow("") and store.followed, "the opening, which still has the memory, ends")
    FakePipeline.how = staticmethod(opens)
    task.assign(frozenset({0, 1}), "")
    advance_until(task, lambda: task.phase is Phase.OPEN)
    assert FakeStore.made == [store]
    task.close_pipeline("a failed commit")
    assert store.rolled_back == 1
    advance_until(task, lambda: task.phase is Phase.OPEN)
    assert FakeStore.made == [store]


def test_an_outdated_store_is_replaced(task: Task) -> None:
    def outdated(_: Callable[[], None]) -> None:
        raise Outdated("the changelog begins later now")

    FakePipeline.how = staticmethod(outdated)
    task.assign(frozenset({0}), "")
    with pytest.raises(Outdated):
        advance_until(task, lambda: False)
    assert FakeStore.made[0].closed.wait(30)
    FakePipeline.how = staticmethod(opens)
    advance_until(task, lambda: task.phase is Phase.OPEN)
    assert len(FakeStore.made) == 2


def test_failed_openings_are_counted_until_one_succeeds(task: Task) -> None:
    def fails(_: Callable[[], None]) -> None:
        raise TransactionFailed("no coordinator")

    def is_interrupted(_: Callable[[], None]) -> None:
        raise Interrupted("a stop came")

    task.assign(frozenset({0}), "")
    for how, expected in ((fails, 1), (fails, 2), (is_interrupted, 2)):
        FakePipeline.how = staticmethod(how)
        with suppress(TransactionFailed):
            task.advance(None)  # type: ignore[arg-type]
            advance_until(task, lambda: task._opening is None)
        assert task.failed_openings == expected
    FakePipeline.how = staticmethod(opens)
    advance_until(task, lambda: task.phase is Phase.OPEN)
    assert task.failed_openings == 0
    assert len(FakeStore.made) == 1


def test_openings_between_the_same_failures_are_logged_once(task: Task, caplog: pytest.LogCaptureFixture) -> None:
    FakePipeline.how = staticmethod(opens)
    task.assign(frozenset({0}), "")
    with caplog.at_level("INFO"):
        for failures in range(4):
            task.retry.failures = failures
            advance_until(task, lambda: task.phase is Phase.OPEN)
            task.close_pipeline("a failure")
    line = "task global is open: partitions [0], 0 originals, 0.0 s"
    assert [record.getMessage() for record in caplog.records] == [line, line]
