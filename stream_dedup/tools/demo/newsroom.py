"""Make up a news feed that behaves like a syndicated one, for `make run`, `stream-dedup feed` and the tests.

`sample_feed` makes items: dicts with id, title, text, source, url, published and `kind`, in the order of publication.
`sample_records` makes Kafka records of them, a few of which are broken; `endless_records` does so without end. The same
seed gives the same feed, and a longer feed begins with the shorter one.

`kind` is what the author meant, which the worker does not see; `MEANT` has the verdicts that agree with it:

    fresh      a new story                    unique
    report     another newsroom's own words   unique
    template   a machine's notice             let through: same form, but different names and figures
    copy       another site's copy            duplicate: unchanged, or with a different headline, byline, quotes
    cut        a copy without its tail        duplicate
    boilerplate  a copy inside a whole page   duplicate: menu, cookie settings, related headlines
    update     same id, more facts or a       update
               corrected name

The feed omits items whose right verdict is debatable: copies of a corrected story, a second event of a kind in one
town, notices under one headline. It also omits cookie notices in whole sentences, which the rule takes for news until
three originals of a site have had one; tests/tools/demo/test_demo.py measures how many such copies pass.
"""

import heapq
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import count as count_from
from itertools import islice
from typing import Any, TypeVar

from stream_dedup.dedup.verdict import Kind

NewsItem = dict[str, Any]
T = TypeVar("T")

START = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)  # fixed, so that two runs are comparable
# The distribution follows the labelled news corpora: most stories have no or few copies, a few have many. Copies appear
# within 13 hours, half of them within the first hour.
MINUTES_BETWEEN_ARRIVALS = 12.0
MINUTES_TO_A_COPY = 90.0
LATEST_COPY = timedelta(hours=13)
COPIES = {0: 30, 1: 20, 2: 15, 3: 13, 5: 12, 9: 10}
KINDS = {"copy": 52, "cut": 15, "boilerplate": 12, "update": 13, "report": 8}
LANGUAGES = {"en": 76, "de": 7, "es": 6, "zh": 6, "ar": 5}
TEMPLATES = 0.25  # share of the arrivals: notices come alone, stories with their copies
SUFFIXES = (" - {}", " | {}", " – {}", " — {}", "")
MEANT = {
    "fresh": {Kind.UNIQUE},
    "report": {Kind.UNIQUE},
    # To a reader the weather of the same town with other figures may well be an update.
    "template": {Kind.UNIQUE, Kind.UPDATE},
    "copy": {Kind.DUPLICATE},
    "cut": {Kind.DUPLICATE},
    "boilerplate": {Kind.DUPLICATE},
    "update": {Kind.UPDATE},
    "broken": {Kind.BAD, Kind.TOMBSTONE},
}
"""The verdicts that agree with what an author meant."""
_ROUND_ITEMS = 400
_ROUND_LENGTH = timedelta(days=2)  # between the first and the last of them, at most


def sample_feed(count: int = 400, seed: int = 7, first_id: int = 1, start: datetime = START) -> Iterator[NewsItem]:
    """Make the first `count` items of the feed; ids are numbered from `first_id`, the first date is `start`.

    >>> [item["kind"] for item in sample_feed(3)] == [item["kind"] for item in sample_feed(30)][:3]
    True
    """
    return islice(_Newsroom(seed, first_id).feed(start), count)


def sample_records(
    count: int = 400, seed: int = 7, first_id: int = 1, start: datetime = START
) -> Iterator[tuple[bytes | None, bytes]]:
    """Make `count` Kafka records (key, value); one in forty is broken, in each of the ways that feeds break."""
    return _records(sample_feed(count, seed, first_id, start))


def endless_records(seed: int = 7) -> Iterator[tuple[bytes | None, bytes]]:
    """Make Kafka records without end, dated in the last two days; older dates would look like a backfill.

    The first 400 have the texts of `sample_records(400, seed)`.
    """
    newsroom = _Newsroom(seed, 1)
    while True:
        yield from _records(islice(newsroom.feed(datetime.now(UTC) - _ROUND_LENGTH), _ROUND_ITEMS))


def meant(value: bytes) -> str:
    """Return what the author of a record meant, a key of `MEANT`.

    >>> [meant(value) for value in (b'{"kind": "copy"}', b'{"kind": "co', b"")]
    ['copy', 'broken', 'broken']
    """
    try:
        return str(json.loads(value)["kind"])
    except ValueError:
        return "broken"


def _records(feed: Iterator[NewsItem]) -> Iterator[tuple[bytes | None, bytes]]:
    broken = 0
    for number, item in enumerate(feed):
        value = json.dumps(item, ensure_ascii=False).encode()
        # Some producers send no key; then only the value has the id.
        key = None if number % 11 == 5 else str(item["id"]).encode()
        # A fresh story is never broken, because its first copy would become the original.
        if number >= 40 * broken + 17 and item["kind"] in {"template", "copy", "cut", "boilerplate"}:
            value, broken = _broken(item, value, broken), broken + 1
        yield key, value


def _broken(item: NewsItem, value: bytes, number: int) -> bytes:
    without_text = {k: v for k, v in item.items() if k not in {"title", "text"}} | {"kind": "broken"}
    ways = (
        value[: len(value) // 2],  # cut off in transmission
        json.dumps(without_text).encode(),  # nothing to judge
        json.dumps({**without_text, "title": {"a": 1}, "text": 7}).encode(),  # wrong types
        value.replace(b'"url": "', b'"url": "\xe9\xff'),  # not UTF-8
        b"<html><body>502 Bad Gateway</body></html>",  # the error page instead of the item
        b"",
    )
    return ways[number % len(ways)]


CHOICE = re.compile(r"\{([^{}]*)\}")
VALUE = re.compile(r"<([^<>]+)>")
RANGE = re.compile(r"(\d+)-(\d+)")
# Sections that are not topics: values and sentences for every topic, and the boilerplate of pages.
COMMON = ("values", "any", "page")


@dataclass
class Event:
    """An event that articles report. `used`: the patterns that its articles have used."""

    topic: str
    values: dict[str, str]
    used: set[str] = field(default_factory=set)


class Bank:
    """The sentences of one language.

    >>> bank = Bank("en", random.Random(1))
    >>> event = bank.event()
    >>> len(bank.tell(event)) >= 4 and bank.event_text(event, "headline") != bank.event_text(event, "headline")
    True
    """

    def __init__(self, name: str, rng: random.Random) -> None:
        self._rng = rng
        self.language = name
        self._lines: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for topic, kind, text in _lines(name):
            self._lines[topic, kind].append(text)
        self._topics = sorted({topic for topic, _ in self._lines} - {*COMMON})
        self._decks: dict[tuple[str, str], list[str]] = {}
        # Chinese puts the family name first and no spaces between words or sentences.
        self.space = "" if name == "zh" else " "
        places, parts = (self.listed("values", kind) for kind in ("place", "part"))
        self._places = places + [part + self.space + place for part in parts for place in places]

    def event(self) -> Event:
        topic = self._draw("", "topic", self._topics, set())
        values: dict[str, str] = {}
        for (section, kind), (choices, *_) in self._lines.items():
            if section == topic and kind.startswith("set "):
                values[kind.removeprefix("set ")] = self._pick(choices)
        for name in ("place", "place2"):
            # A deck for each topic: the same kind of event does not happen twice in one town while others remain.
            values[name] = self._draw(topic, name, self._places, set(values.values()))
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
        slots = [(event.topic, "lead"), *[(event.topic, "fact")] * facts, ("any", "quote"), ("any", "after")]
        slots += [("any", kind) for kind in ("quote", "after") if self._rng.random() < 0.4]
        sentences = []
        for slot in slots:
            if slot == ("any", "quote"):
                event.values["person3"] = self.person()  # each quote is of another person
            sentences.append(self.word(event, *slot))
        return sentences

    def event_text(self, event: Event, kind: str) -> str:
        """Word a headline or a text, new for this event until all have been used."""
        return self.word(event, event.topic, kind)

    def news(self, event: Event) -> str:
        """Word news that no article has yet; "" if none is left."""
        return self.event_text(event, "new") if {*self._lines[event.topic, "new"]} - event.used else ""

    def page(self, kind: str, values: dict[str, str]) -> str:
        """Draw a piece of page boilerplate."""
        return self.word(Event("page", values), "page", kind)

    def listed(self, topic: str, kind: str) -> list[str]:
        return [part.strip() for part in self._lines[topic, kind][0].split(";")]

    def sites(self, topic: str = "page") -> list[tuple[str, str]]:
        """Return (host, name) of the sites that print such articles."""
        return [(host, name.strip()) for host, _, name in (s.partition(";") for s in self._lines[topic, "site"])]

    def word(self, event: Event, topic: str, kind: str) -> str:
        """Word a pattern that no article about this event has used yet."""
        pattern = self._draw(topic, kind, self._lines[topic, kind], event.used)
        event.used.add(pattern)
        text = pattern
        while match := CHOICE.search(text):  # the innermost first
            text = text[: match.start()] + self._rng.choice(match[1].split("|")) + text[match.end() :]
        text = VALUE.sub(lambda match: event.values[match[1]], text)
        return text[:1].upper() + text[1:]

    def _draw(self, topic: str, kind: str, choices: list[str], avoid: set[str]) -> str:
        """Draw the deck's next card that is not in `avoid`; every card is drawn once before the deck is reshuffled."""
        deck = self._decks.setdefault((topic, kind), [])
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
    for line in (files("stream_dedup.tools.demo") / "stories" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            topic = line.removeprefix("== ")
        elif line and not line.startswith("#"):
            kind, _, text = line.partition(": ")
            yield topic, kind, text


@dataclass
class _Story:
    """A story that sites copy.

    It has at most one other headline and one report, because an event has no more patterns.
    """

    bank: Bank
    event: Event
    item: NewsItem
    title: str  # of the current version
    sentences: list[str]  # of the current version
    sites: list[tuple[str, str]]  # that have not printed it yet
    other_title: str = ""
    reported: bool = False
    corrected: bool = False


class _Newsroom:
    """Generates one arrival after the other, each with its later copies."""

    def __init__(self, seed: int, first_id: int) -> None:
        self._rng = random.Random(seed)
        self._banks = {language: Bank(language, self._rng) for language in LANGUAGES}
        self._bulletins = Bank("bulletins", self._rng)
        self._ids = count_from(first_id)
        self._order = count_from(1)  # of items of the same second
        self._headlines: dict[str, list[str]] = {language: [] for language in LANGUAGES}

    def feed(self, now: datetime) -> Iterator[NewsItem]:
        """Yield items in order of time, without end: items due before the next arrival come first."""
        due: list[tuple[datetime, int, NewsItem]] = []
        while True:
            items = self._bulletin(now) if self._rng.random() < TEMPLATES else self._story(now)
            for published, item in items:
                item["published"] = published.isoformat(timespec="seconds").replace("+00:00", "Z")
                heapq.heappush(due, (published, next(self._order), item))
            now += timedelta(seconds=round(60 * self._rng.expovariate(1 / MINUTES_BETWEEN_ARRIVALS)))
            while due and due[0][0] < now:
                yield heapq.heappop(due)[2]

    def _bulletin(self, now: datetime) -> Iterator[tuple[datetime, NewsItem]]:
        event = self._bulletins.event()
        (site,) = self._bulletins.sites(event.topic)
        text, title = (self._bulletins.event_text(event, kind) for kind in ("text", "headline"))
        yield now, self._item("template", site, title, text)

    def _story(self, now: datetime) -> Iterator[tuple[datetime, NewsItem]]:
        bank = self._banks[self._choose(LANGUAGES)]
        event = bank.event()
        sites = self._rng.sample(bank.sites(), len(bank.sites()))
        title, sentences = bank.event_text(event, "headline"), bank.tell(event)
        item = self._item("fresh", sites.pop(), title, self._paragraphs(bank, sentences))
        story = _Story(bank, event, item, title, sentences, sites)
        yield now, item
        delays = (
            min(LATEST_COPY, timedelta(seconds=round(60 + 60 * self._rng.expovariate(1 / MINUTES_TO_A_COPY))))
            for _ in range(self._choose(COPIES))
        )
        for delay in sorted(delays):
            if follower := self._follower(story):
                yield now + delay, follower
        self._headlines[bank.language] = [*self._headlines[bank.language][-8:], title]

    def _follower(self, story: _Story) -> NewsItem | None:
        """Make the next item of a story; None if every site has printed it, or it was corrected."""
        if story.corrected:
            return None
        kind = self._choose(KINDS)
        # The banks of the other languages have too few patterns for a second report.
        if kind == "report" and (story.reported or story.bank.language != "en"):
            kind = "copy"
        if kind == "update":
            return self._update(story)
        if not story.sites:
            return None
        bank, site = story.bank, story.sites.pop()
        if kind == "report":
            event, story.reported = story.event, True
            return self._item(kind, site, bank.event_text(event, "headline"), self._paragraphs(bank, bank.tell(event)))
        title = story.title
        if kind == "copy" and self._rng.random() < 0.3:
            title = story.other_title = story.other_title or bank.event_text(story.event, "headline")
        title += self._rng.choice(SUFFIXES).format(site[1])
        if kind == "cut":
            kept = max(2, round(len(story.sentences) * self._rng.uniform(0.4, 0.75)))
            text = self._paragraphs(bank, story.sentences[:kept]) + "\n" + self._boilerplate(story, site, "more")
        elif kind == "boilerplate":
            text = self._page(story, site, title)
        else:
            text = self._edges(story, site)
        return self._item(kind, site, title, text)

    def _update(self, story: _Story) -> NewsItem | None:
        """Make a new version of the article by its own site, under its own id, with news or with a corrected name."""
        site = (story.item["source"], "")
        wrong_name = story.event.values["person"].split(" ")[0]
        if self._rng.random() < 0.3 and any(wrong_name in sentence for sentence in story.sentences):
            story.corrected = True
            name = story.bank.person().split(" ")[0]
            story.sentences = [sentence.replace(wrong_name, name) for sentence in story.sentences]
            story.title = story.title.replace(wrong_name, name)
            story.sentences.append(story.bank.page("correction", {"name": name}))
        elif not (news := story.bank.news(story.event)):
            return None
        else:
            story.sentences.insert(1, news)
            story.title = story.bank.page("updated", {"headline": story.item["title"]})
        update = self._item("update", site, story.title, self._paragraphs(story.bank, story.sentences))
        return update | {"id": story.item["id"], "url": story.item["url"]}

    def _edges(self, story: _Story, site: tuple[str, str]) -> str:
        """Make a copy as sites do: unchanged in one of four cases, else with a byline, an end line or other quotes."""
        text = self._paragraphs(story.bank, story.sentences)
        change = self._rng.randrange(4)
        if change == 1:
            text = f"{self._boilerplate(story, site, 'byline')}\n{text}"
        elif change == 2:
            text = f"{text}\n{self._boilerplate(story, site, 'end')}"
        elif change == 3:
            text = text.replace("“", '"').replace("”", '"').replace("’", "'").replace(" – ", " - ")
        return text

    def _page(self, story: _Story, site: tuple[str, str], title: str) -> str:
        """Make a copy as a careless crawler does: the whole page, with the article in the middle."""
        bank = story.bank
        menu = bank.listed("page", "menu")
        headlines = self._headlines[bank.language]
        return "\n".join(
            [
                " ".join(sorted(self._rng.sample(menu, self._rng.randint(8, 16)), key=menu.index)),
                self._boilerplate(story, site, "cookie"),
                title,
                self._boilerplate(story, site, "byline"),
                self._paragraphs(bank, story.sentences),
                self._boilerplate(story, site, "related"),
                *self._rng.sample(headlines, min(3, len(headlines))),
                self._boilerplate(story, site, "footer"),
            ]
        )

    def _boilerplate(self, story: _Story, site: tuple[str, str], kind: str) -> str:
        values = {
            "site": site[1],
            "number": str(self._rng.randint(20, 900)),
            "person": story.bank.person(),
            "place": story.event.values["place"],
        }
        return story.bank.page(kind, values)

    def _paragraphs(self, bank: Bank, sentences: list[str]) -> str:
        return "\n".join(bank.space.join(sentences[i : i + 2]) for i in range(0, len(sentences), 2))

    def _item(self, kind: str, site: tuple[str, str], title: str, text: str) -> NewsItem:
        number, host = next(self._ids), site[0]
        return {
            "id": f"{host.split('.')[0]}-{number:06d}",
            "title": title,
            "text": text,
            "source": host,
            "url": f"https://www.{host}/article/{number}",
            "published": "",
            "kind": kind,
        }

    def _choose(self, weights: dict[T, int]) -> T:
        return self._rng.choices(list(weights), list(weights.values()))[0]
