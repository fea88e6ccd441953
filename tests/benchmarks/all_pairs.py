"""Find all pairs of sets with a Jaccard similarity of at least a threshold, exactly: the reference for `pairs`.

This works as `evaluate.exact`, but no set is held back: each is compared with all earlier sets that share one of its
rarest members.
Source: Bayardo, Ma, Srikant, "Scaling up all pairs similarity search", 2007.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.evaluate.exact import ShingleSets, longer, prefix_end, shared_members


def all_pairs(sets: ShingleSets, threshold: float) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return (later, earlier, Jaccard) of all pairs, each of shape (pairs,), ascending. Empty sets have no pairs."""
    later, earlier, jaccard = _join(sets.ranks, sets.bounds, sets.sizes, sets.shared, threshold)
    order = np.lexsort((earlier, later))
    return later[order], earlier[order], jaccard[order]


@njit(nogil=True, cache=True)
def _join(ranks: Any, bounds: Any, sizes: Any, shared: Any, threshold: Any) -> Any:
    n = sizes.size
    head = np.full(shared, -1, np.int64)
    entry_set, entry_next, entries = np.empty(1024, np.int64), np.empty(1024, np.int64), 0
    later, earlier, jaccard, count = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024), 0
    seen = np.full(n, -1, np.int64)
    for i in range(n):
        size, start, end = sizes[i], bounds[i], bounds[i + 1]
        if size == 0:
            continue
        stop = prefix_end(size, start, end, threshold)
        for position in range(start, stop):
            entry = head[ranks[position]]
            while entry >= 0:
                j = entry_set[entry]
                entry = entry_next[entry]
                if seen[j] == i:
                    continue
                seen[j] = i
                if min(size, sizes[j]) < threshold * max(size, sizes[j]) - 1e-9:
                    continue
                common = shared_members(ranks, start, end, bounds[j], bounds[j + 1])
                similarity = common / (size + sizes[j] - common)
                if similarity < threshold - 1e-9:
                    continue
                if count == later.size:
                    later, earlier = longer(later, 2 * count), longer(earlier, 2 * count)
                    longer_jaccard = np.empty(2 * count)
                    longer_jaccard[:count] = jaccard
                    jaccard = longer_jaccard
                later[count], earlier[count], jaccard[count] = i, j, similarity
                count += 1
        for position in range(start, stop):
            if entries == entry_set.size:
                entry_set, entry_next = longer(entry_set, 2 * entries), longer(entry_next, 2 * entries)
            entry_set[entries], entry_next[entries] = i, head[ranks[position]]
            head[ranks[position]] = entries
            entries += 1
    return later[:count], earlier[:count], jaccard[:count]
