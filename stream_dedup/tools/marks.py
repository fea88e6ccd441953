"""Mark what two items have in common, what the later one lacks and what is new in it, by the diff that decides.

Similarities say how much two items share; a `Comparison` shows people what differs. The core aligns the words of both
texts as for a decision (core/diff.c), whatever the settings: for these two texts it makes the sequences that the index
keeps of recent originals. So a new word is one that the decision counts and `adds` names, and a moved paragraph is in
both. Headlines are compared word by word, whatever their order, as the decision compares them.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import groupby

import msgspec
import numpy as np

from stream_dedup.core import arena, call
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.kernel import word_spans
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.rows import SEQUENCE_HEAD
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings

MOST_SEQUENCE = 1 << 14
"""Most words of a text that has a sequence."""
_NONE = -1  # no partner


class Side(StrEnum):
    """The text or texts that contain a passage."""

    BOTH = "both"
    FIRST = "first"
    SECOND = "second"


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of words as written in each text ("" if absent), up to the next word; `where`: which texts contain it.

    at: the number of its first word in the first text, -1 if absent. Words that the first item has in its headline
    alone are in both, and `first` is "".
    """

    where: Side
    words: int
    first: str
    second: str
    at: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The passages of two texts, in the order of the second; what it lacks stands behind what it stood behind.

    Joined, the `second` of all are the second text, and the `first` in the order of `at` the first, as far as they go.
    """

    passages: list[Passage]
    cut: bool  # only the first 16,384 words are compared: a longer text has no sequence

    def sides(self) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
        """Return the first text and the second, each as segments: the words, and whether the other one lacks them."""
        first = sorted((passage for passage in self.passages if passage.first), key=lambda passage: passage.at)
        return (
            [(passage.first, passage.where is Side.FIRST) for passage in first],
            [(passage.second, passage.where is Side.SECOND) for passage in self.passages if passage.second],
        )


def compare_items(first: Item, second: Item) -> tuple[Comparison, Comparison]:
    """Compare the headlines and the texts of two items, the earlier one first. O(characters).

    >>> a, b = (Item("1", "", f"The bridge opened on {day}.", "a.example", 0) for day in ("Monday", "Sunday"))
    >>> [(str(p.where), p.first or p.second) for p in compare_items(a, b)[1].passages]
    [('both', 'The bridge opened on '), ('first', 'Monday.'), ('second', 'Sunday.')]
    """
    items = [msgspec.structs.replace(item, text=_within_reach(item.text)) for item in (first, second)]
    titles = [Item("", "", _within_reach(item.title), "", 0) for item in items]
    bodies = _fingerprinter()([*items, *titles]).bodies
    known, own, *two = (_Words(item.text, body) for item, body in zip([*items, *titles], bodies, strict=True))
    is_cut = any(len(item.text) < len(one.text) for item, one in zip(items, (first, second), strict=True))
    return (
        Comparison(list(_passages(two[0], two[1], _alike(*two))), cut=False),
        Comparison(list(_passages(known, own, _aligned(known, own))), is_cut),
    )


def _within_reach(text: str) -> str:
    """Return the beginning of a text that has a sequence."""
    spans = word_spans(text)
    return text[: spans[MOST_SEQUENCE, 0]] if len(spans) > MOST_SEQUENCE else text


@cache
def _fingerprinter() -> Fingerprinter:
    return Fingerprinter(Scheme(FingerprintSettings()))


class _Words:
    """The words of a text as written, and the codes of its item, headline first, as they stand in the body."""

    def __init__(self, text: str, body: bytes) -> None:
        self.text, self.body = text, np.frombuffer(body, np.uint8)
        count, self.headline = np.frombuffer(body, np.uint32, 2).tolist()
        self.codes = np.frombuffer(body, np.uint16, count, SEQUENCE_HEAD).tolist()
        self.count = count - self.headline
        if text and not self.count:  # it has no words, or too many: show it as one that no other text has
            self.codes, self.count = [*self.codes, _NONE], 1
        # Text before the first word belongs to it. What follows a word belongs to that word, and so does a last line
        # that names the site, which does not count.
        starts = [0, *word_spans(text)[1 : self.count, 0].tolist()]
        self._starts = starts + [len(text)] * (self.count + 1 - len(starts))

    def text_between(self, start: int, stop: int) -> str:
        return self.text[self._starts[start] : self._starts[stop]] if start >= 0 else ""


def _aligned(known: _Words, own: _Words) -> list[int]:
    """Return the place among the known codes of each word of a text, by the diff, or _NONE."""
    partners = np.full(len(own.codes), _NONE, np.int32)
    call("align_bodies", arena(), own.body, len(own.body), known.body, len(known.body), partners)
    return list(map(int, partners[own.headline :]))


def _alike(known: _Words, own: _Words) -> list[int]:
    """Return it for headlines: a word has any other one with its code."""
    places = defaultdict[int, list[int]](list)
    for place in reversed(range(known.count)):
        places[known.codes[place]].append(place)
    return [places[code].pop() if places[code] else _NONE for code in own.codes]


def _passages(first: _Words, second: _Words, partners: list[int]) -> Iterator[Passage]:
    used, start = set(partners), 0
    alone = enumerate(at for at in range(first.count) if first.headline + at not in used)
    runs = ([at for _, at in run] for _, run in groupby(alone, lambda one: one[1] - one[0]))
    lost = {run[0]: len(run) for run in runs}

    def lost_at(at: int) -> Iterator[Passage]:
        if words := lost.pop(at, 0):
            yield Passage(Side.FIRST, words, first.text_between(at, at + words), "", at)

    yield from lost_at(0)
    for is_both, run in groupby(
        enumerate(partners), lambda one: one[1] >= 0 and (one[1] - one[0], one[1] < first.headline)
    ):
        words, at = len(list(run)), partners[start] - first.headline
        text = second.text_between(start, start + words)
        if is_both:
            yield Passage(Side.BOTH, words, first.text_between(at, at + words), text, at)
            yield from lost_at(at + words)
        else:
            yield Passage(Side.SECOND, words, "", text, _NONE)
        start += words
