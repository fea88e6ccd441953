"""The hot path: normalised UTF-8 -> token hashes -> distinct shingles -> sketch, MinHash keys, digest.

In: bytes and offsets of a whole batch. Out: arrays filled in place. Compiled (numba, nogil, cached), because
pure Python needs 450 µs for a text of 3 KB and this some 12; no Python object is made a token or an item.

Sources: shingles, Broder 1997; MinHash bands, Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets",
chapter 3; one-permutation hashing with empty bins, Li, Owen, Zhang 2012; b-bit values, Li, König 2010;
the 64-bit finaliser is MurmurHash3's.
"""

import numpy as np
from numba import njit, uint8, uint32, uint64

from stream_dedup.fingerprint.characters import CHARACTER, IGNORED, SEPARATOR

VERSION = 1
"""Part of the scheme id: a change of any hash below makes fingerprints that the old ones cannot meet."""

_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_M1 = np.uint64(0xFF51AFD7ED558CCD)
_M2 = np.uint64(0xC4CEB9FE1A85EC53)
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_COLOURS = np.uint64(15)  # a nibble: 0 = empty bin, 1..15 = four bits less one value of the bin's minimum


@njit(nogil=True, cache=True, inline="always")
def mix(h):
    """MurmurHash3's 64-bit finaliser: every input bit reaches every output bit."""
    h ^= h >> uint64(33)
    h *= _M1
    h ^= h >> uint64(33)
    h *= _M2
    h ^= h >> uint64(33)
    return h


@njit(nogil=True, cache=True)
def tokenise(data, start, end, classes, seed, tokens, kinds):
    """Token hashes of data[start:end] into `tokens` (uint64) and `kinds` (0 word, 1 character); their count.

    `data` is UTF-8 that is case-folded except for ASCII, which is folded here. Malformed bytes cannot
    occur: the text was a Python string before.
    """
    count = 0
    inside = False
    h = _FNV_OFFSET ^ seed
    i = start
    while i < end:
        byte = data[i]
        if byte < 0x80:
            code = uint32(byte)
            i += 1
            if uint32(65) <= code <= uint32(90):
                code |= uint32(32)
        elif byte < 0xE0:
            code = (uint32(byte & 0x1F) << uint32(6)) | uint32(data[i + 1] & 0x3F)
            i += 2
        elif byte < 0xF0:
            code = (
                (uint32(byte & 0x0F) << uint32(12))
                | (uint32(data[i + 1] & 0x3F) << uint32(6))
                | uint32(data[i + 2] & 0x3F)
            )
            i += 3
        else:
            code = (
                (uint32(byte & 0x07) << uint32(18))
                | (uint32(data[i + 1] & 0x3F) << uint32(12))
                | (uint32(data[i + 2] & 0x3F) << uint32(6))
                | uint32(data[i + 3] & 0x3F)
            )
            i += 4
        kind = classes[code] if code < classes.size else SEPARATOR
        if kind == IGNORED:
            continue
        if kind == 1:
            h = (h ^ uint64(code)) * _FNV_PRIME
            inside = True
            continue
        if inside:
            tokens[count] = mix(h)
            kinds[count] = 0
            count += 1
            h = _FNV_OFFSET ^ seed
            inside = False
        if kind == CHARACTER:
            tokens[count] = mix((_FNV_OFFSET ^ seed ^ uint64(code)) * _FNV_PRIME)
            kinds[count] = 1
            count += 1
    if inside:
        tokens[count] = mix(h)
        kinds[count] = 0
        count += 1
    return count


@njit(nogil=True, cache=True)
def _insert(table, mask, h):
    """Adds h to an open-addressing set (0 = free); True if it was new."""
    slot = h & mask
    while table[slot] != uint64(0):
        if table[slot] == h:
            return False
        slot = (slot + uint64(1)) & mask
    table[slot] = h
    return True


@njit(nogil=True, cache=True)
def distinct_shingles(tokens, kinds, count, words, characters, table, out):
    """Hashes of the distinct shingles of tokens[:count] into `out`, in order of first sight; their count.

    A shingle that begins with a word spans `words` tokens, one that begins with a character `characters`.
    A text shorter than its shingle is one shingle. `table` is scratch for the set: (≥ 2·count, power of 2).
    """
    size = 64
    while size < 2 * count:
        size *= 2
    table[:size] = uint64(0)
    mask = uint64(size - 1)
    found = 0
    for i in range(count):
        width = words if kinds[i] == 0 else characters
        if i + width > count:
            if found or i:
                continue
            width = count
        h = tokens[i]
        for j in range(i + 1, i + width):
            h = ((h << uint64(5)) | (h >> uint64(59))) ^ tokens[j]
            h *= _FNV_PRIME
        h = mix(h) | uint64(1)  # never 0, the set's free mark
        if _insert(table, mask, h):
            out[found] = h
            found += 1
    if found == 0 and count:  # e.g. two characters after one another, shorter than their width
        h = tokens[0]
        for j in range(1, count):
            h = (((h << uint64(5)) | (h >> uint64(59))) ^ tokens[j]) * _FNV_PRIME
        out[0] = mix(h) | uint64(1)
        found = 1
    return found


@njit(nogil=True, cache=True)
def sketch(shingles, count, minima, out):
    """One-permutation sketch: each bin keeps a nibble of its smallest hash, 0 if no shingle fell into it.

    `out`: (bins/2,) uint8, two bins a byte; `minima`: (bins,) uint64 scratch; bins a power of two, or 0: no sketch.
    O(count + bins). Exact for texts with few shingles, because empty bins are known to be empty.
    """
    bins = minima.size
    if bins == 0:
        return
    shift = uint64(64)
    size = bins
    while size > 1:
        size //= 2
        shift -= uint64(1)
    minima[:] = _EMPTY
    for i in range(count):
        h = shingles[i]
        place = h >> shift
        if h < minima[place]:
            minima[place] = h
    for i in range(out.size):
        low, high = minima[2 * i], minima[2 * i + 1]
        byte = uint64(0)
        if low != _EMPTY:
            byte = uint64(1) + ((low >> uint64(1)) & uint64(0xFFFF)) % _COLOURS
        if high != _EMPTY:
            byte |= (uint64(1) + ((high >> uint64(1)) & uint64(0xFFFF)) % _COLOURS) << uint64(4)
        out[i] = byte


@njit(nogil=True, cache=True)
def band_keys(shingles, count, multipliers, offsets, rows, narrow, out):
    """One 32-bit key a band: a hash of `rows` MinHash values; 0 (no key) if there is no shingle.

    multipliers, offsets: (bands·rows,) uint32; narrow: uint32 scratch (≥ count). O(count·bands·rows),
    the inner loop is a 32-bit multiply and minimum that the compiler makes SIMD of.
    """
    if count == 0:
        out[:] = uint32(0)
        return
    for i in range(count):
        narrow[i] = uint32(shingles[i] >> uint64(20))
    for band in range(out.size):
        h = uint64(band + 1) * _M1
        for row in range(rows):
            a = multipliers[band * rows + row]
            b = offsets[band * rows + row]
            least = uint32(0xFFFFFFFF)
            for i in range(count):
                value = uint32((narrow[i] ^ b) * a)
                least = min(least, value)
            h = mix(h ^ uint64(least))
        key = uint32(h >> uint64(32))
        out[band] = key if key else uint32(1)


@njit(nogil=True, cache=True)
def _feature(tokens, kinds, count, i):
    """The i-th feature of a headline or text: a word, or a pair of neighbouring characters; 0: none of its own."""
    h = tokens[i]
    if kinds[i] == 1:
        if i + 1 < count and kinds[i + 1] == 1:
            h = mix(((h << uint64(5)) | (h >> uint64(59))) ^ tokens[i + 1])
        elif i and kinds[i - 1] == 1:
            return uint64(0)  # the last character is in the pair before
    return h | uint64(1)


@njit(nogil=True, cache=True)
def headline_features(tokens, kinds, count, table, out):
    """Distinct features of a headline, ascending; their count."""
    table[:] = uint64(0)
    mask = uint64(table.size - 1)
    found = 0
    for i in range(count):
        h = _feature(tokens, kinds, count, i)
        if h and found < out.size and _insert(table, mask, h):
            out[found] = h
            found += 1
    out[:found].sort()
    return found


@njit(nogil=True, cache=True)
def mark_words(tokens, kinds, count, marks):
    """Sets the bit of each feature of a text: a set of 2^15 short hashes, (4096,) uint8.

    It answers "does this text hold that headline word?", wrongly yes for some 1 % of absent words.
    """
    marks[:] = 0
    for i in range(count):
        h = _feature(tokens, kinds, count, i)
        if h:
            place = h >> uint64(49)
            marks[place >> uint64(3)] |= uint8(1) << uint8(place & uint64(7))


@njit(nogil=True, cache=True)
def fingerprint_batch(
    data, bounds, classes, seed, widths, lead_units, headline_permutations, lead_permutations, body_permutations,
    headline_rows, lead_rows, body_rows,
    digests, headline_sizes, headlines, headline_keys, words,
    lead_sizes, leads, lead_keys, body_sizes, bodies, body_keys,
):  # fmt: skip
    """Fingerprints of n items into the arrays of the last lines, each with n rows.

    data: uint8; bounds: (n, 4) int64, start and end of the headline and of the text in `data`;
    widths: (words, characters) of a shingle; lead_units: length of the lead, two units a word, one a
    character; permutations: (2, bands·rows) uint32. headline features of at most 64 tokens are kept.
    """
    longest = 64
    for i in range(bounds.shape[0]):
        longest = max(longest, bounds[i, 1] - bounds[i, 0], bounds[i, 3] - bounds[i, 2])
    size = 64
    while size < 2 * longest:
        size *= 2
    tokens = np.empty(longest, np.uint64)
    kinds = np.empty(longest, np.uint8)
    shingles = np.empty(longest, np.uint64)
    narrow = np.empty(longest, np.uint32)
    table = np.empty(size, np.uint64)
    small_table = np.empty(128, np.uint64)
    features = np.empty(64, np.uint64)
    lead_minima = np.empty(2 * leads.shape[1], np.uint64)
    body_minima = np.empty(2 * bodies.shape[1], np.uint64)
    for i in range(bounds.shape[0]):
        count = tokenise(data, bounds[i, 0], bounds[i, 1], classes, seed, tokens, kinds)
        digest = uint64(count) ^ seed
        for j in range(count):
            digest = (((digest << uint64(7)) | (digest >> uint64(57))) ^ tokens[j]) * _M1
        found = headline_features(tokens, kinds, count, small_table, features)
        headline_sizes[i] = found
        kept = min(found, headlines.shape[1])
        band_keys(
            features, found, headline_permutations[0], headline_permutations[1], headline_rows, narrow, headline_keys[i]
        )

        count = tokenise(data, bounds[i, 2], bounds[i, 3], classes, seed, tokens, kinds)
        digest = mix(digest ^ uint64(count))
        for j in range(count):
            digest = (((digest << uint64(7)) | (digest >> uint64(57))) ^ tokens[j]) * _M1
        digests[i] = mix(digest)

        mark_words(tokens, kinds, count, words[i])
        headlines[i, :] = 0
        for j in range(kept):
            place = features[j] >> uint64(49)
            in_text = (words[i, place >> uint64(3)] >> uint8(place & uint64(7))) & uint8(1)
            headlines[i, j] = (place << uint64(1)) | uint64(in_text)

        lead, units = 0, 0
        while lead < count and units < lead_units:
            units += 2 - kinds[lead]
            lead += 1
        found = distinct_shingles(tokens, kinds, lead, widths[0], widths[1], table, shingles)
        lead_sizes[i] = found
        sketch(shingles, found, lead_minima, leads[i])
        band_keys(shingles, found, lead_permutations[0], lead_permutations[1], lead_rows, narrow, lead_keys[i])

        found = distinct_shingles(tokens, kinds, count, widths[0], widths[1], table, shingles)
        body_sizes[i] = found
        sketch(shingles, found, body_minima, bodies[i])
        band_keys(shingles, found, body_permutations[0], body_permutations[1], body_rows, narrow, body_keys[i])
