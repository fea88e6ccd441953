"""Packed sets: the distinct shingles of a body as the short byte string that the index stores, for an exact Jaccard.

With `fingerprint.verify = "exact"`, a packed set is stored for each body in place of its sketch. The module encodes and
decodes sets, and counts the members that two of them share.

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

import numpy as np
from numba import int64, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.compiled import njit
from stream_dedup.fingerprint.bits import trailing_zeros

VERSION = 1
"""Part of the id of schemes with packed sets: raise it when the code changes, so that old sets are not misread."""

HASH_BITS = 24
MAX_MEMBERS = 1 << 16
"""Maximum number of hashes stored for a set."""


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


@njit(nogil=True, cache=True)
def rice_bits(count):
    """k for a set of `count` members: 2^k is at most ln 2 times the mean difference, the optimum for such gaps."""
    gap = (int64(11) << int64(HASH_BITS)) // (int64(16) * max(int64(count), int64(1)))
    k = 0
    while (gap >> int64(k + 1)) > 0:
        k += 1
    return k


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
        lowest = uint64(trailing_zeros(buffer))
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
