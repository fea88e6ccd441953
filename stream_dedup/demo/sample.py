"""A made-up news feed that behaves like a syndicated one: what `make run` shows and what tests read.

In: how many items and a seed. Out: items as dicts with id, title, text, source, url, published and `kind`, in
the order in which they were published; or the same as Kafka records with a few broken ones among them. The
same seed gives the same feed, and a longer feed begins with the shorter one.

`kind` says what a reader would say (whoever judges the feed does not look at it):

    fresh      a new story                    unique
    report     another newsroom's own words   unique
    template   a machine's notice             unique: same form, but other names and figures
    copy       another site's copy            duplicate: as it is, or with other headline, byline, quotes
    cut        a copy without its tail        duplicate
    boilerplate  a copy inside a whole page     duplicate: menus, cookie notice, related headlines
    update     same id, more facts or a       update
               corrected name
"""

import heapq
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count as count_from
from itertools import islice
from typing import Any, TypeVar

from stream_dedup.demo.story import Bank, Event

Feed = dict[str, Any]
T = TypeVar("T")

START = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)  # fixed, so that two runs can be compared
# The shape follows the labelled news corpora: most stories stay alone or travel a little, a few travel far;
# copies come within 13 hours, half of them within the first.
MINUTES_BETWEEN_ARRIVALS = 12.0
MINUTES_TO_A_COPY = 90.0
LATEST_COPY = timedelta(hours=13)
COPIES = {0: 30, 1: 20, 2: 15, 3: 13, 5: 12, 9: 10}
KINDS = {"copy": 52, "cut": 15, "boilerplate": 12, "update": 13, "report": 8}
LANGUAGES = {"en": 76, "de": 7, "es": 6, "zh": 6, "ar": 5}
TEMPLATES = 0.25  # share of the arrivals: notices come one by one, stories with a train of copies
SUFFIXES = (" - {}", " | {}", " – {}", " — {}", "")


def sample_feed(count: int = 400, seed: int = 7, first_id: int = 1) -> Iterator[Feed]:
    """Make the first `count` items of the feed; ids are numbered from `first_id`.

    >>> [item["kind"] for item in sample_feed(3)] == [item["kind"] for item in sample_feed(30)][:3]
    True
    """
    return islice(_Newsroom(seed, first_id).feed(), count)


def sample_records(count: int = 400, seed: int = 7, first_id: int = 1) -> Iterator[tuple[bytes | None, bytes]]:
    """Make `count` Kafka records (key, value); one in forty is broken, in each of the ways that feeds break."""
    feed = sample_feed(count, seed, first_id)
    for number in range(count):
        item = next(feed)
        value = json.dumps(item, ensure_ascii=False).encode()
        # Some producers send no key; the id then stands in the value alone.
        key = None if number % 11 == 5 else str(item["id"]).encode()
        if number % 40 == 17:
            value = _broken(item, value, number // 40)
        yield key, value


def _broken(item: Feed, value: bytes, number: int) -> bytes:
    nameless = {k: v for k, v in item.items() if k not in {"title", "text"}}
    ways = (
        value[: len(value) // 2],  # cut off in transmission
        json.dumps(nameless).encode(),  # nothing to judge
        json.dumps({**item, "text": ["a", "list"]}).encode(),  # of another type than agreed
        value[:-2] + b" \xe9\xff" + value[-2:],  # not UTF-8
        b"<html><body>502 Bad Gateway</body></html>",  # the error page instead of the item
        b"",
    )
    return ways[number % len(ways)]


@dataclass
class _Story:
    """A story on its way through the sites. `title` and `sentences` are its current version.

    One other headline and one report at most: an event has no more patterns that nobody has used.
    """

    bank: Bank
    event: Event
    item: Feed
    title: str
    sentences: list[str]
    sites: list[tuple[str, str]]  # that have not printed it yet
    other_title: str = ""
    reported: bool = False


class _Newsroom:
    """Draws arrivals one after the other and sends each one's copies after it."""

    def __init__(self, seed: int, first_id: int) -> None:
        self._rng = random.Random(seed)
        self._banks = {language: Bank(language, self._rng) for language in LANGUAGES}
        self._bulletins = Bank("bulletins", self._rng)
        self._ids = count_from(first_id)
        self._order = count_from(1)  # of items of the same second
        self._headlines: dict[str, list[str]] = {language: [] for language in LANGUAGES}

    def feed(self) -> Iterator[Feed]:
        """Items in order of time, without end: what is due before the next arrival goes first."""
        due: list[tuple[datetime, int, Feed]] = []
        now = START
        while True:
            items = self._bulletin(now) if self._rng.random() < TEMPLATES else self._story(now)
            for when, item in items:
                item["published"] = when.isoformat(timespec="seconds").replace("+00:00", "Z")
                heapq.heappush(due, (when, next(self._order), item))
            now += timedelta(seconds=round(60 * self._rng.expovariate(1 / MINUTES_BETWEEN_ARRIVALS)))
            while due and due[0][0] < now:
                yield heapq.heappop(due)[2]

    def _bulletin(self, now: datetime) -> Iterator[tuple[datetime, Feed]]:
        event = self._bulletins.event()
        (site,) = self._bulletins.sites(event.topic)
        text = self._bulletins.word(event, event.topic, "text")
        yield now, self._item("template", site, self._bulletins.headline(event), text)

    def _story(self, now: datetime) -> Iterator[tuple[datetime, Feed]]:
        bank = self._banks[self._choose(LANGUAGES)]
        event = bank.event()
        sites = self._rng.sample(bank.sites(), len(bank.sites()))
        title, sentences = bank.headline(event), bank.tell(event)
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

    def _follower(self, story: _Story) -> Feed | None:
        """What comes next of a story; None when every site has it."""
        kind = self._choose(KINDS)
        # The smaller languages' banks have too few patterns to tell an event twice.
        if kind == "report" and (story.reported or story.bank.language != "en"):
            kind = "copy"
        if kind == "update":
            return self._update(story)
        if not story.sites:
            return None
        bank, site = story.bank, story.sites.pop()
        if kind == "report":
            event, story.reported = story.event, True
            return self._item(kind, site, bank.headline(event), self._paragraphs(bank, bank.tell(event)))
        title = story.title
        if kind == "copy" and self._rng.random() < 0.3:
            title = story.other_title = story.other_title or bank.headline(story.event)
        title += self._rng.choice(SUFFIXES).format(site[1])
        if kind == "cut":
            kept = max(2, round(len(story.sentences) * self._rng.uniform(0.4, 0.75)))
            text = self._paragraphs(bank, story.sentences[:kept]) + "\n" + self._boilerplate(story, site, "more")
        elif kind == "boilerplate":
            text = self._page(story, site, title)
        else:
            text = self._edges(story, site)
        return self._item(kind, site, title, text)

    def _update(self, story: _Story) -> Feed | None:
        """The same article again, by its own site, under its own id: with news, or with a name put right."""
        site = (story.item["source"], "")
        wrong = story.event.values["person"].split(" ")[0]
        if self._rng.random() < 0.3 and any(wrong in sentence for sentence in story.sentences):
            right = story.bank.person().split(" ")[0]
            story.sentences = [sentence.replace(wrong, right) for sentence in story.sentences]
            story.title = story.title.replace(wrong, right)
            story.sentences.append(story.bank.page("correction", {"name": right}))
        else:
            story.sentences.insert(1, story.bank.news(story.event))
            story.title = story.bank.page("updated", {"headline": story.item["title"]})
        update = self._item("update", site, story.title, self._paragraphs(story.bank, story.sentences))
        return update | {"id": story.item["id"], "url": story.item["url"]}

    def _edges(self, story: _Story, site: tuple[str, str]) -> str:
        """A copy as sites make it: in one of four cases untouched, else with another edge or typography."""
        text = self._paragraphs(story.bank, story.sentences)
        change = self._rng.randrange(4)
        if change == 1:
            text = f"{self._boilerplate(story, site, 'byline')} {text}"
        elif change == 2:
            text = f"{text}\n{self._boilerplate(story, site, 'end')}"
        elif change == 3:
            text = text.replace("“", '"').replace("”", '"').replace("’", "'").replace(" – ", " - ")
        return text

    def _page(self, story: _Story, site: tuple[str, str], title: str) -> str:
        """A copy as a careless crawler takes it: the whole page, the article somewhere in the middle."""
        bank = story.bank
        menu = bank.listed("page", "menu")
        others = self._headlines[bank.language]
        return "\n".join(
            [
                " ".join(sorted(self._rng.sample(menu, self._rng.randint(8, 16)), key=menu.index)),
                self._boilerplate(story, site, "cookie"),
                title,
                self._boilerplate(story, site, "byline"),
                self._paragraphs(bank, story.sentences),
                self._boilerplate(story, site, "related"),
                *self._rng.sample(others, min(3, len(others))),
                self._boilerplate(story, site, "footer"),
            ]
        )

    def _boilerplate(self, story: _Story, site: tuple[str, str], what: str) -> str:
        values = {
            "site": site[1],
            "number": str(self._rng.randint(20, 900)),
            "person": story.bank.person(),
            "place": story.event.values["place"],
        }
        return story.bank.page(what, values)

    def _paragraphs(self, bank: Bank, sentences: list[str]) -> str:
        return "\n".join(bank.space.join(sentences[i : i + 2]) for i in range(0, len(sentences), 2))

    def _item(self, kind: str, site: tuple[str, str], title: str, text: str) -> Feed:
        number = next(self._ids)
        host = site[0]
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
