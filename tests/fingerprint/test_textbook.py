"""Examples from textbooks: the S-curve table, and 128 MinHash values as 16 bands of 8 rows.

Source: Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4 (20 bands of 5 rows, its table and its
threshold).
"""

import numpy as np
import pytest

from tests.fingerprint.built import items, maker

# MMDS, section 3.4.2: "values of the S-curve for b = 20 and r = 5"; and those of 1 - (1 - s^8)^16.
CURVES = {
    (20, 5): {0.2: 0.006, 0.3: 0.047, 0.4: 0.186, 0.5: 0.470, 0.6: 0.802, 0.7: 0.975, 0.8: 0.9996},
    (16, 8): {0.5: 0.061, 0.7: 0.613, 0.8: 0.947, 0.9: 0.9999},
}


def measured(bands: int, rows: int, similarity: float, pairs: int, seed: int) -> float:
    """Share of pairs of random texts with this Jaccard whose band keys match."""
    make = maker(body_bands=bands, body_rows=rows, shingle_words=1, seed=seed)
    random = np.random.default_rng(seed)
    union = 200
    shared = round(similarity * union)
    texts = []
    for _ in range(pairs):
        words = [f"w{n}" for n in random.choice(10**9, union, replace=False)]
        half = (union - shared) // 2
        both = (words[: shared + half], words[:shared] + words[shared + half :])
        texts += [" ".join(mine) for mine in both]
    keys = make(items(*texts)).keys[:, make.scheme.columns["body"]]
    return float((keys[::2] == keys[1::2]).any(axis=1).mean())


@pytest.mark.parametrize(("bands", "rows"), CURVES)
def test_our_bands_follow_the_table(bands: int, rows: int) -> None:
    pairs = 600
    for similarity, expected in CURVES[bands, rows].items():
        error = np.sqrt(expected * (1 - expected) / pairs)
        assert abs(measured(bands, rows, similarity, pairs, seed=bands) - expected) <= 4 * error + 0.002
