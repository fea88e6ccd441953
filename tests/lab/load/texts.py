"""Made-up items for the load: unlike ones, and templates of which many share keys."""

import random
from collections.abc import Iterator

from stream_dedup.news.item import Item
from tests.harness.feed import START

VOCABULARY = ["".join(random.Random(n).choices("abcdefghijklmnopqrstuvwxyz", k=3 + n % 7)) for n in range(20_000)]


def unlike(count: int, words: int, seed: int = 1) -> Iterator[Item]:
    """Items that share no more than chance has it."""
    rng = random.Random(seed)
    for number in range(count):
        title = " ".join(rng.choices(VOCABULARY, k=8))
        yield _item(seed, number, title, rng.choices(VOCABULARY, k=words), "post.example")


def template(count: int, words: int, own: int) -> Iterator[Item]:
    """Items of one template: `own` words in the middle of the text, and three of the headline, belong to each item."""
    rng = random.Random(1)
    fixed = rng.choices(VOCABULARY, k=words - own)
    half = len(fixed) // 2
    for number in range(count):
        mine = rng.choices(VOCABULARY, k=own)
        title = f"Weather report for {' '.join(rng.choices(VOCABULARY, k=3))} today"
        yield _item(1, number, title, [*fixed[:half], *mine, *fixed[half:]], "weather.example")


def _item(seed: int, number: int, title: str, words: list[str], source: str) -> Item:
    # Sentences of 15 words, so that there are passages.
    sentences = [" ".join(words[at : at + 15]).capitalize() for at in range(0, len(words), 15)]
    return Item(f"{seed}-{number}", title, ". ".join(sentences) + ".", source, START + number * 1000, 0, number)
