"""Measure short items: are copies with typing errors found, and is what differs in a number let through?

Feeds of short items are drawn from the corpora. Measured are, for each feed and each row of SHORT, the share of copies
with planted typing errors that is held back, and what is held back of the feed itself.
"""

import random
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stream_dedup.dedup.decider import Decider
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.lab.figures.families import BY_LETTERS, Tables

if TYPE_CHECKING:
    from tests.lab.figures.measure import Corpora, Corpus

SHORT: dict[str, Tables] = {
    "words (default)": {},
    '`shingles = "letters"`': {"fingerprint": {"shingles": "letters"}, **BY_LETTERS},
}
"""The rows of the table: shingles of words, and of letters with the novelty that the page recommends."""
ERRORS = range(6)
_COPIES = 600  # of each number of errors: a share is then known to .02
_BATCH = 200
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NUMBER = re.compile(r"\d+")
_HOUR = 3_600_000


class Feed(NamedTuple):
    """Headline, text and source of each item."""

    corpus: str
    items: list[tuple[str, str, str]]


def feeds(corpora: "Corpora") -> Iterator[tuple[str, Feed]]:
    """Yield each feed with its title."""
    news, stream, wire = "ag_news_test", "rss_stream_2026-01-27_2026-01-30", "reuters21578"
    short = list(_records(corpora[news]))
    yield "posts", Feed(news, [("", record["text"], f"source {n}") for n, record in enumerate(short)])
    yield "headline and summary", Feed(news, [(r["title"], r["text"], f"source {n}") for n, r in enumerate(short)])
    first = {r["cluster"]: r["title"] for r in reversed(list(_records(corpora[stream]))) if r.get("lang") == "en"}
    titles = [title for title in reversed(first.values()) if title.isascii()]
    yield "headlines of many sites", Feed(stream, [(title, "", f"source {n}") for n, title in enumerate(titles)])
    flashes = [r["title"] for r in _records(corpora[wire]) if not r.get("text") and r.get("title", "").strip()]
    yield "flashes of one agency", Feed(wire, [(title, "", "agency") for title in flashes])
    yield "flashes of many agencies", Feed(wire, [(title, "", f"source {n}") for n, title in enumerate(flashes)])


def _records(corpus: "Corpus") -> Iterator[dict[str, Any]]:
    return map(msgspec.json.decode, corpus.lines)


def short(corpora: "Corpora") -> dict[str, Any]:
    """Measure each feed with each row of SHORT: {feed: {"items", "rows": {row: figures of `judged`}}}."""
    figures: dict[str, Any] = {}
    for title, feed in feeds(corpora):
        corpora.report(f"{feed.corpus}: {title}")
        rows = {row: judged(feed, load_settings(**tables)) for row, tables in SHORT.items()}
        figures[title] = {"items": len(feed.items), "rows": rows}
    return figures


def judged(feed: Feed, settings: Settings) -> dict[str, Any]:
    """Judge a feed, then copies of its items by another source.

    Returns "held", items of the feed, and "other_numbers", those of them with other numbers than their original;
    "found", the share of copies that are held back, by typing errors; "changed", that of copies with another number.
    """
    items = [Item(str(n), title, text, source, n * 1000) for n, (title, text, source) in enumerate(feed.items)]
    with Decider(settings) as dedup:
        verdicts = []
        for begin in range(0, len(items), _BATCH):
            batch = dedup.judge(items[begin : begin + _BATCH])
            dedup.apply(batch)
            verdicts += batch.verdicts
        held = {v.id: v.original.id for v in verdicts if v and v.original and not v.forward}
        unlike = [id for id, original in held.items() if numbers(items[int(id)]) != numbers(items[int(original)])]
        unique = [items[int(v.id)] for v in verdicts if v and v.kind == "unique"]
        chance = random.Random(1)
        chosen = chance.sample(unique, min(_COPIES, len(unique)))
        end = items[-1].time + _HOUR
        found = [_held_share(dedup, [misspelt_copy(item, errors, end, chance) for item in chosen]) for errors in ERRORS]
        changed = _held_share(dedup, [renumbered_copy(item, end, chance) for item in chosen if numbers(item)])
        return {"held": len(held), "other_numbers": len(unlike), "found": found, "changed": changed}


def _held_share(dedup: Decider, copies: Sequence[Item]) -> float:
    """The share of copies that are held back, each judged beside the feed alone: nothing is applied."""
    held = 0
    for copy in copies:
        [verdict] = dedup.judge([copy]).verdicts
        held += verdict is not None and not verdict.forward
    return held / len(copies)


def misspelt_copy(item: Item, errors: int, time: int, chance: random.Random) -> Item:
    """A copy by another source with typing errors in headline and text, in proportion to their lengths."""
    title, text = item.title, item.text
    for _ in range(errors):
        if chance.random() * (len(title) + len(text)) < len(title):
            title = misspelt(title, chance)
        else:
            text = misspelt(text, chance)
    return Item(f"copy of {item.id}", title, text, "another source", time)


def renumbered_copy(item: Item, time: int, chance: random.Random) -> Item:
    """A copy by another source with another number in the text, or in the headline if the text has none."""
    title, text = item.title, item.text
    if _NUMBER.search(text):
        text = renumbered(text, chance)
    else:
        title = renumbered(title, chance)
    return Item(f"copy of {item.id}", title, text, "another source", time)


def misspelt(text: str, chance: random.Random) -> str:
    """Make a typing error: another letter, a letter too few or too many, or two letters swapped.

    >>> [misspelt("Elm", random.Random(n)) for n in range(4)]
    ['Eml', 'slm', 'clm', 'lm']
    """
    at = chance.choice([place for place, letter in enumerate(text) if letter.isalpha()])
    other, before, after = chance.choice(_LETTERS), text[:at], text[at + 1 :]
    return before + chance.choice([other + after, after, other + text[at:], after[:1] + text[at] + after[1:]])


def renumbered(text: str, chance: random.Random) -> str:
    """Change a digit of one of the numbers.

    >>> renumbered("up 12 %", random.Random(1))
    'up 62 %'
    """
    number = chance.choice(list(_NUMBER.finditer(text)))
    at = chance.randrange(number.start(), number.end())
    return text[:at] + chance.choice([digit for digit in "123456789" if digit != text[at]]) + text[at + 1 :]


def numbers(item: Item) -> list[str]:
    """The numbers of an item's headline and text, sorted."""
    return sorted(_NUMBER.findall(f"{item.title} {item.text}"))
