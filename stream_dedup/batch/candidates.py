"""Find candidate pairs: all items that share a key in any table, found by sorting instead of lookups.

In: a `Corpus`. Out: *runs* of ascending pair codes, later row * 2^32 + earlier row, one or more
for each table. The keys of a table are sorted, those of all its columns together, each with its row, and equal
neighbours are candidates. If the keys of a table do not fit in memory, they are sorted in ranges, and the columns are
read once for each range. If the pairs do not fit, they are written as several runs.

A bucket of n equal keys has n(n-1)/2 pairs, and a template of a million pages would fill every disk. So each item is
paired with the newest `bucket_limit` items before it in its bucket, as in the stream. A pair is missed only if that
many items lie between the two in every table that they share, and each of those is paired with its own neighbours, so a
cluster of copies stays connected. The result counts the pairs that were left out.

Source: bands as buckets, Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4; here sorted instead of
hashed.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from stream_dedup.batch.corpus import Corpus

# Key ranges that are counted before a table is cut into ranges; keys are hashes, so they fill them evenly.
_BINS = 2**12


class Run(NamedTuple):
    """Pair codes, ascending and distinct; and of what was paired for them, the hot buckets and the pairs left out."""

    codes: NDArray[np.uint64]
    hot: int
    left_out: int


def bucket_pairs(ranges: Iterable[NDArray[np.uint64]], bucket_limit: int, capacity: int) -> Iterator[Run]:
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


def sorted_ranges(corpus: Corpus, table: int, capacity: int) -> Iterator[NDArray[np.uint64]]:
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


def distinct(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
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
