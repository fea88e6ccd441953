"""Find the prose of a text: its sentences, without menus and lists, cut into passages of up to 16 shingles.

A page is an article among menus, link lists, forms, captions and share panels, and only the article can bring news. A
sentence of prose ends in a sentence mark and is at least eight words long (or fifteen characters of a script without
spaces); menus and lists do not. The rule needs no word list and no list of sites, and therefore holds for every script.
`dedup.boilerplate` later recognises prose that recurs on many pages (subscribe, copyright).

The hash of a passage is the smallest hash of its shingles (a MinHash of one row: Broder 1997), so that a standard
sentence keeps its hash when a date or a name in it changes.
"""

from typing import NamedTuple

import numpy as np
from numba import njit, uint32, uint64
from numpy.typing import NDArray

from stream_dedup.fingerprint.byte_blocks import MASKED, break_mask, trailing_zeros
from stream_dedup.fingerprint.shingles import any_character

# Of 40 held-back items in which readers found something new, these two numbers find 33. Fewer words let in captions and
# menu lines with a full stop; more words lose short quotes.
MIN_SENTENCE_UNITS = 15
"""Length of the shortest sentence of prose: two units a word, one a character of a script without spaces."""
MAX_PASSAGE_SHINGLES = 16
"""Maximum length of a passage. A sentence of some 18 words is one passage, so that its hash stands for all of it."""
MAX_PASSAGE_LETTERS = 6 * MAX_PASSAGE_SHINGLES
"""The same for shingles of letters: an English word and its space have six letters."""
# A full stop after a word of fewer bytes ends no sentence: "Mr.", "Gov.", "p.m.".
_ABBREVIATION = 4
_NEWLINE, _STOP = np.uint8(0x0A), np.uint8(0x2E)
# Tokens skipped at once in the search for a mark's token; marks are some twenty words apart.
_STRIDE = 8
# A sentence mark may follow the last word and its quotes and brackets.
_MARK_DISTANCE = 4


class Sentences(NamedTuple):
    """Lines and sentences of one text. ends: int32, the token after each; is_sentence: bool, it ends in a sentence
    mark and not at the end of a line."""

    ends: NDArray[np.int32]
    is_sentence: NDArray[np.bool_]


class Passages(NamedTuple):
    """Passages of a batch. Passage p is shingles[starts[p]:stops[p]], with hash hashes[p] and units[p] words.

    starts, stops: int64; hashes: uint32; units: float32, two characters of a script without spaces count as a word.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    hashes: NDArray[np.uint32]
    units: NDArray[np.float32]


@njit(nogil=True, cache=True)
def passages_for(size):
    """Allocate `size` passages."""
    return Passages(
        np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint32), np.empty(size, np.float32)
    )


@njit(nogil=True, cache=True)
def grown(array, used, least):
    """A copy of array[:used] with room for at least `least` elements, and half as much again as before."""
    larger = np.empty(max(least, array.size + array.size // 2), array.dtype)
    larger[:used] = array[:used]
    return larger


@njit(nogil=True, cache=True)
def grown_passages(passages, used, least):
    """`grown` for each array of passages."""
    starts, stops = grown(passages.starts, used, least), grown(passages.stops, used, least)
    return Passages(starts, stops, grown(passages.hashes, used, least), grown(passages.units, used, least))


@njit(nogil=True, cache=True)
def trimmed(passages, count):
    """The first `count` passages."""
    return Passages(passages.starts[:count], passages.stops[:count], passages.hashes[:count], passages.units[:count])


@njit(nogil=True, cache=True)
def split_sentences(tokens, count, sentences):
    """Find the ends of the lines and sentences of a tokenised text; return how many there are."""
    text, places = tokens.text, tokens.places
    ends, is_sentence = sentences.ends, sentences.is_sentence
    if count <= 0:
        return 0
    n, token = 0, 0
    stop = places[2 * count - 1] + _MARK_DISTANCE
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
            if token == 0 or (n and ends[n - 1] == token):
                continue
            byte = text[at]
            if byte == _STOP:
                start, end = places[2 * token - 2], places[2 * token - 1]
                following = text[at + 1]
                if following >= 0x80 or 0x61 <= following <= 0x7A or 0x30 <= following <= 0x39:
                    continue  # inside a number, a name or an address
                is_short = end == at and end - start < _ABBREVIATION and not 0x30 <= text[start] <= 0x39
                if is_short and token < count and following != _NEWLINE:
                    continue  # an abbreviation, unless it ends the text or a line
            ends[n] = token
            is_sentence[n] = byte != _NEWLINE
            n += 1
    if n == 0 or ends[n - 1] < count:
        ends[n] = count
        is_sentence[n] = False
        n += 1
    return n


@njit(nogil=True, cache=True)
def prose_passages(shingles, base, tokens, count, widths, letters, sentences, sentence_count, passages, passage_count):
    """Append the passages of one text to passages[:passage_count]; return the new number of passages.

    shingles[base + i]: hash of the shingle that begins with token i of the text's `count`, or with letter i if the
    shingles are of `letters` (else None); widths: of the shingles; sentences, sentence_count: see `split_sentences`.
    """
    kinds = tokens.kinds
    has_characters = any_character(kinds, count)
    width = max(widths.words, widths.characters) if has_characters else widths.words
    longest = MAX_PASSAGE_SHINGLES if letters is None else MAX_PASSAGE_LETTERS
    start = 0
    for sentence in range(sentence_count):
        begin, end = start, sentences.ends[sentence]
        start = end
        length = _length(kinds, has_characters, begin, end)
        if not sentences.is_sentence[sentence] or length < MIN_SENTENCE_UNITS:
            continue
        if letters is not None:
            begin, end = letters.starts[begin], letters.starts[end]
        last = end - width  # the last shingle that lies within the sentence
        i = begin
        while i <= last:
            until = min(i + longest, last + 1)
            if last + 1 - until < longest // 2:
                until = last + 1  # a short rest joins the passage before it
            least = shingles[base + i]
            for k in range(base + i + 1, base + until):
                least = min(least, shingles[k])
            passages.starts[passage_count], passages.stops[passage_count] = base + i, base + until
            passages.hashes[passage_count] = uint32(least >> uint64(32)) | uint32(1)
            stop = until if until <= last else end
            if letters is None:
                units = _length(kinds, has_characters, i, stop)
            else:
                # Its share of the sentence, in whole units that add up to the sentence.
                units = length * (stop - begin) // (end - begin) - length * (i - begin) // (end - begin)
            passages.units[passage_count] = units / 2.0
            passage_count += 1
            i = until
    return passage_count


@njit(nogil=True, cache=True, inline="always")
def _length(kinds, has_characters, start, end):
    """Length of tokens start to end: two units a word, one a character."""
    length = 2 * (end - start)
    if has_characters:
        for i in range(start, end):
            length -= kinds[i]
    return length
