"""Compute the similarities of candidate pairs, view by view, from their fingerprints.

In: the fingerprints of new items, the signatures of known ones (the candidates), and pairs of positions in both. Out:
`Similarities`. A shared key only makes a candidate; the decision rests on these numbers. `measure` compares one pair
and is compiled: resolve.py calls it for the candidates of each item in turn, and `compare` for a list of pairs.

By default, Jaccard and containment are estimated from sketches. With `fingerprint.verify = "exact"` the shingle sets of
the bodies are compared exactly. If the body is a SimHash, its Hamming distance takes their place.

Sources: sketches.py; containment from Jaccard and sizes: |A∩B| = J·(|A|+|B|)/(1+J); the angle of a SimHash, Charikar
2002.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import Boilerplate, is_boilerplate
from stream_dedup.dedup.sketches import compare_headlines, compare_sketches
from stream_dedup.fingerprint.byte_blocks import bit_count
from stream_dedup.fingerprint.fingerprint import Fingerprints, Prose
from stream_dedup.fingerprint.minhash import sketch
from stream_dedup.fingerprint.packed_sets import HASH_BITS, MAX_MEMBERS, common, decode, join
from stream_dedup.fingerprint.shingles import distinct, slots_for

Floats: TypeAlias = NDArray[np.float32]
HOUR = 3_600_000
"""In milliseconds."""
_SIZE_OFFSET = 5  # shingles added to both sizes in their ratio, so that two near-empty pages count as equally long
_CUT = np.uint64(64 - HASH_BITS)
_NAN = np.float32(np.nan)
_NO_ENTRIES = np.zeros((4, 4), np.uint32)


class Similarities(NamedTuple):
    """Similarities of pairs of a new and a known item: (pairs,) each, in 0..1 unless stated otherwise.

    NaN where one of the two lacks the view.

    - body: Jaccard of the bodies; of SimHashes, the cosine that their distance estimates.
    - containment: share of the smaller body that the other contains; NaN with a SimHash.
    - lead: share of the smaller lead that the other contains. headline: Jaccard of the headlines.
    - swapped: the mark of a filled-in template: each headline has a word that the other headline lacks and its own
      text contains, and that word of the known headline is missing in the new text. (The words of two headlines for
      one text are in both texts.)
    - grounded: share of a headline's words that its own text contains, the larger of the two. Articles have .4 or
      more; pages whose text is all boilerplate (menus, notices, a login form) have .2 or less.
    - apart: hours between the two. smaller_size: distinct shingles of the smaller body.
    - expands_flash: the known item is a headline without text, and the new one has a text.
    - same_source, same_text, same_id.
    - distance: Hamming distance of SimHashes, bits, else NaN; within_hamming: it is at most the scheme's `hamming`.
    - log_size_ratio: natural logarithm of the ratio of body sizes, new to known.
    - coverage: share of the new body that the known one contains; NaN with a SimHash.
    - words: words of the new text's prose, without boilerplate; new_words: of these, the words that the known text
      lacks. Both NaN if prose is not compared, and for pairs that are not `is_related`.
    - corrects: the new headline marks a correction, and differs from the known one.
    """

    body: Floats
    containment: Floats
    lead: Floats
    headline: Floats
    swapped: NDArray[np.bool_]
    grounded: Floats
    apart: Floats
    smaller_size: NDArray[np.uint32]
    expands_flash: NDArray[np.bool_]
    same_source: NDArray[np.bool_]
    same_text: NDArray[np.bool_]
    same_id: NDArray[np.bool_]
    distance: Floats
    within_hamming: NDArray[np.bool_]
    log_size_ratio: Floats
    coverage: Floats
    words: Floats
    new_words: Floats
    corrects: NDArray[np.bool_]

    @classmethod
    def empty(cls, pairs: int) -> "Similarities":
        """Room for the similarities of pairs."""
        floats, flags = (lambda: np.full(pairs, _NAN, np.float32)), (lambda: np.zeros(pairs, np.bool_))
        sizes = np.zeros(pairs, np.uint32)
        return cls(
            floats(), floats(), floats(), floats(), flags(), floats(), floats(), sizes, flags(), flags(), flags(),
            flags(), floats(), flags(), floats(), floats(), floats(), floats(), flags(),
        )  # fmt: skip

    def take(self, pairs: NDArray[np.integer]) -> "Similarities":
        """The similarities of these pairs."""
        return Similarities(*(column[pairs] for column in self))


class Pair(NamedTuple):
    """The `Similarities` of one pair, for compiled code: a few numbers are passed faster than arrays."""

    body: np.float32
    containment: np.float32
    lead: np.float32
    headline: np.float32
    swapped: bool
    grounded: np.float32
    apart: np.float32
    smaller_size: np.uint32
    expands_flash: bool
    same_source: bool
    same_text: bool
    same_id: bool
    distance: np.float32
    within_hamming: bool
    log_size_ratio: np.float32
    coverage: np.float32
    words: np.float32
    new_words: np.float32
    corrects: bool


@njit(nogil=True, cache=True, inline="always")
def pair_at(s, p):
    """Pair p of `Similarities`."""
    return Pair(
        s.body[p], s.containment[p], s.lead[p], s.headline[p], s.swapped[p], s.grounded[p], s.apart[p],
        s.smaller_size[p], s.expands_flash[p], s.same_source[p], s.same_text[p], s.same_id[p], s.distance[p],
        s.within_hamming[p], s.log_size_ratio[p], s.coverage[p], s.words[p], s.new_words[p], s.corrects[p],
    )  # fmt: skip


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
    lead: NDArray[np.uint8]
    lead_size: NDArray[np.uint16]
    body: NDArray[np.uint8]
    body_size: NDArray[np.uint32]
    simhash: NDArray[np.uint64]
    bodies: NDArray[np.uint8]
    bounds: NDArray[np.int64]


class News(NamedTuple):
    """What is known of n new items, and not stored. words: (n, 4096) of `Fingerprints`; corrects: (n,) headlines that
    mark a correction; hamming: of the scheme; asks_prose: prose is compared; entries: of `Boilerplate`; starts: (n,)
    begins of their windows, in its unit.
    """

    words: NDArray[np.uint8]
    corrects: NDArray[np.bool_]
    hamming: int
    prose: Prose
    asks_prose: bool
    entries: NDArray[np.uint32]
    starts: NDArray[np.uint32]


class Scratch(NamedTuple):
    """The prose of the item at hand, as a sketch or as a set, and room to work in. `item`: whose prose it is, or -1;
    `decoded`: whose body `left` holds.
    """

    item: NDArray[np.int64]
    decoded: NDArray[np.int64]
    sketch: NDArray[np.uint8]
    size: NDArray[np.int64]
    words: NDArray[np.float32]
    shingles: NDArray[np.uint64]
    seen: NDArray[np.uint32]
    minima: NDArray[np.uint64]
    prose: NDArray[np.uint32]
    left: NDArray[np.uint32]
    right: NDArray[np.uint32]


def views_of(signatures: NDArray[np.void], bodies: Sequence[bytes] = ()) -> Views:
    """The columns of (n,) signatures, as views. One signature is doubled: to numba one row is another type than two."""
    if len(signatures) == 1:
        signatures, bodies = np.concatenate([signatures, signatures]), [*bodies, *bodies]
    names = signatures.dtype.names or ()
    body = signatures["body"] if "body" in names else np.zeros((len(signatures), 0), np.uint8)
    simhash = signatures["simhash"] if "simhash" in names else np.zeros((len(signatures), 0), np.uint64)
    columns: dict[str, Any] = {name: signatures[name] for name in Views._fields if name in names}
    packed, bounds = join(bodies) if bodies else (np.zeros(0, np.uint8), np.zeros(0, np.int64))
    columns |= {"body": body, "simhash": simhash, "bodies": packed, "bounds": bounds}
    return Views(**columns)


def news_of(
    new: Fingerprints,
    corrects: NDArray[np.bool_] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
) -> News:
    """`News` of new items. The other arguments are those of `compare`."""
    n = len(new.signatures)
    marks = np.zeros(n, np.bool_) if corrects is None else corrects
    if boilerplate is None:
        return News(new.words, marks, new.hamming, new.prose, False, _NO_ENTRIES, np.zeros(n, np.uint32))
    table, horizons = boilerplate
    return News(new.words, marks, new.hamming, new.prose, True, table.entries, table.starts(horizons))


def scratch_for(news: News, views: Views) -> Scratch:
    """`Scratch` for `measure`."""
    prose, asks = news.prose, news.asks_prose
    has = prose.lasts > prose.firsts if asks else np.zeros(0, np.bool_)
    lengths = prose.stops[prose.lasts[has] - 1] - prose.starts[prose.firsts[has]] if asks else np.zeros(0, np.int64)
    most, bins = int(lengths.max(initial=0)), 2 * views.body.shape[1]
    members = MAX_MEMBERS if views.bounds.size else 0
    return Scratch(
        np.full(1, -1),
        np.full(1, -1),
        np.zeros(bins // 2, np.uint8),
        np.zeros(1, np.int64),
        np.zeros(1, np.float32),
        np.empty(most, np.uint64),
        np.empty(slots_for(most), np.uint32),
        np.empty(bins, np.uint64),
        np.empty(most if members else 0, np.uint32),
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
) -> Similarities:
    """Compare new[new_of_pair[p]] with the signature known[known_of_pair[p]], for every pair p.

    bodies: for exact comparison, the packed bodies of `known`; None: `known` are the signatures of `new`. boilerplate:
    the table of recurring passages, and (n,) the begin of each new item's window, ms; None: prose is not compared.
    corrects: (n,) the headlines that mark a correction; None: none does. O(pairs · bytes of a signature, or of two
    packed bodies); fastest if the pairs are ordered by new item.
    """
    a, b = new_of_pair.astype(np.int64), known_of_pair.astype(np.int64)
    similar = Similarities.empty(len(a))
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
            similar.apart[k] = abs(left.time[a[p]] - right.time[b[k]]) / HOUR
        measure(similar, p, news, a[p], left, right, b[p:end], scratch)
        p = end


@njit(nogil=True, cache=True)
def measure(s, first, news, i, left, right, slots, scratch):
    """Write into s[first + k] the similarities of new item i, signature left[i], and the known one right[slots[k]].

    `apart` is given. One call for all candidates of an item, because passing these arrays costs more than comparing.
    """
    n, lead_size, headline_size = np.int64(left.body_size[i]), np.int64(left.lead_size[i]), left.headline_size[i]
    is_simhash, is_exact = left.simhash.shape[1] > 0, left.bounds.size > 0
    body, lead, headline, words = left.body[i], left.lead[i], left.headline[i], news.words[i]
    source, digest, row_id, bits = left.source[i], left.digest[i], left.row_id[i], 64 * left.simhash.shape[1]
    for k in range(slots.size):
        p, j = first + k, slots[k]
        m = np.int64(right.body_size[j])
        has_bodies = n > 0 and m > 0
        s.distance[p] = s.body[p] = s.containment[p] = s.coverage[p] = _NAN
        if is_simhash:
            if has_bodies:
                differ = np.int64(0)
                for word in range(left.simhash.shape[1]):
                    differ += np.int64(bit_count(left.simhash[i, word] ^ right.simhash[j, word]))
                s.distance[p] = differ
                s.body[p] = max(math.cos(math.pi / bits * differ), 0.0)
        elif has_bodies and is_exact:
            if scratch.decoded[0] != i:
                scratch.decoded[0] = i
                decode(left.bodies, left.bounds[i], left.bounds[i + 1], n, scratch.left)
            decode(right.bodies, right.bounds[j], right.bounds[j + 1], m, scratch.right)
            shared, n_of, m_of = common(scratch.left, min(n, MAX_MEMBERS), n, scratch.right, min(m, MAX_MEMBERS), m)
            s.body[p] = shared / max(n_of + m_of - shared, 1)
            s.containment[p] = shared / max(min(n_of, m_of), 1)
        elif has_bodies:
            s.body[p], s.containment[p] = compare_sketches(body, right.body[j], n, m)
        if not is_simhash:
            s.coverage[p] = _share_of_new(s.body[p], n, m)
        s.headline[p] = s.lead[p] = s.grounded[p] = _NAN
        s.swapped[p] = False
        if lead_size > 0 and right.lead_size[j] > 0:
            s.lead[p] = compare_sketches(lead, right.lead[j], lead_size, np.int64(right.lead_size[j]))[1]
        if headline_size > 0 and right.headline_size[j] > 0:
            s.headline[p], s.swapped[p], s.grounded[p] = compare_headlines(
                headline, right.headline[j], np.int64(headline_size), np.int64(right.headline_size[j]), words
            )
        s.smaller_size[p] = min(n, m)
        s.expands_flash[p] = m == 0 and n > 0
        s.same_source[p] = source == right.source[j] and source != 0
        s.same_text[p] = digest == right.digest[j]
        s.same_id[p] = row_id == right.row_id[j]
        s.within_hamming[p] = s.distance[p] <= news.hamming
        s.log_size_ratio[p] = math.log((n + _SIZE_OFFSET) / (m + _SIZE_OFFSET))
        s.corrects[p] = news.corrects[i] and not s.headline[p] >= 1
        s.words[p] = s.new_words[p] = _NAN
        if not (news.asks_prose and not is_simhash and is_related(s, p)):
            continue
        if scratch.item[0] != i:
            scratch.item[0] = i
            _gather_prose(news, i, is_exact, scratch)
        size, contained = scratch.size[0], 0.0
        if size > 0 and m > 0 and is_exact:
            if not has_bodies:
                decode(right.bodies, right.bounds[j], right.bounds[j + 1], m, scratch.right)
            of_prose = min(size, MAX_MEMBERS)
            shared, n_of, _ = common(scratch.prose, of_prose, size, scratch.right, min(m, MAX_MEMBERS), m)
            contained = shared / max(n_of, 1)
        elif size > 0 and m > 0:
            contained = _share_of_new(compare_sketches(scratch.sketch, right.body[j], size, m)[0], size, m)
        s.words[p] = scratch.words[0]
        s.new_words[p] = scratch.words[0] * (1 - contained)


@njit(nogil=True, cache=True, inline="always")
def is_related(s, p):
    """Whether a pair is alike enough in any view to compute novelty."""
    return (
        s.headline[p] >= np.float32(0.35)
        or s.lead[p] >= np.float32(0.35)
        or s.body[p] >= np.float32(0.25)
        or s.containment[p] >= np.float32(0.5)
    )


@njit(nogil=True, cache=True)
def _gather_prose(news, item, is_exact, scratch):
    """Fill in the sketch (or set), size and words of an item's prose, without boilerplate.

    The prose is sketched like a body and compared with the known body: the share follows from their Jaccard and sizes.
    So novelty needs no additional bytes per original.
    """
    prose, found, words = news.prose, 0, np.float32(0)
    for passage in range(prose.firsts[item], prose.lasts[item]):
        if is_boilerplate(news.entries, prose.hashes[passage], news.starts[item]):
            continue
        for k in range(prose.starts[passage], prose.stops[passage]):
            scratch.shingles[found] = prose.shingles[k]
            found += 1
        words += prose.units[passage]
    found = distinct(scratch.shingles, found, scratch.seen, scratch.shingles)
    scratch.size[0], scratch.words[0] = found, words
    if is_exact:
        for k in range(found):
            scratch.prose[k] = np.uint32(scratch.shingles[k] >> _CUT)
        scratch.prose[:found].sort()
    else:
        sketch(scratch.shingles, found, scratch.minima, scratch.sketch)


@njit(nogil=True, cache=True, inline="always")
def _share_of_new(jaccard, n, m):
    """Share of a new set of n that the known one of m contains: |A∩B| = J·(|A|+|B|)/(1+J). 0 if J is NaN."""
    alike = np.float64(jaccard)
    if not alike > 0:
        return 0.0
    return min(alike / (1 + alike) * (n + m) / max(n, 1), 1.0)
