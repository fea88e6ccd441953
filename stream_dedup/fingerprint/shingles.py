"""The sets that represent a text: its distinct shingles, its headline features and its words.

All functions are compiled and take the tokens of one text (`tokens.Tokens`) and their number. No hash in a set is 0,
which marks a free slot.

Source: Broder, "On the resemblance and containment of documents", 1997 (shingles).
"""

from typing import NamedTuple

from numba import njit, uint8, uint32, uint64

from stream_dedup.fingerprint.hashing import mix, rolled, rotated


class ShingleWidths(NamedTuple):
    """Tokens of a shingle that begins with a word, and of one that begins with a character.

    With `letters.Letters` in place of tokens, `words` is its number of letters.
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


@njit(nogil=True, cache=True, inline="always")
def _feature(tokens, count, i):
    """The feature that begins at token i: a word, or a pair of adjacent characters; 0 if there is none."""
    hashes, kinds = tokens.hashes, tokens.kinds
    h = hashes[i]
    if kinds[i] == 1:
        if i + 1 < count and kinds[i + 1] == 1:
            h = mix(rotated(h) ^ hashes[i + 1])
        elif i and kinds[i - 1] == 1:
            return uint64(0)  # the last character is part of the pair before
    return h | uint64(1)


@njit(nogil=True, cache=True)
def headline_features(tokens, count, slots, out):
    """Write the distinct features of a headline to `out`, ascending; return their number, at most out.size.

    slots: uint64 scratch, a power of two and larger than `out`.
    """
    slots[:] = uint64(0)
    mask = uint64(slots.size - 1)
    size = 0
    for i in range(count):
        h = _feature(tokens, count, i)
        if h == 0 or size == out.size:
            continue
        slot = h & mask
        while slots[slot] and slots[slot] != h:
            slot = (slot + uint64(1)) & mask
        if slots[slot] == 0:
            slots[slot] = h
            out[size] = h
            size += 1
    out[:size].sort()
    return size


@njit(nogil=True, cache=True)
def write_words(tokens, count, out):
    """Write the feature of each of the first `count` tokens to `out`, (count,) uint32; 0 where none begins."""
    if not any_character(tokens.kinds, count):
        for i in range(count):
            out[i] = max(uint32(tokens.hashes[i] >> uint64(32)), uint32(1))
        return
    for i in range(count):
        h = _feature(tokens, count, i)
        out[i] = max(uint32(h >> uint64(32)), uint32(1)) if h else uint32(0)


@njit(nogil=True, cache=True)
def mark_words(words, bits):
    """Set the bit of each word of a text in `bits`, (4096,) uint8: a set of 2^15 short hashes.

    It tells whether the text contains a headline word, with a false-positive rate of some 1 %.
    """
    bits[:] = uint8(0)
    for h in words:
        if h:
            bits[h >> uint32(20)] |= uint8(1 << ((h >> uint32(17)) & uint32(7)))
