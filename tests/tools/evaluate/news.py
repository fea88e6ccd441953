"""Made-up items whose bodies have a chosen Jaccard. Each call returns the same, whatever tests ran before."""

import numpy as np

from stream_dedup.news.item import Item

_SEED = 7
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "or")]


def words(count: int, random: np.random.Generator | None = None) -> list[str]:
    """Draw words; without `random` the same first words each time."""
    random = random or np.random.default_rng(_SEED)
    return ["".join(random.choice(_SYLLABLES, 3)) for _ in range(count)]


def edited(text: list[str], changed: float, random: np.random.Generator) -> list[str]:
    """Copy a text with other words at its end; their share determines the Jaccard."""
    kept = len(text) - round(changed * len(text))
    return text[:kept] + words(len(text) - kept, random)


def copies(groups: int, shares: list[float]) -> list[Item]:
    """`groups` articles, each followed by a copy for each share of changed words.

    A copy keeps the headline and stands on a site of its own.
    """
    items, random = [], np.random.default_rng(_SEED)
    for group in range(groups):
        text = words(120, random)
        for k, share in enumerate([0.0, *shares]):
            name = f"{group}-{k}"
            items.append(Item(name, " ".join(text[:6]), " ".join(edited(text, share, random)), f"{name}.example", 0))
    return items
