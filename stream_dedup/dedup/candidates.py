"""Candidates: which earlier items share a key with each item of a batch, in the index or in the batch itself.

In: fingerprints of a batch. Out: `Pairs`, by item, each item's oldest candidate first. Items of a batch must see each
other before any of them is in the index, with the same meaning as a lookup there.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.windows import Scope, are_near, hours_apart
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.hashing import GOLDEN
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import RowStore, as_bytes
from stream_dedup.index.times import Windows

# A place in the batch and a row in one word: 2^23 items a batch, 2^39 rows.
_AGE_BITS = 40
_NEWER_THAN_ALL = 1 << (_AGE_BITS - 1)

# Candidates of an item that are compared with it, of the index and of the batch each. So a burst of copies stays within
# memory (24 pairs take 24 KB), and a form filled in again and again costs 55 to 72 µs an item (an item of news 36),
# where all of up to 1,024 a key cost 900 to 4,600. An item of news that has candidates has some seventeen; on the
# labelled streams 16 of them let .077 of what brings nothing new through, 32 .076, and all of them .074, at the same
# share missed.
MOST = 24
# A part of those from the batch are the first of it, however few keys they share: in a burst of copies that differ a
# little most share more keys by chance than the one that is let through.
_ELDEST = 3
# More than a scheme has tables: a pair that shares the id's key is kept whatever else it shares.
_LEVELS = 256


class Pairs(NamedTuple):
    """Candidate pairs of a batch, (pairs,) each, ordered by item, each item's oldest candidate first.

    `row` is a row of the index, or -1-i for item i of the batch; `known` are the candidates' signatures;
    `by_text`: they share a key other than that of the id; `near`: the candidate itself is within the item's window (in
    the batch one that is not may yet be a variant of an original that is); `apart`: hours between them.
    """

    item: NDArray[np.int32]
    row: NDArray[np.int64]
    known: NDArray[np.void]
    by_text: NDArray[np.bool_]
    near: NDArray[np.bool_]
    apart: NDArray[np.float32]


def find_candidates(prints: Fingerprints, scope: Scope, index: HybridIndex, rows: RowStore, bucket_limit: int) -> Pairs:
    """Pairs from the index and from the batch.

    Of an item at most MOST rows of the index and MOST items of the batch, and beside them those of its id.
    """
    signatures, keys = prints.signatures, prints.keys
    item, row = _closest(keys, scope.windows, index)
    nearness = index.nearness
    later, earlier = pairs_within(nearness.buckets(keys.T), bucket_limit, MOST)
    shared = nearness.matches(keys.take(later, axis=0), keys.take(earlier, axis=0))
    kept = shared.any(axis=1)
    later, earlier, shared = later[kept], earlier[kept], shared[kept]
    by_text = np.concatenate([np.ones(len(row), np.bool_), shared[:, :-1].any(axis=1)])
    items = np.concatenate([item, later]).astype(np.int32)
    places = np.concatenate([row, -1 - earlier.astype(np.int64)])
    # By item; rows of the index before those of the batch, each from the oldest.
    age = np.where(places < 0, _NEWER_THAN_ALL - 1 - places, places)
    order = np.argsort(items.astype(np.int64) << _AGE_BITS | age, kind="stable")  # two sorted runs, mostly
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    known: NDArray[np.void] = np.empty(len(order), signatures.dtype)
    rows.take(row, known, place[: len(row)])
    as_bytes(known)[place[len(row) :]] = as_bytes(signatures)[earlier]
    near = np.concatenate([np.ones(len(row), np.bool_), are_near(earlier, later, scope)])
    items, places = items[order], places[order]
    apart = hours_apart(scope, items, places, known["time"])
    return Pairs(items, places, known, by_text[order], near[order], apart)


def _closest(
    keys: NDArray[np.uint32], windows: Windows, index: HybridIndex
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Items and rows of the index: of each item those that share most keys with it, and those that may have its id."""
    item, row, shared = index.lookup_shared(keys, windows)
    has_many = np.bincount(item, minlength=len(keys)) > MOST
    if not has_many.any():
        return item, row
    crowded = np.flatnonzero(has_many)
    ids = np.zeros((len(crowded), keys.shape[1]), keys.dtype)
    ids[:, -1] = keys[crowded, -1]
    of_id, its_row = index.lookup(ids, Windows(*(column[crowded] for column in windows)))
    kept = ~has_many[item]
    _keep_closest(item, shared, has_many, MOST, kept)
    items = np.concatenate([item[kept], crowded[of_id].astype(np.int32)])
    rows = np.concatenate([row[kept], its_row])
    order = np.lexsort((rows, items))
    items, rows = items[order], rows[order]
    is_first = np.append(True, (items[1:] != items[:-1]) | (rows[1:] != rows[:-1]))
    return items[is_first], rows[is_first]


@njit(nogil=True, cache=True)
def _keep_closest(item, shared, has_many, most, kept):
    """Sets `kept` for the `most` pairs of each crowded item that share most keys, of equals the newest.

    item, shared: (pairs,), by item, then from the oldest row on. O(pairs).
    """
    start = 0
    for end in range(1, item.size + 1):
        if end < item.size and item[end] == item[start]:
            continue
        if has_many[item[start]]:
            _keep_most(shared, start, end, most, kept)
        start = end


@njit(nogil=True, cache=True)
def _keep_most(shared, start, end, most, kept):
    """Sets `kept` for the `most` largest of shared[start:end], of equals the last."""
    counts = np.zeros(_LEVELS, np.int64)
    for p in range(start, end):
        counts[min(shared[p], _LEVELS - 1)] += 1
    level, capacity = _LEVELS - 1, most
    while level > 0 and counts[level] <= capacity:
        capacity -= counts[level]
        level -= 1
    for p in range(end - 1, start - 1, -1):
        of_pair = min(shared[p], _LEVELS - 1)
        if of_pair > level:
            kept[p] = True
        elif of_pair == level and capacity > 0:
            kept[p] = True
            capacity -= 1


def bodies_of(pairs: Pairs, prints: Fingerprints, rows: RowStore) -> tuple[list[bytes], NDArray[np.int64]]:
    """The packed bodies of the candidates, each once, and (pairs,) which is whose; for exact comparison."""
    held, place = np.unique(pairs.row[pairs.row >= 0], return_inverse=True)
    of_pair = len(held) - 1 - pairs.row  # behind those of the index stand the batch's own
    of_pair[pairs.row >= 0] = place
    return [*rows.bodies(held), *prints.bodies], of_pair


def pairs_within(keys: NDArray[np.uint32], bucket_limit: int, most: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Pairs (later, earlier) of items that share a non-zero key, each once, by later, then by earlier.

    keys: (T, n). At most `bucket_limit` earlier ones a key, the first and the newest, and of those at most `most` an
    item: a third are the first of them, the others share most keys (of equals the first); and in any case those that
    share the id's key, the last.
    O(T·n + steps) for up to T·bucket_limit steps an item: a hash table a table of keys, which with its column stays in
    the first cache.

    >>> later, earlier = pairs_within(np.array([[5, 0, 5, 0], [7, 0, 7, 7]], np.uint32), 10, 2)
    >>> list(zip(later.tolist(), earlier.tolist()))
    [(2, 0), (3, 0), (3, 2)]
    """
    return _pairs_within(np.ascontiguousarray(keys), bucket_limit, most)  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _pairs_within(keys, bucket_limit, most):
    tables, n = keys.shape
    before = np.empty((tables, n), np.int32)  # before[t, j]: the newest earlier item with j's key in table t, or -1
    first = np.empty((tables, n), np.int32)  # first[t, j]: the first item with j's key in table t
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
            slot = np.int64((np.uint64(key) * GOLDEN) >> np.uint64(64 - bits))
            while newest[slot] >= 0 and column[newest[slot]] != key:
                slot = (slot + 1) & mask
            other = newest[slot] if key else np.int32(-1)
            before[t, j] = other
            first[t, j] = first[t, other] if other >= 0 else j
            has_one[j] |= other >= 0
            if key:
                newest[slot] = j
    later = np.empty(max(16, 4 * n), np.int32)
    earlier = np.empty(later.size, np.int32)
    found = _walk(before, first, has_one, bucket_limit, most, later, earlier)
    if found > later.size:  # arrays that grow within the loop would make every step ten times as slow
        later, earlier = np.empty(found, np.int32), np.empty(found, np.int32)
        _walk(before, first, has_one, bucket_limit, most, later, earlier)
    return later[:found].copy(), earlier[:found].copy()


@njit(nogil=True, cache=True)
def _walk(before, first, has_one, bucket_limit, most, later, earlier):
    """Fills in the pairs, as many as there is room for; their number."""
    tables, n = before.shape
    seen, place_of = np.full(n, -1, np.int32), np.empty(n, np.int32)
    others, shared = np.empty(n, np.int32), np.empty(n, np.int32)  # the candidates of one item, in order of sight
    in_order, kept = np.empty(n, np.int32), np.empty(n, np.bool_)
    found, capacity, eldest = 0, later.size, most // _ELDEST
    for j in range(n):
        if not has_one[j]:
            continue
        count = 0
        for t in range(tables):
            i = before[t, j]
            walked = 0
            weight = 1 if t < tables - 1 else _LEVELS
            while i >= 0:
                walked += 1
                if walked == bucket_limit:
                    i = first[t, j]  # what copies are copies of came first
                if seen[i] != j:
                    seen[i], place_of[i] = j, count
                    others[count], shared[count] = i, 0
                    count += 1
                shared[place_of[i]] += weight
                i = before[t, i] if walked < bucket_limit else -1
        mine = others[:count]
        mine.sort()
        kept[:count] = True
        if count > most:
            for k in range(count):
                in_order[k] = shared[place_of[mine[k]]]
                kept[k] = k < eldest or in_order[k] >= _LEVELS
            _keep_most(in_order[:count][::-1], 0, count, most - eldest, kept[:count][::-1])
        for k in range(count):
            if kept[k]:
                if found < capacity:
                    later[found], earlier[found] = j, mine[k]
                found += 1
    return found
