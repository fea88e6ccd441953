"""Find what a new item has that a known one lacks, words, sentences and figures, and describe it in a few words.

The known item is only a filter of its words. For the decision, core/novelty.c counts what the filter lacks, into a
`SIMILARITY` record. The reader of an update gets at most 200 bytes: that the headline is new, the first new numbers as
written, and the sentence with the most new words.
"""

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, call
from stream_dedup.dedup.boilerplate import Boilerplate, Table, in_seconds
from stream_dedup.dedup.passages import word_spans
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.kernel import Texts
from stream_dedup.news.item import Item

MOST_BYTES = 200
_MOST_NUMBERS = 4


class CoreTexts(Struct, name="texts"):
    """`Texts` as the core reads them."""

    _fields_ = (
        *((name, POINTER) for name in ("firsts", "lasts", "headline_words", "headline_numbers")),
        *((name, POINTER) for name in ("words", "shingles", "numbers", "passages")),
        *((name, INT64) for name in ("word_count", "shingle_count", "number_count", "passage_count")),
    )


class News(Struct, name="news"):
    """What is known of n new items and not stored.

    words: (n, 4096) of `Fingerprints`; corrects: (n,) `corrections`; hamming: of the scheme; asks_novelty: novelty is
    computed, from what follows; boilerplate: the table of recurring passages; starts: (n,) begins of the items'
    windows, s.
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
    """Pass texts to the core."""
    counts = {f"{name}_count": len(getattr(texts, f"{name}s")) for name in ("word", "shingle", "number", "passage")}
    return CoreTexts(**{name: np.ascontiguousarray(part) for name, part in texts._asdict().items()}, **counts)


def news_of(
    new: Fingerprints,
    corrects: NDArray[np.int8] | None = None,
    boilerplate: tuple[Boilerplate, NDArray[np.int64]] | None = None,
) -> News:
    """`News` of new items. The arguments are those of `compare`."""
    n = len(new.signatures)
    marks = np.zeros(n, np.int8) if corrects is None else corrects
    news = News(count=n, words=new.words, corrects=marks, hamming=new.hamming)
    if boilerplate is not None and new.texts is not None:
        table, horizons = boilerplate
        texts, starts = core_texts(new.texts), in_seconds(horizons)
        news.set(asks_novelty=1, texts=texts, boilerplate=table.table, starts=starts)
    return news


# -- in words ----------------------------------------------------------------------------------------------------------


class MostNew(Struct, name="most_new"):
    """What is new in a text: the sentence of prose with the most new words, from token `begin` to `end`, and the tokens
    of the first new numbers; tokens: of the whole text; is_headline_new: a word of the headline is new.
    """

    _fields_ = (
        *((name, INT64) for name in ("tokens", "begin", "end", "number_count", "is_headline_new")),
        ("numbers", INT64 * _MOST_NUMBERS),
    )


def describe_additions(item: Item, texts: CoreTexts, i: int, known: NDArray[np.uint8], figures: np.uint64) -> str:
    """Describe what item i of `texts` adds to an original with these filters; "" if nothing can be named.

    O(characters), some 20 µs for a text of 3 KB.
    """
    new = MostNew()
    call("find_most_new", texts, i, np.ascontiguousarray(known), int(figures), new)
    spans = word_spans(item.text)
    parts = ["new headline"] * new.is_headline_new
    if len(spans) == new.tokens:  # not so in segmented Chinese, which has other words
        written = [_number_at(item.text, *spans[k].tolist()) for k in new.numbers[: new.number_count]]
        parts += ["numbers: " + ", ".join(dict.fromkeys(written))] if written else []
        if new.end > new.begin:
            parts.append(" ".join(item.text[spans[new.begin, 0] : spans[new.end - 1, 1]].split()))
    return _shortened("; ".join(parts))


def _number_at(text: str, start: int, stop: int) -> str:
    """The number that begins with this word, and may continue after a point, comma or colon."""
    while stop + 1 < len(text) and text[stop] in ".,:" and text[stop + 1].isdigit():
        stop += 1
        while stop < len(text) and text[stop].isdigit():
            stop += 1
    return text[start:stop]


def _shortened(text: str) -> str:
    """Cut a text to `MOST_BYTES` of UTF-8, with "…" at the end if it is cut.

    >>> len(_shortened("ä" * 150).encode()), _shortened("short")
    (199, 'short')
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= MOST_BYTES:
        return text
    return data[: MOST_BYTES - 3].decode("utf-8", "ignore").rstrip() + "…"
