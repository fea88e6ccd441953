"""Examples from textbooks: the S-curve table, and 128 MinHash values as 16 bands of 8 rows.

Source: Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4 (20 bands of 5 rows, its table and its
threshold).
"""

import numpy as np
import pytest

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings


def match_probability(similarity: float, bands: int, rows: int) -> float:
    """Probability that two sets of this Jaccard share at least one band."""
    return float(1 - (1 - similarity**rows) ** bands)


# MMDS, section 3.4.2: "values of the S-curve for b = 20 and r = 5".
PRINTED = {0.2: 0.006, 0.3: 0.047, 0.4: 0.186, 0.5: 0.470, 0.6: 0.802, 0.7: 0.975, 0.8: 0.9996}


@pytest.mark.parametrize("similarity", PRINTED)
def test_the_formula_gives_the_printed_table(similarity: float) -> None:
    assert match_probability(similarity, 20, 5) == pytest.approx(PRINTED[similarity], abs=0.0006)


def measured(bands: int, rows: int, similarity: float, pairs: int, seed: int) -> float:
    """Share of pairs of random texts with this Jaccard whose band keys match."""
    make = Fingerprinter(Scheme(FingerprintSettings(body_bands=bands, body_rows=rows, shingle_words=1, seed=seed)))
    random = np.random.default_rng(seed)
    union = 200
    shared = round(similarity * union)
    items = []
    for _ in range(pairs):
        words = [f"w{n}" for n in random.choice(10**9, union, replace=False)]
        half = (union - shared) // 2
        both = (words[: shared + half], words[:shared] + words[shared + half :])
        items += [Item("", "", " ".join(mine), "", 0) for mine in both]
    keys = make(items).keys[:, make.scheme.columns["body"]]
    return float((keys[::2] == keys[1::2]).any(axis=1).mean())


@pytest.mark.parametrize("similarity", PRINTED)
def test_our_bands_follow_the_table(similarity: float) -> None:
    pairs, expected = 600, match_probability(similarity, 20, 5)
    error = np.sqrt(expected * (1 - expected) / pairs)
    assert abs(measured(20, 5, similarity, pairs, seed=3) - expected) <= 4 * error + 0.002


def test_the_classic_128_as_16_bands_of_8_rows() -> None:
    """At its threshold, (1/16)^(1/8) = .707, about 1 - 1/e of the pairs match; .8 is found, .5 is not."""
    threshold = (1 / 16) ** (1 / 8)
    assert [round(match_probability(s, 16, 8), 3) for s in (0.5, threshold, 0.8, 0.9)] == [0.061, 0.644, 0.947, 1.0]
    for similarity in (0.5, 0.7, 0.8, 0.9):
        expected = match_probability(similarity, 16, 8)
        error = np.sqrt(expected * (1 - expected) / 600)
        assert abs(measured(16, 8, similarity, 600, seed=4) - expected) <= 4 * error + 0.002


def test_more_bands_find_more_pairs_and_more_rows_find_fewer() -> None:
    """AND lowers both ends of the curve, OR raises both; 4 x 4 is steeper than either."""
    assert match_probability(0.8, 1, 4) < 0.8 < match_probability(0.8, 4, 1)
    assert [round(match_probability(s, 4, 4), 4) for s in (0.2, 0.8)] == [0.0064, 0.8785]
    one_row = [match_probability(s, 16, r) for s in (0.5, 0.9) for r in (2, 4, 8)]
    assert one_row[0] > one_row[1] > one_row[2]
