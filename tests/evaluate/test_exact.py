"""Exact sets hold back what a comparison of every set with every earlier original does, and the stream nearly so."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.evaluate.exact import (
    ShingleSets,
    alike_pairs,
    body_sets,
    fidelity,
    first_seen_wins,
    held_by_jaccard,
    shingle_sets,
)
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.evaluate.news import copies


def arrays(sets: list[set[int]]) -> list[NDArray[np.uint64]]:
    return [np.array(sorted(one), np.uint64) for one in sets]


def jaccard(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a | b) if a | b else 0.0


def brute_force(sets: list[set[int]], threshold: float) -> list[int]:
    """The nearest earlier original of each set, the oldest of equal ones; -1: none is near."""
    nearest: list[int] = []
    for n, one in enumerate(sets):
        originals = [m for m in range(n) if nearest[m] < 0 and jaccard(one, sets[m]) >= threshold]
        nearest.append(max(originals, key=lambda m: (jaccard(one, sets[m]), -m), default=-1) if one else -1)
    return nearest


def sets_of(items: list[Item], settings: Settings) -> ShingleSets:
    return shingle_sets(body_sets(items, Fingerprinter(Scheme(settings.fingerprint))))


# Few different members, so that sets overlap, and thresholds that small sets meet exactly.
SETS = st.lists(st.sets(st.integers(1, 12), max_size=8), max_size=25)


@given(SETS, st.sampled_from([0.1, 0.2, 0.5, 0.6, 2 / 3, 0.75, 0.8, 1.0]))
def test_first_seen_wins_as_by_brute_force(sets: list[set[int]], threshold: float) -> None:
    assert first_seen_wins(shingle_sets(arrays(sets)), threshold).tolist() == brute_force(sets, threshold)


@given(SETS, st.sampled_from([0.15, 0.4, 0.8]))
def test_alike_pairs_are_all_pairs_above_the_floor(sets: list[set[int]], floor: float) -> None:
    found = alike_pairs(shingle_sets(arrays(sets)), floor)
    expected = {
        (i, j): jaccard(sets[i], sets[j])
        for j in range(len(sets))
        for i in range(j)
        if sets[i] and sets[j] and jaccard(sets[i], sets[j]) >= floor
    }
    assert dict(zip(zip(found[0].tolist(), found[1].tolist(), strict=True), found[2].tolist(), strict=True)) == expected


def test_the_simple_rule_names_the_original_of_the_first_delivery() -> None:
    items = copies(2, [0.05, 0.3])
    sets = sets_of([*items, items[0]], Settings())
    assert held_by_jaccard([*items, items[0]], sets, 0.8) == {"0-1": "0-0", "1-1": "1-0"}


def test_exact_sets_and_the_stream_agree_away_from_the_threshold() -> None:
    settings = Settings()
    items = copies(60, [0.02, 0.5])
    found = fidelity(items, sets_of(items, settings), settings, 0.8)
    assert (found.agreement, found.held_exactly, found.items) == (1.0, 60, 180)


def test_a_coarse_sketch_errs_and_a_finer_one_less() -> None:
    settings = load_settings(fingerprint={"body_bins": 64})  # a coarse sketch errs
    items = copies(150, [0.085, 0.1, 0.115])
    found = fidelity(items, sets_of(items, settings), settings, 0.8)
    assert found.misses + found.false_drops > 0
    assert found.agreement == 1 - (found.misses + found.false_drops) / found.items
    assert found.recall == 1 - found.misses / found.held_exactly
    finer = load_settings(fingerprint={"body_bins": 2048})
    assert fidelity(items, sets_of(items, finer), finer, 0.8).agreement > found.agreement


def test_headlines_times_and_ids_have_no_say_before_the_oracle() -> None:
    settings = Settings()
    text = copies(1, [])[0].text
    items = [
        Item("x", "One headline", text, "site.example", 0),
        Item("x", "Quite another", text, "site.example", 10**15),
        Item("y", "No body", "", "site.example", 0),
    ]
    found = fidelity(items, sets_of(items, settings), settings, 0.8)
    assert (found.items, found.held_exactly, found.agreement) == (2, 1, 1.0)
