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
# Some twenty words lie between two marks.
_STRIDE = 8
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
            while token + _STRIDE < count and places[2 * (token + _STRIDE) - 1] <= at:
                token += _STRIDE
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
                is_short = end == at and end - start < _ABBREVIATION and not 0x30 <= text[start] <= 0x39
                if is_short and token < count and behind != _NEWLINE:
                    continue  # an abbreviation; no text and no line ends in one
            ends[found] = token
            is_sentence[found] = byte != _NEWLINE
            found += 1
    if found == 0 or ends[found - 1] < count:
        ends[found] = count
        is_sentence[found] = False
        found += 1
    return found


@njit(nogil=True, cache=True)
def prose_passages(
    shingles, base, kinds, mixed, ends, is_sentence, sentences, width, first, starts, stops, hashes, units
):
    """Appends the passages of one text, from passage `first` on, and returns where they end.

    shingles[base + i]: hash of the text's shingle that begins with token i; mixed: some tokens are characters; width:
    tokens of the widest shingle; ends, is_sentence, sentences: see `split_sentences`. Passage p is
    shingles[starts[p]:stops[p]], hashes[p] (uint32) is its hash and units[p] (float32) its length in words, two
    characters each.
    """
    passage, start = first, 0
    for sentence in range(sentences):
        begin, end = start, ends[sentence]
        start = end
        if not is_sentence[sentence] or _length(kinds, mixed, begin, end) < PROSE_UNITS:
            continue
        last = end - width  # the last shingle that lies within the sentence
        i = begin
        while i <= last:
            until = min(i + PASSAGE, last + 1)
            if last + 1 - until < PASSAGE // 2:
                until = last + 1  # a short rest belongs to the passage before it
            least = shingles[base + i]
            for k in range(base + i + 1, base + until):
                least = min(least, shingles[k])
            starts[passage], stops[passage] = base + i, base + until
            hashes[passage] = uint32(least >> uint64(32)) | uint32(1)
            units[passage] = _length(kinds, mixed, i, until if until <= last else end) / 2.0
            passage += 1
            i = until
    return passage


@njit(nogil=True, cache=True, inline="always")
def _length(kinds, mixed, start, end):
    """Length of some tokens: two units a word, one a character."""
    length = 2 * (end - start)
    if mixed:
        for i in range(start, end):
            length -= kinds[i]
    return length
