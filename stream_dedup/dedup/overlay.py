"""Candidates inside one batch: its items must see each other before any of them is in the index.

In: the keys of the batch. Out: pairs (later, earlier) that share a key. The same meaning as a lookup in the
index, so that a verdict does not depend on where the batches were cut.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def pairs_within(keys: NDArray[np.uint32], bucket_limit: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Pairs (later, earlier) of rows of `keys` (n, T) that share a non-zero key, each once, sorted by later.

    At most the `bucket_limit` newest earlier ones a key. O(T·n + pairs·T): a hash table a table of keys, which stays in
    the first cache; sorting the columns instead costs ten times as much.

    >>> later, earlier = pairs_within(np.array([[5, 7], [0, 0], [5, 7], [0, 7]], np.uint32), 10)
    >>> list(zip(later.tolist(), earlier.tolist()))
    [(2, 0), (3, 2), (3, 0)]
    """
    return _pairs_within(keys, bucket_limit)  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _pairs_within(keys, bucket_limit):
    n, tables = keys.shape
    # before[j, t]: the newest earlier item with j's key in table t, or -1
    before = np.full((n, tables), -1, np.int32)
    bits = 6
    while 1 << bits < 2 * n:
        bits += 1
    mask = (1 << bits) - 1
    newest = np.empty(mask + 1, np.int32)  # of each key in the table, the item that came last
    for t in range(tables):
        newest[:] = -1
        for j in range(n):
            key = keys[j, t]
            if key == 0:
                continue
            slot = np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(64 - bits))
            while newest[slot] >= 0 and keys[newest[slot], t] != key:
                slot = (slot + 1) & mask
            before[j, t] = newest[slot]
            newest[slot] = j
    seen = np.full(n, -1, np.int32)
    later = np.empty(max(16, n), np.int32)
    earlier = np.empty(max(16, n), np.int32)
    found = 0
    for j in range(n):
        for t in range(tables):
            i = before[j, t]
            walked = 0
            while i >= 0 and walked < bucket_limit:
                walked += 1
                if seen[i] != j:
                    seen[i] = j
                    if found == later.size:
                        later = np.concatenate((later, np.empty_like(later)))
                        earlier = np.concatenate((earlier, np.empty_like(earlier)))
                    later[found] = j
                    earlier[found] = i
                    found += 1
                i = before[i, t]
    return later[:found].copy(), earlier[:found].copy()
