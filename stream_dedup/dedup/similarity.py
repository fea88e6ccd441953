"""Compute the similarities of candidate pairs from their fingerprints.

A pair is a new item and a known one (a candidate), of which only the signature is left. A shared key only makes a
candidate; the decision rests on these numbers. The core measures (core/similarity.c): for the loop of decide.py one new
item with its candidates, for `compare` a list of pairs. The same record says what the new item has and the known one
lacks; core/novelty.c counts it.

By default, Jaccard and containment are estimated from sketches. With `fingerprint.verify = "exact"` the shingle sets of
the bodies are compared exactly. If the body is a SimHash, its Hamming distance replaces them.

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

# In float32. NaN: the pair has no such view, or novelty, which needs it, is not computed.
_FLOATS = (
    # Jaccard of the bodies, or of SimHashes the cosine that their distance estimates. Share of the smaller body that
    # the other contains. Share of the new item's article that the known body contains for certain; without an article,
    # of its body. Jaccard of the headlines.
    *("body", "containment", "covered", "headline"),
    # Share of a headline's words that its own text contains, the larger of the two: .4 or more in articles, .2 or less
    # in pages whose text is menus, notices or a login form.
    "grounded",
    # Bits in which SimHashes differ. Natural logarithm of the ratio of body sizes, new to known. Hours between the two.
    # The new item's article: share of its tokens, and tokens.
    *("distance", "log_size_ratio", "apart", "article_share", "tokens"),
    # Words of the article, how many the known item lacks, and words in sentences that are mostly new.
    *("words", "new_words", "new_sentences"),
    # Distinct figures of the prose, and how many the known item lacks; how many it lacks of the whole text. The same of
    # the headline; words of the headline that it lacks.
    *("numbers", "new_numbers", "new_numbers_anywhere"),
    *("headline_numbers", "new_headline_numbers", "new_headline"),
    # Words and figures of the headline that its own text has and the known item lacks. Words of the known headline that
    # its own text has and the new item lacks. Share of the article's sentences that have a new word.
    *("headline_gains", "headline_figures", "headline_losses", "spread"),
    # Distinct words, and bits of figures, of the known item that the new one lacks; the same the other way. Words of
    # the item with fewer words.
    *("lost_words", "lost_numbers", "gained_words", "gained_numbers", "fewer_words"),
    # By a diff of the two texts, in tokens, without sentences that recur; NaN if one of the two has no sequence: share
    # of all sentences that the known item has. New ones in sentences of prose of which half or more is new; of these,
    # those between known sentences. In the others: words in the place of others; figures in the place of others, and
    # negations that came in or are lost; of both, what the new headline says and the known one does not.
    *("matched", "fresh", "inserted", "altered", "facts", "altered_headline"),
    # New ones in short sentences behind known ones, and in rows of a list. Words that the new headline says and the
    # known one does not, in that new sentence which says most of them. New ones in the first sentence of prose, and
    # such words among them. New ones of all sentences, and of those behind the first one of prose.
    *("brief", "told", "lead", "said", "unmatched", "rest"),
)
_FLAGS = (
    # The mark of a filled-in template: each headline has a word that the other headline lacks and its own text
    # contains, and the new text lacks that word of the known headline. (The words of two headlines for one text are in
    # both texts.)
    "swapped",
    # The headlines have the same words in another order.
    "other_order",
    # The headlines differ at most in numbers. The source is the same. So are the words of headline and body: one text
    # under two headlines is not the same text. The id is the same.
    *("same_form", "same_source", "same_text", "same_id"),
    # The distance is at most the scheme's. The new item says that it corrects an earlier one: in a headline that is not
    # the known one, or in a text that has something that the known one lacks.
    *("within_hamming", "corrects"),
)
SIMILARITY = record(
    "similarity",
    [*((name, "<f4") for name in _FLOATS), ("smaller_size", "<u4"), *((name, "?") for name in _FLAGS)],
)
"""Similarities of a new and a known item: shares in 0..1 unless stated otherwise. smaller_size: distinct shingles of
the smaller body."""


_FIELDS = "simhash", "form", "headline", "words", "figures", "body"


class Layout(Struct, name="layout"):
    """Where the fields of a signature begin, -1 for a field that its family lacks, and the sizes of some."""

    _fields_ = tuple((name, INT64) for name in ("stride", *_FIELDS, "headline_features", "body_bytes"))


class Signatures(Struct, name="signatures"):
    """Stored signatures; for exact comparison also the packed bodies, joined, and where each begins."""

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
        headline_features=size["headline"] // 2,
        body_bytes=size["body"],
    )


def signatures_of(signatures: NDArray[np.void], bodies: Sequence[bytes] = ()) -> Signatures:
    """Pass (n,) signatures to the core. bodies: the packed bodies, for exact comparison."""
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

    bodies: for exact comparison, the packed bodies of `known`; None: `known` are the signatures of `new`. boilerplate:
    the table of recurring passages, and (n,) the begin of each new item's window, ms; None: without novelty. corrects:
    (n,) `corrections`; None: none is one. O(pairs · (bytes of a signature, or of two packed bodies, + words of the
    article)); fastest if the pairs are ordered by new item.
    """
    news_at, known_at = (np.ascontiguousarray(places, np.int64) for places in (new_of_pair, known_of_pair))
    pairs, news = np.empty(len(news_at), SIMILARITY), news_of(new, corrects, boilerplate)
    left = signatures_of(new.signatures, new.bodies)
    right = signatures_of(known, new.bodies and (new.bodies if bodies is None else bodies))
    call("measure_pairs", arena(), pairs, news, left, right, news_at, known_at, len(pairs))
    return pairs
