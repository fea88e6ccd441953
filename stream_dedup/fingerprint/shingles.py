"""Shingles: the hashes of each few adjacent words, letters or characters of a text, and the distinct ones among them.

All functions are compiled and take the tokens of one text (`tokens.Tokens`) and their number. No hash is 0, which marks
a free slot. For shingles of letters, `spell` turns the tokens into letters first, one space between two words: a typing
error changes n shingles of n letters, but three shingles of three words, which is all that a short post has around it.
Characters of scripts without spaces stay as they are: their shingles are of characters in any case.

Source: Broder, "On the resemblance and containment of documents", 1997 (shingles over any kind of token).
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint8, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.bits import GOLDEN, mix, rolled
from stream_dedup.fingerprint.tokens import decode, space_for


class ShingleWidths(NamedTuple):
    """Tokens of a shingle that begins with a word, and of one that begins with a character.

    With `Letters` in place of tokens, `words` is its number of letters.
    """

    words: int
    characters: int


@njit(nogil=True, cache=True)
def slots_for(count):
    """Slots of a hash table of at most `count` members: a power of two, at most a quarter full."""
    size = 64
    while size < 4 * count:
        size *= 2
    return size


@njit(nogil=True, cache=True)
def any_character(kinds, count):
    """Whether any of kinds[:count] is 1."""
    seen = uint8(0)
    for i in range(count):
        seen |= kinds[i]
    return seen != 0


@njit(nogil=True, cache=True)
def every_shingle(tokens, count, widths, out):
    """Write the shingle hashes of the first `count` tokens to `out`, in order, with repeats; return their number.

    tokens: `Tokens`, or `Letters` for shingles of letters. A text shorter than its shingle is one shingle.
    """
    hashes, kinds = tokens.hashes, tokens.kinds
    if widths.words <= count and not any_character(kinds, count):
        # All shingles have one width: the inner loops have no branch, and the compiler vectorises them.
        size = count - widths.words + 1
        for i in range(size):
            out[i] = hashes[i]
        for j in range(1, widths.words):
            for i in range(size):
                out[i] = rolled(out[i], hashes[i + j])
        for i in range(size):
            out[i] = mix(out[i]) | uint64(1)
        return size
    size = 0
    for i in range(count):
        width = widths.words if kinds[i] == 0 else widths.characters
        if i + width > count:
            if i:
                continue
            width = count
        h = hashes[i]
        for j in range(i + 1, i + width):
            h = rolled(h, hashes[j])
        out[size] = mix(h) | uint64(1)
        size += 1
    return size


@njit(nogil=True, cache=True)
def distinct(hashes, count, slots, out):
    """Write each of hashes[:count] once to `out`, in order of first occurrence; return their number.

    `out` may be `hashes`. slots: uint32 scratch, at least `slots_for(count)`. It holds positions in `out`, which are
    half as wide as hashes, so that it stays in the first-level cache and is cleared quickly.
    """
    size = slots_for(count)
    slots[:size] = uint32(0)
    mask = uint64(size - 1)
    members = 0
    for i in range(count):
        h = hashes[i]
        slot = (h >> uint64(8)) & mask
        is_new = True
        while slots[slot]:
            if out[slots[slot] - uint32(1)] == h:
                is_new = False
                break
            slot = (slot + uint64(1)) & mask
        if is_new:
            out[members] = h
            members += 1
            slots[slot] = uint32(members)
    return members


@njit(nogil=True, cache=True)
def distinct_shingles(tokens, count, widths, slots, out):
    """Write the distinct shingle hashes of the first `count` tokens to `out` and return their number."""
    return distinct(out, every_shingle(tokens, count, widths, out), slots, out)


_SPACE = np.uint64(0x20)


class Letters(NamedTuple):
    """The letters of one text. The arrays are longer than the text and are reused for the next one.

    hashes: uint64 and kinds: uint8 of each letter, as those of `tokens.Tokens`; starts: int32, the first letter of each
    token, and then the number of letters.
    """

    hashes: NDArray[np.uint64]
    kinds: NDArray[np.uint8]
    starts: NDArray[np.int32]


@njit(nogil=True, cache=True)
def letters_for(bounds):
    """Allocate `Letters` for the longest view of a batch; bounds: see `TextBatch`."""
    size = space_for(bounds)
    return Letters(np.empty(size, np.uint64), np.empty(size, np.uint8), np.empty(size, np.int32))


@njit(nogil=True, cache=True)
def spell(tokens, count, seed, letters):
    """Write the letters of the first `count` tokens to `letters` and return their number. O(letters)."""
    text, places = tokens.text, tokens.places
    hashes, kinds, starts = letters.hashes, letters.kinds, letters.starts
    size = 0
    for token in range(count):
        starts[token] = size
        if tokens.kinds[token] == 1:
            hashes[size] = tokens.hashes[token]
            kinds[size] = 1
            size += 1
            continue
        at, end = places[2 * token], places[2 * token + 1]
        while at < end:
            code, width = uint32(text[at]), 1
            if code >= 0x80:
                code, width = decode(text, at)
            hashes[size] = mix((uint64(code) ^ seed) * GOLDEN)
            kinds[size] = uint8(0)
            size += 1
            at += width
        if token + 1 < count and tokens.kinds[token + 1] == 0:
            hashes[size] = mix((_SPACE ^ seed) * GOLDEN)
            kinds[size] = uint8(0)
            size += 1
    starts[count] = size
    return size
