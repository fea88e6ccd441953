"""A lane's place: what becomes of its memory when an opening is cut, fails, or finds another changelog."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import Interrupted, Outdated, StreamError, TransactionFailed
from stream_dedup.settings import load_settings
from stream_dedup.stream import slot as slots
from stream_dedup.stream.bounded import no_hurry
from stream_dedup.stream.observer import LaneState, Observer
from stream_dedup.stream.slot import Slot
from stream_dedup.stream.surroundings import Surroundings


class FakeMemory:
    made: list["FakeMemory"]

    def __init__(self, *_: Any) -> None:
        self.is_certain, self.followed, self.rolled_back = True, 0, 0
        self.closed = threading.Event()
        self.made.append(self)

    def follow(self) -> None:
        self.followed += 1

    def rollback(self) -> bool:
        self.rolled_back += 1
        return self.is_certain

    def close(self) -> None:
        self.closed.set()


class FakeLane:
    """Opens as `how` says, which gets the check for a cut."""

    how: Callable[[Callable[[], None]], None]

    def __init__(self, name: str, partitions: frozenset[int], group: Any, around: Any, check: Any, memory: Any) -> None:
        self.partitions, self.memory, self.opened_in, self.is_busy = partitions, memory, 0.0, False
        type(self).how(check)

    def __len__(self) -> int:
        return 0

    def close(self, *, wait: bool = True) -> None: ...


@pytest.fixture
def slot(monkeypatch: pytest.MonkeyPatch) -> Slot:
    FakeMemory.made = []
    monkeypatch.setattr(slots, "Memory", FakeMemory)
    monkeypatch.setattr(slots, "Lane", FakeLane)
    around = Surroundings(load_settings(), Observer(), time.time, Deduplicator, no_hurry)
    return Slot("global", 0, around, threading.Event())


def advance_until(slot: Slot, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        slot.advance(None)  # type: ignore[arg-type]
        time.sleep(0.01)


def opens(_: Callable[[], None]) -> None: ...


def test_an_opening_that_is_cut_leaves_its_memory_to_the_standby_and_to_the_next(slot: Slot) -> None:
    def hangs(check: Callable[[], None]) -> None:
        under_way.set()
        while True:
            check()
            time.sleep(0.01)

    under_way = threading.Event()
    FakeLane.how = staticmethod(hangs)
    slot.want(frozenset({0}), "")
    slot.advance(None)  # type: ignore[arg-type]
    assert under_way.wait(30)
    assert slot.state is LaneState.OPENING
    slot.want(frozenset(), "rebalance")
    [memory] = FakeMemory.made
    deadline = time.monotonic() + 30
    while not memory.followed and time.monotonic() < deadline:
        slot.follow("")  # does nothing while the opening still has the memory
        time.sleep(0.01)
    assert memory.followed
    FakeLane.how = staticmethod(opens)
    slot.want(frozenset({0, 1}), "")
    advance_until(slot, lambda: slot.lane is not None)
    assert FakeMemory.made == [memory]
    assert slot.lane is not None
    assert slot.lane.partitions == {0, 1}
    slot.reopen("a failed commit")
    assert memory.rolled_back == 1
    advance_until(slot, lambda: slot.lane is not None)
    assert FakeMemory.made == [memory]


def test_a_memory_that_is_uncertain_or_outdated_is_read_anew(slot: Slot) -> None:
    def outdated(_: Callable[[], None]) -> None:
        raise Outdated("the changelog begins later now")

    FakeLane.how = staticmethod(opens)
    slot.want(frozenset({0}), "")
    advance_until(slot, lambda: slot.lane is not None)
    FakeMemory.made[0].is_certain = False
    slot.reopen("a fault half-way")
    assert FakeMemory.made[0].closed.wait(30)
    FakeLane.how = staticmethod(outdated)
    with pytest.raises(Outdated):
        advance_until(slot, lambda: False)
    assert FakeMemory.made[1].closed.wait(30)
    FakeLane.how = staticmethod(opens)
    advance_until(slot, lambda: slot.lane is not None)
    assert len(FakeMemory.made) == 3


def test_failed_openings_are_counted_until_one_succeeds(slot: Slot) -> None:
    def fails(_: Callable[[], None]) -> None:
        raise TransactionFailed("no coordinator")

    def is_interrupted(_: Callable[[], None]) -> None:
        raise Interrupted("a stop came")

    slot.want(frozenset({0}), "")
    for how, expected in ((fails, 1), (fails, 2), (is_interrupted, 2)):
        FakeLane.how = staticmethod(how)
        slot.advance(None)  # type: ignore[arg-type]
        deadline = time.monotonic() + 30
        while slot._opening is not None and time.monotonic() < deadline:
            try:
                slot.advance(None)  # type: ignore[arg-type]
            except StreamError:
                break
            time.sleep(0.01)
            if how is is_interrupted:
                break
        assert slot.failed_openings == expected
    FakeLane.how = staticmethod(opens)
    advance_until(slot, lambda: slot.lane is not None)
    assert slot.failed_openings == 0
    assert len(FakeMemory.made) == 1
