"""Judging changes nothing until the batch is applied; what a tombstone, `forget` and a restore do; bad items."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from stream_dedup.dedup.clocks import Odd
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import BadItem, InputError, UsageError
from stream_dedup.index.hybrid import Found
from stream_dedup.index.runs import ROW_SHIFT
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from tests.dedup.world import BANK, DAY, FERRY, OTHER, START, item, judged, kinds, original_of, told


@pytest.fixture
def dedup() -> Decider:
    return Decider()


def test_an_item_without_a_letter_or_digit_is_bad(dedup: Decider) -> None:
    verdicts = judged(dedup, [item("a", "", title=""), item("b", "—", title="..."), BadItem("json", "cut", "c")])
    assert kinds(verdicts) == ["bad"] * 3
    assert [v.id for v in verdicts] == ["a", "b", "c"]
    assert verdicts[0].reason.startswith("empty")
    assert len(dedup) == 0


@pytest.mark.parametrize("verify", ["sketch", "exact"])
def test_a_batch_of_bad_items_alone_is_judged(verify: str) -> None:
    dedup = Decider(load_settings(fingerprint={"verify": verify}))
    assert kinds(judged(dedup, [BadItem("json", "cut", "c")])) == ["bad"]


@pytest.mark.parametrize(("updates", "forward"), [("compare", True), ("forward", True), ("drop", False)])
@pytest.mark.parametrize("together", [True, False])
def test_a_fuller_version_is_an_update_that_follows_the_policy(updates: str, forward: bool, together: bool) -> None:
    """If it is held back, a copy of it still has something new: readers know only the original."""
    dedup = Decider(load_settings(policy={"updates": updates}))
    items = [
        item("a", " ".join(BANK[:2])),
        item("b", source="a.example", hour=1),
        item("c", f"{FERRY} More soon.", hour=2),
    ]
    _, full, copy = judged(dedup, items, 3 if together else 1)
    assert (full.kind, full.forward) == (Kind.UPDATE, forward)
    assert told([full, copy]) == [("update", "a"), ("duplicate", "b") if forward else ("update", "a")]
    assert full.evidence is not None
    assert full.evidence.cut == "longer"


@pytest.mark.parametrize("together", [True, False])
def test_a_tombstone_is_forwarded_and_its_original_forgotten(dedup: Decider, together: bool) -> None:
    items = [item("a"), Tombstone("a", START + 1), item("b"), Tombstone("nobody", START + 2)]
    verdicts = judged(dedup, items, 4 if together else 1)
    assert kinds(verdicts) == ["unique", "tombstone", "unique", "tombstone"]
    assert all(v.forward for v in verdicts)


def test_an_original_is_forgotten_after_the_window(dedup: Decider) -> None:
    days = [0, 7, 7 + 1e-6, 8]  # the second is the last moment in the window of the first
    assert kinds(judged(dedup, [item(f"{day}", hour=24 * day) for day in days])) == ["unique", "duplicate"] * 2


def test_an_item_without_a_time_or_from_the_future_counts_as_of_its_partitions_level(dedup: Decider) -> None:
    times = {"a": START + DAY, "x": START + 900 * DAY, "y": -1, "b": START + 2 * DAY}
    texts = [FERRY, OTHER, " ".join(map(str, range(60))), FERRY]
    items = [
        msgspec.structs.replace(item(name, text), time=times[name]) for name, text in zip(times, texts, strict=True)
    ]
    batch = dedup.judge(items, latest=START + 3 * DAY)
    assert told(batch.verdicts)[3] == ("duplicate", "a")
    assert batch.delta.signatures["time"].tolist()[:3] == [START + DAY] * 3
    assert [Odd(one) for one in batch.odd] == [Odd.NOTHING, Odd.FUTURE, Odd.MISSING, Odd.NOTHING]


def test_what_is_prepared_elsewhere_and_judged_late_gives_the_same_verdicts(dedup: Decider) -> None:
    batches = [
        [item("a"), BadItem("json", "broken"), msgspec.structs.replace(item("b"), time=-1)],
        [item("c", hour=9 * 24, title="Ferry over the Elm stopped - Elm Gazette"), Tombstone("a", -1)],
        [msgspec.structs.replace(item("d"), time=-1), item("e", "", title="")],
    ]
    with ThreadPoolExecutor(2) as pool:
        ahead = list(pool.map(dedup.prepare, batches))
    other = Decider()
    for items, prepared in zip(batches, ahead, strict=True):
        expected = other.judge(items, latest=START + 10 * DAY)
        for _ in range(2):  # judging does not change `prepared`
            batch = dedup.judge(prepared, latest=START + 10 * DAY)
            assert batch.verdicts == expected.verdicts
        assert batch.delta.signatures.tobytes() == expected.delta.signatures.tobytes()
        for one in (dedup, other):
            one.apply(batch)


def test_what_restored_blocks_forget_is_forgotten_in_their_order() -> None:
    """A restore applies deletions only at its end; an item that was added again later must stay."""
    gone, kept = item("1"), item("2", OTHER, title="Asteroid")
    steps: list[list[Item | Tombstone]] = [[gone, kept], [Tombstone("1", START)], [gone], [Tombstone("2", START)]]
    live, restored, settling = Decider(), Decider(), Decider()
    live.index.bucket_limit = 1
    for step in steps:
        batch = live.judge(step)
        live.apply(batch)
        restored.restore(batch.delta)
        settling.restore(batch.delta)
        settling.catch_up()
    for one in (live, restored, settling):
        again = [msgspec.structs.replace(gone, id="3", source="b.example"), msgspec.structs.replace(kept, id="4")]
        assert told(one.judge(again).verdicts) == [("duplicate", "1"), ("unique", None)]
        one.close()


def test_final_changes_are_refused_while_batches_are_pending(dedup: Decider) -> None:
    batch = dedup.judge([item("1")])
    dedup.apply(batch, pending=True)
    with pytest.raises(UsageError, match="1 pending batches"):
        dedup.restore(batch.delta)
    with pytest.raises(UsageError, match="confirm them or roll back first"):
        dedup.apply(batch)
    with pytest.raises(UsageError, match="forget: 1 pending"):
        dedup.forget("1")
    with pytest.raises(UsageError, match="export: 1 pending"):
        next(dedup.export(10))
    dedup.rollback()
    assert original_of(dedup.judge([item("1")]).verdicts[0]) is None


@pytest.mark.parametrize(
    "wrong", [1 << ROW_SHIFT, 1 << 31 << ROW_SHIFT, (1 << ROW_SHIFT) - 1], ids=["next", "far", "key"]
)
def test_a_row_that_is_not_remembered_is_refused(wrong: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dedup = Decider()
    dedup.apply(dedup.judge([item("1")]))
    find = dedup.index.find

    def damaged(*arguments: Any) -> Found:
        found = find(*arguments)
        return found._replace(hits=found.hits + wrong)

    monkeypatch.setattr(dedup.index, "find", damaged)
    with pytest.raises(InputError, match="does not fit its data"):
        dedup.judge([item("2")])
