"""The hot path: UTF-8 -> token hashes (tokens.py) -> distinct shingles -> sketch, MinHash keys, digest.

In: bytes and offsets of a whole batch. Out: arrays filled in place. Compiled (numba, nogil, cached), because
pure Python needs 450 µs for a text of 3 KB and this some 11; no Python object is made a token or an item.

Sources: shingles, Broder 1997; MinHash bands, Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets",
chapter 3; one-permutation hashing with empty bins, Li, Owen, Zhang 2012; b-bit values, Li, König 2010.
"""

import numpy as np
from numba import njit, uint8, uint32, uint64

from stream_dedup.fingerprint.hashing import GOLDEN, M1, mix, rolled, rotated
from stream_dedup.fingerprint.sentences import prose_passages, split_sentences
from stream_dedup.fingerprint.tokens import tokenise, workspace

VERSION = 2
"""Part of the scheme id: a change of any hash below makes fingerprints that the old ones cannot meet."""

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_COLOURS = np.uint64(15)  # a nibble: 0 = empty bin, 1..15 = four bits less one value of the bin's minimum


@njit(nogil=True, cache=True, inline="always")
def insert(table, mask, h):
    """Adds h to an open-addressing set (0 = free); True if it was new."""
    slot = h & mask
    while table[slot] != uint64(0):
        if table[slot] == h:
            return False
        slot = (slot + uint64(1)) & mask
    table[slot] = h
    return True


@njit(nogil=True, cache=True)
def _any_character(kinds, count):
    """Whether any of kinds[:count] is 1."""
    found = uint8(0)
    for i in range(count):
        found |= kinds[i]
    return found != 0


@njit(nogil=True, cache=True)
def every_shingle(tokens, kinds, count, words, characters, out):
    """Hashes of the shingles of tokens[:count] into `out`, in order, repeats included; their number.

    A shingle that begins with a word spans `words` tokens, one that begins with a character `characters`. A text
    shorter than its shingle is one shingle. No hash is 0, which marks a free place in a set.
    """
    if words <= count and not _any_character(kinds, count):
        # All of one width: then each step is the same for all places, and the compiler makes SIMD of it.
        found = count - words + 1
        for i in range(found):
            out[i] = tokens[i]
        for j in range(1, words):
            for i in range(found):
                out[i] = rolled(out[i], tokens[i + j])
        for i in range(found):
            out[i] = mix(out[i]) | uint64(1)
        return found
    found = 0
    for i in range(count):
        width = words if kinds[i] == 0 else characters
        if i + width > count:
            if i:
                continue
            width = count  # a text shorter than its shingle is one shingle
        h = tokens[i]
        for j in range(i + 1, i + width):
            h = rolled(h, tokens[j])
        out[found] = mix(h) | uint64(1)
        found += 1
    return found


@njit(nogil=True, cache=True)
def distinct_shingles(tokens, kinds, count, words, characters, table, out):
    """Hashes of the distinct shingles of tokens[:count] into `out`, in order of first sight; their count.

    `table` is scratch for the set: uint32, (≥ 4·count, ≥ 64, power of 2); it holds places in `out`, half as wide as
    hashes, so that it stays in the first cache and is soon cleared.
    """
    return distinct(out, every_shingle(tokens, kinds, count, words, characters, out), table, out)


@njit(nogil=True, cache=True)
def distinct(hashes, count, table, out):
    """Each of hashes[:count] once into `out` (which may be `hashes`), in order of first sight; their number."""
    size = 64
    while size < 4 * count:
        size *= 2
    table[:size] = uint32(0)
    mask = uint64(size - 1)
    found = 0
    for i in range(count):
        h = hashes[i]
        slot = (h >> uint64(8)) & mask
        seen = False
        while table[slot]:
            if out[table[slot] - uint32(1)] == h:
                seen = True
                break
            slot = (slot + uint64(1)) & mask
        if not seen:
            out[found] = h
            found += 1
            table[slot] = uint32(found)
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
        minima[place] = min(minima[place], h)  # no branch: it would be guessed wrong at every other shingle
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
        h = uint64(band + 1) * M1
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


@njit(nogil=True, cache=True, inline="always")
def _feature(tokens, kinds, count, i):
    """The i-th feature of a headline or text: a word, or a pair of neighbouring characters; 0: none of its own."""
    h = tokens[i]
    if kinds[i] == 1:
        if i + 1 < count and kinds[i + 1] == 1:
            h = mix(rotated(h) ^ tokens[i + 1])
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
        if h and found < out.size and insert(table, mask, h):
            out[found] = h
            found += 1
    out[:found].sort()
    return found


@njit(nogil=True, cache=True)
def mark_words(tokens, kinds, count, marks):
    """Sets the bit of each feature of a text: a set of 2^15 short hashes, (4096,) uint8.

    It answers "does this text hold that headline word?", wrongly yes for some 1 % of absent words.
    """
    marks[:] = uint8(0)
    if not _any_character(kinds, count):
        for i in range(count):
            h = tokens[i]
            marks[h >> uint64(52)] |= uint8(1 << ((h >> uint64(49)) & uint64(7)))
        return
    for i in range(count):
        h = _feature(tokens, kinds, count, i)
        if h:
            marks[h >> uint64(52)] |= uint8(1 << ((h >> uint64(49)) & uint64(7)))


@njit(nogil=True, cache=True)
def _digest(digest, tokens, count):
    """Adds a list of tokens to a digest: a sum in which every place has another term, so that its order counts."""
    total = uint64(count)
    for i in range(count):
        h = tokens[i] + uint64(i) * GOLDEN
        total += (h ^ (h >> uint64(32))) * M1
    return mix(digest ^ total)


@njit(nogil=True, cache=True)
def _longer(array, used, least):
    """A copy of array[:used] with room for at least `least` elements, and for half as much again as there was."""
    longer = np.empty(max(least, array.size + array.size // 2), array.dtype)
    longer[:used] = array[:used]
    return longer


@njit(nogil=True, cache=True)
def fingerprint_batch(
    data, bounds, rows, folded, classes, table, expansions, seed, widths, lead_units,
    headline_permutations, lead_permutations, body_permutations, headline_rows, lead_rows, body_rows,
    digests, headline_sizes, headlines, headline_keys, words,
    lead_sizes, leads, lead_keys, body_sizes, bodies, body_keys, firsts, lasts,
):  # fmt: skip
    """Fingerprints of n items into places `rows` of the arrays of the last two lines.

    Returns the rows that it left; the shingles of the texts (uint64, with repeats); and starts, stops, hashes and units
    of their passages (see `prose_passages`): those of row i are firsts[i] to lasts[i].

    data: uint8, `tokens.SLACK` bytes longer than the last text; bounds: (n, 4) int64, start and end of the headline
    and of the text in `data`; rows: (n,) int64; folded, classes, table, expansions: see `tokenise`; a row is left if
    one of its views cannot be folded by table. widths: (words, characters) of a shingle; lead_units: length of the
    lead, two units a word, one a character; permutations: (2, bands·rows) uint32. headline features of at most 64
    tokens are kept.
    """
    text, places, tokens, kinds = workspace(bounds)
    longest = tokens.size
    shingles = np.empty(longest, np.uint64)
    ends, is_sentence = np.empty(longest, np.int32), np.empty(longest, np.bool_)
    # A word is some six bytes and a passage has eight shingles or more; where that is too little, the arrays grow.
    prose, used, passages = np.empty(data.size // 4, np.uint64), 0, 0
    starts, stops = np.empty(data.size // 64, np.int64), np.empty(data.size // 64, np.int64)
    hashes, units = np.empty(starts.size, np.uint32), np.empty(starts.size, np.float32)
    narrow = np.empty(longest, np.uint32)
    size = 64
    while size < 4 * longest:
        size *= 2
    seen = np.empty(size, np.uint32)
    small_table = np.empty(128, np.uint64)
    features = np.empty(64, np.uint64)
    lead_minima = np.empty(2 * leads.shape[1], np.uint64)
    body_minima = np.empty(2 * bodies.shape[1], np.uint64)
    left = np.empty(len(rows), np.int64)
    lefts = 0
    for n in range(bounds.shape[0]):
        i = rows[n]
        count = tokenise(
            data, bounds[n, 0], bounds[n, 1], folded, classes, table, expansions, seed, text, places, tokens, kinds
        )
        digest = _digest(seed, tokens, count)
        found = headline_features(tokens, kinds, count, small_table, features)
        titled = count >= 0

        count = tokenise(
            data, bounds[n, 2], bounds[n, 3], folded, classes, table, expansions, seed, text, places, tokens, kinds
        )
        if not titled or count < 0:
            left[lefts] = i
            lefts += 1
            continue
        digests[i] = _digest(digest, tokens, count)
        headline_sizes[i] = found
        kept = min(found, headlines.shape[1])
        band_keys(
            features, found, headline_permutations[0], headline_permutations[1], headline_rows, narrow, headline_keys[i]
        )
        marks = words[i]
        mark_words(tokens, kinds, count, marks)
        headlines[i, :] = 0
        for j in range(kept):
            place = features[j] >> uint64(49)
            in_text = (marks[place >> uint64(3)] >> uint8(place & uint64(7))) & uint8(1)
            headlines[i, j] = (place << uint64(1)) | uint64(in_text)

        lead, length = 0, 0
        while lead < count and length < lead_units:
            length += 2 - kinds[lead]
            lead += 1
        found = distinct_shingles(tokens, kinds, lead, widths[0], widths[1], seen, shingles)
        lead_sizes[i] = found
        sketch(shingles, found, lead_minima, leads[i])
        band_keys(shingles, found, lead_permutations[0], lead_permutations[1], lead_rows, narrow, lead_keys[i])

        if used + count > prose.size:
            prose = _longer(prose, used, used + count)
        if passages + count > starts.size:
            starts, stops = _longer(starts, passages, passages + count), _longer(stops, passages, passages + count)
            hashes, units = _longer(hashes, passages, passages + count), _longer(units, passages, passages + count)
        found = every_shingle(tokens, kinds, count, widths[0], widths[1], prose[used:])
        sentences = split_sentences(text, places, count, ends, is_sentence)
        mixed = _any_character(kinds, count)
        width = max(widths[0], widths[1]) if mixed else widths[0]
        firsts[i] = passages
        passages = prose_passages(
            prose, used, kinds, mixed, ends, is_sentence, sentences, width, passages, starts, stops, hashes, units
        )
        lasts[i] = passages
        windows = prose[used : used + found]
        used += found
        found = distinct(windows, found, seen, shingles)
        body_sizes[i] = found
        sketch(shingles, found, body_minima, bodies[i])
        band_keys(shingles, found, body_permutations[0], body_permutations[1], body_rows, narrow, body_keys[i])
    return (
        left[:lefts].copy(), prose[:used], starts[:passages], stops[:passages], hashes[:passages], units[:passages],
    )  # fmt: skip
