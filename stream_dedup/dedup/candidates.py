"""Find the candidates of a batch: at most 24 earlier items, in the index or the batch, that share a key with an item.

In: the fingerprints of a batch and the `Scope` of its times. Out: `Pairs`. Items of a batch must find each other before
they are in the index, by the same rules as a lookup there.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.windows import Scope, are_in_window, hours_apart
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.hashing import GOLDEN
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.rows import RowStore, as_bytes
from stream_dedup.index.times import Windows

# Sort key of a pair, one 64-bit word: item and row. 2^23 items per batch, 2^39 rows.
_AGE_BITS = 40
_NEWER_THAN_ALL = 1 << (_AGE_BITS - 1)

# Candidates from the index, and as many from the batch, that are compared with an item. This bounds the memory of a
# burst of copies (24 pairs take 24 KB). A form that is filled in again and again costs 55 to 72 µs per item (news 36),
# against 900 to 4,600 with all candidates of up to 1,024 per key. News items with candidates have 17 on average. On
# the labelled streams, 16 candidates give .077 repeated, 32 give .076, all give .074, with the same share missed.
MAX_CANDIDATES = 24
# One in three of those from the batch are its first items, however few keys they share: in a burst of slightly
# different copies, most share more keys by chance than the original does.
_OLDEST_PART = 3
# Cap of the number of shared keys. A pair with the same id counts as this, so it must be more than a scheme has tables:
# three views of 1,024 bands at most (settings), one of exact texts, one of ids.
_MAX_SHARED = 4096


class Pairs(NamedTuple):
    """Candidate pairs of a batch, (pairs,) each, ordered by item, each item's oldest candidate first.

    `row`: a row of the index, or -1-i for item i of the batch; `signatures`: of the candidates; `by_text`: the pair
    shares a key other than the id's; `in_window`: the candidate lies within the item's window (a batch item outside it
    may still become a variant of an original inside it); `hours_apart`: hours between the two.
    """

    item: NDArray[np.int32]
    row: NDArray[np.int64]
    signatures: NDArray[np.void]
    by_text: NDArray[np.bool_]
    in_window: NDArray[np.bool_]
    hours_apart: NDArray[np.float32]


def find_candidates(prints: Fingerprints, scope: Scope, index: HybridIndex, rows: RowStore, bucket_limit: int) -> Pairs:
    """Return the candidate pairs from the index and from the batch.

    For each item at most MAX_CANDIDATES rows of the index and MAX_CANDIDATES items of the batch, plus those with its
    id. `bucket_limit`: the most items of the batch that one key gives an item.
    """
    signatures, keys = prints.signatures, prints.keys
    item, row = _index_candidates(keys, scope.windows, index)
    nearness = index.nearness
    later, earlier = pairs_in_batch(nearness.buckets(keys.T), bucket_limit, MAX_CANDIDATES)
    shared = nearness.matches(keys.take(later, axis=0), keys.take(earlier, axis=0))
    keep = shared.any(axis=1)
    later, earlier, shared = later[keep], earlier[keep], shared[keep]
    by_text = np.concatenate([np.ones(len(row), np.bool_), shared[:, :-1].any(axis=1)])
    items = np.concatenate([item, later]).astype(np.int32)
    pair_rows = np.concatenate([row, -1 - earlier.astype(np.int64)])
    # By item; rows of the index before items of the batch, the oldest first.
    age = np.where(pair_rows < 0, _NEWER_THAN_ALL - 1 - pair_rows, pair_rows)
    order = np.argsort(items.astype(np.int64) << _AGE_BITS | age, kind="stable")  # two runs that are mostly sorted
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order))
    known: NDArray[np.void] = np.empty(len(order), signatures.dtype)
    rows.take(row, known, position[: len(row)])
    as_bytes(known)[position[len(row) :]] = as_bytes(signatures)[earlier]
    in_window = np.concatenate([np.ones(len(row), np.bool_), are_in_window(earlier, later, scope)])
    items, pair_rows = items[order], pair_rows[order]
    hours = hours_apart(scope, items, pair_rows, known["time"])
    return Pairs(items, pair_rows, known, by_text[order], in_window[order], hours)


def _index_candidates(
    keys: NDArray[np.uint32], windows: Windows, index: HybridIndex
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Pairs (items, rows) from the index: for each item the rows that share most keys, and those that share its id."""
    item, row, shared = index.lookup_shared(keys, windows)
    has_many = np.bincount(item, minlength=len(keys)) > MAX_CANDIDATES
    if not has_many.any():
        return item, row
    crowded = np.flatnonzero(has_many)
    ids = np.zeros((len(crowded), keys.shape[1]), keys.dtype)
    ids[:, -1] = keys[crowded, -1]
    same_id, same_id_rows = index.lookup(ids, Windows(*(column[crowded] for column in windows)))
    keep = ~has_many[item]
    _keep_best(item, shared, has_many, MAX_CANDIDATES, keep)
    items = np.concatenate([item[keep], crowded[same_id].astype(np.int32)])
    rows = np.concatenate([row[keep], same_id_rows])
    order = np.lexsort((rows, items))
    items, rows = items[order], rows[order]
    is_first = np.append(True, (items[1:] != items[:-1]) | (rows[1:] != rows[:-1]))
    return items[is_first], rows[is_first]


@njit(nogil=True, cache=True)
def _keep_best(item, shared, has_many, max_candidates, keep):
    """Set `keep` for the pairs of each crowded item that share most keys; of equals for the newest.

    item, shared: (pairs,), by item, then by row. O(pairs).
    """
    start = 0
    for end in range(1, item.size + 1):
        if end < item.size and item[end] == item[start]:
            continue
        if has_many[item[start]]:
            _keep_best_of(shared, start, end, max_candidates, keep)
        start = end


@njit(nogil=True, cache=True)
def _keep_best_of(shared, start, end, max_candidates, keep):
    """Set `keep` for the `max_candidates` largest of shared[start:end]; of equals for the last."""
    most = 0
    for p in range(start, end):
        most = max(most, min(shared[p], _MAX_SHARED - 1))
    counts = np.zeros(most + 1, np.int64)  # as many as occur: clearing thousands would cost more than counting
    for p in range(start, end):
        counts[min(shared[p], _MAX_SHARED - 1)] += 1
    level, capacity = most, max_candidates
    while level > 0 and counts[level] <= capacity:
        capacity -= counts[level]
        level -= 1
    for p in range(end - 1, start - 1, -1):
        level_of_pair = min(shared[p], _MAX_SHARED - 1)
        if level_of_pair > level:
            keep[p] = True
        elif level_of_pair == level and capacity > 0:
            keep[p] = True
            capacity -= 1


def candidate_bodies(pairs: Pairs, prints: Fingerprints, rows: RowStore) -> tuple[list[bytes], NDArray[np.int64]]:
    """The packed bodies of all candidates, each once, and (pairs,) the position of each pair's body among them."""
    index_rows, position = np.unique(pairs.row[pairs.row >= 0], return_inverse=True)
    body_of_pair = len(index_rows) - 1 - pairs.row  # those of the batch come after those of the index
    body_of_pair[pairs.row >= 0] = position
    return [*rows.bodies(index_rows), *prints.bodies], body_of_pair


def pairs_in_batch(
    keys: NDArray[np.uint32], bucket_limit: int, max_candidates: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Distinct pairs (later, earlier) of items that share a non-zero key, sorted by later, then by earlier.

    keys: (T, n); the last table holds the ids' keys. A key gives an item at most `bucket_limit` earlier ones: the first
    and the newest. Of these, an item keeps at most `max_candidates`: a third are the first ones, the others share most
    keys (of equals, the first ones); and in any case those that share the id's key.
    O(T·n + steps) for up to T·bucket_limit steps per item. One small hash table per column stays in the first cache.

    >>> later, earlier = pairs_in_batch(np.array([[5, 0, 5, 0], [7, 0, 7, 7]], np.uint32), 10, 2)
    >>> list(zip(later.tolist(), earlier.tolist()))
    [(2, 0), (3, 0), (3, 2)]
    """
    return _pairs_in_batch(np.ascontiguousarray(keys), bucket_limit, max_candidates)  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _pairs_in_batch(keys, bucket_limit, max_candidates):
    tables, n = keys.shape
    previous = np.empty((tables, n), np.int32)  # previous[t, j]: the newest earlier item with j's key in table t, or -1
    first = np.empty((tables, n), np.int32)  # first[t, j]: the first item with j's key in table t
    has_previous = np.zeros(n, np.bool_)
    bits = 6
    while 1 << bits < 4 * n:  # at least three slots in four stay free, so that probe sequences are short
        bits += 1
    mask = (1 << bits) - 1
    newest = np.empty(mask + 1, np.int32)  # hash table: the last item with each key
    for t in range(tables):
        newest[:] = -1
        column = keys[t]
        for j in range(n):
            key = column[j]
            slot = np.int64((np.uint64(key) * GOLDEN) >> np.uint64(64 - bits))
            while newest[slot] >= 0 and column[newest[slot]] != key:
                slot = (slot + 1) & mask
            other = newest[slot] if key else np.int32(-1)
            previous[t, j] = other
            first[t, j] = first[t, other] if other >= 0 else j
            has_previous[j] |= other >= 0
            if key:
                newest[slot] = j
    later = np.empty(max(16, 4 * n), np.int32)
    earlier = np.empty(later.size, np.int32)
    found = _collect_pairs(previous, first, has_previous, bucket_limit, max_candidates, later, earlier)
    if found > later.size:  # a second pass: arrays that grow inside the loop would make it ten times as slow
        later, earlier = np.empty(found, np.int32), np.empty(found, np.int32)
        _collect_pairs(previous, first, has_previous, bucket_limit, max_candidates, later, earlier)
    return later[:found].copy(), earlier[:found].copy()


@njit(nogil=True, cache=True)
def _collect_pairs(previous, first, has_previous, bucket_limit, max_candidates, later, earlier):
    """Write the pairs, as far as the arrays have room; return the number of pairs."""
    tables, n = previous.shape
    seen, position_of = np.full(n, -1, np.int32), np.empty(n, np.int32)
    candidates, shared = np.empty(n, np.int32), np.empty(n, np.int32)  # of one item, in the order in which they turn up
    ordered_shared, keep = np.empty(n, np.int32), np.empty(n, np.bool_)
    found, capacity, oldest_part = 0, later.size, max_candidates // _OLDEST_PART
    for j in range(n):
        if not has_previous[j]:
            continue
        count = 0
        for t in range(tables):
            i = previous[t, j]
            walked = 0
            weight = 1 if t < tables - 1 else _MAX_SHARED
            while i >= 0:
                walked += 1
                if walked == bucket_limit:
                    i = first[t, j]  # the first one is the most likely original
                if seen[i] != j:
                    seen[i], position_of[i] = j, count
                    candidates[count], shared[count] = i, 0
                    count += 1
                shared[position_of[i]] += weight
                i = previous[t, i] if walked < bucket_limit else -1
        ordered = candidates[:count]
        ordered.sort()
        keep[:count] = True
        if count > max_candidates:
            for k in range(count):
                ordered_shared[k] = shared[position_of[ordered[k]]]
                keep[k] = k < oldest_part or ordered_shared[k] >= _MAX_SHARED
            _keep_best_of(ordered_shared[:count][::-1], 0, count, max_candidates - oldest_part, keep[:count][::-1])
        for k in range(count):
            if keep[k]:
                if found < capacity:
                    later[found], earlier[found] = j, ordered[k]
                found += 1
    return found
