"""Compute the similarities of candidate pairs from their fingerprints.

In: the fingerprints of new items, the signatures of known ones (the candidates), and pairs of positions in both. Out:
`SIMILARITY` records. A shared key only makes a candidate; the decision rests on these numbers. The core measures
(core/similarity.c): for the loop of decide.py one new item with its candidates, for `compare` a list of pairs. What the
new item has and the known one lacks is in the same record; core/novelty.c counts it.

By default, Jaccard and containment are estimated from sketches. With `fingerprint.verify = "exact"` the shingle sets of
the bodies are compared exactly. If the body is a SimHash, its Hamming distance takes their place.

Sources: one-permutation estimator with empty bins, Li, Owen, Zhang 2012; correction for b-bit collisions, Li, König
2010; containment from Jaccard and sizes: |A∩B| = J·(|A|+|B|)/(1+J); the angle of a SimHash, Charikar 2002.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, arena, call, record
from stream_dedup.dedup.additions import news_of
from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.packed_sets import join

HOUR = 3_600_000
"""In milliseconds."""
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
SIMILARITY = record(
    "similarity",
    [*((name, "<f4") for name in _FLOATS), ("smaller_size", "<u4"), *((name, "?") for name in _FLAGS)],
)
"""Similarities of a pair of a new and a known item: shares in 0..1 unless stated otherwise. smaller_size: distinct
shingles of the smaller body."""


_FIELDS = "simhash", "form", "headline", "words", "figures", "body"


class Layout(Struct, name="layout"):
    """Where the fields of a signature begin, -1 for those that its family has not, and the sizes of some."""

    _fields_ = tuple((name, INT64) for name in ("stride", *_FIELDS, "simhash_words", "headline_features", "body_bytes"))


class Signatures(Struct, name="signatures"):
    """Signatures as they are stored; for exact comparison the packed bodies, joined, and where each begins."""

    _fields_ = (
        *((name, POINTER) for name in ("rows", "bodies", "bounds")),
        *((name, INT64) for name in ("count", "body_bytes")),
        ("layout", Layout),
    )


@cache
def layout_of(signatures: np.dtype[np.void]) -> Layout:
    """The layout of a scheme's signature_dtype."""
    fields: Mapping[str, Any] = signatures.fields or {}
    names = signatures.names or ()
    size = {name: fields[name][0].itemsize if name in names else 0 for name in _FIELDS}
    return Layout(
        stride=signatures.itemsize,
        **{name: fields[name][1] if name in names else -1 for name in _FIELDS},
        simhash_words=size["simhash"] // 8,
        headline_features=size["headline"] // 2,
        body_bytes=size["body"],
    )


def signatures_of(signatures: NDArray[np.void], bodies: Sequence[bytes] = ()) -> Signatures:
    """Hand (n,) signatures to the core; bodies: the packed bodies, for exact comparison."""
    packed, bounds = join(bodies) if bodies else (None, None)
    return Signatures(
        rows=np.ascontiguousarray(signatures),
        bodies=packed,
        bounds=bounds,
        count=len(signatures),
        body_bytes=0 if packed is None else len(packed),
        layout=layout_of(signatures.dtype),
    )


def unknown(pairs: int) -> NDArray[np.void]:
    """Room for the similarities of pairs, (pairs,) SIMILARITY: nothing is known yet."""
    similar = np.zeros(pairs, SIMILARITY)
    for name in _FLOATS:
        similar[name] = np.nan
    return similar


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
    a, b = np.ascontiguousarray(new_of_pair, np.int64), np.ascontiguousarray(known_of_pair, np.int64)
    similar = np.empty(len(a), SIMILARITY)
    left, news = signatures_of(new.signatures, new.bodies), news_of(new, corrects, boilerplate)
    right = signatures_of(known, new.bodies if bodies is None else bodies) if new.bodies else signatures_of(known)
    call("measure_pairs", arena(), similar, news, left, right, a, b, len(a))
    return similar
