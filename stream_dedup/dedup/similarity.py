"""Compute the similarities of candidate pairs, view by view, from their fingerprints.

In: the fingerprints of new items, the signatures of known ones (the candidates), and pairs of positions in both. Out:
`Similarities`. A shared key only makes a candidate; the decision rests on these numbers. The kernels are compiled,
because a frequent template can make thousands of pairs.

By default, Jaccard and containment are estimated from sketches. With `fingerprint.verify = "exact"` the shingle sets of
the bodies are compared exactly. If the body is a SimHash, its Hamming distance takes their place.

Sources: one-permutation estimator with empty bins, Li, Owen, Zhang 2012; correction for b-bit collisions,
Li, König 2010; containment from Jaccard and sizes: |A∩B| = J·(|A|+|B|)/(1+J); the angle of a SimHash, Charikar 2002.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import Boilerplate, is_boilerplate
from stream_dedup.fingerprint.byte_blocks import bit_count, load64
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.layout import distances
from stream_dedup.fingerprint.minhash import sketch
from stream_dedup.fingerprint.packed_sets import count_common, pack
from stream_dedup.fingerprint.shingles import distinct

Floats: TypeAlias = NDArray[np.float32]
HOUR = 3_600_000
"""In milliseconds."""
_SIZE_OFFSET = 5  # shingles added to both sizes in their ratio, so that two near-empty pages count as equally long
_LOWEST_BITS = np.uint64(0x1111111111111111)
_CHANCE_EQUAL = 1.0 / 15.0  # probability that two different hashes have the same nibble, see kernel.sketch


@dataclass(frozen=True, slots=True)
class Similarities:
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
      lacks. Both NaN without boilerplate in `compare`, and for pairs that are not `is_related`.
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

    def take(self, pairs: NDArray[np.integer]) -> "Similarities":
        """The similarities of these pairs."""
        return Similarities(**{name: getattr(self, name)[pairs] for name in self.__slots__})


def compare(
    new: Fingerprints,
    known: NDArray[np.void],
    new_of_pair: NDArray[np.integer],
    known_of_pair: NDArray[np.integer],
    bodies: tuple[Sequence[bytes], NDArray[np.integer]] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
    apart: Floats | None = None,
    corrects: NDArray[np.bool_] | None = None,
) -> Similarities:
    """Compare new[new_of_pair[p]] with the signature known[known_of_pair[p]], for every pair p.

    bodies: for exact comparison, packed bodies and (pairs,) the position of the known item's among them; None: `known`
    are the signatures of `new`. boilerplate: the table of recurring passages, and (n,) the begin of each new item's
    window, ms; None: prose is not compared. apart: (pairs,) hours between the two; None: from their times. corrects:
    (n,) the headlines that mark a correction; None: none does. O(pairs · bytes of a signature, or of two packed
    bodies).
    """
    left, right = new.signatures, known
    a, b = new_of_pair.astype(np.int64), known_of_pair.astype(np.int64)
    pairs = len(a)
    body, containment = np.empty(pairs, np.float32), np.empty(pairs, np.float32)
    lead, headline = np.empty(pairs, np.float32), np.empty(pairs, np.float32)
    distance = np.full(pairs, np.nan, np.float32)
    n, m = left["body_size"][a].astype(np.int64), right["body_size"][b].astype(np.int64)
    is_simhash = "simhash" in (left.dtype.names or ())
    if new.bodies:
        packed, packed_of_pair = bodies or (new.bodies, b)
        counts = count_common(new.bodies, packed, a, packed_of_pair, n, m)
        shared, n_of, m_of = np.where(((n == 0) | (m == 0))[:, None], np.nan, counts).T
        body[:] = shared / np.maximum(n_of + m_of - shared, 1)
        containment[:] = shared / np.maximum(np.minimum(n_of, m_of), 1)
    elif not is_simhash:
        _compare_sketches(left["body"], right["body"], left["body_size"], right["body_size"], a, b, body, containment)
    else:
        has_body = (left["body_size"][a] > 0) & (right["body_size"][b] > 0)
        bits = 64 * left["simhash"].shape[1]
        distance[has_body] = distances(left["simhash"][a[has_body]], right["simhash"][b[has_body]])
        body, containment = np.maximum(np.cos(np.pi / bits * distance), 0.0, dtype=np.float32), distance * np.nan
    _compare_sketches(left["lead"], right["lead"], left["lead_size"], right["lead_size"], a, b, headline, lead)
    swapped, grounded = np.empty(pairs, np.bool_), np.empty(pairs, np.float32)
    headlines = left["headline"], right["headline"], left["headline_size"], right["headline_size"]
    _compare_headlines(*headlines, new.words, a, b, headline, swapped, grounded)
    source = left["source"][a]
    coverage = _share_of_new(body, n, m)
    words, new_words = np.full(pairs, np.nan, np.float32), np.full(pairs, np.nan, np.float32)
    if boilerplate is not None and not is_simhash:
        asked = np.flatnonzero(is_related(body, containment, lead, headline))
        contained, words[asked] = (
            _prose_in_bodies(new, packed, a[asked], packed_of_pair[asked], m[asked], *boilerplate)
            if new.bodies
            else _prose_in_sketches(new, right, a[asked], b[asked], *boilerplate)
        )
        new_words[asked] = words[asked] * (1 - contained)
    return Similarities(
        body,
        containment,
        lead,
        headline,
        swapped,
        grounded=grounded,
        apart=(np.abs(left["time"][a] - right["time"][b]) / HOUR).astype(np.float32) if apart is None else apart,
        smaller_size=np.minimum(n, m).astype(np.uint32),
        expands_flash=(m == 0) & (n > 0),
        same_source=(source == right["source"][b]) & (source != 0),
        same_text=left["digest"][a] == right["digest"][b],
        same_id=left["row_id"][a] == right["row_id"][b],
        distance=distance,
        within_hamming=distance <= new.hamming,
        log_size_ratio=np.log((n + _SIZE_OFFSET) / (m + _SIZE_OFFSET)).astype(np.float32),
        coverage=np.where(is_simhash, np.nan, coverage).astype(np.float32),
        words=words,
        new_words=new_words,
        corrects=np.zeros(pairs, np.bool_) if corrects is None else corrects[a] & ~(headline >= 1),
    )


def is_related(body: Floats, containment: Floats, lead: Floats, headline: Floats) -> NDArray[np.bool_]:
    """Pairs alike enough in any view to compute novelty, (pairs,) bool."""
    with np.errstate(invalid="ignore"):
        found: NDArray[np.bool_] = (headline >= 0.35) | (lead >= 0.35) | (body >= 0.25) | (containment >= 0.5)
    return found


def _prose_in_sketches(
    new: Fingerprints,
    right: NDArray[np.void],
    a: NDArray[np.int64],
    b: NDArray[np.int64],
    boilerplate: Boilerplate,
    horizons: NDArray[np.int64],
) -> tuple[NDArray[np.float64], Floats]:
    """Share of the prose of new[a[p]] that known[b[p]] contains, and the words of that prose, (pairs,) each.

    The new prose is sketched like a body and compared with the known body: the share follows from their Jaccard and
    sizes. So novelty needs no additional bytes per original.
    """
    items, item_of_pair = _distinct_items(a)
    sketches = np.zeros((len(items), right["body"].shape[1]), np.uint8)
    sizes, words = np.zeros(len(items), np.uint32), np.zeros(len(items), np.float32)
    _sketch_prose(*new.prose, items, boilerplate.entries, boilerplate.starts(horizons[items]), sketches, sizes, words)
    jaccard, containment = np.empty(len(a), np.float32), np.empty(len(a), np.float32)
    _compare_sketches(sketches, right["body"], sizes, right["body_size"], item_of_pair, b, jaccard, containment)
    return _share_of_new(jaccard, sizes[item_of_pair], right["body_size"][b]), words[item_of_pair]


def _prose_in_bodies(
    new: Fingerprints,
    packed: Sequence[bytes],
    a: NDArray[np.int64],
    packed_of_pair: NDArray[np.integer],
    known_sizes: NDArray[np.int64],
    boilerplate: Boilerplate,
    horizons: NDArray[np.int64],
) -> tuple[NDArray[np.float64], Floats]:
    """The same as `_prose_in_sketches`, computed from the exact shingle sets."""
    items, item_of_pair = _distinct_items(a)
    prose, words = new.prose, np.zeros(len(items), np.float32)
    sets: list[list[int]] = []
    for k, item in enumerate(items.tolist()):
        first, last = int(prose.firsts[item]), int(prose.lasts[item])
        is_recurring = boilerplate.known(prose.hashes[first:last], horizons[item])
        passages = first + np.flatnonzero(~is_recurring)
        words[k] = prose.units[passages].sum()
        sets.append(sorted({int(h) for p in passages for h in prose.shingles[prose.starts[p] : prose.stops[p]]}))
    sizes = np.array([len(shingles) for shingles in sets], np.int64)[item_of_pair]
    shared, n, _ = count_common(pack(sets), packed, item_of_pair, packed_of_pair, sizes, known_sizes).T
    return shared / np.maximum(n, 1), words[item_of_pair]


def _distinct_items(a: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct items of pairs that are ordered by item, and (pairs,) the position of each pair's item."""
    begins = np.append(True, a[1:] != a[:-1])[: len(a)]
    return a[begins], np.cumsum(begins) - 1


def _share_of_new(jaccard: Floats, new: NDArray[np.integer], known: NDArray[np.integer]) -> NDArray[np.float64]:
    """Share of the new set that the known one contains: |A∩B| = J·(|A|+|B|)/(1+J). 0 if one of them is empty."""
    alike, n, m = np.nan_to_num(jaccard).astype(np.float64), new.astype(np.float64), known.astype(np.float64)
    return np.minimum(alike / (1 + alike) * (n + m) / np.maximum(n, 1), 1)


@njit(nogil=True, cache=True)
def _sketch_prose(firsts, lasts, shingles, begins, ends, hashes, units, items, entries, starts, sketches, sizes, words):
    """Fill in the sketches, sizes (shingles) and lengths (words) of the items' prose, without boilerplate."""
    most = 0
    for item in items:
        if lasts[item] > firsts[item]:
            most = max(most, ends[lasts[item] - 1] - begins[firsts[item]])
    remaining, size = np.empty(most, np.uint64), 64
    while size < 4 * most:
        size *= 2
    seen, minima = np.empty(size, np.uint32), np.empty(2 * sketches.shape[1], np.uint64)
    for k in range(items.size):
        found = 0
        for p in range(firsts[items[k]], lasts[items[k]]):
            if is_boilerplate(entries, hashes[p], starts[k]):
                continue
            for i in range(begins[p], ends[p]):
                remaining[found] = shingles[i]
                found += 1
            words[k] += units[p]
        found = distinct(remaining, found, seen, remaining)
        sizes[k] = found
        sketch(remaining, found, minima, sketches[k])


@njit(nogil=True, cache=True)
def _compare_sketches(lefts, rights, left_sizes, right_sizes, left_of_pair, right_of_pair, jaccard, containment):
    """Jaccard and containment of sketches of nibbles, (n, bins/2) uint8; NaN if a set is empty. 16 bins at a time."""
    for p in range(left_of_pair.size):
        i, j = left_of_pair[p], right_of_pair[p]
        n, m = float(left_sizes[i]), float(right_sizes[j])
        if n == 0.0 or m == 0.0:
            jaccard[p] = np.nan
            containment[p] = np.nan
            continue
        either, both, equal = uint64(0), uint64(0), uint64(0)
        left, right = lefts[i], rights[j]
        for k in range(0, left.size, 8):
            in_left = _nonzero_nibbles(load64(left, k))  # type: ignore[call-arg]  # numba adds the first one
            in_right = _nonzero_nibbles(load64(right, k))
            either += bit_count(in_left | in_right)
            both += bit_count(in_left & in_right)
            equal += bit_count(in_left & ~_nonzero_nibbles(load64(left, k) ^ load64(right, k)))
        true_equal = max(0.0, (equal - both * _CHANCE_EQUAL) / (1.0 - _CHANCE_EQUAL))
        # The sizes bound the Jaccard.
        alike = min(true_equal / either, min(n, m) / max(n, m))
        jaccard[p] = alike
        containment[p] = min(1.0, alike / (1.0 + alike) * (n + m) / min(n, m))


@njit(nogil=True, cache=True, inline="always")
def _nonzero_nibbles(word):
    """Set the lowest bit of each nibble that is not 0, clear all others."""
    word |= word >> uint64(2)
    word |= word >> uint64(1)
    return word & _LOWEST_BITS


@njit(nogil=True, cache=True)
def _compare_headlines(
    lefts, rights, left_sizes, right_sizes, words, left_of_pair, right_of_pair, jaccard, swapped, grounded
):
    """Jaccard, `swapped` and `grounded` (see `Similarities`) of headlines: ascending lists of word hashes.

    The lowest bit of a hash says that the item's own text contains the word. Of a longer headline only the smallest
    hashes are stored; the merge stops where such a list ends, which gives a bottom-k estimate (Broder 1997).
    """
    width = lefts.shape[1]
    for p in range(left_of_pair.size):
        i, j = left_of_pair[p], right_of_pair[p]
        n, m = min(left_sizes[i], width), min(right_sizes[j], width)
        swapped[p] = False
        if n == 0 or m == 0:
            jaccard[p] = grounded[p] = np.nan
            continue
        in_left, in_right = 0, 0
        for k in range(n):
            in_left += lefts[i, k] & 1
        for k in range(m):
            in_right += rights[j, k] & 1
        grounded[p] = max(in_left / n, in_right / m)
        x, y, shared, union = 0, 0, 0, 0
        unmatched_left, unmatched_right = False, False  # a word of its text that the other headline lacks
        while True:
            if x == n and (y == m or left_sizes[i] > width):
                break
            if y == m and right_sizes[j] > width:
                break
            if y == m or (x < n and lefts[i, x] >> 1 < rights[j, y] >> 1):
                unmatched_left |= (lefts[i, x] & 1) == 1
                x += 1
            elif x == n or rights[j, y] >> 1 < lefts[i, x] >> 1:
                place = rights[j, y] >> 1
                in_new = (words[i, place >> 3] >> (place & 7)) & 1
                unmatched_right |= (rights[j, y] & 1) == 1 and in_new == 0
                y += 1
            else:
                x += 1
                y += 1
                shared += 1
            union += 1
        jaccard[p] = shared / max(union, 1)
        swapped[p] = unmatched_left and unmatched_right
