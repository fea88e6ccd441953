"""Find out what a new item has that a known one lacks: words, sentences and figures; and say so in a few words.

In: the texts of new items, and the word filter of a known one. Out: counts in a `SIMILARITY` record, which the decision
asks; and for the reader of an update, at most 200 bytes: that the headline is new, the first new numbers as written,
and the sentence with the most new words. The known text is not at hand: a word counts as new if its filter lacks it.

What is new is asked of the **article** of the new item: its sentences of prose without passages that recur in other
originals (boilerplate.py). An item with hardly any article is asked as a whole, with its headline.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.compiled import njit
from stream_dedup.dedup.former_boilerplate import Boilerplate, in_seconds, is_boilerplate, touch
from stream_dedup.dedup.passages import word_spans
from stream_dedup.fingerprint.fingerprint import Fingerprints, Texts
from stream_dedup.fingerprint.packed_sets import HASH_BITS
from stream_dedup.fingerprint.shingles import sketch
from stream_dedup.fingerprint.word_filter import (
    FILTER_BITS,
    FULL,
    NO_WORD,
    absence,
    has_bit,
    has_number,
    has_word,
    write_absent,
)
from stream_dedup.news.item import Item

_CUT = np.uint64(64 - HASH_BITS)
_NO_ENTRIES = np.zeros((4, 4), np.uint32)
_FEW = 15
"""Tokens of an article below which the whole text is asked what is new."""
# A sentence counts as new if the original lacks this share of its words, and it has some words. A text without sentence
# marks, as a transcript, is cut into windows of passages (16 words) instead.
_NEW_SHARE, _SENTENCE_TOKENS, _WINDOW_TOKENS = 0.35, 5, 24
# A page four times as long: then the bins that are equal by chance weigh as much as a quarter of the article.
_FAR_LONGER = -math.log(4)
# The words that may be new are those found, and this many standard deviations of a Poisson count above them.
_DOUBT = 2.0
MOST_BYTES = 200
_MOST_NUMBERS = 4


class News(NamedTuple):
    """What is known of n new items, and not stored.

    words: (n, 4096) of `Fingerprints`; corrects: (n,) `corrections`; hamming: of the scheme; asks_novelty: the texts
    are compared; entries: of `Boilerplate`; starts: (n,) begins of their windows, in its unit.
    """

    words: NDArray[np.uint8]
    corrects: NDArray[np.int8]
    hamming: int
    texts: Texts
    asks_novelty: bool
    entries: NDArray[np.uint32]
    starts: NDArray[np.uint32]


class Article(NamedTuple):
    """What an item is asked for: its article, or its whole text if it has hardly any article.

    tokens: of the whole text; length: tokens of the article. places: in a filter, of the tokens asked for; ends: of
    their sentences; figures: each once, with 1 in the lowest bit if no prose has it. sketch, or members as a set: the
    shingles of the article; shingles: their number, in a sketch with repeats, which hardly count. lacks: room for the
    places that a known item lacks.
    """

    tokens: int
    length: int
    places: NDArray[np.uint16]
    ends: NDArray[np.int64]
    figures: NDArray[np.int64]
    sketch: NDArray[np.uint8]
    members: NDArray[np.uint32]
    shingles: int
    lacks: NDArray[np.uint8]


def news_of(
    new: Fingerprints,
    corrects: NDArray[np.int8] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
) -> News:
    """`News` of new items. The other arguments are those of `compare`."""
    n = len(new.signatures)
    marks = np.zeros(n, np.int8) if corrects is None else corrects
    if boilerplate is None or new.texts is None:
        return News(new.words, marks, new.hamming, Texts.nothing(n), False, _NO_ENTRIES, np.zeros(n, np.uint32))
    table, horizons = boilerplate
    return News(
        new.words,
        marks,
        new.hamming,
        new.texts,
        True,
        table.entries.view(np.uint32).reshape(-1, 4),
        in_seconds(horizons),
    )


@njit(nogil=True, cache=True, inline="always")
def _text_bounds(texts, i):
    """The first passage of text i, the one after its last, and its first token."""
    first, last = texts.firsts[i, 0], texts.lasts[i, 0]
    return first, last, texts.passages.ends[first - 1] if first else 0


@njit(nogil=True, cache=True, inline="always")
def find_new(s, news, i, headline, known, known_figures, article):
    """Count the words and figures of the item that a known item lacks.

    headline: of the item's signature; known, known_figures: the filters of the known item.
    """
    places, lacks = article.places, article.lacks
    write_absent(known, lacks)
    each_word, each_number = absence(known, known_figures)
    is_article = article.length >= _FEW
    new, new_sentences, start = 0.0, 0.0, 0
    sentences, touched = 0, 0
    for end in article.ends:
        absent = 0
        for k in range(start, end):
            absent += lacks[places[k]]
        new += absent
        if end - start >= _SENTENCE_TOKENS:
            sentences += 1
            touched += absent > 0
            if absent * each_word >= _NEW_SHARE * (end - start):
                new_sentences += end - start
        start = end
    may_be_new = (new + _DOUBT * math.sqrt(new + 1)) * each_word
    if each_word >= 2 and s.log_size_ratio < _FAR_LONGER:  # what cannot be known is not held
        new = new + _DOUBT * math.sqrt(new + 1)
    if each_word >= FULL:  # a longer text has nearly all words: ask its shingles
        if s.log_size_ratio < _FAR_LONGER:  # of which chance has as many: nothing is known
            s.article_coverage = 0
        new = new_sentences = may_be_new = (1 - s.article_coverage) * places.size
        each_word = 1.0
    s.new_sentences = new_sentences if is_article else 0
    s.spread = touched / max(sentences, 1)
    numbers, anywhere, in_prose = 0, 0, 0
    for figure in article.figures:
        is_absent = not has_number(known, known_figures, np.uint32(figure >> 1))
        anywhere += is_absent
        if figure & 1 == 0 or not is_article:
            numbers += 1
            in_prose += is_absent
    s.numbers, s.new_numbers, s.new_numbers_anywhere = numbers, in_prose * each_number, anywhere * each_number
    of_headline, new_of_headline, gains = 0, 0, 0
    for k, h in enumerate(news.texts.headline_words[i]):
        if h and not has_word(known, h):
            new_of_headline += 1
            gains += headline[k] & 1
        of_headline += h != 0
    s.new_headline_words, s.headline_gains = new_of_headline, gains
    s.words, s.new_words = places.size, new * each_word
    if not is_article:
        s.words += of_headline
        s.new_words += new_of_headline
    # No known shingle has a new word. This bounds what a sketch says of a short article and a long page.
    s.article_coverage = min(s.article_coverage, max(1 - max(may_be_new, s.new_words) / max(s.words, 1), 0.0))
    of_headline, new_of_headline, figures = 0, 0, 0
    for h in news.texts.headline_numbers[i]:
        if h and not has_number(known, known_figures, h):
            new_of_headline += 1
            for figure in article.figures:
                figures += np.uint32(figure >> 1) == h
        of_headline += h != 0
    s.headline_numbers, s.new_headline_numbers, s.headline_figures = of_headline, new_of_headline, figures
    s.article_tokens, s.article_share = article.length, article.length / max(article.tokens, 1)


@njit(nogil=True, cache=True, inline="always")
def _recognise(news, item, first, last, of_prose, recurs):
    """Find out which passages of the item recur, of its prose or of the rest. The result is of no use, see `touch`."""
    passages, start = news.texts.passages, news.starts[item]
    touched = np.uint32(0)
    for p in range(first, last):  # the table exceeds the cache: reads ahead make the cache misses overlap
        if passages.is_prose[p] == of_prose:
            touched |= touch(news.entries, passages.hashes[p])
    for p in range(first, last):
        if passages.is_prose[p] == of_prose:
            recurs[p - first] = is_boilerplate(news.entries, passages.hashes[p], start)
    return touched


@njit(nogil=True, cache=True)
def article_of(news, item, sketch_bytes, is_exact):
    """The `Article` of an item.

    It is sketched like a body and compared with the known body: the share follows from their Jaccard and sizes. So it
    needs no additional bytes per original.
    """
    texts, passages = news.texts, news.texts.passages
    first, last, begin = _text_bounds(texts, item)
    recurs, lacks = np.empty(last - first, np.bool_), np.zeros(FILTER_BITS + 1, np.uint8)
    length, start = 0, begin
    touched = _recognise(news, item, first, last, True, recurs)
    for p in range(first, last):
        length += (passages.ends[p] - start) * (passages.is_prose[p] and not recurs[p - first])
        start = passages.ends[p]
    is_article = length >= _FEW
    if not is_article:
        touched |= _recognise(news, item, first, last, False, recurs)
    lacks[0] = touched & 1  # use the reads ahead; it is overwritten
    tokens, most = start - begin, 0
    if last > first:
        most = passages.last_shingles[last - 1] - passages.first_shingles[first]
    places, ends, shingles = np.empty(tokens, np.uint16), np.empty(last - first, np.int64), np.empty(most, np.uint64)
    start, asked, sentences, count = begin, 0, 0, 0
    for p in range(first, last):
        end = passages.ends[p]
        if (passages.is_prose[p] or not is_article) and not recurs[p - first]:
            for k in range(start, end):
                places[asked] = texts.words[k]
                asked += 1
            if is_article:
                for k in range(passages.first_shingles[p], passages.last_shingles[p]):
                    shingles[count] = texts.shingles[k]
                    count += 1
        window = asked - (ends[sentences - 1] if sentences else 0)
        if window >= _WINDOW_TOKENS or (passages.is_last[p] and window > 0):
            ends[sentences] = asked
            sentences += 1
        start = end
    first_figure, last_figure = texts.firsts[item, 1], texts.lasts[item, 1]
    figures, found, p = np.empty(last_figure - first_figure, np.int64), 0, first
    for k in range(first_figure, last_figure):
        while p < last - 1 and passages.ends[p] <= texts.numbers.tokens[k]:
            p += 1
        figures[k - first_figure] = np.int64(texts.numbers.values[k]) << 1 | (not passages.is_prose[p])
    figures.sort()
    for figure in figures:  # of equal figures, one in prose comes first
        if found == 0 or figures[found - 1] >> 1 != figure >> 1:
            figures[found] = figure
            found += 1
    sketched, members = np.zeros(sketch_bytes, np.uint8), np.empty(0, np.uint32)
    if is_exact:
        distinct = np.unique(shingles[:count])
        members, count = np.empty(distinct.size, np.uint32), distinct.size
        for k in range(count):
            members[k] = distinct[k] >> _CUT
    else:
        sketch(shingles, count, np.empty(2 * sketch_bytes, np.uint64), sketched)
    return Article(tokens, length, places[:asked], ends[:sentences], figures[:found], sketched, members, count, lacks)


# -- in words ----------------------------------------------------------------------------------------------------------


def describe_additions(item: Item, texts: Texts, i: int, known: NDArray[np.uint8], figures: np.uint64) -> str:
    """Describe what item i of `texts` adds; "" if nothing can be named. known, figures: the filters of the original.

    O(characters), some 20 µs for a text of 3 KB.
    """
    tokens, begin, end, numbers, is_headline_new = _most_new(texts, i, known, figures)
    spans = word_spans(item.text)
    parts = ["new headline"] * is_headline_new
    if len(spans) == tokens:  # segmented Chinese has other words
        written = [_number_at(item.text, *spans[k].tolist()) for k in numbers.tolist()]
        parts += ["numbers: " + ", ".join(dict.fromkeys(written))] if written else []
        if end > begin:
            parts.append(" ".join(item.text[spans[begin, 0] : spans[end - 1, 1]].split()))
    return _shortened("; ".join(parts))


def _number_at(text: str, start: int, stop: int) -> str:
    """The number that begins with this word, and goes on behind a point or comma."""
    while stop + 1 < len(text) and text[stop] in ".,:" and text[stop + 1].isdigit():
        stop += 1
        while stop < len(text) and text[stop].isdigit():
            stop += 1
    return text[start:stop]


def _shortened(text: str) -> str:
    """Cut a text to `MOST_BYTES` of UTF-8, with "…" at the end if something is missing.

    >>> len(_shortened("ä" * 150).encode()), _shortened("short")
    (199, 'short')
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= MOST_BYTES:
        return text
    return data[: MOST_BYTES - 3].decode("utf-8", "ignore").rstrip() + "…"


@njit(nogil=True, cache=True)
def _most_new(texts, i, known, known_figures):
    """Return the number of tokens of text i, the bounds of its sentence with the most new words, its first new numbers
    as positions of tokens, and whether a word of its headline is new.
    """
    passages = texts.passages
    first, last, start = _text_bounds(texts, i)
    begin, sentence, most, new, best_begin, best_end = start, start, 0, 0, 0, 0
    for p in range(first, last):
        for k in range(begin, passages.ends[p]):
            place = texts.words[k]
            new += place < NO_WORD and not has_bit(known, place)
        begin = passages.ends[p]
        if passages.is_last[p]:
            if passages.is_prose[p] and new > most:
                most, best_begin, best_end = new, sentence - start, begin - start
            sentence, new = begin, 0
    numbers, found = np.empty(_MOST_NUMBERS, np.int64), 0
    for k in range(texts.firsts[i, 1], texts.lasts[i, 1]):
        if found < numbers.size and not has_number(known, known_figures, texts.numbers.values[k]):
            numbers[found] = texts.numbers.tokens[k] - start
            found += 1
    is_headline_new = False
    for h in texts.headline_words[i]:
        is_headline_new |= h != 0 and not has_word(known, h)
    return begin - start, best_begin, best_end, numbers[:found], is_headline_new
