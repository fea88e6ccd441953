"""Find out what a new item has that a known one lacks: words, sentences and figures; and say so in a few words.

In: the texts of new items, and the word filter of a known one. Out: counts in a `SIMILARITY` record, which the decision
asks (core/novelty.c counts them); and for the reader of an update, at most 200 bytes: that the headline is new, the
first new numbers as written, and the sentence with the most new words.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, call
from stream_dedup.dedup.boilerplate import Boilerplate, Table, in_seconds
from stream_dedup.dedup.passages import word_spans
from stream_dedup.fingerprint.fingerprint import Fingerprints, Texts
from stream_dedup.news.item import Item

MOST_BYTES = 200
_MOST_NUMBERS = 4


class CoreTexts(Struct, name="texts"):
    """`Texts` as the core takes them."""

    _fields_ = (
        *((name, POINTER) for name in ("firsts", "lasts", "headline_words", "headline_numbers")),
        *((name, POINTER) for name in ("words", "shingles", "numbers", "passages")),
        *((name, INT64) for name in ("word_count", "shingle_count", "number_count", "passage_count")),
    )


class News(Struct, name="news"):
    """What is known of n new items, and not stored.

    words: (n, 4096) of `Fingerprints`; corrects: (n,) `corrections`; hamming: of the scheme; asks_novelty: the texts
    are compared; boilerplate: the table of recurring passages; starts: (n,) begins of the items' windows, in its unit.
    """

    _fields_ = (
        ("count", INT64),
        *((name, POINTER) for name in ("words", "corrects")),
        *((name, INT64) for name in ("hamming", "asks_novelty")),
        ("texts", CoreTexts),
        ("boilerplate", Table),
        ("starts", POINTER),
    )


def core_texts(texts: Texts) -> CoreTexts:
    """Hand texts to the core."""
    counts = {f"{name}_count": len(getattr(texts, f"{name}s")) for name in ("word", "shingle", "number", "passage")}
    return CoreTexts(**{name: np.ascontiguousarray(part) for name, part in texts._asdict().items()}, **counts)


def news_of(
    new: Fingerprints,
    corrects: NDArray[np.int8] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
) -> News:
    """`News` of new items. The other arguments are those of `compare`."""
    n = len(new.signatures)
    marks = np.zeros(n, np.int8) if corrects is None else corrects
    of_all: dict[str, Any] = {"count": n, "words": new.words, "corrects": marks, "hamming": new.hamming}
    if boilerplate is None or new.texts is None:
        return News(**of_all)
    table, horizons = boilerplate
    texts, starts = core_texts(new.texts), in_seconds(horizons)
    return News(**of_all, asks_novelty=1, texts=texts, boilerplate=table.table, starts=starts)


# -- in words ----------------------------------------------------------------------------------------------------------


class MostNew(Struct, name="most_new"):
    """What is new in a text: the sentence of prose with the most new words, begin and end as positions of tokens, and
    its first new numbers; tokens: of the whole text; is_headline_new: a word of its headline is.
    """

    _fields_ = (
        *((name, INT64) for name in ("tokens", "begin", "end", "number_count", "is_headline_new")),
        ("numbers", INT64 * _MOST_NUMBERS),
    )


def describe_additions(item: Item, texts: CoreTexts, i: int, known: NDArray[np.uint8], figures: np.uint64) -> str:
    """Describe what item i of `texts` adds; "" if nothing can be named. known, figures: the filters of the original.

    O(characters), some 20 µs for a text of 3 KB.
    """
    found = MostNew()
    call("find_most_new", texts, i, np.ascontiguousarray(known), int(figures), found)
    spans = word_spans(item.text)
    parts = ["new headline"] * found.is_headline_new
    if len(spans) == found.tokens:  # segmented Chinese has other words
        written = [_number_at(item.text, *spans[k].tolist()) for k in found.numbers[: found.number_count]]
        parts += ["numbers: " + ", ".join(dict.fromkeys(written))] if written else []
        if found.end > found.begin:
            parts.append(" ".join(item.text[spans[found.begin, 0] : spans[found.end - 1, 1]].split()))
    return _shortened("; ".join(parts))


def _number_at(text: str, start: int, stop: int) -> str:
    """The number that begins with this word, and goes on behind a point or comma."""
    while stop + 1 < len(text) and text[stop] in ".,:" and text[stop + 1].isdigit():
        stop += 1
        while stop < len(text) and text[stop].isdigit():
            stop += 1
    return text[start:stop]


def _shortened(text: str) -> str:
    """Cut a text to `MOST_BYTES` of UTF-8, with "…" at the end if something is missing.

    >>> len(_shortened("ä" * 150).encode()), _shortened("short")
    (199, 'short')
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= MOST_BYTES:
        return text
    return data[: MOST_BYTES - 3].decode("utf-8", "ignore").rstrip() + "…"
