"""The basic operations of compiled code: mix the bits of hashes, count bits, find bytes in blocks of 8, 32 or 64.

All modules use these hash functions, because two that mixed differently would make keys that never match. Changing any
of them changes the scheme: raise kernel.VERSION. Sources: the finaliser of MurmurHash3 (Appleby 2011); the prime of
FNV-1a (Fowler, Noll, Vo); multiplicative hashing by the golden ratio, Knuth, "The Art of Computer Programming", volume
3, section 6.4.

numba cannot express unaligned loads and byte masks, so these are LLVM intrinsics. Each compiles to a few vector
instructions on any machine that LLVM supports (Lemire, Langdale, "Parsing Gigabytes of JSON per Second", 2019: one bit
a byte, then count trailing zeros). They check no bounds: at least 64 readable bytes must follow the given position.
Machines are little-endian.
"""

import numpy as np
from llvmlite import ir
from numba import types, uint32, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

from stream_dedup.compiled import njit

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


@njit(nogil=True, cache=True, inline="always")
def narrowed(h):
    """The upper half of a 64-bit hash, never 0."""
    return max(uint32(h >> uint64(32)), uint32(1))


@njit(nogil=True, cache=True)
def grown(array, used, more):
    """The array, or a copy of array[:used] with room for `more` elements, and half as much again as before."""
    if used + more <= len(array):
        return array
    larger = np.empty((max(used + more, len(array) + len(array) // 2), *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger


LOWERED = 32
"""Bytes that `lower_block` copies."""
MASKED = 64
"""Bytes that `word_mask` and `break_mask` read."""

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


def _pointer(context, builder, kind, array, at, target):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), target.as_pointer())


def _splat(vector, value):
    return ir.Constant(vector, [value] * vector.count)


def _between(builder, block, first, last):
    """A vector with a bit for each byte: first <= byte <= last."""
    offset = builder.sub(block, _splat(block.type, first))
    return builder.icmp_unsigned("<", offset, _splat(block.type, last - first + 1))


@intrinsic
def load64(typingctx, data, at):
    """Load the eight bytes from data[at] on as a word; the first byte is the lowest."""

    def build(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature.args[0], *args, _WORD), align=1)

    return types.uint64(data, types.intp), build


@intrinsic
def lower_block(typingctx, data, at, out, to):
    """Copy 32 bytes with ASCII letters in lower case; return a bit for each byte that is non-ASCII or an apostrophe."""

    def build(context, builder, signature, args):
        vector = ir.VectorType(_BYTE, LOWERED)
        data, at, out, to = args
        block = builder.load(_pointer(context, builder, signature.args[0], data, at, vector), align=1)
        capital = _between(builder, block, ord("A"), ord("Z"))
        lower = builder.or_(block, builder.select(capital, _splat(vector, 0x20), _splat(vector, 0)))
        builder.store(lower, _pointer(context, builder, signature.args[2], out, to, vector), align=1)
        special = builder.or_(
            builder.icmp_signed("<", block, _splat(vector, 0)),
            builder.icmp_unsigned("==", block, _splat(vector, ord("'"))),
        )
        return builder.zext(builder.bitcast(special, ir.IntType(LOWERED)), _WORD)

    return types.uint64(data, types.intp, out, types.intp), build


@intrinsic
def word_mask(typingctx, data, at):
    """A bit for each of the 64 bytes from data[at] on that is a lower-case letter, a digit or non-ASCII."""

    def build(context, builder, signature, args):
        vector = ir.VectorType(_BYTE, MASKED)
        block = builder.load(_pointer(context, builder, signature.args[0], *args, vector), align=1)
        letter, digit = _between(builder, block, ord("a"), ord("z")), _between(builder, block, ord("0"), ord("9"))
        beyond_ascii = builder.icmp_signed("<", block, _splat(vector, 0))
        return builder.bitcast(builder.or_(builder.or_(letter, digit), beyond_ascii), _WORD)

    return types.uint64(data, types.intp), build


@intrinsic
def break_mask(typingctx, data, at):
    """A bit for each of the 64 bytes from data[at] on that may end a line or a sentence: newline, ".", "!", "?"."""

    def build(context, builder, signature, args):
        vector = ir.VectorType(_BYTE, MASKED)
        block = builder.load(_pointer(context, builder, signature.args[0], *args, vector), align=1)
        bits = ir.Constant(ir.VectorType(ir.IntType(1), MASKED), None)
        for mark in "\n.!?":
            bits = builder.or_(bits, builder.icmp_unsigned("==", block, _splat(vector, ord(mark))))
        return builder.bitcast(bits, _WORD)

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
