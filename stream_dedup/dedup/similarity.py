"""Pass new items and their candidates to the core, which measures how similar they are.

A pair is a new item and a known one (a candidate), of which the signature is left and, for a time, the codes of its
words (`[index] texts`). A shared key only makes a candidate; the decision rests on these numbers. The core measures
(core/similarity.c): for the loop of decide.py one new item with its candidates, for tools/pair_rule.py a list of pairs.
The same record says what the new item has and the known one lacks; core/novelty.c counts it.

By default, Jaccard and containment are estimated from sketches. With `fingerprint.verify = "exact"` the shingle sets of
the bodies are compared exactly. If the body is a SimHash, its Hamming distance replaces them.

Sources: one-permutation estimator with empty bins, Li, Owen, Zhang 2012; correction for b-bit collisions, Li, König
2010; containment from Jaccard and sizes: |A∩B| = J·(|A|+|B|)/(1+J); the angle of a SimHash, Charikar 2002.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, declared, fields, record
from stream_dedup.dedup.boilerplate import Boilerplate, Table, in_seconds
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.kernel import SignatureLayout, layout_of

_TYPES = {"float": "<f4", "uint32_t": "<u4", "bool": "?"}
SIMILARITY = record("similarity", [(name, _TYPES[kind]) for kind, name in declared("similarity_fields")])
"""Similarities of a new and a known item. core/similarity.h says what each field means, and when it is NaN."""


class Signatures(Struct, name="signatures"):
    """Stored signatures; also the bodies (`Scheme.has_bodies`), joined, and where each begins."""

    _fields_ = (*fields(POINTER, "rows bodies bounds"), *fields(INT64, "count body_bytes"), ("layout", SignatureLayout))


def _join(strings: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Join n byte strings in one array, with bounds (n + 1,): string i is data[bounds[i]:bounds[i + 1]].

    >>> data, bounds = _join([b"ab", b"", b"c"])
    >>> data.tolist(), bounds.tolist()
    ([97, 98, 99], [0, 2, 2, 3])
    """
    bounds = np.zeros(len(strings) + 1, np.int64)
    np.cumsum([len(string) for string in strings], out=bounds[1:])
    return np.frombuffer(b"".join(strings), np.uint8), bounds


def signatures_of(signatures: NDArray[np.void], bodies: Sequence[bytes] = ()) -> Signatures:
    """Pass (n,) signatures to the core, with their bodies, if the scheme has them."""
    packed, bounds = _join(bodies) if bodies else (None, None)
    return Signatures(
        rows=np.ascontiguousarray(signatures),
        bodies=packed,
        bounds=bounds,
        count=len(signatures),
        body_bytes=0 if packed is None else len(packed),
        layout=layout_of(signatures.dtype),
    )


class _CoreTexts(Struct, name="texts"):
    """`Texts` as the core reads them."""

    _fields_ = (
        *fields(POINTER, "firsts lasts headline_words headline_numbers"),
        *fields(POINTER, "words shingles numbers passages"),
        *fields(INT64, "word_count shingle_count number_count passage_count"),
    )


class NewItems(Struct, name="news"):
    """What is known of n new items and not stored.

    word_sets: (n, 4096) of `Fingerprints`.
    corrects: (n,) `corrections`.
    hamming: the largest distance of the scheme.
    asks_novelty: novelty is computed, from what follows.
    texts: what the items consist of.
    boilerplate: the table of recurring passages.
    starts: (n,) begins of the items' windows, s.
    """

    _fields_ = (
        ("count", INT64),
        *fields(POINTER, "word_sets corrects"),
        *fields(INT64, "hamming asks_novelty"),
        ("texts", _CoreTexts),
        ("boilerplate", Table),
        ("starts", POINTER),
    )


def new_items_of(
    new: Fingerprints, corrects: NDArray[np.int8], boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None
) -> NewItems:
    """Return the `NewItems` of n fingerprints.

    corrects: (n,) `corrections`.
    boilerplate: the table of recurring passages, and (n,) the begins of the items' windows, ms; None: without novelty.
    """
    news = NewItems(count=len(corrects), word_sets=new.word_sets, corrects=corrects, hamming=new.hamming)
    if boilerplate is not None and new.texts is not None:
        table, horizons = boilerplate
        parts = {name: np.ascontiguousarray(part) for name, part in new.texts._asdict().items()}
        counts = {f"{name}_count": len(parts[f"{name}s"]) for name in ("word", "shingle", "number", "passage")}
        texts, starts = _CoreTexts(**parts, **counts), in_seconds(horizons)
        news.set(asks_novelty=1, texts=texts, boilerplate=table.table, starts=starts)
    return news
