"""The number of candidates is bounded for every batch, and the best ones are among them."""

import numpy as np
import pytest

from stream_dedup.dedup.candidates import MAX_CANDIDATES, find_candidates, pairs_in_batch
from stream_dedup.dedup.clocks import Clocks
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.windows import Arrivals, scope_of
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.evaluate.news import words

WINDOW = 7 * 86_400_000
HEADLINE = "Council votes on the new bridge over the river"


def copies(count: int, changed: int, sources: int = 50) -> list[Item]:
    """Copies of one article, in each of which `changed` of the 400 words are replaced at random."""
    random = np.random.default_rng(changed)
    text, others = words(400), np.array(words(9000)[400:])
    items = []
    for i in range(count):
        copy = list(text)
        for place in random.integers(0, 400, changed):
            copy[place] = str(random.choice(others))
        items.append(Item(f"c{i}", HEADLINE, " ".join(copy), f"s{i % sources}.example", i * 1000))
    return items


def pairs_of(dedup: Deduplicator, items: list[Item]) -> np.ndarray:
    prints = dedup.prepare(items).prints
    limit = dedup.settings.index.bucket_limit
    batch_times = Clocks(WINDOW).read(prints.signatures["time"], prints.signatures["partition"])
    scope = scope_of(batch_times, Arrivals(WINDOW))
    return find_candidates(prints, scope, dedup.index, dedup.rows, limit).item


@pytest.mark.parametrize("changed", [0, 4, 12])
def test_a_burst_of_copies_in_one_batch_is_one_article(changed: int) -> None:
    dedup, items = Deduplicator(), copies(1500, changed)
    assert np.bincount(pairs_of(dedup, items)).max() <= MAX_CANDIDATES + 1
    held = [not verdict.forward for verdict in dedup.judge(items).verdicts]
    assert held == [False] + [True] * 1499
    dedup.close()


def test_a_form_filled_in_again_and_again_stays_within_the_budget() -> None:
    dedup = Deduplicator()
    items = copies(3000, 60, sources=1)
    for start in range(0, 3000, 500):
        batch = items[start : start + 500]
        assert np.bincount(pairs_of(dedup, batch)).max() <= 2 * MAX_CANDIDATES + 1
        dedup.apply(dedup.judge(batch))
    dedup.close()


def test_copies_that_share_hundreds_of_keys_stay_within_the_budget() -> None:
    """Near copies share some 330 of 450 keys, more than a counter of 8 bits holds, and are not items of one id."""
    dedup = Deduplicator(load_settings(fingerprint={"body_bands": 450, "body_rows": 2}))
    items = copies(150, 12, sources=1)
    assert np.bincount(pairs_of(dedup, items)).max() <= MAX_CANDIDATES
    dedup.close()


@pytest.mark.parametrize("in_one_batch", [False, True])
def test_an_original_with_the_same_id_is_found_among_many_closer_candidates(in_one_batch: bool) -> None:
    dedup = Deduplicator(load_settings(policy={"variants": True}))
    first = Item("mine", "Another headline", " ".join(words(900)[500:]), "mine.example", 0)
    crowd = copies(400, 60, sources=1)
    again = Item("mine", crowd[0].title, crowd[0].text, "mine.example", 10_000)
    if not in_one_batch:
        dedup.apply(dedup.judge([first]))
        dedup.apply(dedup.judge(crowd))
        verdict = dedup.judge([again]).verdicts[0]
    else:
        verdict = dedup.judge([first, *crowd, again]).verdicts[-1]
    assert verdict.original is not None
    assert (str(verdict.kind), verdict.original.id) == ("update", "mine")
    dedup.close()


def reference_pairs(keys: np.ndarray, limit: int, most: int) -> list[tuple[int, int]]:
    """A plain implementation of `pairs_in_batch`."""
    found = []
    for j in range(keys.shape[1]):
        shared: dict[int, int] = {}
        for table, column in enumerate(keys):
            same = [i for i in range(j) if column[j] and column[i] == column[j]]
            for i in same if len(same) <= limit else [same[0], *same[len(same) - limit + 1 :]]:
                shared[i] = shared.get(i, 0) + (1 if table < len(keys) - 1 else 1000)
        ranked = sorted(shared, key=lambda i: (-shared[i], i))
        sure = [i for i in ranked if shared[i] >= 1000]
        first, best = sorted(shared)[: most // 3], ranked[: most - most // 3]
        found += [(j, i) for i in (sorted({*sure, *first, *best}) if len(shared) > most else sorted(shared))]
    return found


@pytest.mark.parametrize("seed", range(30))
def test_pairs_within_a_batch_are_those_that_share_most(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, values = int(random.integers(1, 60)), int(random.integers(2, 20))
    keys = random.integers(0, values, (5, n)).astype(np.uint32)
    keys[-1] = random.integers(1, 40, n)  # ids
    limit, most = int(random.integers(1, 12)), int(random.integers(1, 12))
    later, earlier = pairs_in_batch(keys, limit, most)
    assert list(zip(later.tolist(), earlier.tolist(), strict=True)) == reference_pairs(keys, limit, most)


def test_pairs_that_share_hundreds_of_keys_are_ranked_by_their_number() -> None:
    keys = np.random.default_rng(1).integers(1, 3, (600, 40)).astype(np.uint32)
    keys[-1] = np.arange(40) + 1  # ids
    later, earlier = pairs_in_batch(keys, 100, 6)
    assert list(zip(later.tolist(), earlier.tolist(), strict=True)) == reference_pairs(keys, 100, 6)
