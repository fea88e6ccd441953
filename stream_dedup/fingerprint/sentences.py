"""Cut a text into sentences and lines, and these into passages of 16 tokens; tell prose from menus and lists.

A page is an article among menus, link lists, forms, captions and share panels, and only the article can bring news. A
sentence of prose ends in a sentence mark and is at least eight words long (or fifteen characters of a script without
spaces); menus and lists do not. The rule needs no word list and no list of sites, and therefore holds for every script.
`dedup.boilerplate` later recognises passages that recur on many pages (subscribe, copyright), by their hashes.

Lines of equal length are wrapped: there a line break ends a sentence only before a blank or an empty line, as in texts
of news wires.
"""

from typing import NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from stream_dedup.compiled import njit
from stream_dedup.fingerprint.bits import GOLDEN, M1, MASKED, break_mask, mix, narrowed, trailing_zeros
from stream_dedup.fingerprint.shingles import any_character

# Of 40 held-back items in which readers found something new, these two numbers find 33. Fewer words let in captions and
# menu lines with a full stop; more words lose short quotes.
MIN_SENTENCE_UNITS = 15
"""Length of the shortest sentence of prose: two units a word, one a character of a script without spaces."""
MIN_LINE_UNITS = 80
"""Length of the shortest line of prose in a text without any sentence mark: Thai has none, and menus are shorter."""
PASSAGE_TOKENS = 16
"""Length of a passage. A sentence of some 18 words is one passage, so that its hash stands for all of it."""
# A text is wrapped if it has three lines or more, none above 80 bytes, half of them 50 bytes or more.
_WRAPPED_LINES, _LONGEST_LINE, _FULL_LINE = 3, 80, 50
# A full stop after a word or number of fewer bytes ends no sentence: "Mr.", "Gov.", "p.m."; "17. November".
_ABBREVIATION, _ORDINAL = 4, 3
_NEWLINE, _SPACE, _STOP = np.uint8(0x0A), np.uint8(0x20), np.uint8(0x2E)
# Tokens skipped at once in the search for a mark's token; marks are some twenty words apart.
_STRIDE = 8
# A sentence mark may follow the last word and its quotes and brackets.
_MARK_DISTANCE = 4


class Sentences(NamedTuple):
    """Lines and sentences of one text. ends: int32, the token after each; is_sentence: bool, it ends in a sentence
    mark and not at the end of a line."""

    ends: NDArray[np.int32]
    is_sentence: NDArray[np.bool_]


PASSAGE_FIELDS = 6


class Passages(NamedTuple):
    """Passages of a batch, (n,) each. They cut each text without a gap.

    ends: int64, the token after each, of all texts of the batch; hashes: uint32, of its tokens; is_prose: it is part of
    a sentence of prose; is_last: it ends its sentence or line. first_shingles, last_shingles: int64, the shingles that
    begin in the passage and end in its sentence. The kernel writes them as rows of PASSAGE_FIELDS int64.
    """

    ends: NDArray[np.int64]
    hashes: NDArray[np.uint32]
    is_prose: NDArray[np.bool_]
    is_last: NDArray[np.bool_]
    first_shingles: NDArray[np.int64]
    last_shingles: NDArray[np.int64]


@njit(nogil=True, cache=True)
def _is_wrapped(text, stop):
    """Whether the lines of text[:stop] are wrapped, see above."""
    start, lines, full = 0, 0, 0
    for base in range(0, stop, MASKED):
        mask = break_mask(text, base)
        while mask:
            at = base + trailing_zeros(mask)
            mask &= mask - uint64(1)
            if text[at] != _NEWLINE:
                continue
            if at - start > _LONGEST_LINE:
                return False
            lines += 1
            full += at - start >= _FULL_LINE
            start = at + 1
    if stop - start > _LONGEST_LINE:
        return False
    return lines + 1 >= _WRAPPED_LINES and 2 * full >= lines


@njit(nogil=True, cache=True)
def split_sentences(tokens, count, sentences):
    """Find the ends of the lines and sentences of a tokenised text; return how many there are."""
    text, places = tokens.text, tokens.places
    ends, is_sentence = sentences.ends, sentences.is_sentence
    if count <= 0:
        return 0
    n, token = 0, 0
    stop = places[2 * count - 1] + _MARK_DISTANCE
    is_wrapped = _is_wrapped(text, stop)
    for base in range(0, stop, MASKED):
        mask = break_mask(text, base)
        while mask:
            at = base + trailing_zeros(mask)
            mask &= mask - uint64(1)
            if at >= stop:
                break
            if is_wrapped and text[at] == _NEWLINE and text[at + 1] > _SPACE:
                continue
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
                is_short = end == at and end - start < (_ORDINAL if 0x30 <= text[start] <= 0x39 else _ABBREVIATION)
                if is_short and token < count and following != _NEWLINE:
                    continue  # unless it ends the text or a line
            ends[n] = token
            is_sentence[n] = byte != _NEWLINE
            n += 1
    if n == 0 or ends[n - 1] < count:
        ends[n] = count
        is_sentence[n] = False
        n += 1
    return n


@njit(nogil=True, cache=True)
def cut_passages(tokens, words, first_token, letters, width, first_shingle, sentences, n, passages):
    """Write the passages of one text to `passages`, (tokens, PASSAGE_FIELDS) int64; return their number.

    words: uint32, of each token of this text, which begin at first_token of the call. Its shingles, `width` long, begin
    at first_shingle: one for each token or, with `letters`, for each letter. sentences, n: see `split_sentences`.
    """
    kinds, found = tokens.kinds, 0
    has_characters, has_marks = any_character(kinds, words.size), sentences.is_sentence[:n].any()
    start = 0
    for sentence in range(n):
        begin, end = start, sentences.ends[sentence]
        start = end
        is_prose = sentences.is_sentence[sentence] == has_marks
        is_prose &= _length(kinds, has_characters, begin, end) >= (MIN_SENTENCE_UNITS if has_marks else MIN_LINE_UNITS)
        stop = (end if letters is None else letters.starts[end]) - width + 1  # the first shingle that leaves it
        while begin < end:
            until = min(begin + PASSAGE_TOKENS, end)
            if end - until < PASSAGE_TOKENS // 2:
                until = end  # a short rest joins the passage before it
            h = uint64(until - begin)
            for i in range(begin, until):  # each place has its own term, so that the order matters
                h += (uint64(words[i]) + uint64(i - begin) * GOLDEN) * M1
            first, last = (begin, until) if letters is None else (letters.starts[begin], letters.starts[until])
            row = passages[found]
            row[0], row[1] = first_token + until, narrowed(mix(h))
            row[2], row[3] = is_prose, until == end
            row[4], row[5] = first_shingle + first, first_shingle + max(min(last, stop), first)
            found += 1
            begin = until
    return found


@njit(nogil=True, cache=True, inline="always")
def _length(kinds, has_characters, start, end):
    """Length of tokens start to end: two units a word, one a character."""
    length = 2 * (end - start)
    if has_characters:
        for i in range(start, end):
            length -= kinds[i]
    return length
