"""Generate events, and articles about them, from the sentence banks in `stories/`.

A `Bank` makes `Event`s (names, places, figures) and the texts of articles. It draws sentence patterns from a shuffled
deck and varies their words, so that two events share hardly a sentence: in a feed of 400 items no two stories' bodies
reach a Jaccard similarity of 0.25; in longer feeds they come closer. Two articles about one event share names and
figures but no pattern, like independent reports.

A bank is a text file: `== topic`, then lines `kind: pattern`. In a pattern, {a|b} is a choice, drawn at each use, and
<name> a value of the event. `set name: 3-19` or `set name: x; y` defines the values of a name.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files

CHOICE = re.compile(r"\{([^{}]*)\}")
VALUE = re.compile(r"<([^<>]+)>")
RANGE = re.compile(r"(\d+)-(\d+)")
# Sections that are no topics: values and sentences for every topic, and the boilerplate of pages.
COMMON = ("values", "any", "page")


@dataclass
class Event:
    """An event that articles report. `used`: patterns of the articles so far."""

    topic: str
    values: dict[str, str]
    used: set[str] = field(default_factory=set)


class Bank:
    """The sentences of one language.

    >>> bank = Bank("en", random.Random(1))
    >>> event = bank.event()
    >>> len(bank.tell(event)) >= 4 and bank.headline(event) != bank.headline(event)
    True
    """

    def __init__(self, name: str, rng: random.Random) -> None:
        self._rng = rng
        self.language = name
        self._lines: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for topic, what, text in _lines(name):
            self._lines[topic, what].append(text)
        self._topics = sorted({topic for topic, _ in self._lines} - {*COMMON})
        self._decks: dict[tuple[str, str], list[str]] = {}
        # Chinese puts the family name first and no spaces between words or sentences.
        self.space = "" if name == "zh" else " "

    def event(self) -> Event:
        topic = self._draw("", "topic", self._topics, set())
        values: dict[str, str] = {}
        for (of, what), (choices, *_) in self._lines.items():
            if of == topic and what.startswith("set "):
                values[what.removeprefix("set ")] = self._pick(choices)
        for name in ("place", "place2"):
            # A deck for each topic: the same kind of event does not happen twice in one town while others remain.
            values[name] = self._draw(topic, name, self.listed("values", "place"), set(values.values()))
        for name in ("person", "person2", "person3"):
            values[name] = self.person()
        values["day"] = self._pick(self._lines["values", "day"][0])
        return Event(topic, values)

    def person(self) -> str:
        first, last = (self._draw("values", name, self.listed("values", name), set()) for name in ("first", "last"))
        return last + first if self.language == "zh" else f"{first} {last}"

    def tell(self, event: Event) -> list[str]:
        """Write the sentences of one article: facts first, quotes and outlook later, as newsrooms do."""
        facts = len(self._lines[event.topic, "fact"]) // 2  # the other half is for another report
        slots = [
            (event.topic, "lead"), *[(event.topic, "fact")] * facts, ("any", "quote"), ("any", "after"),
        ]  # fmt: skip
        slots += [("any", what) for what in ("quote", "after") if self._rng.random() < 0.4]
        sentences = []
        for slot in slots:
            if slot == ("any", "quote"):
                event.values["person3"] = self.person()  # each quote is of another person
            sentences.append(self.word(event, *slot))
        return sentences

    def headline(self, event: Event) -> str:
        """Draw a headline that is new for this event, until all have been used."""
        return self.word(event, event.topic, "headline")

    def news(self, event: Event) -> str:
        """Draw a sentence with news that the first article lacks."""
        return self.word(event, event.topic, "new")

    def page(self, what: str, values: dict[str, str]) -> str:
        """Draw a piece of page boilerplate."""
        return self.word(Event("page", values), "page", what)

    def listed(self, topic: str, what: str) -> list[str]:
        return [part.strip() for part in self._lines[topic, what][0].split(";")]

    def sites(self, topic: str = "page") -> list[tuple[str, str]]:
        """Return (host, name) of the sites that print such articles."""
        return [(host, name.strip()) for host, _, name in (s.partition(";") for s in self._lines[topic, "site"])]

    def word(self, event: Event, topic: str, what: str) -> str:
        """Word a pattern that no article about this event has used yet."""
        pattern = self._draw(topic, what, self._lines[topic, what], event.used)
        event.used.add(pattern)
        text = pattern
        while match := CHOICE.search(text):  # the innermost first
            text = text[: match.start()] + self._rng.choice(match[1].split("|")) + text[match.end() :]
        text = VALUE.sub(lambda match: event.values[match[1]], text)
        return text[:1].upper() + text[1:]

    def _draw(self, topic: str, what: str, choices: list[str], avoid: set[str]) -> str:
        """Draw the deck's next card that is not in `avoid`; every card is drawn once before the deck is reshuffled."""
        deck = self._decks.setdefault((topic, what), [])
        for _ in range(2):
            for i, card in enumerate(deck):
                if card not in avoid:
                    return deck.pop(i)
            deck += self._rng.sample(choices, len(choices))
        return deck.pop(0)

    def _pick(self, choices: str) -> str:
        if span := RANGE.fullmatch(choices):
            return str(self._rng.randint(int(span[1]), int(span[2])))
        return self._rng.choice(choices.split(";")).strip()


def _lines(name: str) -> Iterator[tuple[str, str, str]]:
    topic = ""
    for line in (files("stream_dedup.demo") / "stories" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            topic = line.removeprefix("== ")
        elif line and not line.startswith("#"):
            what, _, text = line.partition(": ")
            yield topic, what, text
