"""SimHash: 64 or 128 bits for a text, whose Hamming distances estimate the angles between texts.

Each feature of a text (a shingle or a token) votes on each bit with its weight, for or against, according to that bit
of its hash; the majority decides. If the feature vectors of two texts form the angle a, each bit differs with
probability a / pi.

Weights are integers, so that votes add up to the same sum on every machine: 1 for each distinct feature (uniform), the
number of its occurrences (tf), or occurrences times rarity (idf, see weights.py).

Sources: Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002; Manku, Jain, Das Sarma,
"Detecting Near-Duplicates for Web Crawling", WWW 2007 (features, weights, 64 bits and k = 3).
"""

from typing import NamedTuple

import numpy as np
from numba import int64, njit, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.hashing import GOLDEN, mix
from stream_dedup.fingerprint.shingles import ShingleWidths

VERSION = 1
"""Part of the scheme id: raise it when a SimHash changes."""

UNIFORM, TF, IDF = 0, 1, 2


class SimHashSink(NamedTuple):
    """How the kernel makes SimHashes, and where it writes them.

    widths of the features; weighting: UNIFORM, TF or IDF; keys, values, unseen: see `weight_of`; out: (n, bits/64)
    uint64, one row for each item.
    """

    widths: ShingleWidths
    weighting: int
    keys: NDArray[np.uint64]
    values: NDArray[np.uint16]
    unseen: int
    out: NDArray[np.uint64]


@njit(nogil=True, cache=True)
def weight_of(h, keys, values, unseen):
    """The idf weight of a feature. keys, values: an open-addressing table of a power of two of slots (0 = free)."""
    mask = uint64(keys.size - 1)
    slot = mix(h) & mask
    while keys[slot] != uint64(0):
        if keys[slot] == h:
            return int64(values[slot])
        slot = (slot + uint64(1)) & mask
    return int64(unseen)


@njit(nogil=True, cache=True)
def vote(h, weight, votes):
    """Add a feature's weight to `votes` (64,) int64 at each one bit of its hash. The compiler vectorises the loop."""
    for bit in range(64):
        votes[bit] += weight & -int64((h >> uint64(bit)) & uint64(1))


@njit(nogil=True, cache=True)
def simhash(features, count, sink, votes, out):
    """Write the SimHash of features[:count] to `out`, (bits/64,) uint64; 0 without a feature.

    features: distinct ones if the weighting is UNIFORM; votes: (bits/64, 64) int64 scratch. O(features · bits).
    """
    votes[:] = 0
    total = int64(0)
    for j in range(count):
        h = features[j]
        weight = weight_of(h, sink.keys, sink.values, sink.unseen) if sink.weighting == IDF else int64(1)
        total += weight
        # The lowest bit of a feature's hash is always set; mixing once more makes every bit fair.
        vote(mix(h), weight, votes[0])
        if out.size == 2:  # the second 64 bits are another function of the feature
            vote(mix(h ^ GOLDEN), weight, votes[1])
    for word in range(out.size):
        bits = uint64(0)
        for bit in range(64):
            if 2 * votes[word, bit] > total:
                bits |= uint64(1) << uint64(bit)
        out[word] = bits
