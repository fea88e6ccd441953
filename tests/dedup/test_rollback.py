"""Pending batches: visible to later ones, final once confirmed, removed without a trace by a rollback."""

import numpy as np
import pytest

from stream_dedup.dedup import deduplicator
from stream_dedup.dedup.batch import Batch, Delta
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import UsageError
from stream_dedup.index import runs
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings
from tests.dedup.world import HOUR, kinds
from tests.index.check import check

pytestmark = pytest.mark.usefixtures("small_tree")

SENTENCES = [f"Sentence {n} says at some length what the town council thinks of matter {n * 7}." for n in range(40)]


def some_items(random: np.random.Generator, count: int, now: int) -> list[Item | Tombstone]:
    """Items with few ids, texts, sites and sentences, so that updates, variants and tombstones are frequent."""
    items: list[Item | Tombstone] = []
    for _ in range(count):
        time = now + int(random.integers(-30, 6)) * HOUR
        if random.random() < 0.05:  # late, far ahead, or none at all
            time = int(random.choice([-1, now + 900 * HOUR, max(0, now - 200 * HOUR)]))
        name = f"n{random.integers(0, 150)}"
        if random.random() < 0.08:
            items.append(Tombstone(name, time))
            continue
        story = int(random.integers(0, 60))
        words = " ".join(f"w{k}" for k in np.random.default_rng(story).integers(0, 300, 60).tolist())
        words = words[: int(random.integers(40, len(words)))]
        prose = " ".join(SENTENCES[k] for k in random.integers(0, 40, int(random.integers(0, 4))))
        items.append(Item(name, f"Headline of {story}", f"{words} {prose}", f"s{random.integers(0, 5)}.example", time))
    return items


def fresh(settings: Settings, confirmed: list[Delta]) -> Deduplicator:
    """A Deduplicator restored from these blocks."""
    dedup = Deduplicator(settings)
    for delta in confirmed:
        dedup.restore(delta)
    return dedup


def recurring(dedup: Deduplicator) -> set[int]:
    """The passages that count as boilerplate for an item whose window begins a day before the watermark."""
    entries, begin = dedup.boilerplate.entries, (dedup.watermark - 24 * HOUR) // 1000
    is_recurring = (entries["hash"] > 0) & (entries["seen"][:, -1] >= max(begin, 1))
    found: list[int] = entries["hash"][is_recurring].tolist()
    return set(found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("verify", "most"), [("sketch", 10**6), ("exact", 10**6), ("sketch", 120)])
@pytest.mark.slow
def test_after_a_rollback_it_judges_like_a_fresh_restore(
    seed: int, verify: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_AT_ONCE", 20)  # so that this little data is merged in the background too
    monkeypatch.setattr(deduplicator, "most_originals", lambda *_: most)  # fewer than the settings allow
    settings = load_settings(index={"bucket_limit": 3}, window={"length": "3d"}, fingerprint={"verify": verify})
    random = np.random.default_rng(seed)
    dedup, confirmed, pending = Deduplicator(settings), list[Delta](), list[Batch]()
    now, rollbacks, forgetting = 10 * HOUR, 0, 0
    for _ in range(120):
        now += int(random.integers(0, 4)) * HOUR
        if random.random() < 0.03:
            now += 20 * HOUR
        batch = dedup.judge(some_items(random, int(random.integers(1, 12)), now))
        dedup.apply(batch, pending=True)
        pending.append(batch)
        forgetting += sum(len(one.delta.forgotten) for one in pending)
        if len(pending) == 2:  # as in the worker: one is being committed, one is judged
            dedup.confirm()
            confirmed.append(pending.pop(0).delta)
        if random.random() < 0.25:
            dedup.rollback()
            rollbacks += 1
            if random.random() < 0.3:  # the outcome was unknown, and it turns out to be committed
                dedup.restore(pending[0].delta)
                confirmed.append(pending[0].delta)
            pending.clear()
            other = fresh(settings, confirmed)
            probes = some_items(random, 40, now)
            expected: list[Verdict] = other.judge(probes).verdicts
            assert dedup.judge(probes).verdicts == expected
            assert (dedup.watermark, dedup.elapsed) == (other.watermark, other.elapsed)
            assert recurring(dedup) == recurring(other)
            check(dedup.index)
            other.close()
    assert rollbacks > 10
    assert forgetting > 10


def test_final_changes_are_refused_while_batches_are_pending() -> None:
    dedup = Deduplicator()
    batch = dedup.judge([Item("1", "Elm bridge opens", "The bridge over the Elm opened on Monday.", "a.example", 0)])
    dedup.apply(batch, pending=True)
    with pytest.raises(UsageError, match="1 pending batches"):
        dedup.restore(batch.delta)
    with pytest.raises(UsageError, match="confirm them or roll back first"):
        dedup.apply(batch)
    dedup.rollback()
    again = dedup.judge([Item("1", "Elm bridge opens", "The bridge over the Elm opened.", "", 0)])
    assert kinds(again.verdicts) == ["unique"]
