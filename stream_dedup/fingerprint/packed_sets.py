"""Whole bodies in few bytes: the distinct shingles of a text, for a Jaccard that is exact and not estimated.

In: bytes of a batch, the same as the kernel's. Out: one byte string a text; and of pairs of those, how many shingles
the two have in common. It is what `fingerprint.verify = "exact"` remembers of a body in place of its sketch.

The shingles' hashes are cut to their upper 24 bits and sorted; each difference to the one before is Golomb-Rice coded:
its part above k bits in unary (so many zeros, then a one), then the k bits; lowest bits first. n random numbers so
take about log2(2^24 / n) + 1.5 bits each: 16 for a text of 600 words. k follows from n, which the signature holds.

What the cut costs. Hashes that become equal stay apart in the list, and sizes are counted before the cut, so no common
shingle is missed. Two sets with a and b shingles that the other lacks seem to share about a·b / 2^24 too many: at
600 shingles each and a Jaccard of .8, 67·67 / 2^24 = .0003 of one. And only a pair that lies a single shingle below
the threshold is then judged otherwise. 16 bits would save half of the bytes and share .07 too many.

Of a body with more than 65,536 distinct shingles (a book) the smallest hashes are kept, 78 KB at most, so that a
signature of many megabytes fits into the changelog. Two sets are then compared among the hashes that both have kept,
which are a fair sample (bottom-k, Broder 1997): the Jaccard is right to .002.

Sources: Golomb, "Run-length encodings", 1966; Rice, "Some practical universal noiseless coding techniques", 1979.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import int64, njit, uint8, uint32, uint64
from numpy.typing import NDArray

VERSION = 1
"""Part of the scheme id where bodies are kept whole: a change of the code makes bodies that are read wrongly."""

HASH_BITS = 24
MOST = 1 << 16
"""Hashes kept of a body."""
_CUT = np.uint64(64 - HASH_BITS)
# The place of a number's lowest one: 64 bits in which every run of six differs, and where each run leads.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACE = np.zeros(64, np.uint64)
for _bit in range(64):
    _PLACE[(int(_DE_BRUIJN) << _bit & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit
_RADIX_BITS = 12  # two passes of 4,096 counters sort 24 bits
_RADIX = 1 << _RADIX_BITS
# No code is longer: k <= 24 and a one, and the zeros of n codes are at most 2.9 n.
_MOST_BYTES = 4


def join(strings: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """n byte strings as one array, with bounds (n + 1,): string i is data[bounds[i]:bounds[i + 1]].

    >>> data, bounds = join([b"ab", b"", b"c"])
    >>> data.tolist(), bounds.tolist()
    ([97, 98, 99], [0, 2, 2, 3])
    """
    bounds = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(one) for one in strings], out=bounds[1:])
    return np.frombuffer(b"".join(strings), np.uint8), bounds


def expected_bytes(shingles: float) -> float:
    """Mean length of the code of a set of so many shingles, in bytes; within 2 % from ten shingles on.

    >>> round(expected_bytes(600))
    1220
    """
    if shingles < 1:
        return 0.0
    low = math.floor(math.log2(max(2.0**HASH_BITS * 11 / (16 * shingles), 1.0)))  # k, see rice_bits
    mean = 2.0**HASH_BITS / shingles
    # A geometric variable with this mean has this many whole 2^low in it, and half a byte is lost at the end.
    quotient = 1.0 / math.expm1(2.0**low / mean)
    return min(shingles, MOST) * (low + 1 + quotient) / 8 + 0.5


def pack(sets: Sequence[Sequence[int]]) -> list[bytes]:
    """The code of sets of 64-bit hashes; for tests and for whoever has the hashes already. See `pack_batch`.

    >>> one, other = pack([[7 << 40, 9 << 40], [9 << 40]])
    >>> in_common([one], [other], np.array([0]), np.array([0]), np.array([2]), np.array([1])).tolist()
    [[1, 2, 1]]
    """
    strings = []
    for members in sets:
        cut = np.sort((np.array(members, np.uint64) >> _CUT).astype(np.uint32))
        out = np.empty(_MOST_BYTES * len(cut) + 8, np.uint8)
        strings.append(out[: encode(cut, len(cut), out, 0)].tobytes())
    return strings


def unpack(string: bytes, size: int) -> list[int]:
    """The cut hashes of a set of `size` members, ascending; the `MOST` smallest of them.

    >>> unpack(pack([[5 << 40, 1 << 40, 5 << 40 | 1]])[0], 3)
    [1, 5, 5]
    """
    out = np.empty(min(size, MOST), np.uint32)
    found = decode(np.frombuffer(string, np.uint8), 0, len(string), size, out)
    return [int(one) for one in out[:found]]


def in_common(
    lefts: Sequence[bytes],
    rights: Sequence[bytes],
    of_left: NDArray[np.integer],
    of_right: NDArray[np.integer],
    left_sizes: NDArray[np.integer],
    right_sizes: NDArray[np.integer],
) -> NDArray[np.int64]:
    """Members that lefts[of_left[p]] and rights[of_right[p]] share, and that each has: (pairs, 3) int64.

    All members are counted, unless one of the two has more than `MOST`: then those below what both have kept.

    left_sizes, right_sizes: (pairs,) members of the two, whole. O(members) a pair: 8 µs for 600 each, 3 of
    them to read one and 4 to compare. Pairs of one left stand best together, as it is then read once.
    """
    out = np.empty((len(of_left), 3), np.int64)
    sizes = (left_sizes.astype(np.int64), right_sizes.astype(np.int64))
    _in_common(*join(lefts), *join(rights), of_left.astype(np.int64), of_right.astype(np.int64), *sizes, out)
    return out


@njit(nogil=True, cache=True)
def rice_bits(count):
    """k for a set of `count` members: 2^k is at most ln 2 of the mean difference, Golomb's best for such gaps."""
    gap = (int64(11) << int64(HASH_BITS)) // (int64(16) * max(int64(count), int64(1)))
    k = 0
    while (gap >> int64(k + 1)) > 0:
        k += 1
    return k


@njit(nogil=True, cache=True)
def encode(members, count, out, at):
    """Writes members[:count] (ascending uint32), `MOST` of them, from out[at] on, uint8; where it ends."""
    k = uint64(rice_bits(count))
    mask = (uint64(1) << k) - uint64(1)
    held, have, before = uint64(0), uint64(0), uint64(0)
    for i in range(min(count, MOST)):
        gap = uint64(members[i]) - before
        before = uint64(members[i])
        have += gap >> k  # zeros
        while have >= uint64(8):
            out[at] = uint8(held & uint64(255))
            at += 1
            held >>= uint64(8)
            have -= uint64(8)
        held |= (uint64(1) | ((gap & mask) << uint64(1))) << have
        have += k + uint64(1)
        while have >= uint64(8):
            out[at] = uint8(held & uint64(255))
            at += 1
            held >>= uint64(8)
            have -= uint64(8)
    if have:
        out[at] = uint8(held & uint64(255))
        at += 1
    return at


@njit(nogil=True, cache=True, inline="always")
def _refill(data, at, end, held, have):
    """(at, held, have) with at least 32 bits held, if data[at:end] has them."""
    if at + 4 <= end:
        four = uint64(data[at]) | uint64(data[at + 1]) << uint64(8)
        four |= uint64(data[at + 2]) << uint64(16) | uint64(data[at + 3]) << uint64(24)
        return at + 4, held | four << have, have + uint64(32)
    while at < end:
        held |= uint64(data[at]) << have
        at += 1
        have += uint64(8)
    return at, held, have


@njit(nogil=True, cache=True)
def decode(data, at, end, count, out):
    """Reads a set of `count` members from data[at:end] into `out` (uint32, ascending); how many were kept."""
    k = uint64(rice_bits(count))
    mask = (uint64(1) << k) - uint64(1)
    held, have, value = uint64(0), uint64(0), uint64(0)
    kept = min(count, MOST)
    for i in range(kept):
        zeros = uint64(0)
        if have <= uint64(32):
            at, held, have = _refill(data, at, end, held, have)
        while held == uint64(0):
            if at >= end:
                return i  # cut short: there is nothing more to read
            zeros += have
            at, held, have = _refill(data, at, end, uint64(0), uint64(0))
        here = _PLACE[((held & (~held + uint64(1))) * _DE_BRUIJN) >> uint64(58)]
        zeros += here
        held = held >> here >> uint64(1)  # not at once: a shift by 64 is none
        have -= here + uint64(1)
        if have < k:
            at, held, have = _refill(data, at, end, held, have)
        value += zeros << k | (held & mask)
        held >>= k
        have -= min(k, have)
        out[i] = uint32(value)
    return kept


@njit(nogil=True, cache=True)
def _in_common(lefts, left_bounds, rights, right_bounds, of_left, of_right, left_sizes, right_sizes, out):
    left, right = np.empty(MOST, np.uint32), np.empty(MOST, np.uint32)
    read, kept = int64(-1), int64(0)
    for p in range(of_left.size):
        i, j = of_left[p], of_right[p]
        if i != read:
            kept = int64(decode(lefts, left_bounds[i], left_bounds[i + 1], left_sizes[p], left))
            read = i
        n, m = kept, int64(decode(rights, right_bounds[j], right_bounds[j + 1], right_sizes[p], right))
        if n < left_sizes[p] or m < right_sizes[p]:
            n, m = _below(left, n, left_sizes[p], right, m, right_sizes[p])
        x, y, both = int64(0), int64(0), int64(0)
        while x < n and y < m:
            a, b = left[x], right[y]
            both += int64(a == b)
            x += int64(a <= b)
            y += int64(b <= a)
        out[p, 0], out[p, 1], out[p, 2] = both, n, m


@njit(nogil=True, cache=True)
def _below(left, n, left_size, right, m, right_size):
    """How many of left[:n] and right[:m] lie below the last hash of each that is not whole."""
    end = uint32(0xFFFFFFFF)
    if 0 < n < left_size:
        end = left[n - 1]
    if 0 < m < right_size:
        end = min(end, right[m - 1])
    return int64(np.searchsorted(left[:n], end)), int64(np.searchsorted(right[:m], end))


@njit(nogil=True, cache=True)
def _sort(members, count, other, counters):
    """Sorts members[:count] (uint32 below 2^24); other: as long, counters: (4096,) int64, both scratch."""
    for shift in (uint32(0), uint32(_RADIX_BITS)):
        counters[:] = 0
        for i in range(count):
            counters[(members[i] >> shift) & uint32(_RADIX - 1)] += 1
        total = int64(0)
        for c in range(_RADIX):
            here = counters[c]
            counters[c] = total
            total += here
        for i in range(count):
            c = (members[i] >> shift) & uint32(_RADIX - 1)
            other[counters[c]] = members[i]
            counters[c] += 1
        members[:count] = other[:count]


class PackingSpace(NamedTuple):
    """Scratch for `append`. members, other: uint32, at least as long as the largest set; counters: (4096,) int64."""

    members: NDArray[np.uint32]
    other: NDArray[np.uint32]
    counters: NDArray[np.int64]


@njit(nogil=True, cache=True)
def packing_space(longest):
    """`PackingSpace` for sets of at most `longest` members."""
    return PackingSpace(np.empty(longest, np.uint32), np.empty(longest, np.uint32), np.empty(_RADIX, np.int64))


@njit(nogil=True, cache=True)
def append(shingles, count, space, out, at):
    """Write the code of a text's distinct shingles from out[at] on; return `out`, grown if needed, and the new end."""
    for j in range(count):
        space.members[j] = uint32(shingles[j] >> _CUT)
    _sort(space.members, count, space.other, space.counters)
    most = _MOST_BYTES * min(count, MOST) + 8
    if at + most > out.size:
        longer = np.empty(2 * out.size + most, np.uint8)
        longer[:at] = out[:at]
        out = longer
    return out, encode(space.members, count, out, at)
