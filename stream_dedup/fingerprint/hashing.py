"""The basic hash functions: the bit mixer, and the rolling hash of a shingle.

They take and return 64-bit integers, in compiled code or NumPy. All modules use these functions, because two that mixed
differently would make keys that never match. Changing any of them changes the scheme: raise kernel.VERSION.

Sources: the finaliser of MurmurHash3 (Appleby 2011); the prime of FNV-1a (Fowler, Noll, Vo); multiplicative hashing by
the golden ratio, Knuth, "The Art of Computer Programming", volume 3, section 6.4.
"""

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio; its multiples are evenly spread."""
M1 = np.uint64(0xFF51AFD7ED558CCD)
_M2 = np.uint64(0xC4CEB9FE1A85EC53)
_FNV_PRIME = np.uint64(0x100000001B3)


@njit(nogil=True, cache=True, inline="always")
def mix(h):
    """Mix the bits of h with MurmurHash3's 64-bit finaliser: every input bit affects every output bit."""
    h = (h ^ (h >> uint64(33))) * M1
    h = (h ^ (h >> uint64(33))) * _M2
    return h ^ (h >> uint64(33))


def mix_all(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix` for a NumPy array.

    >>> int(mix_all(np.array([7], np.uint64))[0]) == int(mix(np.uint64(7)))
    True
    """
    mixed: NDArray[np.uint64] = mix.py_func(hashes)
    return mixed


@njit(nogil=True, cache=True, inline="always")
def rotated(h):
    """Rotate h left by five bits, so that the order of the tokens added to it matters."""
    return (h << uint64(5)) | (h >> uint64(59))


@njit(nogil=True, cache=True, inline="always")
def rolled(h, token):
    """Append a token to the rolling hash h of the tokens before it."""
    return (rotated(h) ^ token) * _FNV_PRIME
