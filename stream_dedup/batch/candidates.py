"""Sorted tables -> candidate pairs: what shares a key in any table, without looking anything up.

In: `Parts`. Out: *runs*, temporary files of ascending pair codes, later row * 2^32 + earlier row, one or more a
table. A table's keys are sorted, each with its row, and equal neighbours are candidates. Where the keys of a table do
not fit in memory they are sorted by ranges, the whole column being read once a range; where the pairs do not fit, they
are written as several runs.

A bucket of n equal keys holds n(n-1)/2 pairs, and a template of a million pages would fill every disk. So each item
meets the newest `bucket_limit` items before it in its bucket, as it does in the stream. A pair is missed only
where that many stand between the two in every table that they share, and since each of those meets its own neighbours,
a cluster of copies hangs together all the same. The result says how many pairs were left out.

Source: bands as buckets, Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4; here sorted instead of
hashed.
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from stream_dedup.batch.parts import Parts
from stream_dedup.batch.spill import Arrays, Spill

_BINS = 2**12
"""Ranges of keys that are counted before a table is cut; keys are hashes, so they fill them evenly."""


class RunHead(msgspec.Struct, frozen=True):
    """A run of one table: buckets over the limit and pairs left out so far; whether it is the table's last."""

    hot: int
    left_out: int
    last: bool


def run_name(table: int, number: int) -> str:
    return f"run-{table:03}-{number:05}"


def read_runs(spill: Spill, table: int, *, check: bool) -> list[tuple[RunHead, Arrays]] | None:
    """The runs of a table, None if not all of them are there."""
    runs: list[tuple[RunHead, Arrays]] = []
    while not (runs and runs[-1][0].last):
        found = spill.read(run_name(table, len(runs)), RunHead, check=check)
        if found is None:
            return None
        runs.append(found)
    return runs


def write_runs(spill: Spill, parts: Parts, table: int, bucket_limit: int, capacity: int) -> None:
    """Makes the runs of a table, holding some 4 * `room` times eight bytes. O(n log n + pairs log pairs)."""
    number, hot, left_out = 0, 0, 0
    codes = np.empty(max(capacity, bucket_limit), np.uint64)
    filled = 0
    for packed in _sorted_ranges(parts, table, capacity):
        at = bucket = 0
        while at < len(packed):
            filled, at, bucket, more_hot, more_left = pairs_of_buckets(packed, at, bucket, bucket_limit, codes, filled)
            hot, left_out = hot + more_hot, left_out + more_left
            if at < len(packed):
                spill.write(run_name(table, number), RunHead(hot, left_out, False), {"codes": np.sort(codes[:filled])})
                number, filled = number + 1, 0
    spill.write(run_name(table, number), RunHead(hot, left_out, True), {"codes": np.sort(codes[:filled])})


def _sorted_ranges(parts: Parts, table: int, capacity: int) -> Iterator[NDArray[np.uint64]]:
    """The table's entries, key * 2^32 + row, ascending; at most some `room` of them at a time. No key is cut in two."""
    for low, high in _ranges(parts, table, capacity):
        found = []
        for start, keys in parts.keys(table):
            wanted = np.flatnonzero((keys >= low) & (keys <= high))
            found.append((keys[wanted].astype(np.uint64) << np.uint64(32)) | (wanted + start).astype(np.uint64))
        packed = np.concatenate(found)
        packed.sort()
        yield packed


def _ranges(parts: Parts, table: int, capacity: int) -> list[tuple[int, int]]:
    """(first, last) key of ranges of some `room` entries; 0 is no key."""
    if parts.size <= capacity:
        return [(1, 2**32 - 1)]
    width = 2**32 // _BINS
    counts = sum(np.bincount(keys // np.uint32(width), minlength=_BINS) for _, keys in parts.keys(table))
    cuts, held = [0], 0
    for place, count in enumerate(np.asarray(counts).tolist()):
        if held and held + count > capacity:
            cuts.append(place)
            held = 0
        held += count
    cuts.append(_BINS)
    return [(max(1, first * width), last * width - 1) for first, last in pairwise(cuts)]


@njit(nogil=True, cache=True)
def pairs_of_buckets(packed, at, bucket, limit, codes, filled):  # type: ignore[no-untyped-def]
    """Pair codes of equal neighbours of packed[at:] into codes[filled:], until one entry's pairs no longer fit.

    `bucket`: where the bucket of packed[at - 1] begins. Returns (filled, at, bucket, buckets that passed the limit,
    pairs left out), to go on with.
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
