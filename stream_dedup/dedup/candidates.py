"""Candidates: which earlier items share a key with each item of a batch, in the index or in the batch itself.

In: fingerprints of a batch. Out: `Pairs`, by item, each item's oldest candidate first. Items of a batch must see each
other before any of them is in the index, with the same meaning as a lookup there.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import RowStore, as_bytes

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# A place in the batch and a row in one word: 2^23 items a batch, 2^39 rows.
_AGE_BITS = 40
_NEWER_THAN_ALL = 1 << (_AGE_BITS - 1)


class Pairs(NamedTuple):
    """Candidate pairs of a batch, (pairs,) each, ordered by item, each item's oldest candidate first.

    `row` is a row of the index, or -1-i for item i of the batch; `known` are the candidates' records;
    `by_text`: they share a key other than that of the id.
    """

    item: NDArray[np.int32]
    row: NDArray[np.int64]
    known: NDArray[np.void]
    by_text: NDArray[np.bool_]


def find_candidates(
    prints: Fingerprints, horizons: NDArray[np.int64], index: HybridIndex, rows: RowStore, bucket_limit: int
) -> Pairs:
    """Pairs from the index and from the batch. horizons: (n,) ms, where the window of each item begins."""
    records, keys = prints.records, prints.keys
    item, row = index.lookup(keys, horizons)
    nearness = index.nearness
    buckets = np.ascontiguousarray(nearness.buckets(keys.T).T)
    later, earlier = pairs_within(buckets, bucket_limit)
    shared = nearness.matches(keys.take(later, axis=0), keys.take(earlier, axis=0))
    kept = (records["time"][earlier] >= horizons[later]) & shared.any(axis=1)
    later, earlier, shared = later[kept], earlier[kept], shared[kept]
    # take, not [...]: of structured records it copies nine times as fast.
    known = np.concatenate([as_bytes(rows.take(row)), as_bytes(records.take(earlier))]).view(records.dtype)
    by_text = np.concatenate([np.ones(len(row), np.bool_), shared[:, :-1].any(axis=1)])
    items = np.concatenate([item, later]).astype(np.int32)
    places = np.concatenate([row, -1 - earlier.astype(np.int64)])
    # By item; rows of the index before those of the batch, each from the oldest.
    age = np.where(places < 0, _NEWER_THAN_ALL - 1 - places, places)
    order = np.argsort(items.astype(np.int64) << _AGE_BITS | age, kind="stable")  # two sorted runs, mostly
    return Pairs(items[order], places[order], known.take(order), by_text[order])


def bodies_of(pairs: Pairs, prints: Fingerprints, rows: RowStore) -> tuple[list[bytes], NDArray[np.int64]]:
    """The packed bodies of the candidates, each once, and (pairs,) which is whose; for exact comparison."""
    held, place = np.unique(pairs.row[pairs.row >= 0], return_inverse=True)
    of_pair = len(held) - 1 - pairs.row  # behind those of the index stand the batch's own
    of_pair[pairs.row >= 0] = place
    return [*rows.bodies(held), *prints.bodies], of_pair


def pairs_within(keys: NDArray[np.uint32], bucket_limit: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Pairs (later, earlier) of rows of `keys` (n, T) that share a non-zero key, each once, sorted by later.

    At most the `bucket_limit` newest earlier ones a key. O(T·n + pairs·T): a hash table a table of keys, which with
    its column stays in the first cache.

    >>> later, earlier = pairs_within(np.array([[5, 7], [0, 0], [5, 7], [0, 7]], np.uint32), 10)
    >>> list(zip(later.tolist(), earlier.tolist()))
    [(2, 0), (3, 2), (3, 0)]
    """
    return _pairs_within(np.ascontiguousarray(keys.T), bucket_limit)  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _pairs_within(keys, bucket_limit):
    tables, n = keys.shape
    before = np.empty((tables, n), np.int32)  # before[t, j]: the newest earlier item with j's key in table t, or -1
    has_one = np.zeros(n, np.bool_)
    bits = 6
    while 1 << bits < 4 * n:  # three slots in four stay free, so that a new key mostly finds one at once
        bits += 1
    mask = (1 << bits) - 1
    newest = np.empty(mask + 1, np.int32)  # of each key in the table, the item that came last
    for t in range(tables):
        newest[:] = -1
        column = keys[t]
        for j in range(n):
            key = column[j]
            slot = np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(64 - bits))
            while newest[slot] >= 0 and column[newest[slot]] != key:
                slot = (slot + 1) & mask
            other = newest[slot] if key else np.int32(-1)
            before[t, j] = other
            has_one[j] |= other >= 0
            if key:
                newest[slot] = j
    later = np.empty(max(16, 4 * n), np.int32)
    earlier = np.empty(later.size, np.int32)
    found = _walk(before, has_one, bucket_limit, later, earlier)
    if found > later.size:  # arrays that grow within the loop would make every step ten times as slow
        later, earlier = np.empty(found, np.int32), np.empty(found, np.int32)
        _walk(before, has_one, bucket_limit, later, earlier)
    return later[:found].copy(), earlier[:found].copy()


@njit(nogil=True, cache=True)
def _walk(before, has_one, bucket_limit, later, earlier):
    """Fills in the pairs, as many as there is room for; their number."""
    tables, n = before.shape
    seen = np.full(n, -1, np.int32)
    found, room = 0, later.size
    for j in range(n):
        if not has_one[j]:
            continue
        for t in range(tables):
            i = before[t, j]
            walked = 0
            while i >= 0 and walked < bucket_limit:
                walked += 1
                if seen[i] != j:
                    seen[i] = j
                    if found < room:
                        later[found], earlier[found] = j, i
                    found += 1
                i = before[t, i]
    return found
