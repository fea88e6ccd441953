"""NFKC normalisation and case folding by table, one character at a time.

With `folding_table()`, tokens.py folds a text to exactly the characters of `normalize("NFKC", text).casefold()`, or
reports that the table cannot fold it. News is ASCII except for some quotes, dashes and accents, and Python's two passes
over such a text cost more than its whole fingerprint. The table folds characters that no neighbour can change (Unicode
Standard Annex 15, "stable code points"). `views.fold_with_python` folds a text with other characters, such as a
separate accent or conjoining Hangul.
"""

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

from stream_dedup.fingerprint.characters import TABLE_SIZE, character_classes

# How a character interacts with its neighbours under normalisation.
INERT, DECOMPOSABLE, MARK, CONTEXT = 0, 1, 2, 3
GROWTH = 3
"""Most folded bytes for each byte of a character ("½" grows from 2 to 5); the table cannot fold what grows more."""

CODE_MASK, EXPANDS, CLASS_SHIFT, KIND_SHIFT = 0x1FFFFF, 0x200000, 22, 24
"""Fields of an entry: 21 bits for the folded code point, or with EXPANDS for offset << 4 | length in the expansions; 2
bits for the folded character's class (characters.py); 2 bits for its interaction with neighbours."""
# Han, Hangul syllables and private use fold to themselves; skipping them halves the time to build the table.
_HANGUL = (0xAC00, 0xD7A3)
_UNCHANGED = ((0x3400, 0x9FFF), _HANGUL, (0xE000, 0xF8FF), (0x20000, 0x2F7FF), (0x2FA20, TABLE_SIZE - 1))


NO_TABLE = np.frombuffer(b"", np.uint32), np.frombuffer(b" ", np.uint8)
"""A `folding_table()` for ASCII texts, which need none."""


@cache
def folding_table() -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """(table, expansions): entries by code point, (TABLE_SIZE,) uint32; UTF-8 of folds to several characters, uint8.

    Built once in a process, in some .2 s, for the first text that is not ASCII.

    >>> chr(int(folding_table()[0][ord("É")]) & CODE_MASK)
    'é'
    """
    kinds = np.full(TABLE_SIZE, INERT, np.uint8)
    folded = np.arange(TABLE_SIZE, dtype=np.uint32)
    kinds[_HANGUL[0] : _HANGUL[1] + 1] = DECOMPOSABLE
    expansions = bytearray()
    codes = [c for c in range(TABLE_SIZE) if not any(first <= c <= last for first, last in _UNCHANGED)]
    composing = _composing(codes)
    for code in codes:
        char = chr(code)
        composed = unicodedata.normalize("NFKC", char)
        decomposed = unicodedata.normalize("NFKD", char)
        marks = [unicodedata.combining(c) for c in decomposed]
        is_reordered = bool(marks[0]) and decomposed != char
        if is_reordered or 0xD800 <= code <= 0xDFFF or decomposed[0] in composing or composed[0] in composing:
            kinds[code] = CONTEXT
            continue
        kinds[code] = MARK if marks[0] else DECOMPOSABLE if decomposed != char else INERT
        fold = composed.casefold()
        encoded, size = fold.encode(), len(char.encode())
        if len(fold) == 1 and len(encoded) <= size:
            folded[code] = ord(fold)
            continue
        if len(encoded) > min(15, GROWTH * size):
            kinds[code] = CONTEXT
            continue
        folded[code] = EXPANDS | len(expansions) << 4 | len(encoded)
        expansions += encoded
    # For a fold to several characters, tokens.py looks up the class of each of them instead.
    class_of = character_classes()[np.minimum(folded & CODE_MASK, TABLE_SIZE - 1)].astype(np.uint32)
    table = folded | class_of << CLASS_SHIFT | kinds.astype(np.uint32) << KIND_SHIFT
    out = (table, np.frombuffer(bytes(expansions) + b" " * 4, np.uint8))
    for array in out:
        array.setflags(write=False)
    return out


def _composing(codes: list[int]) -> frozenset[str]:
    """Characters that may compose with the one before: the second of a canonical pair, Hangul vowels and finals."""
    second = {chr(code) for code in range(0x1160, 0x1200)}
    for code in codes:
        pair = unicodedata.decomposition(chr(code))
        if pair and pair[0] != "<" and " " in pair:
            second.add(chr(int(pair.split()[1], 16)))
    return frozenset(second)
