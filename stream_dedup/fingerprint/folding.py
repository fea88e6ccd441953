"""NFKC and case folding by table: what each character becomes, where that is one character at a time.

Out: `folding_table()`, by which tokens.py folds: to the very characters of `normalize("NFKC", text).casefold()`, or
"not by table". Why: news is ASCII but for some quotes, dashes and accents, and Python's two passes over such a text
cost more than its whole fingerprint. A character is folded by table when nothing that may stand beside it changes it
(Unicode Standard Annex 15, "stable code points"); a text with any other (a separate accent, conjoining Hangul) is left
to the slow way.
"""

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

from stream_dedup.fingerprint.characters import TABLE_SIZE, character_classes

# How a character meets its neighbours.
INERT, DECOMPOSABLE, MARK, CONTEXT = 0, 1, 2, 3
GROWTH = 3
"""Folded bytes for each byte of a character at most ("½" has 2 and becomes 5); what grows more goes the slow way."""

CODE_MASK, EXPANDS, CLASS_SHIFT, KIND_SHIFT = 0x1FFFFF, 0x200000, 22, 24
"""An entry: 21 bits of the folded code point, or with EXPANDS of offset << 4 | length in the expansions; 2 bits of the
folded character's class (characters.py); 2 bits of how it meets its neighbours."""
# Han, Hangul syllables, private use: folded to themselves, which saves half of the tables' making.
_HANGUL = (0xAC00, 0xD7A3)
_UNCHANGED = ((0x3400, 0x9FFF), _HANGUL, (0xE000, 0xF8FF), (0x20000, 0x2F7FF), (0x2FA20, TABLE_SIZE - 1))


NO_TABLE = np.frombuffer(b"", np.uint32), np.frombuffer(b" ", np.uint8)
"""As `folding_table()`, for texts that are ASCII alone."""


@cache
def folding_table() -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """(table, expansions): entries by code point, (TABLE_SIZE,); UTF-8 of folds to several characters.

    Made once a process, in some .2 s, when the first text beyond ASCII comes.

    >>> chr(int(folding_table()[0][ord("É")]) & CODE_MASK)
    'é'
    """
    kinds = np.full(TABLE_SIZE, INERT, np.uint8)
    folded = np.arange(TABLE_SIZE, dtype=np.uint32)
    kinds[_HANGUL[0] : _HANGUL[1] + 1] = DECOMPOSABLE
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
            kinds[code] = CONTEXT
            continue
        kinds[code] = MARK if marks[0] else DECOMPOSABLE if decomposed != char else INERT
        new = wide.casefold()
        if len(new) == 1 and len(new.encode()) <= len(char.encode()):
            folded[code] = ord(new)
            continue
        packed = new.encode()
        if len(packed) > 15 or len(packed) > GROWTH * len(char.encode()):
            kinds[code] = CONTEXT
            continue
        folded[code] = EXPANDS | len(expansions) << 4 | len(packed)
        expansions += packed
    # A fold to several characters has the class of each of them, which tokens.py looks up.
    class_of = character_classes()[np.minimum(folded & CODE_MASK, TABLE_SIZE - 1)].astype(np.uint32)
    table = folded | class_of << CLASS_SHIFT | kinds.astype(np.uint32) << KIND_SHIFT
    out = (table, np.frombuffer(bytes(expansions) + b" " * 4, np.uint8))
    for array in out:
        array.setflags(write=False)
    return out


def _composing(codes: list[int]) -> frozenset[str]:
    """Characters that may melt into the one before them: the second of any canonical pair, Hangul vowels and finals."""
    found = {chr(code) for code in range(0x1160, 0x1200)}
    for code in codes:
        pair = unicodedata.decomposition(chr(code))
        if pair and pair[0] != "<" and " " in pair:
            found.add(chr(int(pair.split()[1], 16)))
    return frozenset(found)
