"""Operations on blocks of 8, 32 or 64 bytes, as LLVM intrinsics for compiled code.

numba cannot express unaligned loads and byte masks. Each function compiles to a few vector instructions on any machine
that LLVM supports (Lemire, Langdale, "Parsing Gigabytes of JSON per Second", 2019: one bit a byte, then count trailing
zeros). They check no bounds: at least 64 readable bytes must follow the given position. Machines are little-endian.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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


def _mask_of(marks):
    """The build function of a mask: a bit for each of the 64 bytes from data[at] on that is one of the marks."""

    def build(context, builder, signature, args):
        vector = ir.VectorType(_BYTE, MASKED)
        block = builder.load(_pointer(context, builder, signature.args[0], *args, vector), align=1)
        bits = builder.icmp_unsigned("==", block, _splat(vector, ord(marks[0])))
        for mark in marks[1:]:
            bits = builder.or_(bits, builder.icmp_unsigned("==", block, _splat(vector, ord(mark))))
        return builder.bitcast(bits, ir.IntType(MASKED))

    return build


@intrinsic
def break_mask(typingctx, data, at):
    """A bit for each of the 64 bytes from data[at] on that may end a line or a sentence: newline, ".", "!", "?"."""
    return types.uint64(data, types.intp), _mask_of("\n.!?")


@intrinsic
def newline_mask(typingctx, data, at):
    """A bit for each of the 64 bytes from data[at] on that is a newline."""
    return types.uint64(data, types.intp), _mask_of("\n")


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
