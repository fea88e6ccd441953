"""Pack the word sets and the prose of a batch into a quarter of their bytes, and unpack them: compiled loops.

In: the bit sets of words and the passages of `Fingerprints`. Out: streams of bytes, which zstd compresses further, and
from them word sets and prose by which every decision is the same.

**Words.** A bit set of 2^15 bits has some 300 members: their ascending numbers, each as the distance to the one before.

**Prose.** Judging makes a sketch of the passages that are not boilerplate (similarity.py). For this only four facts
about a shingle count: its bin (the upper bits of its hash), its nibble, its order among the hashes of its bin, and
which other shingles are equal. So instead of hashes of 8 bytes, an item has its shingles in ascending order, each by
the distance of its bin to the one before, its nibble and the number of its passage, in less than two bytes. Unpacking
makes new hashes with the same four facts. A passage's own hash has the bin of its smallest shingle as upper bits
(sentences.py), which are left out.

    token           0xDN: D bins after the one before, with nibble N < 15
                    0xSF: skip 16·(S + 1) bins, S < 15; a token follows
                    0xFF: the same hash as before
"""

from typing import NamedTuple

import numpy as np
from numba import int64, njit, uint8, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.byte_blocks import trailing_zeros
from stream_dedup.fingerprint.sentences import grown

WORDS = 1 << 15
_FAR = 255  # a distance of this or more takes a further byte
_MOST_WORD_BYTES = WORDS + WORDS // _FAR + 1
_STEPS, _SKIP, _SAME, _MOST_SKIPS = 16, 15, 0xFF, 15
NARROW = 256
"""Items with more passages than this have numbers of more than a byte."""
# Bits of a new hash: bin, rank in the bin, 7 bits of scatter, 16 bits that determine the nibble, and a one. Scatter and
# nibble bits differ from hash to hash, for the hash table of `shingles.distinct`.
_RANK_PLACE = 24
_NIBBLES = 15


class PackedProse(NamedTuple):
    """The streams of a batch's passages, in the order of the items; see the module's docstring.

    hashes: (P,) uint32, without the bits of the bin; sizes: (P,) uint8, shingles; units: (P,) uint16, twice the length
    in words; tokens: uint8; places: (S,) uint8, lowest byte of the passage's number in its item; far_places: uint32,
    the rest of the numbers of items with 256 passages or more.
    """

    hashes: NDArray[np.uint32]
    sizes: NDArray[np.uint8]
    units: NDArray[np.uint16]
    tokens: NDArray[np.uint8]
    places: NDArray[np.uint8]
    far_places: NDArray[np.uint32]


class ItemEnds(NamedTuple):
    """Where each item's part of the streams ends, (m,) int64 each."""

    passages: NDArray[np.int64]
    tokens: NDArray[np.int64]
    shingles: NDArray[np.int64]
    far: NDArray[np.int64]


@njit(nogil=True, cache=True)
def pack_words(bits):
    """Encode word sets, (m, 512) uint64; return the bytes, the number of words of each set and the end of its bytes."""
    m = bits.shape[0]
    out, at = np.empty(_MOST_WORD_BYTES + 512 * m, np.uint8), 0
    counts, ends = np.zeros(m, np.uint16), np.empty(m, np.int64)
    places = np.empty(bits.shape[1] + 1, np.uint32)
    for i in range(m):
        if at + _MOST_WORD_BYTES > out.size:
            out = grown(out, at, at + _MOST_WORD_BYTES)
        # Half of the words of the bit set are 0, at random: a list of the others needs no branch to make.
        used = 0
        for place in range(bits.shape[1]):
            places[used] = place
            used += bits[i, place] != uint64(0)
        previous, count = -1, 0
        for k in range(used):
            place = int64(places[k])
            word = bits[i, place]
            while word:
                number = 64 * place + trailing_zeros(word)  # type: ignore[call-arg]  # numba adds the first one
                word &= word - uint64(1)
                distance = number - previous - 1
                while distance >= _FAR:
                    out[at] = _FAR
                    at += 1
                    distance -= _FAR
                out[at] = distance
                at += 1
                previous = number
                count += 1
        counts[i], ends[i] = count, at
    return out[:at], counts, ends


@njit(nogil=True, cache=True)
def unpack_words(counts, data, bits):
    """Decode word sets into `bits`, (m, 4096) uint8 zeros; False if the data are damaged."""
    at = 0
    for i in range(counts.size):
        number = -1
        for _ in range(counts[i]):
            step = _FAR
            number += 1
            while step == _FAR:
                if at == data.size or number >= WORDS:
                    return False
                step = int64(data[at])
                number += step
                at += 1
            if number >= WORDS:
                return False
            bits[i, number >> 3] |= uint8(1) << uint8(number & 7)
    return at == data.size


@njit(nogil=True, cache=True)
def gather_passages(firsts, lasts, starts, stops, hashes, units, ends):
    """The passages in the order of the items: hashes, sizes and lengths as in `PackedProse`, and whether they fit it.

    ends: `ItemEnds.passages`, filled in.
    """
    total = np.sum(lasts - firsts)
    hashes_out, sizes, lengths = np.empty(total, np.uint32), np.empty(total, np.uint8), np.empty(total, np.uint16)
    fits, at = True, 0
    for i in range(firsts.size):
        for p in range(firsts[i], lasts[i]):
            size, length = stops[p] - starts[p], int64(2 * units[p])
            fits &= 0 <= size <= 0xFF and 0 <= length <= 0xFFFF and length == 2 * units[p]
            hashes_out[at], sizes[at], lengths[at] = hashes[p], size, length
            at += 1
        ends[i] = at
    return hashes_out, sizes, lengths, fits


@njit(nogil=True, cache=True)
def gather_shingles(firsts, lasts, shingles, starts, stops, ends):
    """The shingles of the passages, in the order of the items; ends: `ItemEnds.shingles`, filled in."""
    total = 0
    for i in range(firsts.size):
        for p in range(firsts[i], lasts[i]):
            total += stops[p] - starts[p]
        ends[i] = total
    out, at = np.empty(total, np.uint64), 0
    for i in range(firsts.size):
        for p in range(firsts[i], lasts[i]):
            for k in range(starts[p], stops[p]):
                out[at] = shingles[k]
                at += 1
    return out


@njit(nogil=True, cache=True)
def pack_shingles(firsts, lasts, shingles, starts, stops, hashes, bin_bits, ends):
    """Encode the shingles of each item; return tokens, places, far places, and whether the hashes are as expected.

    hashes: of the passages in the order of the items; the bits of their bins are removed. bin_bits: the number of bins
    is 2^bin_bits; ends: `ItemEnds`, whose tokens, shingles and far places are filled in.
    """
    most, total, far_total = 0, 0, 0
    for i in range(firsts.size):
        count = 0
        for p in range(firsts[i], lasts[i]):
            count += stops[p] - starts[p]
        most, total = max(most, count), total + count
        far_total += count if lasts[i] - firsts[i] > NARROW else 0
        ends.shingles[i], ends.far[i] = total, far_total
    tokens = np.empty(2 * total + firsts.size * ((1 << bin_bits) // (_STEPS * _MOST_SKIPS) + 1), np.uint8)
    places, far_places = np.empty(total, np.uint8), np.empty(far_total, np.uint32)
    members, owners = np.empty(most, np.uint64), np.empty(most, np.uint32)
    sort_bits = bin_bits
    while 1 << sort_bits < most:
        sort_bits += 1
    counters = np.empty((1 << sort_bits) + 1, np.uint32)
    bin_shift, hash_shift = uint64(64 - bin_bits), uint32(32 - bin_bits)
    hash_mask = (uint32(1) << hash_shift) - uint32(1)
    at, place, far, passage, is_expected = 0, 0, 0, 0, True
    for i in range(firsts.size):
        first, last = firsts[i], lasts[i]
        begin = ends.shingles[i - 1] if i else 0
        count = ends.shingles[i] - begin
        if count == 0:
            is_expected &= first == last
            ends.tokens[i] = at
            continue
        # 1. Sort by the hash: by its upper bits into buckets of hardly more than one, then within them.
        sort_bits = bin_bits
        while 1 << sort_bits < count:
            sort_bits += 1
        shift = uint64(64 - sort_bits)
        counters[: (1 << sort_bits) + 1] = uint32(0)
        for p in range(first, last):
            least = uint64(0xFFFFFFFFFFFFFFFF)
            for k in range(starts[p], stops[p]):
                h = shingles[k]
                counters[(h >> shift) + uint64(1)] += uint32(1)
                least = min(least, h)
            is_expected &= hashes[passage] == uint32(least >> uint64(32)) | uint32(1)
            is_expected &= starts[p] < stops[p]
            hashes[passage] &= hash_mask
            passage += 1
        for b in range(1, 1 << sort_bits):
            counters[b] += counters[b - 1]
        for p in range(first, last):
            for k in range(starts[p], stops[p]):
                h = shingles[k]
                bucket = h >> shift
                position = counters[bucket]
                counters[bucket] = position + uint32(1)
                members[position], owners[position] = h, uint32(p - first)
        for j in range(1, count):
            h, owner = members[j], owners[j]
            k = j
            while k > 0 and members[k - 1] > h:
                members[k], owners[k] = members[k - 1], owners[k - 1]
                k -= 1
            members[k], owners[k] = h, owner
        # 2. Encode.
        previous, bin_before = uint64(0), int64(0)  # no hash is 0
        for j in range(count):
            h = members[j]
            if h == previous:
                tokens[at] = _SAME
            else:
                distance = int64(h >> bin_shift) - bin_before
                bin_before += distance
                while distance >= _STEPS:
                    skips = min(distance // _STEPS, _MOST_SKIPS)
                    tokens[at] = ((skips - 1) << 4) | _SKIP
                    at += 1
                    distance -= _STEPS * skips
                nibble = int64(((h >> uint64(1)) & uint64(0xFFFF)) % uint64(_NIBBLES))
                tokens[at] = (distance << 4) | nibble
            previous = h
            at += 1
            places[place] = uint8(owners[j] & uint32(0xFF))
            place += 1
        if last - first > NARROW:
            for j in range(count):
                far_places[far] = owners[j] >> uint32(8)
                far += 1
        ends.tokens[i] = at
    return tokens[:at], places, far_places, is_expected


@njit(nogil=True, cache=True)
def unpack_shingles(counts, packed, bin_bits, starts, stops, hashes, shingles):
    """Decode the passages of m items into starts, stops, hashes, (P,), and shingles, (S,); False if damaged.

    counts: (m,) passages of each item; packed: `PackedProse`.
    """
    sizes, tokens, places, far_places = packed.sizes, packed.tokens, packed.places, packed.far_places
    bin_shift, hash_shift = uint64(64 - bin_bits), uint32(32 - bin_bits)
    most_rank = int64(1) << (64 - bin_bits - _RANK_PLACE)
    first, start, at, far = 0, 0, 0, 0
    for i in range(counts.size):
        passages = int64(counts[i])
        begin = start
        for p in range(first, first + passages):
            if sizes[p] == 0:
                return False
            starts[p] = stops[p] = start  # `stops` grows to the end below
            start += sizes[p]
        is_far = passages > NARROW
        place, h, rank = uint64(0), uint64(0), -1
        for j in range(begin, start):
            if at == tokens.size:
                return False
            token = int64(tokens[at])
            at += 1
            while (token & 0xF) == _SKIP and token != _SAME:
                place += uint64(_STEPS * ((token >> 4) + 1))
                rank = -1
                if at == tokens.size:
                    return False
                token = int64(tokens[at])
                at += 1
            if token != _SAME:
                place += uint64(token >> 4)
                rank = (rank + 1) * int64(token < _STEPS)  # without a branch, which half of the tokens would take
                if place >> uint64(bin_bits) or rank >= most_rank:
                    return False
                scatter = uint32(place * uint64(2654435761) + uint64(rank) * uint64(2246822519))
                low = uint32(token & 0xF) + uint32(_NIBBLES) * (scatter >> uint32(20))
                h = (
                    (place << bin_shift)
                    | (uint64(rank) << uint64(_RANK_PLACE))
                    | (uint64((scatter >> uint32(13)) & uint32(0x7F)) << uint64(17))
                    | (uint64(low) << uint64(1))
                    | uint64(1)
                )
            elif j == begin:
                return False
            owner = int64(places[j])
            if is_far:
                owner |= int64(far_places[far]) << 8
                far += 1
            if owner >= passages:
                return False
            position = stops[first + owner]
            if position >= start:
                return False
            shingles[position] = h
            stops[first + owner] = position + 1
        for p in range(first, first + passages):
            if stops[p] - starts[p] != sizes[p] or hashes[p] >> hash_shift:
                return False
            hashes[p] |= uint32(shingles[starts[p]] >> bin_shift) << hash_shift  # the smallest one came first
        first += passages
    return at == tokens.size
