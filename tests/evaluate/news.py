"""Made-up items whose bodies have a chosen Jaccard."""

import numpy as np

from stream_dedup.news.item import Item

_RANDOM = np.random.default_rng(7)
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "or")]


def words(count: int) -> list[str]:
    return ["".join(_RANDOM.choice(_SYLLABLES, 3)) for _ in range(count)]


def edited(text: list[str], changed: float) -> list[str]:
    """Copy a text with other words at its end; their share determines the Jaccard."""
    kept = len(text) - round(changed * len(text))
    return text[:kept] + words(len(text) - kept)


def copies(groups: int, shares: list[float], length: int = 120) -> list[Item]:
    """`groups` articles, each followed by a copy for each share of changed words.

    A copy keeps the headline and stands on a site of its own.
    """
    items = []
    for group in range(groups):
        text = words(length)
        for k, share in enumerate([0.0, *shares]):
            name = f"{group}-{k}"
            items.append(Item(name, " ".join(text[:6]), " ".join(edited(text, share)), f"{name}.example", 0))
    return items
