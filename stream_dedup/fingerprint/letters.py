"""Letters that the writers of a script use for one another: `same_letters` maps each to one of them.

Two newsrooms write one word with different letters, and so do two keyboards. A copy must not look new for that. This
module folds what the normalisers of Apache Lucene fold for a script, if it concerns single characters: vowel signs that
may be left out (Arabic, Hebrew), forms of a letter (Arabic, Persian, Urdu, Hindi, Romanian, Russian), accents that
capitals lose (Greek), the dot of the Turkish i, digits, and traditional Chinese. Sometimes two different words become
one. This is harmless, because texts are compared by runs of words.
"""

import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path

NON_JOINER = 0x200C
"""Between Arabic letters it separates the parts of a word; other writers use a space or nothing."""
GRAPHEME_JOINER = "\u034f"
"""It is invisible, and normalisation moves no mark past it."""
ARABIC = (0x0600, 0x06FF)


def _named(blocks: Iterable[tuple[int, int]], suffix: str = "") -> list[str]:
    """The non-spacing marks of some blocks whose names end with the suffix."""
    characters = (chr(code) for first, last in blocks for code in range(first, last + 1))
    return [c for c in characters if unicodedata.category(c) == "Mn" and unicodedata.name(c).endswith(suffix)]


DROPPED = frozenset(
    [
        *_named([ARABIC, (0x08CA, 0x08FF)]),  # vowel signs, hamza above and below
        *_named([(0x0590, 0x05FF)]),  # Hebrew points and accents
        *_named([(0x0900, 0x0CFF)], "SIGN NUKTA"),  # the dot of letters in loanwords: फ़ and फ
        *map(chr, range(0xFE00, 0xFE10)),  # variation selectors: the colour of an emoji
        GRAPHEME_JOINER,
        "\u0640",  # tatweel, which stretches a word
    ]
)
"""Characters to leave out. All but one are marks."""
_FORMS = {
    "ي": "ىیے",  # of yeh
    "ك": "ک",
    "ه": "ةھہۃە",  # of heh, which also stands for teh marbuta
    "ا": "ٱ",
    "ं": "ँ",
    "ș": "ş",  # Romanian; the cedilla is Turkish
    "Ș": "Ş",
    "ț": "ţ",
    "Ț": "Ţ",
    "е": "ё",
    "Е": "Ё",
    "i": "ı",  # the language of a text is unknown, so Turkish capitals become those of other languages
    "I": "İ",
    ",": "\u066c",  # within Arabic numbers
    ".": "\u066b",
}
_GREEK = ((0x0370, 0x03FF), (0x1F00, 0x1FFF))
_TRADITIONAL = Path(__file__).with_name("traditional.txt")


@cache
def same_letters() -> dict[int, str]:
    """The replacement of each character of composed text, "" to leave it out. Built once in a process, in some .1 s.

    >>> "İstanbul أقدم فیلم ١٩٦٢ ёлка Αθήνα 大橋".translate(same_letters())
    'Istanbul اقدم فيلم 1962 елка Αθηνα 大桥'
    """
    found = dict.fromkeys(DROPPED | {chr(NON_JOINER)}, "")
    for c in map(chr, range(0x0370, 0x2000)):
        first, *marks = list(unicodedata.normalize("NFD", c))
        if marks and (DROPPED.issuperset(marks) or any(low <= ord(c) <= high for low, high in _GREEK)):
            found[c] = first
    for c in map(chr, range(0x0660, 0x20000)):
        if unicodedata.category(c) == "Nd":
            found[c] = str(unicodedata.digit(c))
    for letter, forms in _FORMS.items():
        found |= dict.fromkeys(forms, letter)
    pairs = "".join(line for line in _TRADITIONAL.read_text("utf-8").splitlines() if line[0] != "#")
    found |= zip(pairs[::2], pairs[1::2], strict=True)
    return {ord(c): found.get(letter, letter) for c, letter in found.items()}
