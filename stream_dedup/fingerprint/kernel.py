"""The compiled hot path: fingerprints of a batch of texts in one pass.

The kernel tokenises each headline and each text once. From the shingles it makes everything that represents an item: a
digest, MinHash sketches and band keys, prose passages and, on request, SimHashes and packed sets. It fills arrays in
place and creates no Python object for a token or an item. It is compiled (numba, nogil, cached): pure Python takes
450 µs for a text of 3 KB, the kernel about 11.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint8, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.hashing import GOLDEN, M1, mix
from stream_dedup.fingerprint.letters import spell
from stream_dedup.fingerprint.minhash import Bands, band_keys, sketch
from stream_dedup.fingerprint.packed_sets import append_set, packing_space
from stream_dedup.fingerprint.sentences import (
    Sentences,
    grown,
    grown_passages,
    passages_for,
    prose_passages,
    split_sentences,
    trimmed,
)
from stream_dedup.fingerprint.shingles import (
    ShingleWidths,
    distinct,
    distinct_shingles,
    every_shingle,
    headline_features,
    lead_length,
    mark_words,
    slots_for,
)
from stream_dedup.fingerprint.simhash import UNIFORM, simhash
from stream_dedup.fingerprint.tokens import tokenise, tokens_for

VERSION = 2
"""Part of the scheme id: raise it when any hash changes, because the new fingerprints cannot match the old ones."""


class Recipe(NamedTuple):
    """What the kernel makes of each view. lead_units: length of the lead, two units a word, one a character."""

    widths: ShingleWidths
    lead_units: int
    headline: Bands
    lead: Bands
    body: Bands


class Outputs(NamedTuple):
    """The arrays that the kernel fills, one row for each item; see `Scheme.signature_dtype` for their meaning.

    sizes: uint32; headlines: (n, features) uint16; leads, bodies: (n, bins/2) uint8; words: (n, 4096) uint8, see
    `mark_words`; keys: (n, tables) uint32; firsts, lasts: the passages of each text, see `fingerprint.Prose`.
    """

    digests: NDArray[np.uint64]
    headline_sizes: NDArray[np.uint32]
    lead_sizes: NDArray[np.uint32]
    body_sizes: NDArray[np.uint32]
    headlines: NDArray[np.uint16]
    leads: NDArray[np.uint8]
    bodies: NDArray[np.uint8]
    words: NDArray[np.uint8]
    keys: NDArray[np.uint32]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]


@njit(nogil=True, cache=True)
def _digest(digest, tokens, count):
    """Add a list of tokens to a digest. Each position has its own term, so that the order matters."""
    total = uint64(count)
    for i in range(count):
        h = tokens.hashes[i] + uint64(i) * GOLDEN
        total += (h ^ (h >> uint64(32))) * M1
    return mix(digest ^ total)


@njit(nogil=True, cache=True)
def fingerprint_batch(batch, tables, recipe, out, simhashes, set_ends, letters):
    """Fingerprint the items of a `TextBatch` into `out` (`Outputs`).

    tables: `TokenTables`; recipe: `Recipe`; simhashes: a `SimHashSink` or None; set_ends: (n + 1,) int64 to pack the
    sets of body shingles (packed_sets.py), or None; letters: scratch (`Letters`) for shingles of letters, or None.

    Returns the rows that are not filled, because the tables cannot fold one of their views; the body shingles of all
    texts, with repeats; their `Passages`; and the packed sets: that of the k-th item of the batch is bytes set_ends[k]
    to set_ends[k + 1]. Numba compiles the kernel once for each combination of arguments that are None.
    """
    widths, bounds, rows = recipe.widths, batch.bounds, batch.rows
    tokens = tokens_for(bounds)
    longest = tokens.hashes.size
    headline_slots, features = np.empty(128, np.uint64), np.empty(64, np.uint64)
    slots, members = np.empty(slots_for(longest), np.uint32), np.empty(longest, np.uint64)
    narrow = np.empty(longest, np.uint32)
    lead_minima = np.empty(2 * out.leads.shape[1], np.uint64)
    body_minima = np.empty(2 * out.bodies.shape[1], np.uint64)
    sentences = Sentences(np.empty(longest, np.int32), np.empty(longest, np.bool_))
    # A word has some six bytes and a passage at least eight shingles; where that is too little, the arrays grow.
    shingles, shingle_count = np.empty(batch.data.size // 4, np.uint64), 0
    passages, passage_count = passages_for(batch.data.size // 64), 0
    packed, packed_size = np.empty(0, np.uint8), 0
    if set_ends is not None:
        space = packing_space(longest)
        set_ends[0] = 0
    if simhashes is not None:
        votes = np.empty((simhashes.out.shape[1], 64), np.int64)
    unfolded, unfolded_count = np.empty(len(rows), np.int64), 0
    for k in range(len(rows)):
        i = rows[k]
        count = tokenise(batch, bounds[k, 0], bounds[k, 1], tables, tokens)
        digest = _digest(tables.seed, tokens, count)
        headline_size = headline_features(tokens, count, headline_slots, features)
        is_headline_folded = count >= 0

        count = tokenise(batch, bounds[k, 2], bounds[k, 3], tables, tokens)
        if set_ends is not None:
            set_ends[k + 1] = packed_size
        if not is_headline_folded or count < 0:
            unfolded[unfolded_count] = i
            unfolded_count += 1
            continue
        out.digests[i] = _digest(digest, tokens, count)

        out.headline_sizes[i] = headline_size
        band_keys(features, headline_size, recipe.headline, narrow, out.keys[i])
        bits = out.words[i]
        mark_words(tokens, count, bits)
        out.headlines[i, :] = 0
        for j in range(min(headline_size, out.headlines.shape[1])):
            place = features[j] >> uint64(49)
            in_text = (bits[place >> uint64(3)] >> uint8(place & uint64(7))) & uint8(1)
            out.headlines[i, j] = (place << uint64(1)) | uint64(in_text)

        lead = lead_length(tokens.kinds, count, recipe.lead_units)
        if letters is None:
            unit_count = count
            size = distinct_shingles(tokens, lead, widths, slots, members)
        else:
            unit_count = spell(tokens, count, tables.seed, letters)
            size = distinct_shingles(letters, letters.starts[lead], widths, slots, members)
        out.lead_sizes[i] = size
        sketch(members, size, lead_minima, out.leads[i])
        band_keys(members, size, recipe.lead, narrow, out.keys[i])

        if shingle_count + unit_count > shingles.size:
            shingles = grown(shingles, shingle_count, shingle_count + unit_count)
        windows = shingles[shingle_count:]
        if letters is None:
            windows = windows[: every_shingle(tokens, count, widths, windows)]
        else:
            windows = windows[: every_shingle(letters, unit_count, widths, windows)]
        if passage_count + unit_count > passages.starts.size:
            passages = grown_passages(passages, passage_count, passage_count + unit_count)
        sentence_count = split_sentences(tokens, count, sentences)
        out.firsts[i] = passage_count
        passage_count = prose_passages(
            shingles, shingle_count, tokens, count, widths, letters, sentences, sentence_count, passages, passage_count
        )
        out.lasts[i] = passage_count
        shingle_count += windows.size
        size = distinct(windows, windows.size, slots, members)
        out.body_sizes[i] = size
        sketch(members, size, body_minima, out.bodies[i])
        band_keys(members, size, recipe.body, narrow, out.keys[i])
        if set_ends is not None:
            packed, packed_size = append_set(members, size, space, packed, packed_size)
            set_ends[k + 1] = packed_size
        if simhashes is not None:
            if simhashes.widths == widths:
                voters, size = (members, size) if simhashes.weighting == UNIFORM else (windows, windows.size)
            else:
                voters, size = members, every_shingle(tokens, count, simhashes.widths, members)
                if simhashes.weighting == UNIFORM:
                    size = distinct(members, size, slots, members)
            simhash(voters, size, simhashes, votes, simhashes.out[i])
    return (
        unfolded[:unfolded_count].copy(), shingles[:shingle_count], trimmed(passages, passage_count),
        packed[:packed_size],
    )  # fmt: skip
