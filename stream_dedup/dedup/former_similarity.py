"""Compute the similarities of candidate pairs from their fingerprints.

In: the fingerprints of new items, the signatures of known ones (the candidates), and pairs of positions in both. Out:
`SIMILARITY` records. A shared key only makes a candidate; the decision rests on these numbers. `measure` compares one
new item with its candidates and is compiled: decide.py calls it for each item in turn, and `compare` for a list. What
the new item has and the known one lacks is in the same record; additions.py counts it.

By default, Jaccard and containment are estimated from sketches. With `fingerprint.verify = "exact"` the shingle sets of
the bodies are compared exactly. If the body is a SimHash, its Hamming distance takes their place.

Sources: one-permutation estimator with empty bins, Li, Owen, Zhang 2012; correction for b-bit collisions, Li, König
2010; containment from Jaccard and sizes: |A∩B| = J·(|A|+|B|)/(1+J); the angle of a SimHash, Charikar 2002.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from stream_dedup.compiled import njit
from stream_dedup.dedup.corrections import IN_HEADLINE, IN_TEXT
from stream_dedup.dedup.former_additions import article_of, find_new, news_of
from stream_dedup.dedup.former_boilerplate import Boilerplate
from stream_dedup.fingerprint.bits import bit_count, load64
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.packed_sets import MAX_MEMBERS, common, decode, join
from stream_dedup.fingerprint.word_filter import exchanged

HOUR = 3_600_000
"""In milliseconds."""
_SIZE_OFFSET = 5  # shingles added to both sizes in their ratio, so that two near-empty pages count as equally long
_NAN = np.float32(np.nan)
_SAME_WORDS = np.float32(0.999)
_LOWEST_BITS = np.uint64(0x1111111111111111)
_CHANCE_EQUAL = 1.0 / 15.0  # probability that two different hashes have the same nibble, see kernel.sketch
# Words of a correction's note that the known item lacks; a copy of the corrected item has the note, and so none.
_NOTE = np.float32(3)
_DOUBT = 2.0  # standard deviations of the number of bins that are equal by chance

# In float32. Of a pair without a view, and of all that novelty needs where it is not asked, NaN.
_FLOATS = (
    # Jaccard of the bodies; of SimHashes, the cosine that their distance estimates. The shares of the smaller body that
    # the other contains, of the new body that the known one contains, and the same of its article, or of the body where
    # there is hardly an article. The Jaccard of the headlines.
    *("body", "containment", "coverage", "article_coverage", "headline"),
    # Share of a headline's words that its own text contains, the larger of the two: .4 or more in articles, .2 or less
    # in pages whose text is menus, notices or a login form.
    "grounded",
    # Of SimHashes, bits; natural logarithm of the ratio of body sizes, new to known; hours between the two; article of
    # the new item, as a share of its tokens, and in tokens.
    *("distance", "log_size_ratio", "apart", "article_share", "article_tokens"),
    # Words of the article, how many the known item lacks, and words in sentences that are new for the most part.
    *("words", "new_words", "new_sentences"),
    # Distinct figures of its prose, and how many of them the known item lacks; the latter of the whole text; the same
    # two of its headline; words of the headline that the known item lacks.
    *("numbers", "new_numbers", "new_numbers_anywhere"),
    *("headline_numbers", "new_headline_numbers", "new_headline_words"),
    # Words and figures of the headline that its own text has and the known item lacks; words of the known headline that
    # its own text has, and the new item lacks. Share of the article's sentences that have a new word.
    *("headline_gains", "headline_figures", "headline_losses", "spread"),
    # Distinct words, and bits of figures, of the known item that the new one lacks; and the other way. The words of the
    # item with fewer.
    *("lost_words", "lost_numbers", "gained_words", "gained_numbers", "fewer_words"),
)
_FLAGS = (
    # The mark of a filled-in template: each headline has a word that the other headline lacks and its own text
    # contains, and that word of the known headline is missing in the new text. (The words of two headlines for one text
    # are in both texts.)
    "swapped",
    # The headlines have the same words in another order.
    "reordered",
    # The headlines differ in numbers at most; the source is the same; so are the words in headline and body: one text
    # under two headlines is not the same text; the id is the same.
    *("same_form", "same_source", "same_text", "same_id"),
    # The distance is at most the scheme's; the new headline marks a correction, and differs from the known one, or the
    # new text does, and has something that the known one lacks.
    *("within_hamming", "corrects"),
)
SIMILARITY = np.dtype(
    [*((name, "<f4") for name in _FLOATS), ("smaller_size", "<u4"), *((name, "?") for name in _FLAGS)], align=True
)
"""Similarities of a pair of a new and a known item: shares in 0..1 unless stated otherwise. smaller_size: distinct
shingles of the smaller body."""


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
    figures: NDArray[np.uint64]
    form: NDArray[np.uint8]
    simhash: NDArray[np.uint64]
    bodies: NDArray[np.uint8]
    bounds: NDArray[np.int64]


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
        "figures": np.zeros(n, np.uint64),
        "form": np.zeros(n, np.uint8),
        "simhash": np.zeros((n, 0), np.uint64),
        "bodies": packed,
        "bounds": bounds,
    }
    return Views(**columns | {name: signatures[name] for name in Views._fields if name in names})


def compare(
    new: Fingerprints,
    known: NDArray[np.void],
    new_of_pair: NDArray[np.integer],
    known_of_pair: NDArray[np.integer],
    bodies: Sequence[bytes] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
    corrects: NDArray[np.int8] | None = None,
) -> NDArray[np.void]:
    """Compare new[new_of_pair[p]] with the signature known[known_of_pair[p]], for every pair p: (pairs,) SIMILARITY.

    bodies: for exact comparison, the packed bodies of `known`; None: `known` are the signatures of `new`. boilerplate:
    the table of recurring passages, and (n,) the begin of each new item's window, ms; None: novelty is not asked.
    corrects: (n,) `corrections`; None: none is one. O(pairs · (bytes of a signature, or of two
    packed bodies, + words of the article)); fastest if the pairs are ordered by new item.
    """
    a, b = new_of_pair.astype(np.int64), known_of_pair.astype(np.int64)
    similar = unknown(len(a))
    left = views_of(new.signatures, new.bodies)
    right = views_of(known, new.bodies if bodies is None else bodies) if new.bodies else views_of(known)
    news = news_of(new, corrects, boilerplate)
    _compare(similar, news, left, right, a, b)
    return similar


@njit(nogil=True, cache=True)
def _compare(similar, news, left, right, a, b):
    p = 0
    while p < a.size:
        end = p
        while end < a.size and a[end] == a[p]:
            end += 1
        for k in range(p, end):
            similar[k].apart = abs(left.time[a[p]] - right.time[b[k]]) / HOUR
        measure(similar, p, news, a[p], a[p], left, right, b[p:end])
        p = end


@njit(nogil=True, cache=True)
def measure(similar, first, news, item, i, left, right, slots):
    """Write into similar[first + k] the similarities of the new item, signature left[i], and the known right[slots[k]].

    `apart` is given. One call for all candidates of an item, because passing these arrays costs more than comparing.
    """
    n, headline_size = np.int64(left.body_size[i]), left.headline_size[i]
    is_simhash, is_exact = left.simhash.shape[1] > 0, left.bounds.size > 0
    body, headline, words = left.body[i], left.headline[i], news.words[item]
    members, article = _members(left, i), article_of(news, item, body.size, is_exact)
    size = min(article.shingles, n)  # of a doubled text, too many
    for k in range(slots.size):
        s, j = similar[first + k], slots[k]
        m = np.int64(right.body_size[j])
        has_bodies, known_members = n > 0 and m > 0, _members(right, j) if is_exact else members
        s.distance = s.body = s.containment = least = _NAN
        if is_simhash:
            if has_bodies:
                differ = np.int64(0)
                for word in range(left.simhash.shape[1]):
                    differ += np.int64(bit_count(left.simhash[i, word] ^ right.simhash[j, word]))
                s.distance = differ
                s.body = max(math.cos(math.pi / (64 * left.simhash.shape[1]) * differ), 0.0)
        elif has_bodies and is_exact:
            shared, n_of, m_of = common(members, members.size, n, known_members, known_members.size, m)
            s.body = least = shared / max(n_of + m_of - shared, 1)
            s.containment = shared / max(min(n_of, m_of), 1)
        elif has_bodies:
            s.body, s.containment, least = compare_sketches(body, right.body[j], n, m)
        s.coverage = _NAN if is_simhash else _share_of_new(least, n, m)
        s.headline = s.grounded = s.headline_losses = _NAN
        s.swapped = False
        if headline.size > 0 and headline_size > 0 and right.headline_size[j] > 0:
            s.headline, s.swapped, s.grounded, s.headline_losses = compare_headlines(
                headline, right.headline[j], np.int64(headline_size), np.int64(right.headline_size[j]), words
            )
        s.smaller_size = min(n, m)
        s.lost_words = s.gained_words = s.lost_numbers = s.gained_numbers = s.fewer_words = _NAN
        if not is_simhash:
            own, known = left.words[i], right.words[j]
            s.lost_words, s.gained_words, s.fewer_words = exchanged(known, own)
            s.lost_numbers = bit_count(right.figures[j] & ~left.figures[i])
            s.gained_numbers = bit_count(left.figures[i] & ~right.figures[j])
        s.same_form = left.form[i] == right.form[j] and left.form[i] > 0
        s.reordered = s.headline >= _SAME_WORDS and left.form[i] != right.form[j]
        s.same_source = left.source[i] == right.source[j] and left.source[i] != 0
        s.same_text = left.digest[i] == right.digest[j]
        s.same_id = left.row_id[i] == right.row_id[j]
        s.within_hamming = s.distance <= news.hamming
        s.log_size_ratio = math.log((n + _SIZE_OFFSET) / (m + _SIZE_OFFSET))
        s.corrects = news.corrects[item] == IN_HEADLINE and not s.headline >= 1
        s.words = s.new_words = _NAN
        if not news.asks_novelty:
            continue
        s.article_coverage = s.coverage
        if size > 0 and is_exact:
            stored = min(size, MAX_MEMBERS)
            shared, n_of, _ = common(article.members, stored, size, known_members, known_members.size, m)
            s.article_coverage = shared / max(n_of, 1)
        elif size > 0:
            alike = compare_sketches(article.sketch, right.body[j], size, m)[2] if m > 0 else 0.0
            s.article_coverage = _share_of_new(alike, size, m)
        find_new(s, news, item, headline, right.words[j], right.figures[j], article)
        s.corrects |= news.corrects[item] == IN_TEXT and s.new_words >= _NOTE


@njit(nogil=True, cache=True, inline="always")
def _members(views, i):
    """The stored members of a body, for exact comparison, else none."""
    size = np.int64(views.body_size[i]) if views.bounds.size else 0
    members = np.empty(int(min(size, MAX_MEMBERS)), np.uint32)
    if size:
        decode(views.bodies, views.bounds[i], views.bounds[i + 1], size, members)
    return members


@njit(nogil=True, cache=True, inline="always")
def _share_of_new(jaccard, n, m):
    """Share of a new set of n that the known one of m contains: |A∩B| = J·(|A|+|B|)/(1+J). 0 if J is NaN."""
    alike = np.float64(jaccard)
    if not alike > 0:
        return 0.0
    return min(alike / (1 + alike) * (n + m) / max(n, 1), 1.0)


@njit(nogil=True, cache=True)
def compare_sketches(left, right, n, m):
    """Jaccard and containment of two sets of n and m, none empty, from sketches of nibbles; and the Jaccard less what
    chance may add to it. 16 bins at a time.

    Two bins of different hashes are equal by chance, once in 15. Of a short text and a page thirty times as long the
    chance is as large as the signal, so what is held back may rest on the lower bound alone.
    """
    either, both, equal = uint64(0), uint64(0), uint64(0)
    for k in range(0, left.size, 8):
        left_word, right_word = load64(left, k), load64(right, k)
        in_left, in_right = _nonzero_nibbles(left_word), _nonzero_nibbles(right_word)
        either += bit_count(in_left | in_right)
        both += bit_count(in_left & in_right)
        equal += bit_count(in_left & ~_nonzero_nibbles(left_word ^ right_word))
    true_equal = max(0.0, (equal - both * _CHANCE_EQUAL) / (1.0 - _CHANCE_EQUAL))
    # The sizes bound the Jaccard.
    alike = min(true_equal / either, min(n, m) / max(n, m))
    by_chance = _DOUBT * math.sqrt((both - true_equal) * _CHANCE_EQUAL / (1.0 - _CHANCE_EQUAL))
    least = min(max(true_equal - by_chance, 0.0) / either, alike)
    return alike, min(1.0, alike / (1.0 + alike) * (n + m) / min(n, m)), least


@njit(nogil=True, cache=True, inline="always")
def _nonzero_nibbles(word):
    """Set the lowest bit of each nibble that is not 0, clear all others."""
    word |= word >> uint64(2)
    word |= word >> uint64(1)
    return word & _LOWEST_BITS


@njit(nogil=True, cache=True)
def compare_headlines(left, right, left_size, right_size, words):
    """Jaccard, `swapped`, `grounded` and losses (see `SIMILARITY`) of headlines: ascending lists of word hashes.

    The lowest bit of a hash says that the item's own text contains the word. Of a longer headline only the smallest
    hashes are stored; the merge stops where such a list ends, which gives a bottom-k estimate (Broder 1997).
    """
    width = left.size
    n, m = min(left_size, width), min(right_size, width)
    in_left, in_right = 0, 0
    for k in range(n):
        in_left += left[k] & 1
    for k in range(m):
        in_right += right[k] & 1
    x, y, shared, union = 0, 0, 0, 0
    unmatched_left, losses = False, 0  # words of its text that the other headline lacks
    while True:
        if x == n and (y == m or left_size > width):
            break
        if y == m and right_size > width:
            break
        if y == m or (x < n and left[x] >> 1 < right[y] >> 1):
            unmatched_left |= (left[x] & 1) == 1
            x += 1
        elif x == n or right[y] >> 1 < left[x] >> 1:
            place = right[y] >> 1
            in_new = (words[place >> 3] >> (place & 7)) & 1
            losses += (right[y] & 1) == 1 and in_new == 0
            y += 1
        else:
            x += 1
            y += 1
            shared += 1
        union += 1
    return shared / max(union, 1), unmatched_left and losses > 0, max(in_left / n, in_right / m), losses
