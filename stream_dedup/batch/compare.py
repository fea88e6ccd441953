"""Decide candidate pairs: compare the signatures, then ask the stream's decision whether they are the same article.

In: a `SpilledCorpus` and the runs of all tables. Out: *verified* files, each with the near-duplicates of a range of
rows, ordered by (later, earlier). The runs are merged range by range: the codes of a range of rows are contiguous in
each run, so one sort removes the repeated pairs. The verdict on a pair is that for the later item if it met the earlier
one in the stream.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.candidates import distinct
from stream_dedup.batch.parts import SpilledCorpus
from stream_dedup.batch.spill import Arrays
from stream_dedup.dedup.rule import judge_pairs, strongest, thresholds
from stream_dedup.dedup.similarity import compare
from stream_dedup.dedup.verdict import Stage
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import DecisionSettings

STAGES = list(Stage)
"""A verified file stores a stage as an index of this list."""
# Ranges begin at multiples of this row count, so a run is searched for n / 256 rows instead of n.
_STEP = 256
# Steps in a range at most: the word set of a row takes 4 KB.
_MOST_STEPS = 16
# A pair while it is compared: two signatures of 259 bytes by default, and thirty numbers.
_BYTES_PER_PAIR = 1024
# With whole bodies: a packed body of 1,000 shingles.
_BYTES_PER_BODY = 2**13
_SHIFT, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


class VerifiedHead(NamedTuple):
    """The rows first..end are done; compared: the number of pairs."""

    first: int
    end: int
    compared: int


@dataclass(frozen=True, slots=True)
class RowRange:
    """The rows first..end as the later ones of pairs; `bounds`: the slice of each run that holds their codes."""

    first: int
    end: int
    bounds: list[tuple[int, int]]


def bytes_per_pair(scheme: Scheme) -> int:
    """Memory of a candidate pair while it is compared."""
    return _BYTES_PER_PAIR + (_BYTES_PER_BODY if scheme.is_exact else 0)


def row_ranges(runs: Sequence[NDArray[np.uint64]], first: int, size: int, capacity: int) -> Iterator[RowRange]:
    """Cut the rows from `first` (a multiple of 256) to `size` into ranges of about `capacity` codes."""
    edges = np.append(np.arange(first, size, _STEP), size).astype(np.uint64)
    positions = np.array([np.searchsorted(run, edges << _SHIFT) for run in runs]).reshape(len(runs), len(edges))
    codes = positions.sum(axis=0)
    start = 0
    while start < len(edges) - 1:
        end = int(np.searchsorted(codes, codes[start] + capacity, side="right")) - 1
        end = min(max(end, start + 1), start + _MOST_STEPS, len(edges) - 1)
        bounds = [(int(of_run[start]), int(of_run[end])) for of_run in positions]
        yield RowRange(int(edges[start]), int(edges[end]), bounds)
        start = end


class PairComparer:
    """Decides the pairs of one range of rows. Several threads may call it at once."""

    def __init__(
        self, corpus: SpilledCorpus, runs: Sequence[NDArray[np.uint64]], decision: DecisionSettings, hamming: int
    ) -> None:
        self._corpus = corpus
        self._runs = runs
        self._decision = decision
        self._hamming = hamming

    def __call__(self, rows: RowRange) -> tuple[VerifiedHead, Arrays]:
        """The near-duplicates among the candidates of these rows. O(candidates · bytes of a signature)."""
        slices = [run[low:high] for run, (low, high) in zip(self._runs, rows.bounds, strict=True)]
        codes = distinct(np.concatenate([np.empty(0, np.uint64), *slices]))
        later, of_later = np.unique((codes >> _SHIFT).astype(np.int64), return_inverse=True)
        earlier, of_earlier = np.unique((codes & _LOW).astype(np.int64), return_inverse=True)
        corpus, no_keys = self._corpus, np.empty((len(later), 0), np.uint32)
        new = Fingerprints(corpus.signatures(later), no_keys, corpus.words(later), self._hamming, corpus.bodies(later))
        similar = compare(new, corpus.signatures(earlier), of_later, of_earlier, corpus.bodies(earlier))
        judged = judge_pairs(similar, thresholds(self._decision, has_words=corpus.has_words))
        is_pair = judged.is_repeat | judged.is_same
        similar, is_exact = similar[is_pair], judged.is_repeat[is_pair]
        stages = [STAGES.index(stage) for stage in strongest(similar)]
        arrays: Arrays = {
            "later": later[of_later[is_pair]],
            "earlier": earlier[of_earlier[is_pair]],
            "stage": np.where(is_exact, STAGES.index(Stage.EXACT), stages).astype(np.uint8),
            **{name: similar[name] for name in ("body", "containment", "headline", "distance")},
        }
        return VerifiedHead(rows.first, rows.end, len(codes)), arrays
