"""Deletions and versions of one id cost as much as they are many. Steps are counted: nothing here depends on time."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.index.hybrid import Found, HybridIndex
from stream_dedup.index.rows import RowStore
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from tests.dedup.world import START

FORWARD = load_settings(policy={"updates": "forward"})


class Steps:
    """Counts calls of Python and C functions, rows that lookups give, and rows whose signatures are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._count = 0
        find, take = HybridIndex.find, RowStore.take

        def counted_find(index: HybridIndex, *arguments: Any, **others: Any) -> Found:
            found = find(index, *arguments, **others)
            self._count += len(found.hits)
            return found

        def counted_take(rows: RowStore, wanted: Any, *others: Any) -> Any:
            self._count += len(wanted)
            return take(rows, wanted, *others)

        monkeypatch.setattr(HybridIndex, "find", counted_find)
        monkeypatch.setattr(RowStore, "take", counted_take)

    def _tick(self, frame: FrameType, event: str, argument: object) -> None:
        self._count += event in ("call", "c_call")

    def of(self, function: Callable[[], object]) -> int:
        """The steps of a function."""
        self._count, before = 0, sys.getprofile()
        sys.setprofile(self._tick)
        try:
            function()
        finally:
            sys.setprofile(before)
        return self._count


def separate(n: int) -> Item:
    """An original of its own source, under the id that all of them share."""
    words = [f"w{n}x{k}" for k in range(12)]
    return Item("same id", " ".join(words[:6]), " ".join(words), f"s{n}.example", START + n)


def version(n: int) -> Item:
    return Item("v", f"Bridge opens {n}", f"The bridge opens on Monday, for the {n}th time", "a.example", START + n)


def fed(dedup: Decider, items: list[Item], size: int = 100) -> Iterator[Any]:
    for start in range(0, len(items), size):
        batch = dedup.judge(items[start : start + size])
        dedup.apply(batch)
        yield batch.delta


def tombstones(count: int, steps: Steps) -> int:
    """As many tombstones of an id as there are originals with it, in one batch; and new items of the id."""
    with Decider() as dedup:
        assert len([*fed(dedup, [separate(n) for n in range(count)])])
        ready = dedup.prepare([Tombstone("same id", START + n, 0, n) for n in range(count)] + [separate(-1)])
        taken = steps.of(lambda: dedup.apply(dedup.judge(ready)))
        assert len(dedup.index.lookup(ready.prints.keys[-1:], ready.prints.signatures["time"][-1:] - 1)[1]) == 1
        return taken


def versions_in_a_batch(count: int, steps: Steps) -> int:
    with Decider(FORWARD) as dedup:
        ready = dedup.prepare([version(n) for n in range(count)])
        return steps.of(lambda: dedup.apply(dedup.judge(ready)))


def restored_versions(count: int, steps: Steps) -> int:
    with Decider(FORWARD) as dedup, Decider(FORWARD) as other:
        deltas = [*fed(dedup, [version(n) for n in range(count)], 20)]

        def restore() -> None:
            for delta in deltas:
                other.restore(delta)
            other.catch_up()

        return steps.of(restore)


def restored_tombstones(count: int, steps: Steps) -> int:
    with Decider() as dedup, Decider() as other:
        deltas = [*fed(dedup, [separate(n) for n in range(count)])]
        for n in range(count // 20):
            batch = dedup.judge([Tombstone("same id", START + n, 0, n) for n in range(20)])
            dedup.apply(batch)
            deltas.append(batch.delta)

        def restore() -> None:
            for delta in deltas:
                other.restore(delta)
            other.catch_up()

        return steps.of(restore)


@pytest.mark.parametrize("family", [tombstones, versions_in_a_batch, restored_versions, restored_tombstones])
def test_twice_the_deletions_take_twice_the_steps(
    family: Callable[[int, Steps], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    family(100, steps)  # what is made once
    few, many = family(400, steps), family(800, steps)
    assert many < 2.3 * few, (few, many)


def test_deletions_of_one_name_are_one() -> None:
    with Decider() as dedup:
        dedup.apply(dedup.judge([separate(0)]))
        batch = dedup.judge([Tombstone("same id", START, 0, n) for n in range(9)])
        assert len(batch.delta.forgotten) == 1
        again = dedup.judge([separate(0), Tombstone("same id", START, 0, 0), separate(1), separate(0)] * 2)
        # The last tombstone deletes what came before it, in the batch too.
        assert [int(n) for n in again.delta.forgotten["before"]] == [2]
