"""What the tokeniser knows about scripts: letters, classes of characters, and their folding.

In scripts that separate words with spaces, a token is a word. In scripts that do not (Chinese, Japanese, Thai, Lao,
Khmer, Burmese, Tibetan), each character is a token, so that no script is dropped, as ASCII tokenisers do. Vowel signs
and other marks of these scripts are part of the character before them: alone, the forty of Khmer are in any text.

Texts are compared after NFKC normalisation (full-width forms, ligatures, compatibility characters), replacement of the
letters that writers use for one another (`same_letters`), and full case folding. With `folding_table()`, the core folds
a text to exactly the characters of `fold`, or reports that the table cannot fold it. News is ASCII except for some
quotes, dashes and accents, and Python's passes over such a text cost more than its whole fingerprint. The table folds
characters that no neighbour can change (Unicode Standard Annex 15, "stable code points"), or whose neighbours are left
out. `fold` folds a text with others, such as a separate accent or conjoining Hangul.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# -- letters ---------------------------------------------------------------------------------------------
# Two newsrooms write one word with different letters, and so do two keyboards. A copy must not look new for that.
# `same_letters` folds what the normalisers of Apache Lucene fold for a script, if it concerns single characters: vowel
# signs that may be left out (Arabic, Hebrew), forms of a letter (Arabic, Persian, Urdu, Hindi, Malayalam), the accents
# and strokes of Latin, Greek and Cyrillic letters, digits, and traditional Chinese. Sometimes two different words
# become one. This is harmless, because texts are compared by runs of words.

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
        *_named([(0x0300, 0x036F)]),  # accents
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
    "i": "ı",  # the language of a text is unknown, so Turkish capitals become those of other languages
    "d": "ð",
    "D": "Ð",
    "th": "þ",
    "Th": "Þ",
    "e": "ə",
    "E": "Ə",
    # Malayalam consonants without a vowel: older texts have a letter, a virama and a joiner.
    "ണ്": "ൺ",
    "ന്": "ൻ",
    "ര്": "ർ",
    "ല്": "ൽ",
    "ള്": "ൾ",
    "ക്": "ൿ",
    ",": "\u066c",  # within Arabic numbers
    ".": "\u066b",
}
# A letter with a stroke or hook that is no mark of its own (ł, ø, ɓ), or two letters in one (æ).
_LATIN_NAME = re.compile(r"LATIN (SMALL|CAPITAL) (?:LETTER|LIGATURE) ([A-Z]{1,2})(?: WITH .*)?")
_TRADITIONAL = Path(__file__).with_name("traditional.txt")


@cache
def same_letters() -> dict[int, str]:
    """The replacement of each character of composed text, "" to leave it out. Built once in a process, in some .1 s.

    >>> "İstanbul أقدم فیلم ١٩٦٢ ёлка Αθήνα 大橋".translate(same_letters())
    'Istanbul اقدم فيلم 1962 елка Αθηνα 大桥'
    >>> "Łódź Ærø Đà Nẵng".translate(same_letters())
    'Lodz AEro Da Nang'
    """
    found = dict.fromkeys(DROPPED | {chr(NON_JOINER)}, "")
    for c in map(chr, (*range(0x00C0, 0x3000), *range(0xA720, 0xA800))):
        first, *marks = list(unicodedata.normalize("NFD", c))
        if marks and DROPPED.issuperset(marks):
            found[c] = first
        elif name := _LATIN_NAME.fullmatch(unicodedata.name(c, "")):
            found[c] = name[2] if name[1] == "CAPITAL" else name[2].lower()
    for c in map(chr, range(0x0660, 0x20000)):
        if unicodedata.category(c) == "Nd":
            found[c] = str(unicodedata.digit(c))
    for letter, forms in _FORMS.items():
        found |= dict.fromkeys(forms, letter)
    pairs = "".join(line for line in _TRADITIONAL.read_text("utf-8").splitlines() if line[0] != "#")
    found |= zip(pairs[::2], pairs[1::2], strict=True)
    return {ord(c): found.get(letter, letter) for c, letter in found.items()}


# -- classes ---------------------------------------------------------------------------------------------

SEPARATOR, WORD, CHARACTER, IGNORED, PART = 0, 1, 2, 3, 4

# Beyond this code point there are only tags and private use.
TABLE_SIZE = 0x33480

HAN = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, TABLE_SIZE - 1))
"""Code points of Chinese characters: the main block, its extensions and compatibility forms; first and last."""
# Unicode blocks of scripts that do not separate words with spaces.
_WITHOUT_SPACES = (
    *HAN,
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # CJK radicals
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x3100, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAA7F),  # Myanmar, extended
    (0x1B000, 0x1B16F),  # Kana, extended
)
# The property is not in unicodedata. With one table the marks of a text are the same under every version of Unicode.
_MARKS = Path(__file__).with_name("marks.txt")
# Marks that do not split a word: don't = don’t = dont; geresh.
_JOINERS = "'’‘ʼ＇׳"


@cache
def character_classes() -> NDArray[np.uint8]:
    """The class of each code point: (TABLE_SIZE,) uint8. Built once in a process, in some 30 ms.

    >>> [int(character_classes()[ord(c)]) for c in "a7 新ж"]
    [1, 1, 0, 2, 1]
    """
    table, digits = np.zeros(TABLE_SIZE, np.uint8), []
    has_spaces = np.ones(TABLE_SIZE, np.bool_)
    for code in range(0x20000):
        category = unicodedata.category(chr(code))
        if category == "Nd":
            digits.append(code)
        # Words consist of letters, marks and numbers; formatting characters (zero-width, soft hyphen) are ignored.
        if category[0] in "LMN":
            table[code] = PART if category[0] == "M" else WORD
        elif category == "Cf":
            table[code] = IGNORED
    for first, last in _WITHOUT_SPACES:
        part = table[first : last + 1]
        part[part == WORD] = CHARACTER
        has_spaces[first : last + 1] = False
        if first >= 0x20000:
            part[:] = CHARACTER
    table[(table == PART) & has_spaces] = WORD
    table[digits] = WORD  # folded to ASCII
    for ignored in (*_JOINERS, *DROPPED):
        table[ord(ignored)] = IGNORED
    table.setflags(write=False)
    return table


@cache
def sentence_marks() -> NDArray[np.uint32]:
    """The code points that end a sentence, in all scripts.

    >>> [chr(code) in "។।։។" for code in sentence_marks()].count(True)
    3
    """
    ranges = (part.partition("-") for part in _MARKS.read_text("utf-8").partition("\n")[2].split())
    codes = (range(int(first, 16), int(last or first, 16) + 1) for first, _, last in ranges)
    return np.array([code for each in codes for code in each], np.uint32)


# -- folding ---------------------------------------------------------------------------------------------

# How a character interacts with its neighbours under normalisation.
INERT, DECOMPOSABLE, MARK, CONTEXT = 0, 1, 2, 3
Folds = tuple[NDArray[np.uint32], NDArray[np.uint32]]
"""How to fold each character that is not ASCII: (entries by code point, entries of longer folds).

The last entry stands for every code point from TABLE_SIZE on.
"""
GROWTH = 3
"""Most folded bytes per byte of a character ("½" grows from 2 to 5); the table cannot fold what grows more."""

CODE_MASK, EXPANDS, CLASS_SHIFT, KIND_SHIFT = 0x1FFFFF, 0x200000, 22, 25
"""The fields of an entry: 21 bits for the folded code point, or with EXPANDS for offset << 4 | length among the longer
folds; 3 bits for the folded character's class; 2 bits for its interaction with neighbours."""
# Han, Hangul syllables and private use fold to themselves; to skip them saves a third of the time to build the table.
_HANGUL = (0xAC00, 0xD7A3)
_UNCHANGED = ((0x3400, 0x9FFF), _HANGUL, (0xE000, 0xF8FF), (0x20000, 0x2F7FF), (0x2FA20, TABLE_SIZE - 1))
NO_TABLE: Folds = np.frombuffer(b"", np.uint32), np.frombuffer(b"", np.uint32)
"""For ASCII texts, which need no table."""


def identity_table(classes: NDArray[np.uint8]) -> Folds:
    """The table for folded texts: each character stays, with its class."""
    table = _entries(np.arange(TABLE_SIZE + 1, dtype=np.uint32), classes)
    table.setflags(write=False)
    return table, NO_TABLE[1]


def _entries(codes: NDArray[np.uint32], classes: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Entries of folded characters. A separator beyond ASCII becomes a space, or "!" if it ends a sentence."""
    kinds = np.append(classes, np.uint8(SEPARATOR)).astype(np.uint32)[np.minimum(codes, TABLE_SIZE)]
    replaced = np.where(np.isin(codes, sentence_marks()), np.uint32(ord("!")), np.uint32(ord(" ")))
    written = np.where((kinds == SEPARATOR) & (codes >= 0x80), replaced, codes)
    entries: NDArray[np.uint32] = (written | kinds << CLASS_SHIFT).astype(np.uint32, copy=False)
    return entries


@cache
def folding_table() -> Folds:
    """The table for all other texts. Built once in a process, in some .06 s, for the first text that is not ASCII.

    >>> chr(int(folding_table()[0][ord("É")]) & CODE_MASK)
    'e'
    """
    kinds = np.full(TABLE_SIZE + 1, INERT, np.uint32)
    kinds[TABLE_SIZE] = CONTEXT
    folded = np.arange(TABLE_SIZE + 1, dtype=np.uint32)
    kinds[_HANGUL[0] : _HANGUL[1] + 1] = DECOMPOSABLE
    longer: list[int] = []
    same = same_letters()
    is_folded = np.ones(TABLE_SIZE, np.bool_)
    for first, last in _UNCHANGED:
        is_folded[first : last + 1] = False
    codes = np.flatnonzero(is_folded).tolist()
    composing = _composing(codes)
    for code in codes:
        char = chr(code)
        is_whole = not (unicodedata.decomposition(char) or unicodedata.combining(char))
        is_plain = code not in same and char not in composing and not 0xD800 <= code <= 0xDFFF
        if is_whole and is_plain and char.casefold() == char:
            continue  # it stays, as nine of ten do
        composed = unicodedata.normalize("NFKC", char)
        decomposed = unicodedata.normalize("NFKD", char)
        marks = [unicodedata.combining(c) for c in decomposed]
        fold = _folded(composed, same)
        if not fold:
            # A mark that is left out does not tell the order of those on its two sides.
            kinds[code] = DECOMPOSABLE if marks[0] else INERT
            folded[code] = NON_JOINER
            continue
        is_reordered = bool(marks[0]) and decomposed != char
        if is_reordered or 0xD800 <= code <= 0xDFFF or decomposed[0] in composing or composed[0] in composing:
            kinds[code] = CONTEXT
            continue
        kinds[code] = MARK if marks[0] else INERT if DROPPED.issuperset(decomposed[1:]) else DECOMPOSABLE
        encoded, size = fold.encode(), len(char.encode())
        if len(fold) == 1 and len(encoded) <= size:
            folded[code] = ord(fold)
            continue
        if len(encoded) > min(15, GROWTH * size):
            kinds[code] = CONTEXT
            continue
        folded[code] = EXPANDS | len(longer) << 4 | len(fold)
        longer += map(ord, fold)
    for code, letter in same.items():
        if any(first <= code <= last for first, last in HAN) and folded[code] == code:
            folded[code] = ord(letter)
    classes = character_classes()
    table = np.where(folded & EXPANDS, folded, _entries(folded, classes)) | kinds << KIND_SHIFT
    parts = _entries(np.array(longer, np.uint32), classes)
    for array in (table, parts):
        array.setflags(write=False)
    return table, parts


def _composing(codes: list[int]) -> frozenset[str]:
    """Characters that may compose with the one before: the second of a canonical pair, Hangul vowels and finals."""
    second = {chr(code) for code in range(0x1160, 0x1200)}
    for code in codes:
        pair = unicodedata.decomposition(chr(code))
        if pair and pair[0] != "<" and " " in pair:
            second.add(chr(int(pair.split()[1], 16)))
    return frozenset(second)


def fold(text: str) -> str:
    """Fold a text with Python's Unicode functions, the reference for folding by table. O(characters).

    >>> fold("Cafe\u0301"), fold("می\u200cبندد")
    ('cafe', 'مي بندد')
    """
    if chr(NON_JOINER) in text:
        text = _SPLITS_WORD.sub(" ", text)
    if len(text) > _MOST_MARKS:
        text = _long_runs().sub("\\1" + GRAPHEME_JOINER, text)
    return _folded(unicodedata.normalize("NFKC", text), same_letters())


def _folded(composed: str, same: dict[int, str]) -> str:
    return composed.translate(same).casefold()


def encoded(text: str) -> bytes:
    """UTF-8; lone surrogates, which have none, become "?"."""
    return text.encode("utf-8", "replace")


_SPLITS_WORD = re.compile(f"(?<=[{chr(ARABIC[0])}-{chr(ARABIC[1])}]){chr(NON_JOINER)}")
# Unicode's Stream-Safe Text Format (UAX 15): in a longer run of marks a joiner follows each 30 of them. To sort a run
# takes quadratic time: 600 KB of marks took minutes.
_MOST_MARKS = 30


@cache
def _long_runs() -> re.Pattern[str]:
    """Finds the first marks of each run that is too long; built once in a process, in some .1 s."""
    characters = map(chr, range(0x20000))
    marks = "".join(c for c in characters if unicodedata.combining(unicodedata.normalize("NFKD", c)[0]))
    return re.compile(f"([{marks}]{{{_MOST_MARKS}}})(?=[{marks}])")
