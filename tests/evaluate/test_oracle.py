"""The oracle is exact: it agrees with a comparison of every set with every earlier original."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_dedup.evaluate.curve import alike_pairs
from stream_dedup.evaluate.oracle import first_seen_wins
from stream_dedup.evaluate.sets import shingle_sets


def arrays(sets: list[set[int]]) -> list[NDArray[np.uint64]]:
    return [np.array(sorted(one), np.uint64) for one in sets]


def jaccard(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a | b) if a | b else 0.0


def brute_force(sets: list[set[int]], threshold: float) -> list[bool]:
    originals: list[set[int]] = []
    held = []
    for one in sets:
        held.append(bool(one) and any(jaccard(one, other) >= threshold for other in originals))
        if not held[-1]:
            originals.append(one)
    return held


# Few different members, so that sets overlap, and thresholds that small sets meet exactly.
SETS = st.lists(st.sets(st.integers(1, 12), max_size=8), max_size=25)


@given(SETS, st.sampled_from([0.1, 0.2, 0.5, 0.6, 2 / 3, 0.75, 0.8, 1.0]))
def test_it_holds_back_what_brute_force_holds_back(sets: list[set[int]], threshold: float) -> None:
    found = first_seen_wins(shingle_sets(arrays(sets)), threshold)
    assert found.held.tolist() == brute_force(sets, threshold)


@given(SETS, st.sampled_from([0.2, 0.5, 0.8]))
def test_it_names_the_nearest_original_and_its_jaccard(sets: list[set[int]], threshold: float) -> None:
    found = first_seen_wins(shingle_sets(arrays(sets)), threshold)
    for n, one in enumerate(sets):
        originals = [m for m in range(n) if not found.held[m] and jaccard(one, sets[m]) >= found.floor]
        if one and originals:
            best = max(originals, key=lambda m: (jaccard(one, sets[m]), -m))
            assert (found.original[n], found.jaccard[n]) == (best, pytest.approx(jaccard(one, sets[best])))
        else:
            assert found.original[n] == -1


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


def test_what_is_held_back_is_not_remembered() -> None:
    a = set(range(1, 11))
    b, c = a - {1}, a - {1, 2}
    d = b - {2, 3}  # .8 is reached with b (7/9 = .78: no), so only originals may hold it back
    found = first_seen_wins(shingle_sets(arrays([a, b, c, d])), 0.8)
    assert found.held.tolist() == [False, True, True, False]
    assert found.original.tolist() == [-1, 0, 0, 0]


def test_shingles_of_one_set_alone_count_in_its_size() -> None:
    sets = shingle_sets(arrays([{1, 2, 3, 4}, {3, 4, 5, 6}]))
    assert sets.shared == 2
    assert sets.jaccard(0, 1) == pytest.approx(2 / 6)


def test_nothing_at_all_is_no_error() -> None:
    assert first_seen_wins(shingle_sets([]), 0.8).held.tolist() == []
    assert first_seen_wins(shingle_sets(arrays([set(), set()])), 0.8).held.tolist() == [False, False]
