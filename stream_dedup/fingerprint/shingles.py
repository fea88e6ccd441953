"""The sketch of a set of shingles, for the kernels of the decision; that of fingerprints is core/shingles.c."""

import numpy as np
from numba import uint64

from stream_dedup.compiled import njit

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
# A nibble is 0 for an empty bin, or 1..15: log2(15) bits of the bin's minimum.
_VALUES = np.uint64(15)


@njit(nogil=True, cache=True)
def sketch(shingles, count, minima, out):
    """Write the one-permutation sketch of distinct shingles: for each bin a nibble of its smallest hash, 0 if empty.

    out: (bins/2,) uint8, two bins a byte; minima: (bins,) uint64 scratch; bins: a power of two, or 0 for no sketch.
    O(count + bins). Nearly exact for texts with few shingles, because empty bins are recognised.
    """
    bins = minima.size
    if bins == 0:
        return
    shift = uint64(64)
    size = bins
    while size > 1:
        size //= 2
        shift -= uint64(1)
    minima[:] = _EMPTY
    for i in range(count):
        h = shingles[i]
        place = h >> shift
        minima[place] = min(minima[place], h)  # without a branch, which would be mispredicted every second time
    for i in range(out.size):
        low, high = minima[2 * i], minima[2 * i + 1]
        byte = uint64(0)
        if low != _EMPTY:
            byte = uint64(1) + ((low >> uint64(1)) & uint64(0xFFFF)) % _VALUES
        if high != _EMPTY:
            byte |= (uint64(1) + ((high >> uint64(1)) & uint64(0xFFFF)) % _VALUES) << uint64(4)
        out[i] = byte
