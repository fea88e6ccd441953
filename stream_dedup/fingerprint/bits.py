"""Hash functions and loads that Python and the kernels of index and decision share.

They mix hashes as the core does (core/core.h): two that mixed differently would make keys that never match.
"""

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

from stream_dedup.compiled import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio; its multiples are evenly spread."""
_M1 = np.uint64(0xFF51AFD7ED558CCD)
_M2 = np.uint64(0xC4CEB9FE1A85EC53)


@njit(nogil=True, cache=True, inline="always")
def mix(h):
    """Mix the bits of h with MurmurHash3's 64-bit finaliser: every input bit affects every output bit."""
    h = (h ^ (h >> uint64(33))) * _M1
    h = (h ^ (h >> uint64(33))) * _M2
    return h ^ (h >> uint64(33))


def mix_all(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix` for a NumPy array.

    >>> int(mix_all(np.array([7], np.uint64))[0]) == int(mix(np.uint64(7)))
    True
    """
    mixed: NDArray[np.uint64] = mix.py_func(hashes)
    return mixed


@njit(nogil=True, cache=True)
def grown(array, used, more):
    """The array, or a copy of array[:used] with room for `more` elements, and half as much again as before."""
    if used + more <= len(array):
        return array
    larger = np.empty((max(used + more, len(array) + len(array) // 2), *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger


_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


def _pointer(context, builder, kind, array, at, target):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), target.as_pointer())


@intrinsic
def load64(typingctx, data, at):
    """Load the eight bytes from data[at] on as a word; the first byte is the lowest."""

    def build(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature.args[0], *args, _WORD), align=1)

    return types.uint64(data, types.intp), build


@intrinsic
def trailing_zeros(typingctx, word):
    """The position of the lowest one bit; 64 if there is none."""

    def build(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.intp(types.uint64), build


@intrinsic
def bit_count(typingctx, word):
    """The number of one bits in a word."""

    def build(context, builder, signature, args):
        return builder.ctpop(*args)

    return types.uint64(types.uint64), build
