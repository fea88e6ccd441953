"""Find the numbers of a text and hash their values, in any script.

In: the tokens of one text. Out: a hash for each number, and the token with which it begins. 1,000, 1.000 and १०००
are one number; so are the halves of a score (3:1, 3-1) and the groups of a date. To tell dates and times from other
numbers gains nothing: with both among them, the decision has a log loss of .2285, without them .2310.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.hashing import GOLDEN, mix
from stream_dedup.fingerprint.tokens import decode

# The digits 0 of the scripts that NFKC does not fold to ASCII: Arabic, Persian, Devanagari, Bengali.
_ZEROS = (0x0660, 0x06F0, 0x0966, 0x09E6)
_MARKS = tuple(np.uint8(ord(mark)) for mark in ".,:/-")


class Numbers(NamedTuple):
    """The numbers of a text, in order. values: uint32 hashes, never 0; tokens: int32, the first token of each."""

    values: NDArray[np.uint32]
    tokens: NDArray[np.int32]


@njit(nogil=True, cache=True, inline="always")
def _digit(text, i):
    """The value of the digit at text[i], or -1, and its length in bytes."""
    byte = text[i]
    if byte < 0x80:
        return (np.int64(byte) - 0x30 if 0x30 <= byte <= 0x39 else -1), 1
    code, width = decode(text, i)
    for zero in _ZEROS:
        if zero <= code < zero + 10:
            return np.int64(code) - zero, width
    return -1, width


@njit(nogil=True, cache=True)
def find_numbers(tokens, count, numbers):
    """Write the numbers of the first `count` tokens to `numbers`; return how many there are. O(tokens)."""
    text, places = tokens.text, tokens.places
    found, i = 0, 0
    while i < count:
        if tokens.kinds[i] == 1 or not begins_number(text, places[2 * i]):
            i += 1
            continue
        first, h, is_found = i, uint64(0), False
        while i < count:  # the groups of one number
            at, end, rolled = places[2 * i], places[2 * i + 1], h
            while at < end:
                digit, width = _digit(text, at)
                if digit < 0:
                    break
                rolled = rolled * uint64(11) + uint64(digit + 1)
                at += width
            if at < end:
                break  # a word that begins with digits
            h, is_found = rolled, True
            i += 1
            if i == count or places[2 * i] - end != 1 or not _is_mark(text[end]):
                break
        i = max(i, first + 1)
        if is_found:
            numbers.values[found] = max(uint32(mix(h * GOLDEN) >> uint64(32)), uint32(1))
            numbers.tokens[found] = first
            found += 1
    return found


@njit(nogil=True, cache=True, inline="always")
def begins_number(text, at):
    """Whether the token at text[at] begins with a digit."""
    return _digit(text, at)[0] >= 0


@njit(nogil=True, cache=True, inline="always")
def _is_mark(byte):
    """Whether a byte may join two groups of digits."""
    joins = False
    for mark in _MARKS:
        joins |= byte == mark
    return joins
