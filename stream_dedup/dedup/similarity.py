"""Compute the similarities of candidate pairs from their fingerprints.

A pair is a new item and a known one (a candidate), of which the signature is left and, for a time, the codes of its
words (`[index] texts`). A shared key only makes a candidate; the decision rests on these numbers. The core measures
(core/similarity.c): for the loop of decide.py one new item with its candidates, for `compare` a list of pairs. The same
record says what the new item has and the known one lacks; core/novelty.c counts it.

By default, Jaccard and containment are estimated from sketches. With `fingerprint.verify = "exact"` the shingle sets of
the bodies are compared exactly. If the body is a SimHash, its Hamming distance replaces them.

Sources: one-permutation estimator with empty bins, Li, Owen, Zhang 2012; correction for b-bit collisions, Li, König
2010; containment from Jaccard and sizes: |A∩B| = J·(|A|+|B|)/(1+J); the angle of a SimHash, Charikar 2002.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, arena, call, declared, fields, record
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.new_items import new_items_of
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.kernel import SignatureLayout, layout_of
from stream_dedup.fingerprint.packed_sets import join

_TYPES = {"float": "<f4", "uint32_t": "<u4", "bool": "?"}
SIMILARITY = record("similarity", [(name, _TYPES[kind]) for kind, name in declared("similarity_fields")])
"""Similarities of a new and a known item. core/similarity.h says what each field means, and when it is NaN."""


class Signatures(Struct, name="signatures"):
    """Stored signatures; also the bodies (`Scheme.has_bodies`), joined, and where each begins."""

    _fields_ = (
        *fields(POINTER, "rows bodies bounds"),
        *fields(INT64, "count body_bytes"),
        ("layout", SignatureLayout),
    )


def signatures_of(signatures: NDArray[np.void], bodies: Sequence[bytes] = ()) -> Signatures:
    """Pass (n,) signatures to the core, with their bodies, if the scheme has them."""
    packed, bounds = join(bodies) if bodies else (None, None)
    return Signatures(
        rows=np.ascontiguousarray(signatures),
        bodies=packed,
        bounds=bounds,
        count=len(signatures),
        body_bytes=0 if packed is None else len(packed),
        layout=layout_of(signatures.dtype),
    )


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

    bodies: those of `known`, if the scheme has them; None: `known` are the signatures of `new`.
    boilerplate: the table of recurring passages, and (n,) the begin of each new item's window, ms; None: without
    novelty.
    corrects: (n,) `corrections`; None: no item is one.

    O(pairs · (bytes of a signature and of two bodies + words of the article)); fastest if the pairs are ordered
    by new item.
    """
    news_at, known_at = (np.ascontiguousarray(places, np.int64) for places in (new_of_pair, known_of_pair))
    pairs, news = np.empty(len(news_at), SIMILARITY), new_items_of(new, corrects, boilerplate)
    left = signatures_of(new.signatures, new.bodies)
    right = signatures_of(known, new.bodies and (new.bodies if bodies is None else bodies))
    call("measure_pairs", arena(), pairs, news, left, right, news_at, known_at, len(pairs))
    return pairs
