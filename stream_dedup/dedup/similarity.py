"""Compute the similarities of candidate pairs from their fingerprints, and what the new item has that the known lacks.

In: the fingerprints of new items, the signatures of known ones (the candidates), and pairs of positions in both. Out:
`SIMILARITY` records. A shared key only makes a candidate; the decision rests on these numbers. `measure` compares one
new item with its candidates and is compiled: resolve.py calls it for each item in turn, and `compare` for a list.

By default, Jaccard and containment are estimated from sketches. With `fingerprint.verify = "exact"` the shingle sets of
the bodies are compared exactly. If the body is a SimHash, its Hamming distance takes their place.

What is new is asked of the **article** of the new item: its sentences of prose without passages that recur in other
originals (boilerplate.py). An item with hardly any article is asked as a whole, with its headline.

Sources: sketches.py; containment from Jaccard and sizes: |A∩B| = J·(|A|+|B|)/(1+J); the angle of a SimHash, Charikar
2002.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import Boilerplate, is_boilerplate, touch
from stream_dedup.dedup.sketches import compare_headlines, compare_sketches
from stream_dedup.fingerprint.bits import bit_count
from stream_dedup.fingerprint.fingerprint import Fingerprints, Texts
from stream_dedup.fingerprint.minhash import sketch
from stream_dedup.fingerprint.packed_sets import HASH_BITS, MAX_MEMBERS, common, decode, join
from stream_dedup.fingerprint.shingles import distinct, slots_for
from stream_dedup.fingerprint.word_filter import FILTER_BITS, FULL, absence, has_number, has_word, write_absent

HOUR = 3_600_000
"""In milliseconds."""
_SIZE_OFFSET = 5  # shingles added to both sizes in their ratio, so that two near-empty pages count as equally long
_CUT = np.uint64(64 - HASH_BITS)
_NAN = np.float32(np.nan)
_NO_ENTRIES = np.zeros((4, 4), np.uint32)
_FEW = 15
"""Tokens of an article below which the whole text is asked what is new."""
# A sentence counts as new if the original lacks this share of its words, and it has some words.
_NEW_SHARE, _SENTENCE_TOKENS = 0.35, 5

SIMILARITY = np.dtype(
    [
        # Jaccard of the bodies; of SimHashes, the cosine that their distance estimates.
        ("body", "<f4"),
        ("containment", "<f4"),  # share of the smaller body that the other contains
        ("coverage", "<f4"),  # share of the new body that the known one contains
        ("article_coverage", "<f4"),  # the same of its article, or of the body where there is hardly an article
        ("headline", "<f4"),  # Jaccard of the headlines
        # Share of a headline's words that its own text contains, the larger of the two: .4 or more in articles, .2 or
        # less in pages whose text is menus, notices or a login form.
        ("grounded", "<f4"),
        ("distance", "<f4"),  # of SimHashes, bits
        ("log_size_ratio", "<f4"),  # natural logarithm of the ratio of body sizes, new to known
        ("apart", "<f4"),  # hours between the two
        ("article_share", "<f4"),  # article of the new item, as a share of its tokens
        ("article_tokens", "<f4"),
        ("words", "<f4"),  # words of the article, and how many of them the known item lacks
        ("new_words", "<f4"),
        ("new_sentences", "<f4"),  # words in sentences of the article that are new for the most part
        ("numbers", "<f4"),  # distinct figures of its prose, and how many of them the known item lacks
        ("new_numbers", "<f4"),
        ("new_numbers_anywhere", "<f4"),  # of the whole text
        ("headline_numbers", "<f4"),  # the same of its headline
        ("new_headline_numbers", "<f4"),
        ("new_headline_words", "<f4"),
        ("smaller_size", "<u4"),  # distinct shingles of the smaller body
        # The mark of a filled-in template: each headline has a word that the other headline lacks and its own text
        # contains, and that word of the known headline is missing in the new text. (The words of two headlines for one
        # text are in both texts.)
        ("swapped", "?"),
        ("same_form", "?"),  # the headlines differ in numbers at most
        ("same_source", "?"),
        ("same_text", "?"),
        ("same_id", "?"),
        ("within_hamming", "?"),  # the distance is at most the scheme's
        ("corrects", "?"),  # the new headline marks a correction, and differs from the known one
    ],
    align=True,
)
"""Similarities of a pair of a new and a known item: shares in 0..1 unless stated otherwise. NaN where one of the two
lacks the view, and in all that novelty needs where it is not asked."""
_FLOATS = [name for name in SIMILARITY.names or () if SIMILARITY[name] == np.float32]


class Views(NamedTuple):
    """The columns of n signatures that are compared; (n, 0) where the family has none. bodies, bounds: for exact
    comparison the packed bodies, joined, and (n + 1,) where each begins; else empty.
    """

    digest: NDArray[np.uint64]
    row_id: NDArray[np.uint64]
    source: NDArray[np.uint64]
    time: NDArray[np.int64]
    headline: NDArray[np.uint16]
    headline_size: NDArray[np.uint16]
    body: NDArray[np.uint8]
    body_size: NDArray[np.uint32]
    words: NDArray[np.uint8]
    form: NDArray[np.uint8]
    simhash: NDArray[np.uint64]
    bodies: NDArray[np.uint8]
    bounds: NDArray[np.int64]


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
_TOKENS, _ARTICLE, _ASKED, _SENTENCES, _NUMBERS, _SHINGLES = range(6)


def unknown(pairs: int) -> NDArray[np.void]:
    """Room for the similarities of pairs, (pairs,) SIMILARITY: nothing is known yet."""
    similar = np.zeros(pairs, SIMILARITY)
    for name in _FLOATS:
        similar[name] = _NAN
    return similar


def views_of(signatures: NDArray[np.void], bodies: Sequence[bytes] = ()) -> Views:
    """The columns of (n,) signatures, as views. One signature is doubled: to numba one row is another type than two."""
    if len(signatures) == 1:
        signatures, bodies = np.concatenate([signatures, signatures]), [*bodies, *bodies]
    n, names = len(signatures), signatures.dtype.names or ()
    packed, bounds = join(bodies) if bodies else (np.zeros(0, np.uint8), np.zeros(0, np.int64))
    columns: dict[str, Any] = {
        "headline": np.zeros((n, 0), np.uint16),
        "body": np.zeros((n, 0), np.uint8),
        "words": np.zeros((n, 0), np.uint8),
        "form": np.zeros(n, np.uint8),
        "simhash": np.zeros((n, 0), np.uint64),
        "bodies": packed,
        "bounds": bounds,
    }
    return Views(**columns | {name: signatures[name] for name in Views._fields if name in names})


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
    return News(new.words, marks, new.hamming, new.texts, True, table.entries, table.starts(horizons))


def scratch_for(news: News, views: Views) -> Scratch:
    """`Scratch` for `measure`."""
    ends, firsts, lasts = news.texts.passages.ends, news.texts.firsts, news.texts.lasts
    starts = np.append(0, ends)
    has = lasts[:, 0] > firsts[:, 0]
    most = int((ends[lasts[has, 0] - 1] - starts[firsts[has, 0]]).max(initial=0))
    figures = int((lasts[:, 1] - firsts[:, 1]).max(initial=0))
    passages = news.texts.passages
    runs = passages.last_shingles[lasts[has, 0] - 1] - passages.first_shingles[firsts[has, 0]]
    shingles = int(runs.max(initial=0))
    bins, members = 2 * views.body.shape[1], MAX_MEMBERS if views.bounds.size else 0
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


def compare(
    new: Fingerprints,
    known: NDArray[np.void],
    new_of_pair: NDArray[np.integer],
    known_of_pair: NDArray[np.integer],
    bodies: Sequence[bytes] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
    corrects: NDArray[np.bool_] | None = None,
) -> NDArray[np.void]:
    """Compare new[new_of_pair[p]] with the signature known[known_of_pair[p]], for every pair p: (pairs,) SIMILARITY.

    bodies: for exact comparison, the packed bodies of `known`; None: `known` are the signatures of `new`. boilerplate:
    the table of recurring passages, and (n,) the begin of each new item's window, ms; None: novelty is not asked.
    corrects: (n,) the headlines that mark a correction; None: none does. O(pairs · (bytes of a signature, or of two
    packed bodies, + words of the article)); fastest if the pairs are ordered by new item.
    """
    a, b = new_of_pair.astype(np.int64), known_of_pair.astype(np.int64)
    similar = unknown(len(a))
    left = views_of(new.signatures, new.bodies)
    right = views_of(known, new.bodies if bodies is None else bodies) if new.bodies else views_of(known)
    news = news_of(new, corrects, boilerplate)
    _compare(similar, news, left, right, a, b, scratch_for(news, left))
    return similar


@njit(nogil=True, cache=True)
def _compare(similar, news, left, right, a, b, scratch):
    p = 0
    while p < a.size:
        end = p
        while end < a.size and a[end] == a[p]:
            end += 1
        for k in range(p, end):
            similar[k].apart = abs(left.time[a[p]] - right.time[b[k]]) / HOUR
        measure(similar, p, news, a[p], left, right, b[p:end], scratch)
        p = end


@njit(nogil=True, cache=True)
def measure(similar, first, news, i, left, right, slots, scratch):
    """Write into similar[first + k] the similarities of new item i, signature left[i], and the known right[slots[k]].

    `apart` is given. One call for all candidates of an item, because passing these arrays costs more than comparing.
    """
    n, headline_size = np.int64(left.body_size[i]), left.headline_size[i]
    is_simhash, is_exact = left.simhash.shape[1] > 0, left.bounds.size > 0
    body, headline, words = left.body[i], left.headline[i], news.words[i]
    for k in range(slots.size):
        s, j = similar[first + k], slots[k]
        m = np.int64(right.body_size[j])
        has_bodies = n > 0 and m > 0
        s.distance = s.body = s.containment = s.coverage = _NAN
        if is_simhash:
            if has_bodies:
                differ = np.int64(0)
                for word in range(left.simhash.shape[1]):
                    differ += np.int64(bit_count(left.simhash[i, word] ^ right.simhash[j, word]))
                s.distance = differ
                s.body = max(math.cos(math.pi / (64 * left.simhash.shape[1]) * differ), 0.0)
        elif has_bodies and is_exact:
            if scratch.decoded[0] != i:
                scratch.decoded[0] = i
                decode(left.bodies, left.bounds[i], left.bounds[i + 1], n, scratch.left)
            decode(right.bodies, right.bounds[j], right.bounds[j + 1], m, scratch.right)
            shared, n_of, m_of = common(scratch.left, min(n, MAX_MEMBERS), n, scratch.right, min(m, MAX_MEMBERS), m)
            s.body = shared / max(n_of + m_of - shared, 1)
            s.containment = shared / max(min(n_of, m_of), 1)
        elif has_bodies:
            s.body, s.containment = compare_sketches(body, right.body[j], n, m)
        if not is_simhash:
            s.coverage = _share_of_new(s.body, n, m)
        s.headline = s.grounded = _NAN
        s.swapped = False
        if headline.size > 0 and headline_size > 0 and right.headline_size[j] > 0:
            s.headline, s.swapped, s.grounded = compare_headlines(
                headline, right.headline[j], np.int64(headline_size), np.int64(right.headline_size[j]), words
            )
        s.smaller_size = min(n, m)
        s.same_form = left.form[i] == right.form[j] and left.form[i] > 0
        s.same_source = left.source[i] == right.source[j] and left.source[i] != 0
        s.same_text = left.digest[i] == right.digest[j]
        s.same_id = left.row_id[i] == right.row_id[j]
        s.within_hamming = s.distance <= news.hamming
        s.log_size_ratio = math.log((n + _SIZE_OFFSET) / (m + _SIZE_OFFSET))
        s.corrects = news.corrects[i] and not s.headline >= 1
        s.words = s.new_words = _NAN
        if not news.asks_novelty:
            continue
        if scratch.item[0] != i:
            scratch.item[0] = i
            _gather(news, i, is_exact, scratch)
        size = min(scratch.counts[_SHINGLES], n)  # of a doubled text, too many
        s.article_coverage = s.coverage
        if size > 0 and is_exact:
            contained = 0.0
            if m > 0:
                if not has_bodies:
                    decode(right.bodies, right.bounds[j], right.bounds[j + 1], m, scratch.right)
                of_prose = min(size, MAX_MEMBERS)
                shared, n_of, _ = common(scratch.prose, of_prose, size, scratch.right, min(m, MAX_MEMBERS), m)
                contained = shared / max(n_of, 1)
            s.article_coverage = contained
        elif size > 0:
            alike = compare_sketches(scratch.sketch, right.body[j], size, m)[0] if m > 0 else 0.0
            s.article_coverage = _share_of_new(alike, size, m)
        _find_new(s, news, i, right.words[j], scratch)


@njit(nogil=True, cache=True, inline="always")
def _share_of_new(jaccard, n, m):
    """Share of a new set of n that the known one of m contains: |A∩B| = J·(|A|+|B|)/(1+J). 0 if J is NaN."""
    alike = np.float64(jaccard)
    if not alike > 0:
        return 0.0
    return min(alike / (1 + alike) * (n + m) / max(n, 1), 1.0)


@njit(nogil=True, cache=True, inline="always")
def _find_new(s, news, i, known, scratch):
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
def _gather(news, item, is_exact, scratch):
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
    counts[_SHINGLES] = shingles  # with repeats in a sketch, where they hardly count
