"""What the core takes of new items, beside their signatures."""

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, fields
from stream_dedup.dedup.boilerplate import Boilerplate, Table, in_seconds
from stream_dedup.fingerprint.fingerprint import Fingerprints


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
    new: Fingerprints,
    corrects: NDArray[np.int8] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
) -> NewItems:
    """Return the `NewItems` of fingerprints. The arguments are those of `compare`."""
    n = len(new.signatures)
    marks = np.zeros(n, np.int8) if corrects is None else corrects
    news = NewItems(count=n, word_sets=new.word_sets, corrects=marks, hamming=new.hamming)
    if boilerplate is not None and new.texts is not None:
        table, horizons = boilerplate
        parts = {name: np.ascontiguousarray(part) for name, part in new.texts._asdict().items()}
        counts = {f"{name}_count": len(parts[f"{name}s"]) for name in ("word", "shingle", "number", "passage")}
        texts, starts = _CoreTexts(**parts, **counts), in_seconds(horizons)
        news.set(asks_novelty=1, texts=texts, boilerplate=table.table, starts=starts)
    return news
