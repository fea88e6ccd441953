"""Candidates inside one batch: its items must see each other before any of them is in the index.

In: the keys of the batch. Out: pairs (later, earlier) that share a key. The same meaning as a lookup in the
index, so that a verdict does not depend on where the batches were cut.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray


def pairs_within(keys: NDArray[np.uint32], bucket_limit: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Pairs (later, earlier) of rows of `keys` (n, T) that share a non-zero key, each once, sorted by later.

    At most the `bucket_limit` newest earlier ones a key. O(T·n·log n + pairs·T).

    >>> later, earlier = pairs_within(np.array([[5, 7], [0, 0], [5, 7], [0, 7]], np.uint32), 10)
    >>> list(zip(later.tolist(), earlier.tolist()))
    [(2, 0), (3, 2), (3, 0)]
    """
    order = np.argsort(keys, axis=0, kind="stable")
    return _chain(keys, order, bucket_limit)  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _chain(keys, order, bucket_limit):
    n, tables = keys.shape
    # before[t, j]: the newest earlier item with j's key in table t, or -1
    before = np.full((tables, n), -1, np.int32)
    for t in range(tables):
        for k in range(1, n):
            i, j = order[k - 1, t], order[k, t]
            if keys[i, t] == keys[j, t] and keys[j, t] != 0:
                before[t, j] = i
    seen = np.full(n, -1, np.int32)
    later = np.empty(max(16, n), np.int32)
    earlier = np.empty(max(16, n), np.int32)
    found = 0
    for j in range(n):
        for t in range(tables):
            i = before[t, j]
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
                i = before[t, i]
    return later[:found].copy(), earlier[:found].copy()
