"""The exact oracle: a deduplicator with exact sets, without sketches and LSH.

In: `ShingleSets` in order of arrival and a threshold. Out: the exact nearest earlier original of each set, under the
policy of the stream: first seen wins, and items that are held back are not remembered.

Source: prefix filtering over an inverted index, Bayardo, Ma, Srikant, "Scaling up all pairs similarity search",
2007 (AllPairs), with the length filter and the order by rarity of PPJoin (Xiao et al. 2008). Two sets with
J >= t share a member among the rarest |x| - ceil(t |x|) + 1 of each. Boilerplate that thousands of pages share comes
last in this order and is hardly ever looked up. Nothing that could change a result is skipped.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.evaluate.sets import ShingleSets

# The oracle searches originals this far below the threshold, so that false drops get the right band in the report.
# Measured at .8: 5,000 comparisons for 13,000 pages down to .7; still below a second down to .4.
_BELOW = 0.4
_LOWEST = 0.1
# Tolerance before a ceiling: a product such as .8 * 5 may exceed 4 by a rounding error.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """The nearest earlier original of each of n sets.

    original: (n,) int64, -1 if none reaches the floor. jaccard: (n,), its Jaccard. held: (n,) bool, whether the exact
    deduplicator holds the item back. compared: the number of exact comparisons.
    """

    original: NDArray[np.int64]
    jaccard: NDArray[np.float64]
    held: NDArray[np.bool_]
    floor: float
    compared: int


def first_seen_wins(sets: ShingleSets, threshold: float) -> Nearest:
    """Run the exact deduplicator at Jaccard >= threshold, 0 < threshold <= 1.

    Empty sets match nothing and are not remembered. Memory: 20 bytes for each member of a prefix, about half of all
    members at a threshold of .8.

    >>> from stream_dedup.evaluate.sets import shingle_sets
    >>> sets = shingle_sets([np.arange(1, 11, dtype=np.uint64), np.arange(1, 10, dtype=np.uint64)])
    >>> found = first_seen_wins(sets, 0.8)
    >>> found.held.tolist(), found.original.tolist(), found.jaccard.tolist()
    ([False, True], [-1, 0], [0.0, 0.9])
    """
    floor = min(threshold, max(threshold - _BELOW, _LOWEST))
    original, jaccard, held, compared = _run(sets.ranks, sets.bounds, sets.sizes, sets.shared, threshold, floor)
    return Nearest(original, jaccard, held, floor, int(compared))


@njit(nogil=True, cache=True)
def _run(ranks, bounds, sizes, shared, threshold, floor):  # type: ignore[no-untyped-def]
    """Process the sets in order of arrival. Posting lists are linked lists in arrays, newest set first."""
    n = sizes.size
    head = np.full(shared, -1, np.int64)
    capacity = 1024
    entry_set, entry_next = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    entries = 0
    original, jaccard, held = np.full(n, -1, np.int64), np.zeros(n), np.zeros(n, np.bool_)
    seen = np.full(n, -1, np.int64)  # the set for which this candidate was last compared
    compared = 0
    for i in range(n):
        size, start, end = sizes[i], bounds[i], bounds[i + 1]
        if size == 0:
            continue
        stop = prefix_end(size, start, end, floor)
        for place in range(start, stop):
            entry = head[ranks[place]]
            while entry >= 0:
                j = entry_set[entry]
                entry = entry_next[entry]
                if seen[j] == i or min(size, sizes[j]) < floor * max(size, sizes[j]) - _ROUNDING:
                    continue
                seen[j] = i
                compared += 1
                both = shared_members(ranks, start, end, bounds[j], bounds[j + 1])
                alike = both / (size + sizes[j] - both)
                # Of equal ones take the oldest.
                if alike >= floor and (alike > jaccard[i] or (alike == jaccard[i] and j < original[i])):
                    jaccard[i], original[i] = alike, j
        held[i] = original[i] >= 0 and jaccard[i] >= threshold - _ROUNDING
        if held[i]:
            continue
        for place in range(start, stop):
            if entries == capacity:
                capacity *= 2
                entry_set, entry_next = longer(entry_set, capacity), longer(entry_next, capacity)
            entry_set[entries], entry_next[entries] = i, head[ranks[place]]
            head[ranks[place]] = entries
            entries += 1
    return original, jaccard, held, compared


@njit(nogil=True, cache=True)
def prefix_end(size, start, end, floor):  # type: ignore[no-untyped-def]
    """Return the end of the prefix of a set of `size` members; start..end are those that other sets share.

    Members of a single set are the rarest: they come first in the prefix and match nothing.
    """
    prefix = size - np.int64(np.ceil(floor * size - _ROUNDING)) + 1
    return min(start + max(prefix - (size - (end - start)), 0), end)


@njit(nogil=True, cache=True)
def shared_members(ranks, a, a_end, b, b_end):  # type: ignore[no-untyped-def]
    """Count the common members of two ascending ranges of `ranks`. O(members)."""
    both = 0
    while a < a_end and b < b_end:
        x, y = ranks[a], ranks[b]
        both += x == y
        a += x <= y
        b += y <= x
    return both


@njit(nogil=True, cache=True)
def longer(array, capacity):  # type: ignore[no-untyped-def]
    """Copy an array into one with the given capacity."""
    out = np.empty(capacity, np.int64)
    out[: array.size] = array
    return out
