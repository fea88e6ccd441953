"""The slot of a task: what becomes of its state store when an opening is cancelled or fails."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from stream_dedup.errors import Interrupted, Outdated, TransactionFailed
from stream_dedup.settings import load_settings
from stream_dedup.worker import task
from stream_dedup.worker.observer import TaskState
from stream_dedup.worker.task import TaskSlot
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


class FakeTask:
    """Opens as `how` does, which gets the check for a cancellation."""

    how: Callable[[Callable[[], None]], None]

    def __init__(
        self, name: str, partitions: frozenset[int], group: Any, context: Any, check: Any, store: Any, failed: Any
    ) -> None:
        self.partitions, self.store, self.opened_in, self.is_busy = partitions, store, 0.0, False
        type(self).how(check)

    def __len__(self) -> int:
        return 0

    def close(self, *, wait: bool = True) -> None: ...


@pytest.fixture
def slot(monkeypatch: pytest.MonkeyPatch) -> TaskSlot:
    FakeStore.made = []
    monkeypatch.setattr(task, "StateStore", FakeStore)
    monkeypatch.setattr(task, "PartitionTask", FakeTask)
    return TaskSlot("global", 0, context(load_settings()), threading.Event())


def advance_until(slot: TaskSlot, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        slot.advance(None)  # type: ignore[arg-type]
        time.sleep(0.01)


def opens(_: Callable[[], None]) -> None: ...


def test_a_cancelled_opening_leaves_its_store_to_the_standby_and_to_the_next_opening(slot: TaskSlot) -> None:
    def hangs(check: Callable[[], None]) -> None:
        under_way.set()
        while True:
            check()
            time.sleep(0.01)

    under_way = threading.Event()
    FakeTask.how = staticmethod(hangs)
    slot.assign(frozenset({0}), "")
    slot.advance(None)  # type: ignore[arg-type]
    assert under_way.wait(30)
    assert slot.state is TaskState.OPENING
    slot.assign(frozenset(), "rebalance")
    [store] = FakeStore.made
    wait_until(lambda: slot.follow("") or store.followed, "the opening, which still has the memory, ends")
    FakeTask.how = staticmethod(opens)
    slot.assign(frozenset({0, 1}), "")
    advance_until(slot, lambda: slot.task is not None)
    assert FakeStore.made == [store]
    assert slot.task is not None
    assert slot.task.partitions == {0, 1}
    slot.close_task("a failed commit")
    assert store.rolled_back == 1
    advance_until(slot, lambda: slot.task is not None)
    assert FakeStore.made == [store]


def test_an_outdated_store_is_replaced(slot: TaskSlot) -> None:
    def outdated(_: Callable[[], None]) -> None:
        raise Outdated("the changelog begins later now")

    FakeTask.how = staticmethod(outdated)
    slot.assign(frozenset({0}), "")
    with pytest.raises(Outdated):
        advance_until(slot, lambda: False)
    assert FakeStore.made[0].closed.wait(30)
    FakeTask.how = staticmethod(opens)
    advance_until(slot, lambda: slot.task is not None)
    assert len(FakeStore.made) == 2


def test_failed_openings_are_counted_until_one_succeeds(slot: TaskSlot) -> None:
    def fails(_: Callable[[], None]) -> None:
        raise TransactionFailed("no coordinator")

    def is_interrupted(_: Callable[[], None]) -> None:
        raise Interrupted("a stop came")

    slot.assign(frozenset({0}), "")
    for how, expected in ((fails, 1), (fails, 2), (is_interrupted, 2)):
        FakeTask.how = staticmethod(how)
        with suppress(TransactionFailed):
            slot.advance(None)  # type: ignore[arg-type]
            advance_until(slot, lambda: slot._opening is None)
        assert slot.failed_openings == expected
    FakeTask.how = staticmethod(opens)
    advance_until(slot, lambda: slot.task is not None)
    assert slot.failed_openings == 0
    assert len(FakeStore.made) == 1


def test_openings_between_the_same_failures_are_logged_once(slot: TaskSlot, caplog: pytest.LogCaptureFixture) -> None:
    FakeTask.how = staticmethod(opens)
    slot.assign(frozenset({0}), "")
    with caplog.at_level("INFO"):
        for failures in range(4):
            slot.retry.failures = failures
            advance_until(slot, lambda: slot.task is not None)
            slot.close_task("a failure")
    line = "task global is open: partitions [0], 0 originals, 0.0 s"
    assert [record.getMessage() for record in caplog.records] == [line, line]
