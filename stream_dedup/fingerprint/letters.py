"""Spell the tokens of a text, for shingles of letters in place of words.

In: the tokens of a text. Out: its letters, one space between two words, and the position of each token's first letter.
A typing error changes n shingles of n letters, but three shingles of three words, which is all that a short post has
around it. Characters of scripts without spaces stay as they are: their shingles are of characters in any case.

Source: Broder, "On the resemblance and containment of documents", 1997 (shingles over any kind of token).
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint8, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.hashing import GOLDEN, mix
from stream_dedup.fingerprint.tokens import decode, space_for

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
