"""Packed sets: the distinct shingles of a body as the short byte string that the index stores, for an exact Jaccard.

With `fingerprint.verify = "exact"`, a packed set is stored for each body in place of its sketch. The module encodes and
decodes sets, and counts the members that pairs of packed sets share.

Encoding: truncate the shingle hashes to their upper 24 bits and sort them; encode each difference to the previous one
with a Golomb-Rice code: the part above k bits in unary (zeros, then a one), then the k bits, lowest bits first. n
random numbers take about log2(2^24 / n) + 1.5 bits each: 16 for a text of 600 words. k depends on n, which is in the
signature.

The cost of truncation: hashes that become equal remain separate members, and sizes are counted before truncation, so no
common shingle is missed. Two sets with a and b members that the other lacks seem to share about a·b / 2^24 too many: at
600 shingles each and a Jaccard of .8, 67·67 / 2^24 = .0003 of a member. It changes the decision only for a pair that is
a single shingle below the threshold. 16 bits would save half of the bytes and share .07 too many.

For a body with more than 65,536 distinct shingles (a book), only the smallest hashes are stored, 78 KB at most, so that
it fits into the changelog. Two such sets are compared on the range of hashes that both have stored, which is a fair
sample (bottom-k, Broder 1997): the Jaccard is accurate to .002.

Sources: Golomb, "Run-length encodings", 1966; Rice, "Some practical universal noiseless coding techniques", 1979.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import int64, njit, uint8, uint32, uint64
from numpy.typing import NDArray

VERSION = 1
"""Part of the id of schemes with packed sets: raise it when the code changes, so that old sets are not misread."""

HASH_BITS = 24
MAX_MEMBERS = 1 << 16
"""Maximum number of hashes stored for a set."""
_CUT = np.uint64(64 - HASH_BITS)
# De Bruijn sequence and table to find the position of a word's lowest one bit.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACE = np.zeros(64, np.uint64)
for _bit in range(64):
    _PLACE[(int(_DE_BRUIJN) << _bit & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit
_RADIX_BITS = 12  # two passes of 4,096 counters sort 24 bits
_RADIX = 1 << _RADIX_BITS
# Upper bound for a member: k <= 24 and a one, and the zeros of n codes are at most 2.9 n.
_MAX_MEMBER_BYTES = 4


def join(strings: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Join n byte strings in one array, with bounds (n + 1,): string i is data[bounds[i]:bounds[i + 1]].

    >>> data, bounds = join([b"ab", b"", b"c"])
    >>> data.tolist(), bounds.tolist()
    ([97, 98, 99], [0, 2, 2, 3])
    """
    bounds = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(string) for string in strings], out=bounds[1:])
    return np.frombuffer(b"".join(strings), np.uint8), bounds


def expected_bytes(shingles: float) -> float:
    """Mean length in bytes of a packed set of this many shingles; accurate to 2 % from ten shingles on.

    >>> round(expected_bytes(600))
    1220
    """
    if shingles < 1:
        return 0.0
    low = math.floor(math.log2(max(2.0**HASH_BITS * 11 / (16 * shingles), 1.0)))  # k, see rice_bits
    mean = 2.0**HASH_BITS / shingles
    # The mean number of whole 2^low in a geometric variable with this mean. On average the end wastes half a byte.
    quotient = 1.0 / math.expm1(2.0**low / mean)
    return min(shingles, MAX_MEMBERS) * (low + 1 + quotient) / 8 + 0.5


def pack(sets: Sequence[Sequence[int]]) -> list[bytes]:
    """Pack sets of 64-bit hashes. The kernel packs the bodies of a batch with `append_set` instead.

    >>> left, right = pack([[7 << 40, 9 << 40], [9 << 40]])
    >>> count_common([left], [right], np.array([0]), np.array([0]), np.array([2]), np.array([1])).tolist()
    [[1, 2, 1]]
    """
    strings = []
    for members in sets:
        cut = np.sort((np.array(members, np.uint64) >> _CUT).astype(np.uint32))
        out = np.empty(_MAX_MEMBER_BYTES * len(cut) + 8, np.uint8)
        strings.append(out[: encode(cut, len(cut), out, 0)].tobytes())
    return strings


def unpack(string: bytes, size: int) -> list[int]:
    """Decode a set of `size` members: its truncated hashes, ascending, at most the `MAX_MEMBERS` smallest.

    >>> unpack(pack([[5 << 40, 1 << 40, 5 << 40 | 1]])[0], 3)
    [1, 5, 5]
    """
    out = np.empty(min(size, MAX_MEMBERS), np.uint32)
    stored = decode(np.frombuffer(string, np.uint8), 0, len(string), size, out)
    return [int(member) for member in out[:stored]]


def count_common(
    lefts: Sequence[bytes],
    rights: Sequence[bytes],
    of_left: NDArray[np.integer],
    of_right: NDArray[np.integer],
    left_sizes: NDArray[np.integer],
    right_sizes: NDArray[np.integer],
) -> NDArray[np.int64]:
    """Count the members that lefts[of_left[p]] and rights[of_right[p]] share, and those of each: (pairs, 3) int64.

    If one of the two has more than `MAX_MEMBERS`, the counts cover only the range of hashes that both have stored.

    left_sizes, right_sizes: (pairs,) number of members before packing. O(members) a pair: 8 µs for 600 members each, 3
    of them to decode a set and 4 to compare. Pairs with the same left set should be adjacent: it is then decoded once.
    """
    out = np.empty((len(of_left), 3), np.int64)
    sizes = (left_sizes.astype(np.int64), right_sizes.astype(np.int64))
    _in_common(*join(lefts), *join(rights), of_left.astype(np.int64), of_right.astype(np.int64), *sizes, out)
    return out


@njit(nogil=True, cache=True)
def rice_bits(count):
    """k for a set of `count` members: 2^k is at most ln 2 times the mean difference, the optimum for such gaps."""
    gap = (int64(11) << int64(HASH_BITS)) // (int64(16) * max(int64(count), int64(1)))
    k = 0
    while (gap >> int64(k + 1)) > 0:
        k += 1
    return k


@njit(nogil=True, cache=True)
def encode(members, count, out, at):
    """Write members[:count] (ascending uint32), at most `MAX_MEMBERS`, from out[at] (uint8) on; return the new end."""
    k = uint64(rice_bits(count))
    mask = (uint64(1) << k) - uint64(1)
    buffer, bits, previous = uint64(0), uint64(0), uint64(0)
    for i in range(min(count, MAX_MEMBERS)):
        gap = uint64(members[i]) - previous
        previous = uint64(members[i])
        bits += gap >> k  # zeros
        while bits >= uint64(8):
            out[at] = uint8(buffer & uint64(255))
            at += 1
            buffer >>= uint64(8)
            bits -= uint64(8)
        buffer |= (uint64(1) | ((gap & mask) << uint64(1))) << bits
        bits += k + uint64(1)
        while bits >= uint64(8):
            out[at] = uint8(buffer & uint64(255))
            at += 1
            buffer >>= uint64(8)
            bits -= uint64(8)
    if bits:
        out[at] = uint8(buffer & uint64(255))
        at += 1
    return at


@njit(nogil=True, cache=True, inline="always")
def _refill(data, at, end, buffer, bits):
    """Read from data[at:end] until the buffer has at least 32 bits, or the data ends; return (at, buffer, bits)."""
    if at + 4 <= end:
        four = uint64(data[at]) | uint64(data[at + 1]) << uint64(8)
        four |= uint64(data[at + 2]) << uint64(16) | uint64(data[at + 3]) << uint64(24)
        return at + 4, buffer | four << bits, bits + uint64(32)
    while at < end:
        buffer |= uint64(data[at]) << bits
        at += 1
        bits += uint64(8)
    return at, buffer, bits


@njit(nogil=True, cache=True)
def decode(data, at, end, count, out):
    """Decode a set of `count` members from data[at:end] into `out` (uint32, ascending); return how many are stored."""
    k = uint64(rice_bits(count))
    mask = (uint64(1) << k) - uint64(1)
    buffer, bits, value = uint64(0), uint64(0), uint64(0)
    stored = min(count, MAX_MEMBERS)
    for i in range(stored):
        zeros = uint64(0)
        if bits <= uint64(32):
            at, buffer, bits = _refill(data, at, end, buffer, bits)
        while buffer == uint64(0):
            if at >= end:
                return i  # the data is truncated
            zeros += bits
            at, buffer, bits = _refill(data, at, end, uint64(0), uint64(0))
        lowest = _PLACE[((buffer & (~buffer + uint64(1))) * _DE_BRUIJN) >> uint64(58)]
        zeros += lowest
        buffer = buffer >> lowest >> uint64(1)  # in two steps: a shift by 64 is undefined
        bits -= lowest + uint64(1)
        if bits < k:
            at, buffer, bits = _refill(data, at, end, buffer, bits)
        value += zeros << k | (buffer & mask)
        buffer >>= k
        bits -= min(k, bits)
        out[i] = uint32(value)
    return stored


@njit(nogil=True, cache=True)
def _in_common(lefts, left_bounds, rights, right_bounds, of_left, of_right, left_sizes, right_sizes, out):
    left, right = np.empty(MAX_MEMBERS, np.uint32), np.empty(MAX_MEMBERS, np.uint32)
    decoded, left_stored = int64(-1), int64(0)
    for p in range(of_left.size):
        i, j = of_left[p], of_right[p]
        if i != decoded:
            left_stored = int64(decode(lefts, left_bounds[i], left_bounds[i + 1], left_sizes[p], left))
            decoded = i
        stored = int64(decode(rights, right_bounds[j], right_bounds[j + 1], right_sizes[p], right))
        out[p, 0], out[p, 1], out[p, 2] = common(left, left_stored, left_sizes[p], right, stored, right_sizes[p])


@njit(nogil=True, cache=True)
def common(left, n, left_size, right, m, right_size):
    """The members that left[:n] and right[:m], the stored ones of decoded sets, share, and those of each that count."""
    n, m = int64(n), int64(m)
    if n < left_size or m < right_size:
        n, m = _below(left, n, left_size, right, m, right_size)
    x, y, both = int64(0), int64(0), int64(0)
    while x < n and y < m:
        a, b = left[x], right[y]
        both += int64(a == b)
        x += int64(a <= b)
        y += int64(b <= a)
    return both, n, m


@njit(nogil=True, cache=True)
def _below(left, n, left_size, right, m, right_size):
    """The numbers of members of left[:n] and right[:m] in the range of hashes that both have stored."""
    end = uint32(0xFFFFFFFF)
    if 0 < n < left_size:
        end = left[n - 1]
    if 0 < m < right_size:
        end = min(end, right[m - 1])
    return int64(np.searchsorted(left[:n], end)), int64(np.searchsorted(right[:m], end))


@njit(nogil=True, cache=True)
def _sort(members, count, other, counters):
    """Sort members[:count], uint32 below 2^24, by radix; other (as long) and counters, (4096,) int64, are scratch."""
    for shift in (uint32(0), uint32(_RADIX_BITS)):
        counters[:] = 0
        for i in range(count):
            counters[(members[i] >> shift) & uint32(_RADIX - 1)] += 1
        total = int64(0)
        for c in range(_RADIX):
            size = counters[c]
            counters[c] = total
            total += size
        for i in range(count):
            c = (members[i] >> shift) & uint32(_RADIX - 1)
            other[counters[c]] = members[i]
            counters[c] += 1
        members[:count] = other[:count]


class PackingSpace(NamedTuple):
    """Scratch for `append_set`. members, other: uint32, as long as the largest set; counters: (4096,) int64."""

    members: NDArray[np.uint32]
    other: NDArray[np.uint32]
    counters: NDArray[np.int64]


@njit(nogil=True, cache=True)
def packing_space(longest):
    """`PackingSpace` for sets of at most `longest` members."""
    return PackingSpace(np.empty(longest, np.uint32), np.empty(longest, np.uint32), np.empty(_RADIX, np.int64))


@njit(nogil=True, cache=True)
def append_set(shingles, count, space, out, at):
    """Write the code of a text's distinct shingles from out[at] on; return `out`, grown if needed, and the new end."""
    for j in range(count):
        space.members[j] = uint32(shingles[j] >> _CUT)
    _sort(space.members, count, space.other, space.counters)
    most = _MAX_MEMBER_BYTES * min(count, MAX_MEMBERS) + 8
    if at + most > out.size:
        longer = np.empty(2 * out.size + most, np.uint8)
        longer[:at] = out[:at]
        out = longer
    return out, encode(space.members, count, out, at)
