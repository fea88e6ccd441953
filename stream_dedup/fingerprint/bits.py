"""Hash functions of Python. They mix hashes as core/core.h does: others would make keys that never match."""

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio; its multiples are evenly spread."""
_MIX_1, _MIX_2, _HALF = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)


def mix_all(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of hashes with MurmurHash3's 64-bit finaliser: every input bit affects every output bit.

    >>> hex(mix_all(np.array([7], np.uint64))[0])
    '0x740729cbe468d1dd'
    """
    mixed = (hashes ^ (hashes >> _HALF)) * _MIX_1
    mixed = (mixed ^ (mixed >> _HALF)) * _MIX_2
    return mixed ^ (mixed >> _HALF)
