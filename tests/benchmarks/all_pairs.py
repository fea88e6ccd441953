"""All pairs of sets with a Jaccard of a threshold or more, exactly: what a search for pairs is measured against.

As `evaluate.oracle`, but nothing is held back: every set meets every earlier one that shares a rare member with it.
Source: Bayardo, Ma, Srikant, "Scaling up all pairs similarity search", 2007.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.evaluate.oracle import longer, prefix_end, shared_members
from stream_dedup.evaluate.sets import ShingleSets


def all_pairs(sets: ShingleSets, threshold: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """(later, earlier, Jaccard) of every pair, (pairs,) each, ascending. Empty sets are like nothing."""
    later, earlier, jaccard = _join(sets.ranks, sets.bounds, sets.sizes, sets.shared, threshold)
    order = np.lexsort((earlier, later))
    return later[order], earlier[order], jaccard[order]


@njit(nogil=True, cache=True)
def _join(ranks: Any, bounds: Any, sizes: Any, shared: Any, threshold: Any) -> Any:
    n = sizes.size
    head = np.full(shared, -1, np.int64)
    entry_set, entry_next, entries = np.empty(1024, np.int64), np.empty(1024, np.int64), 0
    later, earlier, jaccard, found = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024), 0
    seen = np.full(n, -1, np.int64)
    for i in range(n):
        size, start, end = sizes[i], bounds[i], bounds[i + 1]
        if size == 0:
            continue
        stop = prefix_end(size, start, end, threshold)
        for place in range(start, stop):
            entry = head[ranks[place]]
            while entry >= 0:
                j = entry_set[entry]
                entry = entry_next[entry]
                if seen[j] == i:
                    continue
                seen[j] = i
                if min(size, sizes[j]) < threshold * max(size, sizes[j]) - 1e-9:
                    continue
                both = shared_members(ranks, start, end, bounds[j], bounds[j + 1])
                alike = both / (size + sizes[j] - both)
                if alike < threshold - 1e-9:
                    continue
                if found == later.size:
                    later, earlier = longer(later, 2 * found), longer(earlier, 2 * found)
                    more = np.empty(2 * found)
                    more[:found] = jaccard
                    jaccard = more
                later[found], earlier[found], jaccard[found] = i, j, alike
                found += 1
        for place in range(start, stop):
            if entries == entry_set.size:
                entry_set, entry_next = longer(entry_set, 2 * entries), longer(entry_next, 2 * entries)
            entry_set[entries], entry_next[entries] = i, head[ranks[place]]
            head[ranks[place]] = entries
            entries += 1
    return later[:found], earlier[:found], jaccard[:found]
