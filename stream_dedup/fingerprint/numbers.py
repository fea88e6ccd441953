"""Find the numbers of a text and hash their values, in any script.

In: the tokens of one text. Out: a hash for each figure, and the token with which it begins. 1,000 and 1.000 and १००० are
one number; so are the two halves of a score (3:1, 3-1). Dates and times are no figures, since a page that is delivered
again has another date and nothing new: a time is 12:30, with two digits after the colon; a date has three groups, one of
them of four digits (2026-11-23, 23.11.2026); and a year is one group from 1900 to 2099.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint8, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.hashing import GOLDEN, mix
from stream_dedup.fingerprint.tokens import decode

# The digits 0 of the scripts that NFKC does not fold to ASCII: Arabic, Persian, Devanagari, Bengali.
_ZEROS = (0x0660, 0x06F0, 0x0966, 0x09E6)
_COLON = np.uint8(ord(":"))
_MARKS = tuple(np.uint8(ord(mark)) for mark in ".,:/-")
_FIRST_YEAR, _LAST_YEAR = 1900, 2099


class Numbers(NamedTuple):
    """The figures of a text, in order. values: uint32 hashes, never 0; tokens: int32, the first token of each."""

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
    """Write the figures of the first `count` tokens to `numbers`; return how many there are. O(tokens)."""
    text, places = tokens.text, tokens.places
    found, i = 0, 0
    while i < count:
        if tokens.kinds[i] == 1 or not begins_number(text, places[2 * i]):
            i += 1
            continue
        first, h, groups, value, has_four, is_time = i, uint64(0), 0, 0, False, False
        mark = uint8(0)
        while i < count:  # the groups of one number
            at, end, digits, group, rolled = places[2 * i], places[2 * i + 1], 0, 0, h
            while at < end:
                digit, width = _digit(text, at)
                if digit < 0:
                    break
                rolled = rolled * uint64(11) + uint64(digit + 1)
                group = 10 * group + digit if digits < 9 else group
                digits += 1
                at += width
            if at < end:
                break  # a word that begins with digits
            is_time |= mark == _COLON and digits == 2 and value < 60
            h, value, has_four = rolled, group, has_four or digits == 4
            groups += 1
            i += 1
            mark = text[end]
            if i == count or places[2 * i] - end != 1 or not _is_mark(mark):
                break
        i = max(i, first + 1)
        is_year = groups == 1 and has_four and _FIRST_YEAR <= value <= _LAST_YEAR
        if groups and not (is_year or is_time or (groups > 2 and has_four)):
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
    for mark in _MARKS:
        if byte == mark:
            return True
    return False
