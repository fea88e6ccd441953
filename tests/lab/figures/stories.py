"""Articles of a corpus as edits need them: sentences of prose, names, numbers, rare words, and which are unlike.

A `Pool` holds the `Story`s of one language of a corpus that an edit can be made of. A story speaks of its headline, has
five sentences of prose or more, and no other item of the pool begins as it does.
"""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import rjieba

PHRASES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text("utf-8"))
"""What edits say, by language and name: phrases.toml."""
# Vowel signs and joiners belong to words, which Python's \w does not know.
_LETTERS = r"\w\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0962\u0963\u200c\u200d"
WORD = re.compile(rf"[{_LETTERS}]+(?:['’-][{_LETTERS}]+)*")
_SPACELESS = r"\u3040-\u30ff\u3400-\u9fff"
_IDEOGRAPHS = re.compile(f"[{_SPACELESS}]+")
_GLUED = r"A-Za-z\u00c0-\u024f\u0400-\u04ff\d"
NUMBER = re.compile(rf"(?<![{_GLUED}])(?<![{_GLUED}][.,:/\-–’'])\d+(?:[.,]\d+)*(?![{_GLUED}])(?![.,:/–-]\d)")
"""A number that stands alone: no part of a name (A62, COVID-19), a time, a date in figures, or an ordinal (12th)."""
_END = re.compile(
    r"(?:(?:(?<=\w\w\w)|(?<=[\"”)%»’]))\.|[!?…؟۔।])[\"”»’')\]]*(?=\s+[^\sa-zß-ÿа-я]|\s*$)|[。！？][\"”」』’）]*", re.M
)
_SENTENCE_MARK = re.compile(r"[.!?…؟۔।。！？][\"”»’')\]」』）]*$")
WITHOUT_CAPITALS = frozenset({"ar", "fa", "he", "hi", "ja", "ne", "th", "ur", "zh"})
_FEWEST_WORDS, _MOST_WORDS = 8, 60  # of a sentence of prose
_CODES = {
    "arabic": "ar", "catalan": "ca", "chinese": "zh", "chineset": "zh", "english": "en", "french": "fr",
    "german": "de", "hindi": "hi", "italian": "it", "nepali": "ne", "persian": "fa", "portuguese": "pt",
    "russian": "ru", "spanish": "es",
}  # fmt: skip
# Only nouns have an article in German, names seldom; both have capitals.
_ARTICLES = (
    r"d(?:er|ie|as|en|em|es)|k?eine?[nmrs]?|[ia]m|ins|ans|zu[mr]|vom|beim|ihre?[nmrs]?|seine?[nmrs]?|diese[nmrs]?|"
    r"alle|viele|mehr"
)
_NOUN = re.compile(rf"\b(?i:{_ARTICLES}) ([A-ZÄÖÜ]\w+)")
# Words in more than these shares of the pool are common; a name is in fewer.
_COMMON, _NAME = 0.05, 0.02


def language_of(record: Mapping[str, Any]) -> str:
    """Return the code of an item's language.

    >>> language_of({"lang": "nepali"}), language_of({"lang": "en"})
    ('ne', 'en')
    """
    name = str(record.get("lang", "")).lower()
    return _CODES.get(name, name[:2])


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; of a script without spaces, all pairs of characters.

    >>> words_of("Elm bridge, 桥今天开")
    ['elm', 'bridge', '桥今', '今天', '天开']
    """
    words: list[str] = []
    for word in WORD.findall(text.lower()):
        if runs := _IDEOGRAPHS.findall(word):
            words += [run[at : at + 2] for run in runs for at in range(max(len(run) - 1, 1))]
        else:
            words.append(word)
    return words


def sentences_of(paragraph: str) -> list[str]:
    """Cut a paragraph into sentences.

    >>> sentences_of('The bridge opened. "At last," Mr. Ash said. Rates: 4.5 percent.')
    ['The bridge opened.', '"At last," Mr. Ash said.', 'Rates: 4.5 percent.']
    """
    found, start = [], 0
    for match in _END.finditer(paragraph):
        found.append(paragraph[start : match.end()].strip())
        start = match.end()
    return [sentence for sentence in (*found, paragraph[start:].strip()) if sentence]


def is_prose(sentence: str) -> bool:
    """Whether a sentence has eight words or more (in Chinese sixteen characters), and a mark at its end."""
    count = len(WORD.findall(sentence)) + sum(map(len, _IDEOGRAPHS.findall(sentence))) // 2
    return _FEWEST_WORDS <= count <= _MOST_WORDS and _SENTENCE_MARK.search(sentence) is not None


def plain_numbers(text: str) -> list[str]:
    """Return the numbers of a text that are no years.

    >>> plain_numbers("A62: 12 hurt in 2024, 4.25 percent, COVID-19, 7:30")
    ['12', '4.25']
    """
    return [number for number in NUMBER.findall(text) if not re.fullmatch(r"(19|20)\d\d", _western(number))]


def _western(number: str) -> str:
    return "".join(str(unicodedata.digit(one)) if one.isdigit() else one for one in number)


def another_number(number: str, chance: Random, taken: str = "") -> str:
    """Return a number of as many digits in the same script that `taken` does not contain.

    >>> another_number("1,234.5", Random(1)), another_number("१२", Random(1))
    ('3,234.5', '३२')
    """
    places = [at for at, one in enumerate(number) if one.isdigit()][:2]
    for _ in range(50):
        at = chance.choice(places)
        zero = chr(ord(number[at]) - unicodedata.digit(number[at]))
        digit = chance.choice([d for d in range(2 if len(places) == 1 else 1, 10) if chr(ord(zero) + d) != number[at]])
        changed = number[:at] + chr(ord(zero) + digit) + number[at + 1 :]
        if changed not in taken:
            return changed
    return changed


def with_swapped(text: str, swaps: Mapping[str, str]) -> str:
    """Put other words and numbers in the places of those in `swaps`, all at once.

    >>> with_swapped("Ash beats Elm, Ashford watches", {"Ash": "Elm", "Elm": "Ash"})
    'Elm beats Ash, Ashford watches'
    """
    if not swaps:
        return text
    glue = rf"(?<![{_LETTERS}]){{}}(?![{_LETTERS}])"
    parts = []
    for old in sorted(swaps, key=len, reverse=True):
        if NUMBER.fullmatch(old):
            parts.append(rf"(?<![{_GLUED}])(?<![{_GLUED}][.,:/\-–’']){re.escape(old)}(?![{_GLUED}])(?![.,:/–-]\d)")
        else:
            parts.append(re.escape(old) if _IDEOGRAPHS.fullmatch(old) else glue.format(re.escape(old)))
    return re.sub("|".join(parts), lambda match: swaps[match[0]], text)


@dataclass(frozen=True)
class Story:
    """An article. paragraphs: its sentences by paragraph."""

    record: Mapping[str, Any]
    language: str
    title: str
    text: str
    paragraphs: Sequence[Sequence[str]]

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Story":
        title, text = " ".join(record.get("title", "").split()), record.get("text", "")
        lines = (" ".join(line.split()) for line in text.splitlines())
        paragraphs = [sentences for line in lines if (sentences := sentences_of(line))]
        return cls(record, language_of(record), title, "\n".join(map(" ".join, paragraphs)), paragraphs)

    @cached_property
    def prose(self) -> list[str]:
        return [sentence for paragraph in self.paragraphs for sentence in paragraph if is_prose(sentence)]

    @cached_property
    def words(self) -> list[str]:
        return words_of(self.text)

    @cached_property
    def beginning(self) -> str:
        """The first five sentences of prose."""
        return " ".join(self.prose[:5])

    @property
    def phrases(self) -> dict[str, Any]:
        """What edits say in its language; empty for a language that phrases.toml lacks."""
        return PHRASES.get(self.language, {})

    @property
    def has_capitals(self) -> bool:
        return self.language not in WITHOUT_CAPITALS


class Pool:
    """The stories of one language of a corpus.

    sentences, documents: in how many items a sentence or a word occurs; rest: the records that are no stories.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        everything = [Story.of(record) for record in records]
        self.size = len(everything)
        self.sentences: Counter[str] = Counter()
        self.documents: Counter[str] = Counter()
        self._lower: Counter[str] = Counter()
        self._upper: Counter[str] = Counter()
        self._with_article: Counter[str] = Counter()
        for story in everything:
            self.sentences.update({sentence for paragraph in story.paragraphs for sentence in paragraph})
            self.documents.update(set(story.words))
            inner = [word for sentence in story.prose for word in WORD.findall(sentence)[1:]]
            self._upper.update(word.lower() for word in inner if word[0].isupper())
            self._lower.update(word for word in inner if word[0].islower())
            if story.language == "de":
                self._with_article.update(word.lower() for word in _NOUN.findall(story.text))
        self.stories: list[Story] = []
        self.rest: list[Mapping[str, Any]] = []
        for story in everything:
            if self._is_usable(story):
                self.stories.append(story)
            else:
                self.rest.append(story.record)

    def _is_usable(self, story: Story) -> bool:
        title = set(words_of(story.title))
        if not 4 <= len(title) <= 30 or not 80 <= len(story.words) <= 1500 or len(story.prose) < 5:
            return False
        if sum(map(len, story.prose)) < 0.6 * len(story.text) or any(
            self.sentences[one] > 1 for one in story.prose[:3]
        ):
            return False
        return len(title & set(story.words)) >= 0.4 * len(title)

    def rest_of(self, count: int) -> list[Mapping[str, Any]]:
        """Return this number of the records that are no stories, or all."""
        return Random(1).sample(self.rest, min(count, len(self.rest)))

    def is_rare(self, word: str, most: float = _NAME) -> bool:
        """Whether a word (lower case) is in few items of the pool."""
        return self.documents[word] <= max(most * self.size, 2)

    def is_common(self, word: str) -> bool:
        """Whether a word (lower case) says nothing of its own: short, and in a third of the pool."""
        return len(word) <= 4 and self.documents[word] >= self.size / 3

    def rare_words(self, text: str) -> set[str]:
        """The words of a text that few items have, without numbers."""
        return {word for word in words_of(text) if not word[0].isdigit() and self.is_rare(word, _COMMON)}

    def are_unlike(self, one: Story, other: Story) -> bool:
        """Whether two stories have different topics: hardly a rare word of one's beginning is in the other."""
        if one.record["id"] == other.record["id"]:
            return False
        if self.rare_words(one.title) & self.rare_words(other.title):
            return False
        lead = self.rare_words(other.title + " " + other.beginning)
        return len(lead & set(one.words)) <= 0.2 * len(lead)

    def others(self, one: Story, count: int, chance: Random) -> list[Story] | None:
        """Draw stories unlike this one; None if there are too few."""
        found: list[Story] = []
        for _ in range(20 * count):
            other = chance.choice(self.stories)
            if self.are_unlike(one, other) and all(self.are_unlike(other, before) for before in found):
                found.append(other)
                if len(found) == count:
                    return found
        return None

    def fresh_sentences(
        self, one: Story, count: int, chance: Random, where: re.Pattern[str] | None = None
    ) -> tuple[Story, list[str]] | None:
        """Draw sentences of prose that follow each other near the beginning of an unlike story, and on no other page.

        where: what each must match. None if there are too few.
        """
        first = max(5, count)
        for _ in range(20):
            others = self.others(one, 1, chance)
            if others is None:
                return None
            prose = [one for one in others[0].prose[:first] if self._is_fresh(one) and (not where or where.search(one))]
            if len(prose) >= count:
                start = chance.randrange(len(prose) - count + 1)
                return others[0], prose[start : start + count]
        return None

    def _is_fresh(self, sentence: str) -> bool:
        """Whether a sentence is on one page and whole: it begins as sentences do and has no link."""
        begins = sentence[0] in "\"“„«「'" or (sentence[0].isalpha() and not sentence[0].islower())
        return begins and self.sentences[sentence] == 1 and "](" not in sentence and "http" not in sentence

    def names(self, story: Story) -> list[str]:
        """The names of a story in the order of its text: rare words with capitals, or in other scripts rare words that
        the headline and the text have, or the text has twice."""
        if not story.has_capitals:
            return self._recurring(story)
        inner = (word for sentence in (story.title, *story.prose) for word in WORD.findall(sentence)[1:])
        return list(dict.fromkeys(word for word in inner if self._is_name(word)))

    def _is_name(self, word: str) -> bool:
        lower = word.lower()
        if not word[0].isupper() or len(word) < 3 or not word.replace("-", "").isalnum():
            return False
        others = self._lower[lower] + self._with_article[lower]
        return 10 * others <= self._upper[lower] and self.is_rare(lower)

    def _recurring(self, story: Story) -> list[str]:
        if story.language == "zh":
            return list(self._ideographs(story))
        title, counts = set(WORD.findall(story.title)), Counter(WORD.findall(story.text))
        return [
            word
            for word, count in counts.items()
            if count + (word in title) >= 2 and len(word) >= 3 and word.isidentifier() and self.is_rare(word.lower())
        ]

    def _ideographs(self, story: Story) -> Iterator[str]:
        """Words of two to four characters that headline and text share and few items have."""
        for word in dict.fromkeys(rjieba.cut(story.title)):
            is_word = _IDEOGRAPHS.fullmatch(word) and 2 <= len(word) <= 4 and story.text.count(word) >= 2
            if is_word and all(map(self.is_rare, words_of(word))):
                yield word
