"""What an update adds, described in a few words.

The reader of an update gets at most 200 bytes: that the headline is new, the first new numbers as written, and the
sentence with the most new words; or, where words stand in the place of others, these words and those around them. The
core finds them with the diff that decides (core/novelty.c), or with the filters of an original that has no sequence.
The words of the original cannot be shown, for its text is not kept.
"""

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import fields, record
from stream_dedup.fingerprint.kernel import word_spans

MOST_BYTES = 200
_MOST_NUMBERS = 4

MOST_NEW = record(
    "most_new",
    [
        *fields("<i4", "tokens begin end first last number_count"),
        ("numbers", "<i4", (_MOST_NUMBERS,)),
        ("is_headline_new", "?"),
    ],
)
"""What is new in a text of so many tokens.

begin, end: the sentence with the most new words; or, if fewer than half of them are new, these words and some around
them.
first, last: these words, if fewer than half are new.
numbers: the tokens of the first new figures, `number_count` of them.
is_headline_new: the original has a word of the headline nowhere."""


def describe_additions(text: str, adds: np.void) -> str:
    """Describe a MOST_NEW of a text; "" if nothing can be named. O(characters), some 20 µs for a text of 3 KB.

    >>> new = np.array([(10, 1, 10, 5, 6, 0, (0, 0, 0, 0), False)], MOST_NEW)[0]
    >>> describe_additions("Elm. Shares of the bank fell by 3 per cent.", new)
    '"fell": Shares of the bank fell by 3 per cent'
    """
    tokens, begin, end, first, last, count = adds.item()[:6]
    spans = word_spans(text)
    parts = ["new headline"] * bool(adds["is_headline_new"])
    if len(spans) == tokens:  # not so where a character folds with its neighbour
        written = [_number_at(text, *spans[k].tolist()) for k in adds["numbers"][:count].tolist()]
        parts += ["numbers: " + ", ".join(dict.fromkeys(written))] if written else []
        if end > begin:
            replaced = f'"{_words_of(text, spans[first:last])}": ' if last > first else ""
            parts.append(replaced + _words_of(text, spans[begin:end]))
    return _shortened("; ".join(parts))


def _words_of(text: str, spans: NDArray[np.int64]) -> str:
    return " ".join(text[spans[0, 0] : spans[-1, 1]].split())


def _number_at(text: str, start: int, stop: int) -> str:
    """Return the number that begins with this word, and may continue after a point, comma or colon."""
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
