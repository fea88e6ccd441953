"""Recognise an item that says that it corrects an earlier one.

A change from 38 to 83 million is one word in three hundred, which no similarity shows. But editors mark their
corrections: in the headline ("CORRECTED-", "(Corrected)"), or by a note at the beginning or the end of the text
("Correction: An earlier version of this article ..."). corrections.txt has the marks of some eighty languages. A mark
must be set apart, because market corrections and corrections officers are ordinary news. A note needs some 50 µs to be
looked for, so the tokeniser says which texts have a word of one in their first or last 300 characters
(fingerprint/hints.txt): one in sixteen.

"UPDATE 2-" and "RPT-" only announce a version: such an item is a correction if a figure has replaced another one.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_dedup.news.item import Item

_TABLE = Path(__file__).with_name("corrections.txt")
_LEAD = re.compile(r"\(([^()]*)\)(?!\?)")
_ACCENTS = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u065f]+")  # Latin, Greek and Cyrillic; vowel points


def _folded(text: str) -> str:
    """Return a text in lower case, without accents and full-width forms: "ΔΙΟΡΘΩΣΗ" has no accent, "Διόρθωση" has one.

    >>> _folded("Đính chính："), _folded("ΔΙΌΡΘΩΣΗ")
    ('dinh chinh:', 'διορθωση')
    """
    if text.isascii():
        return text.lower()
    text = _ACCENTS.sub("", unicodedata.normalize("NFKD", text).casefold())
    return text.replace("ı", "i").replace("đ", "d").replace("ł", "l")  # normalisation does not take these apart


def _table() -> dict[str, list[str]]:
    """Return the expressions of each kind, the longest first."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in _TABLE.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            kind, _, alternatives = line.partition(" ")[2].partition(": ")
            for alternative in alternatives.split(", "):
                found[kind].update(map(_expression, _by_first_word(alternative)))
    return {kind: sorted(expressions, key=len, reverse=True) for kind, expressions in found.items()}


def _by_first_word(alternative: str) -> list[str]:
    """Return an expression for each of the words that it may begin with."""
    lead = _LEAD.match(alternative)
    return [word + alternative[lead.end() :] for word in lead[1].split("|")] if lead else [alternative]


def _expression(alternative: str) -> str:
    folded = _folded(alternative)  # "…" becomes "..."
    return folded.replace("(", "(?:").replace("...", r"[^\n]{0,25}").replace(" ", r"\s")


def _any(alternatives: Iterable[str]) -> str:
    """Join expressions into one, by their first letter: a search tries a tenth of them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for expression in alternatives:
        has_letter = expression[0].isalpha() and expression[1:2] != "?"
        groups[expression[0] if has_letter else ""].append(expression[has_letter:])
    return "(?:" + "|".join(f"{letter}(?:{'|'.join(ends)})" for letter, ends in groups.items()) + ")"


_KINDS = _table()
_MARK = _any(_KINDS["mark"])
_OPEN, _CLOSE = r"(\[<{【〔〈《『「〖", r")\]>}】〕〉》』」〗"
# "Correction 27 November:", "Correction (Nov. 5):"
_DATED = r"(?:\W[^\n:]{0,25}\d[^\n:]{0,12})?(?:\s?[:—–|፦៖]|\s-\s)"
_MARKED_FIRST = re.compile(rf"\W{{0,2}}{_MARK}(?:(?:\s\d+)?\s?[-–—:|፦៖]|{_DATED})")  # "CORRECTED-Fed ..."
# "UPDATE 2-CORRECTED-Fed ...", "Fed ... - CORRECTED", "Fed ... (Corrected)". Each form begins with one of a few
# characters, which a search finds in an eighth of the time.
_MARKED = re.compile(
    rf"[-–—:|{_OPEN}](?:(?<=[\d\s].)|(?<=[—:|{_OPEN}])|(?<=\Arpt.))\s?{_MARK}"
    rf"(?:(?:\s\d+)?\s?[-–—:|]|\s?[{_CLOSE}]|\W{{0,2}}\Z)"
)
_VERSION = re.compile(rf"\W{{0,2}}{_any(_KINDS['version'])}(?:\s\d+)?\s?[-–—:|]")
# A note begins a line or a sentence: "Correction: ...", "(Corrects ...". In scripts of South-East Asia, which have no
# full stop, a space ends a sentence.
_BEGIN = _any(_KINDS["mark"] + _KINDS["remark"])
_REMARK = rf"\W{{0,6}}+(?:(?<=[{_OPEN}])(?P<open>))?{_BEGIN}(?:{_DATED}|(?(open)\b|(?!)))"
_NOTE = re.compile(rf"[\n.!?։۔।॥።။៕。]{_REMARK}")
_WITHOUT_STOP = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
_NOTE_BEHIND_SPACE = re.compile(rf"(?<={_WITHOUT_STOP.pattern})\s{_REMARK}")
# To look for one of these letters costs a tenth of trying the alternatives.
_FIRST = "".join(sorted({expression[0] for expression in _KINDS["note"]}))
_PHRASE = re.compile(rf"(?<![a-z0-9_])(?=[{_FIRST}]){_any(_KINDS['note'])}")  # not within a word of ASCII
EDGE = 300  # characters at both ends of a text in which a note is looked for; the same in core.h


IN_HEADLINE, IN_TEXT, NEW_VERSION = 1, 2, 3
"""Where an item says that it is a correction; or that it is a new version of an earlier item."""


def corrections(items: Sequence[Item], hints: NDArray[np.bool_] | None = None) -> NDArray[np.int8]:
    """Return where each item says that it corrects an earlier one, or 0: (n,) int8. O(characters of headlines).

    hints: which items may have a note, see `Fingerprints`; None: all.

    Of 96,000 news of the web in eight languages and 20,000 of an agency, 186 and 77 say so. Most are corrections, the
    others editors' notes of another kind; a copy of either is held back, because the known item has the note, too.

    >>> def item(title: str, text: str = "") -> Item:
    ...     return Item("1", title, text, "a.example", 0)
    >>> corrections([item("CORRECTED-Bridge costs 83 million"), item("Bridge costs 83 million (corrected)")]).tolist()
    [1, 1]
    >>> corrections([item("Bridge opens", "It cost 83 million. Correction: An earlier version said 38 million.")])[0]
    np.int8(2)
    >>> corrections([item("Correction of the market looms", "Corrections officers: 'we saw nothing'")])[0]
    np.int8(0)
    """
    may_have_note = repeat(True) if hints is None else hints.tolist()
    return np.fromiter(map(_where, items, may_have_note), np.int8, len(items))


def _where(item: Item, may_have_note: bool) -> int:
    """Return where the item says that it is a correction, or 0."""
    headline = _folded(item.title)
    if _MARKED_FIRST.match(headline) or _MARKED.search(headline):
        return IN_HEADLINE
    if may_have_note and _has_note(item.text):
        return IN_TEXT
    return NEW_VERSION if _VERSION.match(headline) else 0


def _has_note(text: str) -> bool:
    """Return whether the edges of a text, each behind a line break, have a note."""
    edges = _folded("\n" + (text if len(text) <= 2 * EDGE else f"{text[:EDGE]}\n{text[-EDGE:]}"))
    if _NOTE.search(edges) or _PHRASE.search(edges):
        return True
    return _WITHOUT_STOP.search(edges) is not None and _NOTE_BEHIND_SPACE.search(edges) is not None
