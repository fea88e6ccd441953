"""SimHash: the text's features -> 64 or 128 bits whose Hamming distance tells the angle between two texts.

In: bytes of a batch, the same as the kernel's. Out: (n, words) uint64. Each feature (a shingle; with a width of one
word or character, a token) votes in each bit with its weight, for or against, by that bit of its hash; the bit is the
majority. Two texts whose feature vectors have the angle a differ in each bit with probability a / pi.

Weights are whole numbers, so that the votes add up to the same on every machine: 1 for each distinct feature
(uniform), its number (tf), or its number times its rarity (idf, see weights.py).

Sources: Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002; Manku, Jain, Das Sarma,
"Detecting Near-Duplicates for Web Crawling", WWW 2007 (features, weights, 64 bits and k = 3).
"""

import numpy as np
from numba import int64, njit, uint64

from stream_dedup.fingerprint.hashing import GOLDEN, mix
from stream_dedup.fingerprint.kernel import every_shingle, insert
from stream_dedup.fingerprint.tokens import tokenise, workspace

VERSION = 1
"""Part of the scheme id, as kernel.VERSION."""

UNIFORM, TF, IDF = 0, 1, 2


@njit(nogil=True, cache=True)
def weight_of(h, keys, values, unseen):
    """The idf weight of a feature: keys, values are an open-addressing table (0 = free) of a power of two."""
    mask = uint64(keys.size - 1)
    slot = mix(h) & mask
    while keys[slot] != uint64(0):
        if keys[slot] == h:
            return int64(values[slot])
        slot = (slot + uint64(1)) & mask
    return int64(unseen)


@njit(nogil=True, cache=True)
def vote(h, weight, votes):
    """Adds a feature's weight to `votes` (64,) int64 wherever its hash has a one. The compiler makes SIMD of it."""
    for bit in range(64):
        votes[bit] += weight & -int64((h >> uint64(bit)) & uint64(1))


@njit(nogil=True, cache=True)
def simhash_batch(
    data,
    bounds,
    rows,
    folded,
    classes,
    table,
    expansions,
    seed,
    words,
    characters,
    weighting,
    keys,
    values,
    unseen,
    out,
):
    """SimHash of n texts into places `rows` of out (·, words of 64 bits) uint64, 0 where a text has no feature.

    data, rows, folded, classes, table, expansions: see kernel.fingerprint_batch; a text that cannot be folded by table
    is left. bounds: (n, 2) int64, start and end of each text; weighting: UNIFORM, TF or IDF; keys, values, unseen:
    see weight_of. O(bytes + features · bits).
    """
    text, places, tokens, kinds = workspace(bounds)
    found = np.empty(tokens.size, np.uint64)
    size = 64
    while size < 2 * tokens.size:
        size *= 2
    seen = np.empty(size, np.uint64)
    votes = np.empty((out.shape[1], 64), np.int64)
    for n in range(bounds.shape[0]):
        i = rows[n]
        count = tokenise(
            data, bounds[n, 0], bounds[n, 1], folded, classes, table, expansions, seed, text, places, tokens, kinds
        )
        if count < 0:
            continue
        count = every_shingle(tokens, kinds, count, words, characters, found)
        if weighting == UNIFORM:
            size = 64
            while size < 2 * count:
                size *= 2
            seen[:size] = uint64(0)
        votes[:] = 0
        total = int64(0)
        for j in range(count):
            h = found[j]
            if weighting == UNIFORM and not insert(seen, uint64(size - 1), h):
                continue
            weight = weight_of(h, keys, values, unseen) if weighting == IDF else int64(1)
            total += weight
            # The set's mark is the lowest bit of h; mixed once more, every bit is fair.
            vote(mix(h), weight, votes[0])
            if out.shape[1] == 2:  # the second 64 bits are another function of the feature
                vote(mix(h ^ GOLDEN), weight, votes[1])
        for word in range(out.shape[1]):
            bits = uint64(0)
            for bit in range(64):
                if 2 * votes[word, bit] > total:
                    bits |= uint64(1) << uint64(bit)
            out[i, word] = bits
