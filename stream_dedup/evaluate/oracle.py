"""The exact oracle: what a deduplicator with whole sets, no sketch and no LSH, would hold back.

In: `ShingleSets` in order of arrival and a threshold. Out: each set's nearest earlier original, exactly, under
the stream's own policy: first seen wins, and what is held back is not remembered.

Source: prefix filtering over an inverted index, Bayardo, Ma, Srikant, "Scaling up all pairs similarity search",
2007 (AllPairs), with the length filter and the order by rarity of PPJoin (Xiao et al. 2008). Two sets with
J >= t share a member among the rarest |x| - ceil(t |x|) + 1 of each; the boilerplate that thousands of pages share
stands last in the order and is hardly ever looked up. Nothing is skipped that could change an answer.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.evaluate.sets import ShingleSets

# The oracle looks for originals this far below the threshold, so that a false drop has its band in the report.
# Measured at .8: 5,000 comparisons for 13,000 pages down to .7, and still below a second down to .4.
_BELOW = 0.4
_LOWEST = 0.1
# A product such as .8 * 5 may come out above 4 by a rounding; a ceiling must not be fooled by it.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Of n sets: the nearest original before each, (n,) int64, -1 if none reaches the floor; its Jaccard, (n,).

    held: (n,) bool, the exact deduplicator would hold it back. compared: exact comparisons made.
    """

    original: NDArray[np.int64]
    jaccard: NDArray[np.float64]
    held: NDArray[np.bool_]
    floor: float
    compared: int


def first_seen_wins(sets: ShingleSets, threshold: float) -> Nearest:
    """Runs the exact deduplicator at Jaccard >= threshold, 0 < threshold <= 1.

    Empty sets are like nothing and are not remembered. Memory: 20 bytes a member of a prefix, that is about a
    half of the members at a threshold of .8.

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
    """One pass in order of arrival. Postings are linked lists in arrays: head of each rank, newest set first."""
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
                # Of equals the oldest, whatever the order in which they were found.
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
    """Where the prefix of a set of `size` members ends, of which start..end stand in other sets too.

    Members that stand in one set only are the rarest of all: they fill the prefix first, and match nothing.
    """
    prefix = size - np.int64(np.ceil(floor * size - _ROUNDING)) + 1
    return min(start + max(prefix - (size - (end - start)), 0), end)


@njit(nogil=True, cache=True)
def shared_members(ranks, a, a_end, b, b_end):  # type: ignore[no-untyped-def]
    """Members that two ascending runs of `ranks` have in common; O(members)."""
    both = 0
    while a < a_end and b < b_end:
        x, y = ranks[a], ranks[b]
        both += x == y
        a += x <= y
        b += y <= x
    return both


@njit(nogil=True, cache=True)
def longer(array, capacity):  # type: ignore[no-untyped-def]
    """The same entries with room for more."""
    out = np.empty(capacity, np.int64)
    out[: array.size] = array
    return out
