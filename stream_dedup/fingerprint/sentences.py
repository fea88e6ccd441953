"""Tokens of a text -> its prose: the shingles of its sentences, cut into passages.

In: what `tokenise` left of one text. Out: for each sentence of prose its shingles, in passages of up to 16, each with a
hash of its own. Why: a page is an article among menus, link lists, forms, captions and share panels, and only the
article can bring news. What ends in a sentence mark and is eight words long (or fifteen characters of a script without
spaces) is a sentence of prose; menus and lists are not. No word list and no list of sites is asked, so this holds for
every script. Prose that recurs on many pages (subscribe, copyright) is told apart later, by `dedup.boilerplate`.

A passage's hash is the least hash of its shingles (a MinHash of one row: Broder 1997), so that a standard sentence
keeps its hash where a date or a name in it changes.
"""

import numpy as np
from numba import njit, uint32, uint64

from stream_dedup.fingerprint.blocks import MASKED, break_mask, trailing_zeros

# Of 40 held-back items that readers found to bring something new, these two numbers find 33; fewer words let captions
# and menu lines with a full stop in, more lose short quotes.
PROSE_UNITS = 15
"""Length of the shortest sentence of prose: two units a word, one a character of a script without spaces."""
PASSAGE = 16
"""Shingles of a passage at most: a sentence of some 18 words is one, so that its hash stands for all of it."""
# "Mr.", "Gov.", "p.m.": a full stop behind so few bytes ends no sentence.
_ABBREVIATION = 4
_NEWLINE, _STOP = np.uint8(0x0A), np.uint8(0x2E)
# A sentence mark may stand behind the last word and its quotes and brackets.
_BEHIND = 4


@njit(nogil=True, cache=True)
def split_sentences(text, places, count, ends, is_sentence):
    """Where the lines and sentences of a tokenised text end: `ends[:n]` tokens (int32); n.

    text, places: as `tokenise` left them; is_sentence[:n] (bool): it ends in a sentence mark, not at a line's end.
    """
    if count <= 0:
        return 0
    found, token = 0, 0
    stop = places[2 * count - 1] + _BEHIND
    for base in range(0, stop, MASKED):
        mask = break_mask(text, base)
        while mask:
            at = base + trailing_zeros(mask)
            mask &= mask - uint64(1)
            if at >= stop:
                break
            while token < count and places[2 * token + 1] <= at:
                token += 1
            if token == 0 or (found and ends[found - 1] == token):
                continue
            byte = text[at]
            if byte == _STOP:
                start, end = places[2 * token - 2], places[2 * token - 1]
                behind = text[at + 1]
                if behind >= 0x80 or 0x61 <= behind <= 0x7A or 0x30 <= behind <= 0x39:
                    continue  # inside a number, a name or an address
                if end == at and end - start < _ABBREVIATION and not 0x30 <= text[start] <= 0x39:
                    continue
            ends[found] = token
            is_sentence[found] = byte != _NEWLINE
            found += 1
    if found == 0 or ends[found - 1] < count:
        ends[found] = count
        is_sentence[found] = False
        found += 1
    return found


@njit(nogil=True, cache=True)
def prose_passages(windows, kinds, ends, is_sentence, sentences, width, first, shingles, hashes, stops, units):
    """Appends the passages of one text, from passage `first` on, and returns where they end.

    windows: hashes of the text's shingles by their first token; width: tokens of the widest of them; ends, is_sentence,
    sentences: see `split_sentences`. Passage p is shingles[stops[p - 1]:stops[p]] (uint64), hashes[p] (uint32) is its
    hash and units[p] (float32) its length in words, two characters each.
    """
    at = stops[first - 1] if first else 0
    passage, start = first, 0
    for sentence in range(sentences):
        end = ends[sentence]
        length = 0
        for i in range(start, end):
            length += 2 - kinds[i]
        begin, start = start, end
        if not is_sentence[sentence] or length < PROSE_UNITS:
            continue
        last = end - width  # the last shingle that lies within the sentence
        i = begin
        while i <= last:
            least = uint64(0xFFFFFFFFFFFFFFFF)
            half_words = 0
            until = min(i + PASSAGE, last + 1)
            if last + 1 - until < PASSAGE // 2:
                until = last + 1  # a short rest belongs to the passage before it
            until_token = until if until <= last else end
            for k in range(i, until):
                shingles[at] = windows[k]
                at += 1
                least = min(least, windows[k])
            for k in range(i, until_token):
                half_words += 2 - kinds[k]
            hashes[passage] = uint32(least >> uint64(32)) | uint32(1)
            units[passage] = half_words / 2.0
            stops[passage] = at
            passage += 1
            i = until
    return passage
