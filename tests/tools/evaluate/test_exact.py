"""Exact sets hold back what a comparison of all pairs does, the stream nearly so; keys propose as the theory says."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.evaluate.exact import (
    LOWEST,
    ShingleSets,
    alike_pairs,
    body_sets,
    fidelity,
    first_seen_wins,
    held_by_jaccard,
    measured_curve,
    shingle_sets,
)
from stream_dedup.tools.evaluate.rates import wilson
from tests.tools.evaluate.news import copies


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
    return body_sets(items, Fingerprinter(Scheme(settings.fingerprint)))


# Few different members, so that sets overlap, and thresholds that small sets meet exactly.
SETS = st.lists(st.sets(st.integers(1, 12), max_size=8), max_size=25)


@given(SETS, st.sampled_from([0.1, 0.2, 0.5, 0.6, 2 / 3, 0.75, 0.8, 1.0]))
def test_first_seen_wins_as_by_brute_force(sets: list[set[int]], threshold: float) -> None:
    assert first_seen_wins(shingle_sets(arrays(sets)), threshold).tolist() == brute_force(sets, threshold)


@given(SETS, st.sampled_from([0.15, 0.4, 0.8]))
def test_alike_pairs_are_all_pairs_above_the_floor(sets: list[set[int]], floor: float) -> None:
    found = alike_pairs(shingle_sets(arrays(sets)), floor)
    pairs = [(i, j, jaccard(sets[i], sets[j])) for j in range(len(sets)) for i in range(j)]
    assert sorted(zip(*found, strict=True)) == sorted(pair for pair in pairs if pair[2] >= floor)


def test_the_simple_rule_names_the_original_of_the_first_delivery() -> None:
    items = copies(2, [0.05, 0.3])
    sets = sets_of([*items, items[0]], Settings())
    assert held_by_jaccard([*items, items[0]], sets, 0.8) == {"0-1": "0-0", "1-1": "1-0"}


def test_exact_sets_and_the_stream_agree_away_from_the_threshold() -> None:
    settings = Settings()
    items = copies(60, [0.02, 0.5])
    found = fidelity(items, sets_of(items, settings), settings, 0.8)
    assert (found.agreement, found.held_exactly, found.items) == (1.0, 60, 180)


def test_a_sketch_errs_near_the_threshold_and_exact_sets_do_not() -> None:
    settings, exact = Settings(), load_settings(fingerprint={"verify": "exact"})
    items = copies(150, [0.085, 0.1, 0.115])
    found = fidelity(items, sets_of(items, settings), settings, 0.8)
    assert found.misses + found.false_drops > 0
    assert found.agreement == 1 - (found.misses + found.false_drops) / found.items
    assert found.recall == 1 - found.misses / found.held_exactly
    assert fidelity(items, sets_of(items, exact), exact, 0.8).agreement == 1


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


# -- the S-curve -------------------------------------------------------------------------------------------------------

SIMHASH = {"family": "simhash"}


def test_the_index_proposes_at_least_what_is_planned() -> None:
    """Words that are changed side by side leave more of the long runs."""
    settings = Settings()
    items = copies(120, [0.05, 0.2, 0.3, 0.4, 0.5])
    points = measured_curve(items, sets_of(items, settings), Fingerprinter(Scheme(settings.fingerprint)), steps=5)
    assert sum(point.pairs for point in points) > 1000
    for point in points:
        # Five intervals of 95 %, one after the other, hence a little more.
        assert point.predicted <= point.interval[1] + 0.02, point


@pytest.mark.parametrize(
    "fingerprint",
    [
        SIMHASH,  # keys are hashes and match as a whole
        SIMHASH | {"hamming": 6},  # 16 of 32 key bits need not be equal
        {"family": "compact", "hamming": 1},
        {},
    ],
    ids=str,
)  # fmt: skip
def test_the_curve_counts_the_pairs_that_the_index_proposes(fingerprint: dict[str, Any]) -> None:
    settings = load_settings(fingerprint=fingerprint)
    items = copies(60, [0.01, 0.02, 0.05, 0.2])
    sets, make = sets_of(items, settings), Fingerprinter(Scheme(settings.fingerprint))
    scheme, body = make.scheme, make.scheme.columns["body" if fingerprint else "anchors"]
    near = {"dont_care_bits": scheme.dont_care_bits, "max_hamming": settings.fingerprint.hamming}
    index = HybridIndex(scheme.table_of, bucket_limit=len(items), background=False, **near)
    keys = make(items).keys.copy()
    keys[:, body.stop :] = 0  # only the body's tables
    index.add(keys, np.zeros(len(items), np.int64))
    proposed = set(zip(*index.lookup(keys, np.zeros(len(items), np.int64)), strict=True))
    first, second, _ = alike_pairs(sets, LOWEST)
    expected = sum(pair in proposed for pair in zip(first, second, strict=True))
    points = measured_curve(items, sets, make)
    assert 0 < expected < len(first) or not fingerprint, "anchors find all of these"
    assert round(sum(point.measured * point.pairs for point in points)) == expected


def test_the_intervals_hold_for_pairs_that_are_copies_of_each_other() -> None:
    """Eight copies of one edited article are proposed or missed together, as often as the textbook says of one."""
    groups, alike = 60, 8
    items = []
    made = copies(groups, [0.39])
    for item, edited in zip(made[::2], made[1::2], strict=True):
        items += [item, *(structs.replace(edited, id=f"{edited.id}-{n}") for n in range(alike))]
    sets = sets_of(items, Settings())
    seeds, naive, new = range(40), 0, 0
    for seed in seeds:
        settings = load_settings(fingerprint={"salt": f"secret {seed:016}"})
        points = measured_curve(items, sets, Fingerprinter(Scheme(settings.fingerprint)))
        point = next(point for point in points if point.high < 1 and point.pairs == groups * alike)
        low, high = wilson(point.measured, point.pairs)
        naive += low <= point.predicted <= high
        new += point.interval[0] <= point.predicted <= point.interval[1]
        assert point.clusters == groups
        assert point.interval[1] - point.interval[0] < 0.3, "it must say something"
    assert naive < 0.75 * len(seeds) < 0.9 * len(seeds) <= new
