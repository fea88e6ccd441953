"""Recognise an item that says that it corrects an earlier one.

In: items. Out: which of them do. A change from 38 to 83 million is one word in three hundred, which no similarity
shows, but editors mark their corrections: in the headline ("CORRECTED-", "(Corrected)"), or by a note at the beginning
or the end of the text ("Correction: An earlier version of this article ..."). The mark must be set apart, because
market corrections and corrections officers are ordinary news.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_dedup.news.item import Item

# Marks of corrections in Latin script, as alternatives of a regular expression.
_WORDS = (
    "correct(?:ed|ion|ions|s)|clarification|korrigiert|korrektur|berichtigt|berichtigung|correctif|rectificatif|corrigé|"
    "corregido|corrección|rettifica|correção"
)
_CHARACTERS = "更正|訂正|订正"
_WORD = rf"(?:{_WORDS}|{_CHARACTERS})"
# What is left of every mark without its first letter, whose case varies. Capitals alone ("CORRECTED-") stand in
# headlines.
_LATIN = ("orrec", "orreç", "orrig", "orreg", "orrek", "larific", "erichtig", "ectific", "ettific")
_PARTS = (*_LATIN, *(part.upper() for part in _LATIN), *_CHARACTERS.split("|"))
_MARKED = re.compile(
    rf"(?:^|\d[-–—:]\s?)\W{{0,2}}{_WORD}(?:\s\d+)?\s?[-–—:：|]"  # "CORRECTED-Fed ...", "UPDATE 2-CORRECTED-Fed ..."
    rf"|[(\[（【]\s?{_WORD}\s?[)\]）】]"  # "Fed ... (Corrected)"
    rf"|[-–—:|]\s?{_WORD}\W{{0,2}}$",  # "Fed ... - CORRECTED"
    re.I,
)
# A note begins a sentence or a line.
_NOTED = re.compile(
    rf"(?:^|\n\s{{0,8}}|[.!?…\"”»)]\s{{1,8}}|[。！？])\W{{0,2}}{_WORD}(?:\s\w{{1,20}}){{0,2}}\s?[:：]", re.I
)
# Characters at both ends of a text in which a note is looked for.
_EDGE = 300


def corrections(items: Sequence[Item]) -> NDArray[np.bool_]:
    """(n,) bool, whether each item says that it corrects an earlier one. O(characters of headlines), 3 µs an item.

    Of 83,000 real headlines 48 do, of 45,000 real texts 11; all of them are corrections but one.

    >>> def item(title: str, text: str = "") -> Item:
    ...     return Item("1", title, text, "a.example", 0)
    >>> corrections([item("CORRECTED-Bridge costs 83 million"), item("Bridge costs 83 million (corrected)")]).tolist()
    [True, True]
    >>> corrections([item("Bridge opens", "It cost 83 million. Correction: An earlier version said 38 million.")])[0]
    np.True_
    >>> corrections([item("Correction of the market looms", "Corrections officers: 'we saw nothing'")])[0]
    np.False_
    """
    return np.fromiter((_corrects(item.title, item.text) for item in items), np.bool_, len(items))


def _corrects(headline: str, text: str) -> bool:
    if _has_part(headline) and _MARKED.search(headline):
        return True
    return any(
        (": " in edge or "：" in edge) and _has_part(edge) and _NOTED.search(edge) is not None
        for edge in (text[:_EDGE], text[-_EDGE:])
    )


def _has_part(text: str) -> bool:
    return any(part in text for part in _PARTS)
