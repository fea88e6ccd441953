"""The compiled hot path: fingerprints of a batch of texts in one pass.

The kernel tokenises each headline and each text once. From the tokens it makes everything that represents an item: a
digest, sketches, a filter of its words, index keys, passages and, on request, SimHashes and packed sets. It fills
arrays in place and creates no Python object for a token or an item. It is compiled (numba, nogil, cached): pure Python
takes 450 µs for a text of 3 KB, the kernel about 11.
"""

from typing import NamedTuple

import numpy as np
from numba import uint8, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.compiled import njit
from stream_dedup.fingerprint.bits import GOLDEN, M1, grown, mix, narrowed
from stream_dedup.fingerprint.packed_sets import append_set
from stream_dedup.fingerprint.sentences import PASSAGE_FIELDS, Sentences, cut_passages, split_sentences
from stream_dedup.fingerprint.shingles import (
    Anchors,
    Bands,
    ShingleWidths,
    anchor_keys,
    any_character,
    band_keys,
    distinct,
    every_shingle,
    sketch,
    slots_for,
    spell,
)
from stream_dedup.fingerprint.simhash import UNIFORM, simhash
from stream_dedup.fingerprint.tokens import tokenise, tokens_for
from stream_dedup.fingerprint.word_filter import (
    NO_WORD,
    begins_number,
    bit_of_number,
    bit_of_word,
    find_numbers,
    has_bit,
    headline_features,
    mark_words,
    second_bit,
    set_bit,
    write_words,
)

VERSION = 4
"""Part of the scheme id: raise it when any hash changes, because the new fingerprints cannot match the old ones."""
MOST_HEADLINE_NUMBERS = 8
"""Figures of a headline that are compared; a headline of more is a table."""


class Recipe(NamedTuple):
    """What the kernel makes of each view. widths: of the features of a SimHash, or else of shingles."""

    widths: ShingleWidths
    headline: Bands
    body: Bands
    anchors: Anchors


class Outputs(NamedTuple):
    """The arrays that the kernel fills, one row for each item; see `Scheme.signature_dtype` for their meaning.

    sizes: uint32; headlines: (n, features) uint16; bodies: (n, bins/2) uint8; filters: (n, 96) uint8;
    figures: (n,) uint64; forms: (n,) uint8; keys: (n, columns) uint32. The others are not stored: words: (n, 4096)
    uint8, see `mark_words`; headline_words: (n, 24) and headline_numbers: (n, 8) uint32, ended by 0; firsts, lasts:
    (n, 2) the passages and the numbers of each text, see `fingerprint.Texts`.
    """

    digests: NDArray[np.uint64]
    headline_sizes: NDArray[np.uint32]
    body_sizes: NDArray[np.uint32]
    headlines: NDArray[np.uint16]
    bodies: NDArray[np.uint8]
    filters: NDArray[np.uint8]
    figures: NDArray[np.uint64]
    forms: NDArray[np.uint8]
    keys: NDArray[np.uint32]
    words: NDArray[np.uint8]
    headline_words: NDArray[np.uint32]
    headline_numbers: NDArray[np.uint32]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]


class Parts(NamedTuple):
    """What the texts of a kernel call consist of, concatenated; see `fingerprint.Texts`.

    words: uint16; shingles: uint64; numbers: (n, 2) int64, value and first token; passages: (n, PASSAGE_FIELDS) int64.
    """

    words: NDArray[np.uint16]
    shingles: NDArray[np.uint64]
    numbers: NDArray[np.int64]
    passages: NDArray[np.int64]


@njit(nogil=True, cache=True)
def _digest(digest, tokens, count):
    """Add a list of tokens to a digest. Each position has its own term, so that the order matters."""
    total = uint64(count)
    for i in range(count):
        h = tokens.hashes[i] + uint64(i) * GOLDEN
        total += (h ^ (h >> uint64(32))) * M1
    return mix(digest ^ total)


@njit(nogil=True, cache=True, inline="always")
def _fingerprint_headline(i, tokens, count, seed, numbers, slots, features, out):
    """Write what is known of a headline but its own text; return the number of its features."""
    size = headline_features(tokens, count, seed, slots, features)
    out.headline_sizes[i] = size
    for j in range(out.headline_words.shape[1]):
        out.headline_words[i, j] = narrowed(features[j]) if j < size else uint32(0)
    found = find_numbers(tokens, count, numbers)
    h = uint64(0)
    for j in range(count):  # the form: the headline with all numbers and dates masked
        masked = begins_number(tokens.text, tokens.places[2 * j])
        h = mix((h ^ (uint64(1) if masked else tokens.hashes[j])) * GOLDEN)
    out.forms[i] = max(h >> uint64(56), uint64(1)) if size > 1 else uint64(0)
    for j in range(out.headline_numbers.shape[1]):
        out.headline_numbers[i, j] = numbers[j, 0] if j < found else 0
    return size


@njit(nogil=True, cache=True, inline="always")
def _fill_filter(i, words, numbers, found, out):
    """Set the bits of all words and numbers of headline and text."""
    bits, figures = out.filters[i], uint64(0)
    bits[:] = uint8(0)
    for found_words in (words, out.headline_words[i]):
        for h in found_words:
            if h:
                set_bit(bits, bit_of_word(h))
    for k in range(found + out.headline_numbers.shape[1]):
        h = uint32(numbers[k, 0]) if k < found else out.headline_numbers[i, k - found]
        if h:
            set_bit(bits, bit_of_word(h))
            set_bit(bits, second_bit(h))
            figures |= bit_of_number(h)
    out.figures[i] = figures


@njit(nogil=True, cache=True)
def fingerprint_batch(batch, tables, recipe, out, before, simhashes, set_ends, letters):
    """Fingerprint the items of a `TextBatch` into `out` (`Outputs`).

    tables: `TokenTables`; recipe: `Recipe`; before: how many words, shingles, numbers and passages the calls before
    had, (4,) int64, from which all positions count; simhashes: a `SimHashSink` or None; set_ends: (n + 1,) int64 to
    pack the sets of body shingles (packed_sets.py), or None; letters: scratch (`Letters`) if shingles or features are
    of letters, or None.

    Returns the rows that are not filled, because the tables cannot fold one of their views; the `Parts` of all texts,
    none of families with a SimHash; and the packed sets: that of the k-th item of the batch is bytes set_ends[k] to
    set_ends[k + 1]. Numba compiles the kernel once for each combination of arguments that are None.
    """
    widths, bounds, rows = recipe.widths, batch.bounds, batch.rows
    tokens = tokens_for(bounds)
    longest = tokens.hashes.size
    features, headline_numbers = np.empty(longest, np.uint64), np.empty((longest, 2), np.int64)
    slots, members = np.empty(slots_for(longest), np.uint32), np.empty(longest, np.uint64)
    narrow, own_words = np.empty(longest, np.uint32), np.empty(longest, np.uint32)
    body_minima = np.empty(2 * out.bodies.shape[1], np.uint64)
    sentences = Sentences(np.empty(longest, np.int32), np.empty(longest, np.bool_))
    # A word has some six bytes, a passage at least eight words; where that is too little, the arrays grow.
    shingles, shingle_count = np.empty(batch.data.size // 4, np.uint64), 0
    words, word_count = np.empty(batch.data.size // 4, np.uint16), 0
    numbers, number_count = np.empty((1024, 2), np.int64), 0
    passages, passage_count = np.empty((batch.data.size // 64, PASSAGE_FIELDS), np.int64), 0
    packed, packed_size = np.empty(0, np.uint8), 0
    if set_ends is not None:
        set_ends[0] = 0
    if simhashes is not None:
        votes = np.empty((simhashes.out.shape[1], 64), np.int64)
    unfolded, unfolded_count = np.empty(len(rows), np.int64), 0
    for k in range(len(rows)):
        i = rows[k]
        count = tokenise(batch, bounds[k, 0], bounds[k, 1], tables, tokens)
        is_headline_folded = count >= 0
        digest = _digest(tables.seed, tokens, count)
        headline_size = _fingerprint_headline(i, tokens, count, tables.seed, headline_numbers, slots, features, out)
        if simhashes is None:
            band_keys(features, headline_size, recipe.headline, narrow, out.keys[i])

        count = tokenise(batch, bounds[k, 2], bounds[k, 3], tables, tokens)
        if set_ends is not None:
            set_ends[k + 1] = packed_size
        if not is_headline_folded or count < 0:
            unfolded[unfolded_count] = i
            unfolded_count += 1
            continue
        out.digests[i] = _digest(digest, tokens, count)
        unit_count = count if letters is None else spell(tokens, count, tables.seed, letters)

        if simhashes is not None:
            if letters is None:
                size = every_shingle(tokens, count, widths, members)
            else:
                size = every_shingle(letters, unit_count, widths, members)
            if simhashes.weighting == UNIFORM:
                size = distinct(members, size, slots, members)
            simhash(members, size, simhashes, votes, simhashes.out[i])
            out.body_sizes[i] = size
            continue

        # -- words and numbers
        words = grown(words, word_count, count)
        own = own_words[:count]
        write_words(tokens, count, tables.seed, own)
        for j in range(count):
            words[word_count + j] = bit_of_word(own[j]) if own[j] else NO_WORD
        numbers = grown(numbers, number_count, count)
        own_numbers = numbers[number_count:]
        found = find_numbers(tokens, count, own_numbers)
        own_numbers[:found, 1] += before[0] + word_count
        _fill_filter(i, own, own_numbers, found, out)
        bits = out.words[i]
        mark_words(own, bits)
        out.headlines[i, :] = 0
        for j in range(min(headline_size, out.headlines.shape[1])):
            place = np.int64(features[j] >> uint64(49))
            out.headlines[i, j] = 2 * place + has_bit(bits, place)

        # -- shingles
        shingles = grown(shingles, shingle_count, unit_count)
        windows = shingles[shingle_count:]
        if letters is None:
            windows = windows[: every_shingle(tokens, count, widths, windows)]
        else:
            windows = windows[: every_shingle(letters, unit_count, widths, windows)]
        has_characters, run = any_character(tokens.kinds, count), recipe.anchors
        step, last = (run.character_step, run.character_last) if has_characters else (run.step, run.last)
        anchor_keys(windows, windows.size, step, last, out.keys[i, : run.keys])
        size = distinct(windows, windows.size, slots, members)
        out.body_sizes[i] = size
        sketch(members, size, body_minima, out.bodies[i])
        band_keys(members, size, recipe.body, narrow, out.keys[i])
        if set_ends is not None:
            packed, packed_size = append_set(members, size, packed, packed_size)
            set_ends[k + 1] = packed_size

        # -- passages
        passages = grown(passages, passage_count, count)
        width = max(widths.words, widths.characters) if has_characters else widths.words
        sentence_count = split_sentences(tokens, count, sentences)
        cut = cut_passages(
            tokens, own, before[0] + word_count, letters, width, before[1] + shingle_count, sentences, sentence_count,
            passages[passage_count:],
        )  # fmt: skip
        out.firsts[i] = before[3] + passage_count, before[2] + number_count
        out.lasts[i] = before[3] + passage_count + cut, before[2] + number_count + found
        passage_count += cut
        number_count += found
        shingle_count += windows.size
        word_count += count
    parts = Parts(words[:word_count], shingles[:shingle_count], numbers[:number_count], passages[:passage_count])
    return unfolded[:unfolded_count].copy(), parts, packed[:packed_size]
