"""Find candidate pairs, and decide them: compare the signatures, and ask the stream's decision.

In: a `Corpus`. Out: first *runs* of ascending pair codes, later row * 2^32 + earlier row, one or more for each table:
all items that share a key, found by sorting instead of lookups. The keys of a table are sorted, those of all its
columns together, each with its row, and equal neighbours are candidates. If the keys of a table do not fit in memory,
they are sorted in ranges, and the columns are read once for each range. If the pairs do not fit, they are written as
several runs. Then the near-duplicates of a range of rows, ordered by (later, earlier). The runs are merged range by
range: the codes of a range of rows are contiguous in each run, so one sort removes the repeated pairs. A pair is two
items that the stream would call one article; whether the later one has something new is not asked.

A bucket of n equal keys has n(n-1)/2 pairs, and a template of a million pages would fill every disk. So each item is
paired with the newest `bucket_limit` items before it in its bucket, as in the stream. A pair is missed only if that
many items lie between the two in every table that they share, and each of those is paired with its own neighbours, so a
cluster of copies stays connected. The result counts the pairs that were left out.

Source: bands as buckets, Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4; here sorted instead of
hashed.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

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
# Key ranges that are counted before a table is cut into ranges; keys are hashes, so they fill them evenly.
_BINS = 2**12


class Run(NamedTuple):
    """Pair codes, ascending and distinct; and of what was paired for them, the hot buckets and the pairs left out."""

    codes: Codes
    hot: int
    left_out: int


def bucket_pairs(ranges: Iterable[Codes], bucket_limit: int, capacity: int) -> Iterator[Run]:
    """The pair codes of equal neighbours, about `capacity` at a time; the last run may be empty.

    ranges: entries, key * 2^32 + row, ascending within a range; no bucket lies in two ranges. O(pairs log pairs).
    """
    hot, left_out, filled = 0, 0, 0
    codes = np.empty(max(capacity, bucket_limit), np.uint64)
    for packed in ranges:
        at = bucket = 0
        while at < len(packed):
            filled, at, bucket, more_hot, more_left = pairs_of_buckets(packed, at, bucket, bucket_limit, codes, filled)
            hot, left_out = hot + more_hot, left_out + more_left
            if at < len(packed):
                yield Run(distinct(codes[:filled]), hot, left_out)
                hot = left_out = filled = 0
    yield Run(distinct(codes[:filled]), hot, left_out)


def sorted_ranges(corpus: Corpus, table: int, capacity: int) -> Iterator[Codes]:
    """The entries of a table, key * 2^32 + row, ascending and distinct, about `capacity` at a time.

    No bucket is cut in two. O(n log n), and some 4 * `capacity` * 8 bytes.
    """
    for low, high in _ranges(corpus, table, capacity):
        entries = []
        for start, keys in corpus.keys(table):
            columns, rows = np.nonzero((keys >= low) & (keys <= high))
            entries.append((keys[columns, rows].astype(np.uint64) << np.uint64(32)) | (rows + start).astype(np.uint64))
        yield distinct(np.concatenate(entries))


def _ranges(corpus: Corpus, table: int, capacity: int) -> list[tuple[int, int]]:
    """The (first, last) keys of ranges of about `capacity` entries; 0 is no key."""
    if sum(keys.size for _, keys in corpus.keys(table)) <= capacity:
        return [(1, 2**32 - 1)]
    width = 2**32 // _BINS
    counts = sum(np.bincount(keys.ravel() // np.uint32(width), minlength=_BINS) for _, keys in corpus.keys(table))
    before = np.cumsum(np.asarray(counts)) - counts
    cuts = np.flatnonzero(np.diff(before // capacity, prepend=-1)).tolist()
    return [(max(1, first * width), last * width - 1) for first, last in pairwise([*cuts, _BINS])]


def distinct(codes: Codes) -> Codes:
    """The distinct entries or codes, ascending. Sorts in place. `np.unique` hashes first, which takes twice as long."""
    codes.sort()
    first = np.ones(len(codes), np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=first[1:])
    return codes[first]


@njit(nogil=True, cache=True)
def pairs_of_buckets(packed, at, bucket, limit, codes, filled):  # type: ignore[no-untyped-def]
    """Write the pair codes of equal neighbours of packed[at:] to codes[filled:] until those of an entry do not fit.

    `bucket`: the index where the bucket of packed[at - 1] begins. Returns (filled, at, bucket, buckets that passed the
    limit, pairs left out); the first three go into the next call.
    """
    hot, left_out = 0, 0
    shift = uint64(32)
    while at < packed.size:
        if at == 0 or packed[at] >> shift != packed[at - 1] >> shift:
            bucket = at
        first = max(bucket, at - limit)
        if filled + at - first > codes.size:
            break
        hot += at - bucket == limit + 1
        left_out += first - bucket
        later = packed[at] << shift
        for j in range(first, at):
            codes[filled] = later | (packed[j] & uint64(0xFFFFFFFF))
            filled += 1
        at += 1
    return filled, at, bucket, hot, left_out


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
