"""Find out what a new item has that a known one lacks: words, sentences and figures; and say so in a few words.

In: the texts of new items, and the word filter of a known one. Out: counts in a `SIMILARITY` record, which the decision
asks; and for the reader of an update, at most 200 bytes: that the headline is new, the first new numbers as written,
and the sentence with the most new words. The known text is not at hand: a word counts as new if its filter lacks it.

What is new is asked of the **article** of the new item: its sentences of prose without passages that recur in other
originals (boilerplate.py). An item with hardly any article is asked as a whole, with its headline.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import Boilerplate, in_seconds, is_boilerplate, touch
from stream_dedup.dedup.passages import word_spans
from stream_dedup.fingerprint.fingerprint import Fingerprints, Texts
from stream_dedup.fingerprint.packed_sets import HASH_BITS, MAX_MEMBERS
from stream_dedup.fingerprint.shingles import distinct, sketch, slots_for
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
# A sentence counts as new if the original lacks this share of its words, and it has some words.
_NEW_SHARE, _SENTENCE_TOKENS = 0.35, 5
MOST_BYTES = 200
_MOST_NUMBERS = 4


class News(NamedTuple):
    """What is known of n new items, and not stored. words: (n, 4096) of `Fingerprints`; corrects: (n,) headlines that
    mark a correction; hamming: of the scheme; asks_novelty: the texts are compared; entries: of `Boilerplate`; starts:
    (n,) begins of their windows, in its unit.
    """

    words: NDArray[np.uint8]
    corrects: NDArray[np.bool_]
    hamming: int
    texts: Texts
    asks_novelty: bool
    entries: NDArray[np.uint32]
    starts: NDArray[np.uint32]


class Scratch(NamedTuple):
    """The article of the item at hand, and room to work in.

    item: whose article it is, or -1; decoded: whose body `left` holds; counts: see below; recurs: passages that are
    boilerplate; touched: of no use. places: of its tokens in a filter; lacks: the places that the known item lacks;
    ends: of its sentences; numbers, in_prose: its figures; sketch, or prose as a set: its shingles.
    """

    item: NDArray[np.int64]
    decoded: NDArray[np.int64]
    counts: NDArray[np.int64]
    recurs: NDArray[np.bool_]
    touched: NDArray[np.uint32]
    places: NDArray[np.uint16]
    lacks: NDArray[np.uint8]
    ends: NDArray[np.int32]
    numbers: NDArray[np.uint32]
    in_prose: NDArray[np.bool_]
    sketch: NDArray[np.uint8]
    shingles: NDArray[np.uint64]
    slots: NDArray[np.uint32]
    minima: NDArray[np.uint64]
    prose: NDArray[np.uint32]
    left: NDArray[np.uint32]
    right: NDArray[np.uint32]


# Positions in `Scratch.counts`: tokens, of the whole text, of its article and of what is asked; sentences and distinct
# figures of what is asked; shingles of the article.
_TOKENS, _ARTICLE, _ASKED, _SENTENCES, _NUMBERS, SHINGLES = range(6)


def news_of(
    new: Fingerprints,
    corrects: NDArray[np.bool_] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
) -> News:
    """`News` of new items. The other arguments are those of `compare`."""
    n = len(new.signatures)
    marks = np.zeros(n, np.bool_) if corrects is None else corrects
    if boilerplate is None or new.texts is None:
        texts = new.texts or Texts.nothing(n)
        return News(new.words, marks, new.hamming, texts, False, _NO_ENTRIES, np.zeros(n, np.uint32))
    table, horizons = boilerplate
    return News(new.words, marks, new.hamming, new.texts, True, table.entries, in_seconds(horizons))


def scratch_for(news: News, sketch_bytes: int, is_exact: bool) -> Scratch:
    """`Scratch` for `similarity.measure`."""
    ends, firsts, lasts = news.texts.passages.ends, news.texts.firsts, news.texts.lasts
    starts = np.append(0, ends)
    has = lasts[:, 0] > firsts[:, 0]
    most = int((ends[lasts[has, 0] - 1] - starts[firsts[has, 0]]).max(initial=0))
    figures = int((lasts[:, 1] - firsts[:, 1]).max(initial=0))
    passages = news.texts.passages
    runs = passages.last_shingles[lasts[has, 0] - 1] - passages.first_shingles[firsts[has, 0]]
    shingles = int(runs.max(initial=0))
    bins, members = 2 * sketch_bytes, MAX_MEMBERS if is_exact else 0
    return Scratch(
        np.full(1, -1),
        np.full(1, -1),
        np.zeros(6, np.int64),
        np.empty(int((lasts[:, 0] - firsts[:, 0]).max(initial=0)), np.bool_),
        np.zeros(1, np.uint32),
        np.empty(most, np.uint16),
        np.zeros(FILTER_BITS + 1, np.uint8),
        np.empty(most, np.int32),
        np.empty(figures, np.uint32),
        np.empty(figures, np.bool_),
        np.zeros(bins // 2, np.uint8),
        np.empty(shingles, np.uint64),
        np.empty(slots_for(max(figures, shingles)), np.uint32),
        np.empty(bins, np.uint64),
        np.empty(shingles if members else 0, np.uint32),
        np.empty(members, np.uint32),
        np.empty(members, np.uint32),
    )


@njit(nogil=True, cache=True, inline="always")
def find_new(s, news, i, known, scratch):
    """Count the words and figures of the item that `known`, the filter of a known item, lacks."""
    counts, places, lacks = scratch.counts, scratch.places, scratch.lacks
    write_absent(known, lacks)
    each_word, each_number = absence(known)
    is_article = counts[_ARTICLE] >= _FEW
    new, new_sentences, start = 0.0, 0.0, 0
    for sentence in range(counts[_SENTENCES]):
        end, absent = scratch.ends[sentence], 0
        for k in range(start, end):
            absent += lacks[places[k]]
        new += absent
        if end - start >= _SENTENCE_TOKENS and absent * each_word >= _NEW_SHARE * (end - start):
            new_sentences += end - start
        start = end
    if each_word >= FULL:  # a longer text has nearly all words: ask its shingles
        new = new_sentences = (1 - s.article_coverage) * counts[_ASKED]
        each_word = 1.0
    s.new_sentences = new_sentences if is_article else 0
    numbers, anywhere, in_prose = 0, 0, 0
    for k in range(counts[_NUMBERS]):
        is_absent = not has_number(known, scratch.numbers[k])
        anywhere += is_absent
        if scratch.in_prose[k] or not is_article:
            numbers += 1
            in_prose += is_absent
    s.numbers, s.new_numbers, s.new_numbers_anywhere = numbers, in_prose * each_number, anywhere * each_number
    of_headline, new_of_headline = 0, 0
    for h in news.texts.headline_words[i]:
        if h:
            of_headline += 1
            new_of_headline += not has_word(known, h)
    s.new_headline_words = new_of_headline
    s.words, s.new_words = counts[_ASKED], new * each_word
    if not is_article:
        s.words += of_headline
        s.new_words += new_of_headline
    # No known shingle has a new word. This bounds what a sketch says of a short article and a long page.
    s.article_coverage = min(s.article_coverage, max(1 - s.new_words / max(s.words, 1), 0.0))
    of_headline, new_of_headline = 0, 0
    for h in news.texts.headline_numbers[i]:
        if h:
            of_headline += 1
            new_of_headline += not has_number(known, h)
    s.headline_numbers, s.new_headline_numbers = of_headline, new_of_headline
    s.article_tokens, s.article_share = counts[_ARTICLE], counts[_ARTICLE] / max(counts[_TOKENS], 1)


@njit(nogil=True, cache=True, inline="always")
def _recognise(news, item, first, last, of_prose, recurs, scratch):
    """Find out which passages of the item recur, of its prose or of the rest."""
    passages, start = news.texts.passages, news.starts[item]
    touched = np.uint32(0)
    for p in range(first, last):  # the table exceeds the cache: reads ahead make the cache misses overlap
        if passages.is_prose[p] == of_prose:
            touched |= touch(news.entries, passages.hashes[p])
    scratch.touched[0] = touched
    for p in range(first, last):
        if passages.is_prose[p] == of_prose:
            recurs[p - first] = is_boilerplate(news.entries, passages.hashes[p], start)


@njit(nogil=True, cache=True)
def gather(news, item, is_exact, scratch):
    """Fill in what the item is asked for: tokens, figures and shingles of its article.

    The article is sketched like a body and compared with the known body: the share follows from their Jaccard and
    sizes. So it needs no additional bytes per original.
    """
    texts, passages, counts = news.texts, news.texts.passages, scratch.counts
    first, last = texts.firsts[item, 0], texts.lasts[item, 0]
    begin = passages.ends[first - 1] if first else 0
    counts[:] = 0
    recurs = scratch.recurs[: last - first]
    article, start = 0, begin
    _recognise(news, item, first, last, True, recurs, scratch)
    for p in range(first, last):
        article += (passages.ends[p] - start) * (passages.is_prose[p] and not recurs[p - first])
        start = passages.ends[p]
    is_article = article >= _FEW
    if not is_article:
        _recognise(news, item, first, last, False, recurs, scratch)
    counts[_TOKENS], counts[_ARTICLE] = start - begin, article
    start, asked, sentences, shingles = begin, 0, 0, 0
    for p in range(first, last):
        end = passages.ends[p]
        if (passages.is_prose[p] or not is_article) and not recurs[p - first]:
            for k in range(start, end):
                scratch.places[asked] = texts.words[k]
                asked += 1
            if is_article:
                for k in range(passages.first_shingles[p], passages.last_shingles[p]):
                    scratch.shingles[shingles] = texts.shingles[k]
                    shingles += 1
        if passages.is_last[p] and asked > (scratch.ends[sentences - 1] if sentences else 0):
            scratch.ends[sentences] = asked
            sentences += 1
        start = end
    counts[_ASKED], counts[_SENTENCES] = asked, sentences
    slots = scratch.slots
    size = slots_for(scratch.numbers.size)
    mask = size - 1
    # -- figures
    slots[:size] = 0
    p, found = first, 0
    for k in range(texts.firsts[item, 1], texts.lasts[item, 1]):
        while p < last - 1 and passages.ends[p] <= texts.numbers.tokens[k]:
            p += 1
        value = texts.numbers.values[k]
        slot = np.int64(value) & mask
        while slots[slot] and scratch.numbers[slots[slot] - 1] != value:
            slot = (slot + 1) & mask
        if slots[slot] == 0:
            scratch.numbers[found], scratch.in_prose[found] = value, False
            found += 1
            slots[slot] = found
        scratch.in_prose[slots[slot] - 1] |= passages.is_prose[p]
    counts[_NUMBERS] = found
    # -- shingles
    if is_exact:
        shingles = distinct(scratch.shingles, shingles, slots, scratch.shingles)
        for k in range(shingles):
            scratch.prose[k] = np.uint32(scratch.shingles[k] >> _CUT)
        scratch.prose[:shingles].sort()
    else:
        sketch(scratch.shingles, shingles, scratch.minima, scratch.sketch)
    counts[SHINGLES] = shingles  # with repeats in a sketch, where they hardly count


# -- in words ----------------------------------------------------------------------------------------------------------


def describe_additions(item: Item, texts: Texts, i: int, known: NDArray[np.uint8]) -> str:
    """Describe what item i of `texts` adds; "" if nothing can be named. known: (96,) filter of the original.

    O(characters), some 20 µs for a text of 3 KB.
    """
    numbers = np.empty(_MOST_NUMBERS, np.int64)
    tokens, begin, end, found, is_headline_new = _most_new(texts, i, known, numbers)
    spans = word_spans(item.text)
    parts = ["new headline"] * is_headline_new
    if len(spans) == tokens:  # segmented Chinese has other words
        written = [_number_at(item.text, *spans[k].tolist()) for k in numbers[:found].tolist()]
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
def _most_new(texts, i, known, numbers):
    """Return the number of tokens of text i, the bounds of its sentence with the most new words, and how many new
    numbers stand in `numbers`, as positions of tokens; and whether a word of its headline is new.
    """
    passages = texts.passages
    first, last = texts.firsts[i, 0], texts.lasts[i, 0]
    start = passages.ends[first - 1] if first else 0
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
    found = 0
    for k in range(texts.firsts[i, 1], texts.lasts[i, 1]):
        if found < numbers.size and not has_number(known, texts.numbers.values[k]):
            numbers[found] = texts.numbers.tokens[k] - start
            found += 1
    is_headline_new = False
    for h in texts.headline_words[i]:
        is_headline_new |= h != 0 and not has_word(known, h)
    return begin - start, best_begin, best_end, found, is_headline_new
