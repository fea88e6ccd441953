"""Align two texts: the passages that both contain, those in only one of them, and the edit distances.

A `Comparison` is for people who check a decision: similarities say how much two texts share, this shows what differs.
It takes no part in the decision. Words are split and normalised as for the fingerprint: case, full-width forms, joiners
and forms of one letter do not count; Chinese, Japanese and Thai are compared by character. Pure, in bounded time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import call
from stream_dedup.fingerprint.characters import IGNORED, TABLE_SIZE, character_classes, fold

# Most words to align. It takes a bit per pair of words: 50 MB, .1 s. Longer items are extraction errors.
_WORDS = 20_000
# Most characters: .3 s.
_CHARACTERS = 100_000
# Fewest words of a common passage between larger differences. The longest common subsequence of two unrelated texts
# consists of "of the" and the like, which would split the differences.
_MIN_COMMON = 3


class Side(StrEnum):
    """The text or texts that contain a passage."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of words as written in each text ("" if absent), up to the next word; `where`: which texts contain it."""

    where: Side
    words: int
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The passages of two texts in reading order, and the edits that turn the first into the second.

    The `first` of all passages, joined, are the first text, unless it has no words or was cut; the same holds for
    `second`. The shares are 1 - edits / length of the longer text; None if both texts are empty.
    """

    passages: list[Passage]
    word_edits: int
    words_alike: float | None
    character_edits: int
    characters_alike: float | None
    cut: bool  # only the first 20,000 words (100,000 characters) were compared


def compare_texts(first: str, second: str) -> Comparison:
    """Align two texts. Quadratic in words and characters, both of which are limited.

    >>> found = compare_texts("The bridge opened on Monday.", "The bridge opened on Sunday.")
    >>> [(str(p.where), p.first or p.second) for p in found.passages]
    [('both', 'The bridge opened on '), ('first', 'Monday.'), ('second', 'Sunday.')]
    >>> found.word_edits, found.words_alike
    (1, 0.8)
    """
    from rapidfuzz.distance import Levenshtein  # of the extra `page`, and the decision needs word_spans alone

    a, b = _Words(first), _Words(second)
    characters_a, characters_b = "".join(a.keys), "".join(b.keys)  # without spaces and punctuation
    cut = a.cut or b.cut or max(len(characters_a), len(characters_b)) > _CHARACTERS
    characters_a, characters_b = characters_a[:_CHARACTERS], characters_b[:_CHARACTERS]
    has_words = bool(a.keys or b.keys)
    return Comparison(
        list(_passages(a, b)),
        Levenshtein.distance(a.keys, b.keys),
        Levenshtein.normalized_similarity(a.keys, b.keys) if has_words else None,
        Levenshtein.distance(characters_a, characters_b),
        Levenshtein.normalized_similarity(characters_a, characters_b) if has_words else None,
        cut,
    )


class _Words:
    """The words of a text: their keys for comparison, and their starts."""

    def __init__(self, text: str) -> None:
        spans = word_spans(text)
        self.cut = len(spans) > _WORDS
        end = int(spans[_WORDS, 0]) if self.cut else len(text)
        self.text = text[:end]
        self.keys = [word_key(text[start:stop]) for start, stop in spans[:_WORDS].tolist()]
        # Text before the first word belongs to it; text after a word belongs to that word.
        self._starts = [0, *spans[1:_WORDS, 0].tolist(), end]

    def text_between(self, start: int, stop: int) -> str:
        return self.text[self._starts[start] : self._starts[stop]] if stop > start else ""


def word_spans(text: str) -> NDArray[np.int64]:
    """Return start and end of each word, or character in scripts without spaces, split as for the fingerprint: (n, 2).

    >>> text = "Don't, 新闻!"
    >>> [text[i:j] for i, j in word_spans(text)]
    ["Don't", '新', '闻']
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    spans = np.empty((len(codes), 2), np.int64)
    classes = character_classes()
    return spans[: call("word_spans", codes, len(codes), classes, len(classes), spans)]


def word_key(word: str) -> str:
    """Return the normalised form of a word, for comparison.

    >>> word_key("Don’t"), word_key("ＡＢＣ")
    ('dont', 'abc')
    """
    if word.isascii() and word.isalnum():
        return word.lower()
    table = character_classes()
    return "".join(c for c in fold(word) if ord(c) >= TABLE_SIZE or table[ord(c)] != IGNORED)


def _passages(a: _Words, b: _Words) -> Iterator[Passage]:
    for is_common, i, j, k, m in _blocks(a, b):
        first, second = a.text_between(i, j), b.text_between(k, m)
        if is_common:
            yield Passage(Side.BOTH, j - i, first, second)
            continue
        if j > i:
            yield Passage(Side.FIRST, j - i, first, "")
        if m > k:
            yield Passage(Side.SECOND, m - k, "", second)


_Block: TypeAlias = tuple[bool, int, int, int, int]
"""Whether it is common; words i to j of the first text, k to m of the second."""


def _blocks(a: _Words, b: _Words) -> list[_Block]:
    """Return the blocks of two texts, alternately common and different."""
    merged: list[_Block] = []
    from rapidfuzz.distance import Indel

    for code in Indel.opcodes(a.keys, b.keys):
        _add(merged, (code.tag == "equal", code.src_start, code.src_end, code.dest_start, code.dest_end))
    blocks = merged[:1]
    for (is_common, i, j, k, m), following in pairwise(merged[1:]):
        is_short = j - i < min(_MIN_COMMON, _larger(blocks[-1]) + 1, _larger(following) + 1)
        _add(blocks, (is_common and not is_short, i, j, k, m))
    for block in merged[1:][-1:]:
        _add(blocks, block)
    return blocks


def _add(blocks: list[_Block], block: _Block) -> None:
    """Append a block; merge it with the last one if both are common or both are different."""
    if blocks and blocks[-1][0] == block[0]:
        is_common, i, _, k, _ = blocks.pop()
        block = (is_common, i, block[2], k, block[4])
    blocks.append(block)


def _larger(block: _Block) -> int:
    return max(block[2] - block[1], block[4] - block[3])
