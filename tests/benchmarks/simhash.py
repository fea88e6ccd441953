"""Measure the two parts of the model of SimHashes on your news: `python -m tests.benchmarks.simhash CORPUS...`.

1. How far apart are the fingerprints of alike bodies? For each interval of the exact Jaccard: the mean share of bits
   that differ, and the share of pairs within k bits, measured and as `simhash_model` models them.
2. How far from uniform are those of unrelated bodies? The share of pairs that agree in p selected bits, relative to
   uniform fingerprints: from the distances of all pairs of originals, and by `UNRELATED`, a mixture of binomials that
   was fitted to these distances by expectation maximisation.

The figures in simhash_model.py are from webz_en_2025 (11,249 items) and the first 20,000 of reuters21578.
"""

import argparse
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.evaluate.exact import alike_pairs, body_sets, first_seen_wins, shingle_sets
from stream_dedup.evaluate.planner import UNRELATED
from stream_dedup.evaluate.scurve import bit_difference, within
from stream_dedup.fingerprint.bits import bit_count
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.fingerprint.simhash import distances
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings
from tests.benchmarks.corpus import news

_EDGES = (0.15, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
_DISTANCES = (0, 1, 2, 3, 4, 6, 8, 10)
_KEYS = (16, 21, 26, 28, 32)
# Shorter bodies have fingerprints of few votes.
_SHINGLES = 40
_UNRELATED_BELOW = 0.5
_BATCH = 500


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure the model of the SimHash planner.")
    parser.add_argument("corpus", type=Path, nargs="+")
    parser.add_argument("--limit", type=int, default=20_000)
    given = parser.parse_args(arguments)
    for path in given.corpus:
        items = [item for _, item in news([path], given.limit)]
        sets = shingle_sets(body_sets(items, Fingerprinter(Scheme(FingerprintSettings()))))
        first, second, jaccard = alike_pairs(sets, _EDGES[0])
        long = np.minimum(sets.sizes[first], sets.sizes[second]) >= _SHINGLES
        alike = first[long], second[long], jaccard[long]
        originals = np.flatnonzero((first_seen_wins(sets, _UNRELATED_BELOW) < 0) & (sets.sizes > 0))
        for settings in _variants():
            name = settings.features if settings.features == "shingles" else f"{settings.features} {settings.weights}"
            print(f"\n{path.name}: {name}, weights {settings.weights}, {settings.bits} bits")
            prints = simhashes(items, settings)
            print_alike(prints, *alike, settings)
            print_unrelated(distance_histogram(prints[originals]), UNRELATED[name])


def _variants() -> list[FingerprintSettings]:
    base = {"family": "simhash", "layout": "4 choose 1"}
    return [
        FingerprintSettings.model_validate(base | {"features": features, "weights": weights, "bits": bits})
        for features in ("shingles", "tokens")
        for weights in ("tf", "uniform")
        for bits in (64, 128)
    ]


def simhashes(items: Sequence[Item], settings: FingerprintSettings) -> NDArray[np.uint64]:
    make = Fingerprinter(Scheme(settings))
    parts = [make(items[start : start + _BATCH]).signatures["simhash"] for start in range(0, len(items), _BATCH)]
    return np.concatenate(parts)


def print_alike(
    prints: NDArray[np.uint64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    jaccard: NDArray[np.float64],
    settings: FingerprintSettings,
) -> None:
    """For each interval: pairs, share of differing bits and share within k, measured / modelled."""
    apart = distances(prints[first], prints[second])
    for low, high in pairwise(_EDGES):
        inside = (jaccard >= low) & (jaccard < high)
        if np.count_nonzero(inside) < 20:
            continue
        modelled = np.array([bit_difference(one, settings) for one in jaccard[inside].tolist()])
        cells = [
            f"k={k}: {(apart[inside] <= k).mean():.3f}/{np.mean([within(k, settings.bits, q) for q in modelled]):.3f}"
            for k in _DISTANCES
        ]
        share = apart[inside].mean() / settings.bits
        print(f"J {low:g} to {high:g}, {len(modelled)} pairs: {share:.4f}/{modelled.mean():.4f}  {'  '.join(cells)}")


def print_unrelated(histogram: NDArray[np.int64], modelled: Sequence[tuple[float, float]]) -> None:
    bits, pairs = len(histogram) - 1, histogram.sum()
    for selected in _KEYS:
        agree = sum(
            count / pairs * math.comb(bits - selected, apart) / math.comb(bits, apart)
            for apart, count in enumerate(histogram.tolist())
        )
        model = sum(share * (1 - q) ** selected for q, share in modelled)
        uniform = 2.0**-selected
        print(f"{selected} bits agree: {agree / uniform:.2f} times uniform, modelled {model / uniform:.2f}")


def distance_histogram(prints: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many of all pairs differ in 0, 1, ... bits. O(n²): 10 s for 17,000."""
    counted: NDArray[np.int64] = _histogram(prints)
    return counted


@njit(nogil=True, cache=True)
def _histogram(prints):  # type: ignore[no-untyped-def]
    n, words = prints.shape
    counts = np.zeros(64 * words + 1, np.int64)
    for i in range(n):
        for j in range(i):
            apart = np.int64(0)
            for word in range(words):
                apart += np.int64(bit_count(prints[i, word] ^ prints[j, word]))
            counts[apart] += 1
    return counts


if __name__ == "__main__":
    main()
