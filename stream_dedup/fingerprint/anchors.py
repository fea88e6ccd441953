"""Anchors: index keys that two texts share if one contains part of the other.

In: the shingles of a text. Out: the k smallest hashes of its runs of eight words (ten characters), each a key, all in
one table of the index in which any may meet any. If one text holds a share c of the other's runs, each anchor of the
smaller text is in the larger one with probability c, and it is an anchor there too if it is small enough. So the index
proposes what is contained, which MinHash bands miss: with k = 16, of the pairs of which one holds .6 of the other at a
Jaccard below .5, .98 to .996 on five of eight corpora and .95 to 1.0 on all where one text is at most eight times the
other; and all pairs from a Jaccard of .3 on.

Source: the bottom-k sketch of Broder, "On the resemblance and containment of documents", 1997, used as keys.
"""

from typing import NamedTuple

from numba import njit, uint32, uint64

from stream_dedup.fingerprint.hashing import mix, rolled


class Anchors(NamedTuple):
    """How anchors are made. keys: k, the first columns of an item's keys; step, last: an anchor's run consists of the
    shingles i, i + step and i + last, for texts with characters of scripts without spaces, and for other texts.
    """

    keys: int
    step: int
    last: int
    character_step: int
    character_last: int


@njit(nogil=True, cache=True)
def anchor_keys(shingles, size, step, last, keys):
    """Write the smallest distinct keys of the runs in shingles[:size] to keys, (k,) uint32, ascending; 0 for the rest.

    A text shorter than a run is one run. The hash is mixed once more, so that anchors are independent of the bins of a
    sketch. O(size + k² log size).
    """
    k, found = keys.size, 0
    keys[:] = uint32(0)
    if k == 0 or size == 0:
        return
    if size <= last:
        h = uint64(0)
        for i in range(size):
            h = rolled(h, shingles[i])
        keys[0] = max(uint32(mix(h) >> uint64(32)), uint32(1))
        return
    for i in range(size - last):
        h = mix(rolled(rolled(shingles[i], shingles[i + step]), shingles[i + last]))
        key = max(uint32(h >> uint64(32)), uint32(1))
        if found == k and key >= keys[k - 1]:
            continue
        place = found
        while place > 0 and keys[place - 1] >= key:
            place -= 1
        if place < found and keys[place] == key:
            continue
        for move in range(min(found, k - 1), place, -1):
            keys[move] = keys[move - 1]
        keys[place] = key
        found = min(found + 1, k)
