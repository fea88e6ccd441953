"""Shingles of letters: typing errors no longer hide a copy."""

import random

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.lab.figures.short import misspelt

POSTS = [
    "The ferry over the Elm has stopped after cracks were found in the hull, buses run every twenty minutes",
    "Nobody was hurt when the roof of the old market hall in Linden came down on Sunday evening after the storm",
    "The council votes on Thursday about free parking near the market until Christmas, traders are divided",
    "Astronomers at the hill station found a small asteroid that turns once in ninety seconds, faster than any",
    "A baker from Harbour Street won the lottery twice in one year and says that the shop will open as usual",
    "Two hundred runners came to the bridge at dawn, the first race since the river left its bed last spring",
]


def text(content: str, number: int = 0, source: str = "") -> Item:
    return Item(str(number), "", content, source, 1_700_000_000_000 + number)


def held_back(settings: Settings, errors: int) -> int:
    """Of the posts, sent again by another source with typing errors: how many are held back."""
    items = [text(post, number, "first.example") for number, post in enumerate(POSTS)]
    for number, post in enumerate(POSTS):
        chance = random.Random(number)
        for _ in range(errors):
            post = misspelt(post, chance)
        items.append(text(post, 100 + number, "second.example"))
    with Decider(settings) as dedup:
        forward = [verdict.forward for verdict in dedup.judge(items).verdicts]
    assert all(forward[: len(POSTS)])
    return forward[len(POSTS) :].count(False)


PLAIN = {"jaccard": 0.6}


@pytest.mark.parametrize("errors", range(5))
@pytest.mark.parametrize("family", [{}, {"verify": "exact"}])
def test_posts_with_typing_errors_are_held_back(errors: int, family: dict[str, object]) -> None:
    letters = {"shingles": "letters", **family}
    assert held_back(load_settings(fingerprint=letters, decision=PLAIN), errors) == len(POSTS)


def test_shingles_of_words_miss_them() -> None:
    assert held_back(load_settings(decision=PLAIN), 4) < len(POSTS) / 2
