"""NFKC and case folding by table: UTF-8 -> folded UTF-8, where that is one character at a time.

In: the bytes of a text. Out: the very bytes of `normalize("NFKC", text).casefold()`, or "not by table". Why: news is
ASCII but for some quotes, dashes and accents, and Python's two passes over such a text cost as much as its whole
fingerprint. A character is folded by table when nothing that may stand beside it changes it (Unicode Standard Annex
15, "stable code points"); a text with any other (a separate accent, conjoining Hangul) is left to the slow way.
"""

import unicodedata
from functools import cache

import numpy as np
from numba import njit, uint8, uint32
from numpy.typing import NDArray

from stream_dedup.fingerprint.characters import TABLE_SIZE

# How a character meets its neighbours.
_INERT, _DECOMPOSABLE, _MARK, _CONTEXT = 0, 1, 2, 3
GROWTH = 3
"""Folded bytes for each byte of a character at most ("½" has 2 and becomes 5); what grows more goes the slow way."""

_EXPANDS = 0x200000  # an entry from here on is (offset, length) in the expansions: offset << 4 | length
# Han, Hangul syllables, private use: folded to themselves, which saves half of the tables' making.
_HANGUL = (0xAC00, 0xD7A3)
_UNCHANGED = ((0x3400, 0x9FFF), _HANGUL, (0xE000, 0xF8FF), (0x20000, 0x2F7FF), (0x2FA20, TABLE_SIZE - 1))


@cache
def folding_tables() -> tuple[NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint8]]:
    """(kinds, folded, expansions): by code point, by code point, UTF-8 of folds to several characters.

    Made once a process, in some .2 s, when the first text beyond ASCII comes.
    """
    kinds = np.full(TABLE_SIZE, _INERT, np.uint8)
    folded = np.arange(TABLE_SIZE, dtype=np.uint32)
    kinds[_HANGUL[0] : _HANGUL[1] + 1] = _DECOMPOSABLE
    expansions = bytearray()
    codes = [c for c in range(TABLE_SIZE) if not any(first <= c <= last for first, last in _UNCHANGED)]
    seconds = _composing(codes)
    for code in codes:
        char = chr(code)
        wide = unicodedata.normalize("NFKC", char)
        decomposed = unicodedata.normalize("NFKD", char)
        marks = [unicodedata.combining(c) for c in decomposed]
        moves = bool(marks[0]) and decomposed != char
        if moves or 0xD800 <= code <= 0xDFFF or decomposed[0] in seconds or wide[0] in seconds:
            kinds[code] = _CONTEXT
            continue
        kinds[code] = _MARK if marks[0] else _DECOMPOSABLE if decomposed != char else _INERT
        new = wide.casefold()
        if len(new) == 1 and len(new.encode()) <= len(char.encode()):
            folded[code] = ord(new)
            continue
        packed = new.encode()
        if len(packed) > 15 or len(packed) > GROWTH * len(char.encode()):
            kinds[code] = _CONTEXT
            continue
        folded[code] = _EXPANDS + (len(expansions) << 4 | len(packed))
        expansions += packed
    out = (kinds, folded, np.frombuffer(bytes(expansions), np.uint8))
    for table in out:
        table.setflags(write=False)
    return out


def _composing(codes: list[int]) -> frozenset[str]:
    """Characters that may melt into the one before them: the second of any canonical pair, Hangul vowels and finals."""
    found = {chr(code) for code in range(0x1160, 0x1200)}
    for code in codes:
        pair = unicodedata.decomposition(chr(code))
        if pair and pair[0] != "<" and " " in pair:
            found.add(chr(int(pair.split()[1], 16)))
    return frozenset(found)


@njit(nogil=True, cache=True)
def fold_utf8(data, kinds, folded, expansions, out):
    """Folds UTF-8 into `out` (≥ GROWTH · bytes); the bytes written, or -1 if the text is not to be folded by table."""
    i, n = 0, 0
    before = _INERT
    while i < data.size:
        byte = data[i]
        if byte < 0x80:
            if uint8(65) <= byte <= uint8(90):
                byte |= uint8(32)
            out[n] = byte
            n += 1
            i += 1
            before = _INERT
            continue
        if byte < 0xE0:
            width = 2
            code = (uint32(byte & 0x1F) << uint32(6)) | uint32(data[i + 1] & 0x3F)
        elif byte < 0xF0:
            width = 3
            code = (
                (uint32(byte & 0x0F) << uint32(12))
                | (uint32(data[i + 1] & 0x3F) << uint32(6))
                | uint32(data[i + 2] & 0x3F)
            )
        else:
            width = 4
            code = (
                (uint32(byte & 0x07) << uint32(18))
                | (uint32(data[i + 1] & 0x3F) << uint32(12))
                | (uint32(data[i + 2] & 0x3F) << uint32(6))
                | uint32(data[i + 3] & 0x3F)
            )
        if code >= uint32(kinds.size):
            return -1
        kind = kinds[code]
        # Two marks may change places, and a mark may go in before an accent that its letter holds.
        if kind == _CONTEXT or (kind == _MARK and before != _INERT):
            return -1
        before = kind
        new = folded[code]
        if new == code:
            for j in range(width):
                out[n + j] = data[i + j]
            n += width
        elif new >= uint32(_EXPANDS):
            place = (new - uint32(_EXPANDS)) >> uint32(4)
            length = new & uint32(15)
            for j in range(length):
                out[n + j] = expansions[place + j]
            n += length
        elif new < uint32(0x80):
            out[n] = uint8(new)
            n += 1
        elif new < uint32(0x800):
            out[n] = uint8(0xC0 | (new >> uint32(6)))
            out[n + 1] = uint8(0x80 | (new & uint32(0x3F)))
            n += 2
        elif new < uint32(0x10000):
            out[n] = uint8(0xE0 | (new >> uint32(12)))
            out[n + 1] = uint8(0x80 | ((new >> uint32(6)) & uint32(0x3F)))
            out[n + 2] = uint8(0x80 | (new & uint32(0x3F)))
            n += 3
        else:
            out[n] = uint8(0xF0 | (new >> uint32(18)))
            out[n + 1] = uint8(0x80 | ((new >> uint32(12)) & uint32(0x3F)))
            out[n + 2] = uint8(0x80 | ((new >> uint32(6)) & uint32(0x3F)))
            out[n + 3] = uint8(0x80 | (new & uint32(0x3F)))
            n += 4
        i += width
    return n
