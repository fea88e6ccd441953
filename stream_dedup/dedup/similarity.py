"""Verification: pairs of fingerprint signatures -> the similarities of their views.

Candidates only propose; nothing is decided on a shared key alone. In: two arrays of signatures and pairs of
row numbers. Out: `Similarities`, one entry a pair. Compiled, because a hot template can propose thousands.

Bodies that are kept whole (`fingerprint.verify = "exact"`) are compared as sets, and nothing is estimated of them.
Where the body is a SimHash its distance takes the place of both Jaccard and containment.

Sources: one-permutation estimator with empty bins, Li, Owen, Zhang 2012; correction for b-bit collisions,
Li, König 2010; containment from Jaccard and sizes: |A∩B| = J·(|A|+|B|)/(1+J); the angle of a SimHash, Charikar 2002.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import Boilerplate, is_known
from stream_dedup.fingerprint.byte_blocks import bit_count, load64
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.layout import distances
from stream_dedup.fingerprint.minhash import sketch
from stream_dedup.fingerprint.packed_sets import in_common, pack
from stream_dedup.fingerprint.shingles import distinct

HOUR = 3_600_000
"""In milliseconds."""
_SMALL = 5  # shingles added to both bodies, so that two near-empty pages count as equally long
_LOWEST = np.uint64(0x1111111111111111)
_CHANCE = 1.0 / 15.0  # two different hashes have the same nibble, see kernel.sketch


@dataclass(frozen=True, slots=True)
class Similarities:
    """Each (pairs,) float32 in 0..1; NaN where one of the two lacks the view.

    body: Jaccard of the bodies, of a SimHash the cosine that its distance estimates; containment: share of the
    smaller body found in the other, NaN with a SimHash, which cannot tell;
    lead: share of the smaller lead found in the other; headline: Jaccard of the headlines;
    swapped: (pairs,) bool, the template's mark: each headline has a word that the other lacks and that its
    own text repeats, and the known one's does not stand in the new text. A copy's headline words stand in
    both texts, since the texts are the same.
    grounded: the larger share of a headline's words that its own text holds. In an article it is .4 or more;
    where a page's text is all boilerplate (menus, notices, a login form) it is .2 or less.
    apart: hours between the two event times. shorter: distinct shingles of the shorter body.
    flash: (pairs,) bool, the known one is a headline without text and the new one has a text.
    same_source, same_text, same_id: (pairs,) bool.
    distance: Hamming distance of the bodies' SimHashes, bits, NaN without; near: (pairs,) bool, it is within the
    scheme's `hamming`.
    larger: natural logarithm of how many times as many shingles the new body has; covered: share of the new body found
    in the known one, NaN with a SimHash. words: of the new text's prose that is no boilerplate; new_words: how many of
    them the known text lacks; both NaN where `compare` was not told the prose, or the pair is not `related`.
    corrects: (pairs,) bool, the new headline says that it corrects something, and the known one is another.
    """

    body: NDArray[np.float32]
    containment: NDArray[np.float32]
    lead: NDArray[np.float32]
    headline: NDArray[np.float32]
    swapped: NDArray[np.bool_]
    grounded: NDArray[np.float32]
    apart: NDArray[np.float32]
    shorter: NDArray[np.uint32]
    flash: NDArray[np.bool_]
    same_source: NDArray[np.bool_]
    same_text: NDArray[np.bool_]
    same_id: NDArray[np.bool_]
    distance: NDArray[np.float32]
    near: NDArray[np.bool_]
    larger: NDArray[np.float32]
    covered: NDArray[np.float32]
    words: NDArray[np.float32]
    new_words: NDArray[np.float32]
    corrects: NDArray[np.bool_]

    def take(self, pairs: NDArray[np.integer]) -> "Similarities":
        """Those of some pairs."""
        return Similarities(**{name: getattr(self, name)[pairs] for name in self.__slots__})


def compare(
    new: Fingerprints,
    known: NDArray[np.void],
    of_new: NDArray[np.integer],
    of_known: NDArray[np.integer],
    bodies: tuple[Sequence[bytes], NDArray[np.integer]] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
    apart: NDArray[np.float32] | None = None,
    corrects: NDArray[np.bool_] | None = None,
) -> Similarities:
    """Compares new[of_new[p]] with the signature known[of_known[p]], for every pair p.

    bodies: where they are kept whole, packed ones, and (pairs,) which of them is the known one's; without it `known`
    are the new ones' own signatures. boilerplate: what recurs, and where the window of each new item begins, (n,) ms;
    the prose is compared only with it. apart: (pairs,) hours between the two, None: as their times say. corrects: (n,)
    whose headlines say that they correct something, None: nobody's. O(pairs · bytes of a signature), and of the two
    bodies where they are whole.
    """
    left, right = new.signatures, known
    a, b = of_new.astype(np.int64), of_known.astype(np.int64)
    pairs = len(a)
    body, containment = np.empty(pairs, np.float32), np.empty(pairs, np.float32)
    lead, headline = np.empty(pairs, np.float32), np.empty(pairs, np.float32)
    distance = np.full(pairs, np.nan, np.float32)
    n, m = left["body_size"][a].astype(np.int64), right["body_size"][b].astype(np.int64)
    is_simhash = "simhash" in (left.dtype.names or ())
    if new.bodies:
        packed, of_packed = bodies or (new.bodies, b)
        counts = in_common(new.bodies, packed, a, of_packed, n, m)
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
    _compare_headlines(
        left["headline"],
        right["headline"],
        left["headline_size"],
        right["headline_size"],
        new.words,
        a,
        b,
        headline,
        swapped,
        grounded,
    )
    source = left["source"][a]
    covered = _share_of_new(body, n, m)
    words, new_words = np.full(pairs, np.nan, np.float32), np.full(pairs, np.nan, np.float32)
    if boilerplate is not None and not is_simhash:
        asked = np.flatnonzero(related(body, containment, lead, headline))
        held, words[asked] = (
            _prose_in_bodies(new, packed, a[asked], of_packed[asked], m[asked], *boilerplate)
            if new.bodies
            else _prose_in_sketches(new, right, a[asked], b[asked], *boilerplate)
        )
        new_words[asked] = words[asked] * (1 - held)
    return Similarities(
        body,
        containment,
        lead,
        headline,
        swapped,
        grounded=grounded,
        apart=(np.abs(left["time"][a] - right["time"][b]) / HOUR).astype(np.float32) if apart is None else apart,
        shorter=np.minimum(n, m).astype(np.uint32),
        flash=(m == 0) & (n > 0),
        same_source=(source == right["source"][b]) & (source != 0),
        same_text=left["digest"][a] == right["digest"][b],
        same_id=left["row_id"][a] == right["row_id"][b],
        distance=distance,
        near=distance <= new.hamming,
        larger=np.log((n + _SMALL) / (m + _SMALL)).astype(np.float32),
        covered=np.where(is_simhash, np.nan, covered).astype(np.float32),
        words=words,
        new_words=new_words,
        corrects=np.zeros(pairs, np.bool_) if corrects is None else corrects[a] & ~(headline >= 1),
    )


def related(
    body: NDArray[np.float32],
    containment: NDArray[np.float32],
    lead: NDArray[np.float32],
    headline: NDArray[np.float32],
) -> NDArray[np.bool_]:
    """Pairs of which any view is alike enough to ask what the one brings that the other lacks, (pairs,) bool."""
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
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Share of the prose of new[a[p]] that known[b[p]] holds, and words of that prose, (pairs,) each.

    The prose of a new text is sketched like a body, and compared with the bodies that are remembered: how much of it
    they hold follows from the Jaccard of the two and their sizes. So novelty costs no byte an original.
    """
    items, of_item = _runs(a)
    sketches = np.zeros((len(items), right["body"].shape[1]), np.uint8)
    sizes, words = np.zeros(len(items), np.uint32), np.zeros(len(items), np.float32)
    _sketch_prose(*new.prose, items, boilerplate.entries, boilerplate.starts(horizons[items]), sketches, sizes, words)
    jaccard, containment = np.empty(len(a), np.float32), np.empty(len(a), np.float32)
    _compare_sketches(sketches, right["body"], sizes, right["body_size"], of_item, b, jaccard, containment)
    return _share_of_new(jaccard, sizes[of_item], right["body_size"][b]), words[of_item]


def _prose_in_bodies(
    new: Fingerprints,
    packed: Sequence[bytes],
    a: NDArray[np.int64],
    of_packed: NDArray[np.integer],
    known_sizes: NDArray[np.int64],
    boilerplate: Boilerplate,
    horizons: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """The same, by the whole shingles of both."""
    items, of_item = _runs(a)
    prose, words = new.prose, np.zeros(len(items), np.float32)
    sets: list[list[int]] = []
    for k, item in enumerate(items.tolist()):
        first, last = int(prose.firsts[item]), int(prose.lasts[item])
        fresh = [
            p for p, known in enumerate(boilerplate.known(prose.hashes[first:last], horizons[item]), first) if not known
        ]
        words[k] = prose.units[fresh].sum()
        sets.append(sorted({int(h) for p in fresh for h in prose.shingles[prose.starts[p] : prose.stops[p]]}))
    sizes = np.array([len(one) for one in sets], np.int64)[of_item]
    shared, n, _ = in_common(pack(sets), packed, of_item, of_packed, sizes, known_sizes).T
    return shared / np.maximum(n, 1), words[of_item]


def _runs(a: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The items of some pairs, and (pairs,) which of them is whose; pairs of one item stand together."""
    begins = np.append(True, a[1:] != a[:-1])[: len(a)]
    return a[begins], np.cumsum(begins) - 1


def _share_of_new(
    jaccard: NDArray[np.float32], new: NDArray[np.integer], known: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Share of the new set that the known one holds: |A∩B| = J·(|A|+|B|)/(1+J). 0 where one of them is empty."""
    alike, n, m = np.nan_to_num(jaccard).astype(np.float64), new.astype(np.float64), known.astype(np.float64)
    return np.minimum(alike / (1 + alike) * (n + m) / np.maximum(n, 1), 1)


@njit(nogil=True, cache=True)
def _sketch_prose(firsts, lasts, shingles, begins, ends, hashes, units, items, entries, starts, sketches, sizes, words):
    """Sketches, sizes in shingles and lengths in words of the prose of some items, without its boilerplate."""
    most = 0
    for item in items:
        if lasts[item] > firsts[item]:
            most = max(most, ends[lasts[item] - 1] - begins[firsts[item]])
    kept, size = np.empty(most, np.uint64), 64
    while size < 4 * most:
        size *= 2
    seen, minima = np.empty(size, np.uint32), np.empty(2 * sketches.shape[1], np.uint64)
    for k in range(items.size):
        found = 0
        for p in range(firsts[items[k]], lasts[items[k]]):
            if is_known(entries, hashes[p], starts[k]):
                continue
            for i in range(begins[p], ends[p]):
                kept[found] = shingles[i]
                found += 1
            words[k] += units[p]
        found = distinct(kept, found, seen, kept)
        sizes[k] = found
        sketch(kept, found, minima, sketches[k])


@njit(nogil=True, cache=True)
def _compare_sketches(lefts, rights, left_sizes, right_sizes, of_left, of_right, jaccard, containment):
    """Jaccard and containment of nibble sketches, (n, bins/2) uint8 each; NaN where a set is empty. 16 bins a step."""
    for p in range(of_left.size):
        i, j = of_left[p], of_right[p]
        n, m = float(left_sizes[i]), float(right_sizes[j])
        if n == 0.0 or m == 0.0:
            jaccard[p] = np.nan
            containment[p] = np.nan
            continue
        either, both, equal = uint64(0), uint64(0), uint64(0)
        left, right = lefts[i], rights[j]
        for k in range(0, left.size, 8):
            in_left = _filled(load64(left, k))  # type: ignore[call-arg]  # numba adds the first one
            in_right = _filled(load64(right, k))
            either += bit_count(in_left | in_right)
            both += bit_count(in_left & in_right)
            equal += bit_count(in_left & ~_filled(load64(left, k) ^ load64(right, k)))
        true_equal = max(0.0, (equal - both * _CHANCE) / (1.0 - _CHANCE))
        # No pair can be more alike than its sizes allow.
        alike = min(true_equal / either, min(n, m) / max(n, m))
        jaccard[p] = alike
        containment[p] = min(1.0, alike / (1.0 + alike) * (n + m) / min(n, m))


@njit(nogil=True, cache=True, inline="always")
def _filled(word):
    """The lowest bit of each nibble that is not 0."""
    word |= word >> uint64(2)
    word |= word >> uint64(1)
    return word & _LOWEST


@njit(nogil=True, cache=True)
def _compare_headlines(lefts, rights, left_sizes, right_sizes, words, of_left, of_right, jaccard, swapped, grounded):
    """Jaccard of ascending feature lists, whether words were swapped, and how grounded they are (see Similarities).

    Of a longer headline only the smallest features are stored, and the walk stops where a stored list ends
    before its set does: a bottom-k estimate (Broder 1997).
    """
    width = lefts.shape[1]
    for p in range(of_left.size):
        i, j = of_left[p], of_right[p]
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
        own_left, own_right = False, False
        while True:
            if x == n and (y == m or left_sizes[i] > width):
                break
            if y == m and right_sizes[j] > width:
                break
            if y == m or (x < n and lefts[i, x] >> 1 < rights[j, y] >> 1):
                own_left |= (lefts[i, x] & 1) == 1
                x += 1
            elif x == n or rights[j, y] >> 1 < lefts[i, x] >> 1:
                place = rights[j, y] >> 1
                in_new = (words[i, place >> 3] >> (place & 7)) & 1
                own_right |= (rights[j, y] & 1) == 1 and in_new == 0
                y += 1
            else:
                x += 1
                y += 1
                shared += 1
            union += 1
        jaccard[p] = shared / max(union, 1)
        swapped[p] = own_left and own_right
