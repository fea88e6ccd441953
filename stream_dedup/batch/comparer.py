"""Decide candidate pairs: compare the signatures, then ask the stream's decision whether they are the same article.

In: a `Corpus` and runs of pair codes. Out: the near-duplicates of a range of rows, ordered by (later, earlier). The
runs are merged range by range: the codes of a range of rows are contiguous in each run, so one sort removes the
repeated pairs. The verdict on a pair is that for the later item if it met the earlier one in the stream.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.candidates import distinct
from stream_dedup.batch.corpus import Arrays, Corpus
from stream_dedup.dedup.rule import judge_pairs, strongest, thresholds
from stream_dedup.dedup.similarity import compare
from stream_dedup.dedup.verdict import Stage
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import DecisionSettings

Codes = NDArray[np.uint64]

_STAGES = list(Stage)
# Ranges begin at multiples of this row count, so a run is searched for n / 256 rows instead of n.
_STEP = 256
# Steps in a range at most: the word set of a row takes 4 KB.
_MOST_STEPS = 16
# A pair while it is compared: two signatures of 259 bytes by default, and thirty numbers.
_BYTES_PER_PAIR = 1024
# With whole bodies: a packed body of 1,000 shingles.
_BYTES_PER_BODY = 2**13
_SHIFT, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


def bytes_per_pair(scheme: Scheme) -> int:
    """Memory of a candidate pair while it is compared."""
    return _BYTES_PER_PAIR + (_BYTES_PER_BODY if scheme.is_exact else 0)


def rows_of(codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The later and the earlier row of each pair code."""
    return (codes >> _SHIFT).astype(np.int64), (codes & _LOW).astype(np.int64)


def codes_of(later: NDArray[np.int64], earlier: NDArray[np.int64]) -> Codes:
    """The inverse of `rows_of`."""
    return later.astype(np.uint64) << _SHIFT | earlier.astype(np.uint64)


def row_ranges(runs: Sequence[Codes], size: int, capacity: int) -> Iterator[tuple[int, list[Codes]]]:
    """Cut the rows 0 to `size` into ranges of about `capacity` codes: the end of each, and its slice of each run."""
    edges = np.append(np.arange(0, size, _STEP), size).astype(np.uint64)
    positions = np.array([np.searchsorted(run, edges << _SHIFT) for run in runs]).reshape(len(runs), len(edges))
    codes = positions.sum(axis=0)
    start = 0
    while start < len(edges) - 1:
        end = int(np.searchsorted(codes, codes[start] + capacity, side="right")) - 1
        end = min(max(end, start + 1), start + _MOST_STEPS, len(edges) - 1)
        yield int(edges[end]), [run[at[start] : at[end]] for run, at in zip(runs, positions, strict=True)]
        start = end


class PairComparer:
    """Decides candidate pairs. Several threads may call it at once."""

    def __init__(self, corpus: Corpus, decision: DecisionSettings, hamming: int) -> None:
        self._corpus = corpus
        self._decision = decision
        self._hamming = hamming

    def __call__(self, slices: Sequence[Codes]) -> tuple[int, Arrays]:
        """The number of distinct pairs in `slices`, and the near-duplicates among them.

        O(candidates · bytes of a signature).
        """
        codes = distinct(np.concatenate([np.empty(0, np.uint64), *slices]))
        later, earlier = rows_of(codes)
        later, of_later = np.unique(later, return_inverse=True)
        earlier, of_earlier = np.unique(earlier, return_inverse=True)
        corpus, no_keys = self._corpus, np.empty((len(later), 0), np.uint32)
        new = Fingerprints(corpus.signatures(later), no_keys, corpus.words(later), self._hamming, corpus.bodies(later))
        pairs = Candidates(new, corpus.signatures(earlier), of_later, of_earlier, corpus.bodies(earlier))
        is_pair, found = decide(pairs, self._decision, has_words=corpus.has_words)
        found |= {"later": later[of_later[is_pair]], "earlier": earlier[of_earlier[is_pair]]}
        return len(codes), found


class Candidates(NamedTuple):
    """Candidate pairs: the later items, the signatures of the earlier ones, which make pair p, and earlier bodies."""

    later: Fingerprints
    earlier: NDArray[np.void]
    of_later: NDArray[np.int64]
    of_earlier: NDArray[np.int64]
    bodies: list[bytes]


def decide(pairs: Candidates, decision: DecisionSettings, *, has_words: bool) -> tuple[NDArray[np.bool_], Arrays]:
    """Which candidates are near-duplicates, and their stages and measures."""
    similar = compare(*pairs)
    judged = judge_pairs(similar, thresholds(decision, has_words=has_words))
    is_pair = judged.is_repeat | judged.is_same
    similar, is_exact = similar[is_pair], judged.is_repeat[is_pair]
    stages = [_STAGES.index(stage) for stage in strongest(similar)]
    return is_pair, {
        "stage": np.where(is_exact, _STAGES.index(Stage.EXACT), stages).astype(np.uint8),
        **{name: similar[name] for name in ("body", "containment", "headline", "distance")},
    }


def pair_rows(pairs: Arrays, a: list[str], b: list[str]) -> dict[str, list[Any]]:
    """The columns of the output for pairs as `decide` returns them, with the ids of the earlier and the later items."""
    return {
        "a": a,
        "b": b,
        "stage": [str(_STAGES[stage]) for stage in pairs["stage"].tolist()],
        **{name: _rounded(pairs[name]) for name in ("body", "containment", "headline")},
        "distance": [None if bits is None else int(bits) for bits in _rounded(pairs["distance"])],
    }


def _rounded(column: NDArray[np.float32]) -> list[float | None]:
    """Four digits, as in a verdict; NaN becomes None."""
    rounded = np.round(column.astype(np.float64), 4).tolist()
    return [None if x != x else x for x in rounded]
