"""Two texts -> what stands in both, what stands in one alone, and how many edits lie between them.

In: two strings as a reader sees them. Out: `Comparison`: passages in reading order, and edit distances. Why: numbers
say how much is shared; a person who judges a decision wants to see what is not. Pure, in bounded time. It decides
nothing: words are told apart as the fingerprint does it (case, full-width forms and joiners count for nothing; Chinese,
Japanese and Thai go by character), but no sketch is asked.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from rapidfuzz.distance import Indel, Levenshtein

from stream_dedup.fingerprint.characters import CHARACTER, IGNORED, SEPARATOR, TABLE_SIZE, WORD, character_classes

# Alignment is quadratic (a bit for each pair of words: 50 MB, .1 s); a news item of more words is a page gone wrong.
_WORDS = 20_000
# The same for characters: .3 s.
_CHARACTERS = 100_000
# The longest common subsequence of two strange texts is made of "of the"; so short a run among larger differences
# tells a reader nothing and tears them to pieces.
_ISLAND = 3


class Where(StrEnum):
    """Which of the two texts a passage stands in."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of words, as each text writes it ("" where it does not stand), with what follows the last word."""

    where: Where
    first: str
    second: str
    words: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Passages of two texts, and the edits that make the one into the other.

    Joined, the passages' `first` are the first text, unless it holds no word or was cut; the same for `second`.
    The shares are 1 - edits / length of the longer text; None where both texts are empty.
    """

    passages: list[Passage]
    word_edits: int
    words_alike: float | None
    character_edits: int
    characters_alike: float | None
    cut: bool  # too long: only the first 20,000 words (characters: 100,000) were compared

    def as_json(self) -> dict[str, Any]:
        return {
            "passages": [
                {"where": str(p.where), "words": p.words, "first": p.first, "second": p.second} for p in self.passages
            ],
            "word_edits": self.word_edits,
            "words_alike": self.words_alike,
            "character_edits": self.character_edits,
            "characters_alike": self.characters_alike,
            "cut": self.cut,
        }


def compare_texts(first: str, second: str) -> Comparison:
    """Aligns two texts. Quadratic in words and characters, with limits to both.

    >>> found = compare_texts("The bridge opened on Monday.", "The bridge opened on Sunday.")
    >>> [(str(p.where), p.first or p.second) for p in found.passages]
    [('both', 'The bridge opened on '), ('first', 'Monday.'), ('second', 'Sunday.')]
    >>> found.word_edits, found.words_alike
    (1, 0.8)
    """
    a, b = _Words(first), _Words(second)
    line_a, line_b = "".join(a.keys), "".join(b.keys)  # spaces and punctuation count for nothing
    cut = a.cut or b.cut or max(len(line_a), len(line_b)) > _CHARACTERS
    line_a, line_b = line_a[:_CHARACTERS], line_b[:_CHARACTERS]
    some = bool(a.keys or b.keys)
    return Comparison(
        list(_passages(a, b)),
        Levenshtein.distance(a.keys, b.keys),
        Levenshtein.normalized_similarity(a.keys, b.keys) if some else None,
        Levenshtein.distance(line_a, line_b),
        Levenshtein.normalized_similarity(line_a, line_b) if some else None,
        cut,
    )


class _Words:
    """The words of a text: how each is compared (keys) and where it starts, so that the text can be cut there."""

    def __init__(self, text: str) -> None:
        spans = word_spans(text)
        self.cut = len(spans) > _WORDS
        end = spans[_WORDS][0] if self.cut else len(text)
        self.text = text[:end]
        self.keys = [word_key(text[start:stop]) for start, stop in spans[:_WORDS]]
        # What stands before the first word belongs to it; what follows a word belongs to that word.
        self._cuts = [0, *(start for start, _ in spans[1:_WORDS]), end]

    def piece(self, start: int, stop: int) -> str:
        return self.text[self._cuts[start] : self._cuts[stop]] if stop > start else ""


def word_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each word, or of each character in scripts without spaces; by the fingerprint's own classes.

    >>> [text[i:j] for text in ["Don't, 新闻!"] for i, j in word_spans(text)]
    ["Don't", '新', '闻']
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    table = character_classes()
    classes = np.where(codes < TABLE_SIZE, table[np.minimum(codes, TABLE_SIZE - 1)], SEPARATOR)
    place = np.flatnonzero(classes != IGNORED)  # what is ignored neither starts, ends nor parts a word
    kind = classes[place]
    edge = np.array([SEPARATOR], kind.dtype)
    before, after = np.concatenate([edge, kind[:-1]]), np.concatenate([kind[1:], edge])
    starts = place[(kind == CHARACTER) | ((kind == WORD) & (before != WORD))]
    stops = place[(kind == CHARACTER) | ((kind == WORD) & (after != WORD))] + 1
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def word_key(word: str) -> str:
    """The form in which words are compared.

    >>> word_key("Don’t"), word_key("ＡＢＣ")
    ('dont', 'abc')
    """
    if word.isascii() and word.isalnum():
        return word.lower()
    table = character_classes()
    folded = unicodedata.normalize("NFKC", word).casefold()
    return "".join(c for c in folded if ord(c) >= TABLE_SIZE or table[ord(c)] != IGNORED)


def _passages(a: _Words, b: _Words) -> Iterator[Passage]:
    for common, i, j, k, m in _blocks(a, b):
        if common:
            yield Passage(Where.BOTH, a.piece(i, j), b.piece(k, m), j - i)
            continue
        if j > i:
            yield Passage(Where.FIRST, a.piece(i, j), "", j - i)
        if m > k:
            yield Passage(Where.SECOND, "", b.piece(k, m), m - k)


def _blocks(a: _Words, b: _Words) -> list[tuple[bool, int, int, int, int]]:
    """(common?, words i to j of the first, k to m of the second), turn by turn common and different."""
    found: list[tuple[bool, int, int, int, int]] = []
    for code in Indel.opcodes(a.keys, b.keys):
        _add(found, (code.tag == "equal", code.src_start, code.src_end, code.dest_start, code.dest_end))
    blocks: list[tuple[bool, int, int, int, int]] = []
    for place, block in enumerate(found):
        common, i, j, k, m = block
        inside = 0 < place < len(found) - 1
        if common and inside and j - i < min(_ISLAND, _larger(blocks[-1]) + 1, _larger(found[place + 1]) + 1):
            block = (False, i, j, k, m)
        _add(blocks, block)
    return blocks


def _add(blocks: list[tuple[bool, int, int, int, int]], block: tuple[bool, int, int, int, int]) -> None:
    """Appends, or lengthens the last block if both are common, or both different."""
    if blocks and blocks[-1][0] == block[0]:
        common, i, _, k, _ = blocks.pop()
        block = (common, i, block[2], k, block[4])
    blocks.append(block)


def _larger(block: tuple[bool, int, int, int, int]) -> int:
    return max(block[2] - block[1], block[4] - block[3])
