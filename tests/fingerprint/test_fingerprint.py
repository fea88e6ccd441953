"""Fingerprints: estimates are unbiased, similar texts share keys, and each scheme has its own id."""

import numpy as np
import pytest

from stream_dedup.dedup.similarity import compare
from stream_dedup.news.item import Item
from tests.fingerprint.built import items, maker, scheme


def words(random: np.random.Generator, count: int) -> list[str]:
    return [f"w{n}" for n in random.integers(0, 10**9, count)]


def pair(random: np.random.Generator, total: int, shared: int) -> list[Item]:
    """Two texts whose first `shared` words are the same."""
    head = words(random, shared)
    return items(*(" ".join(head + words(random, total - shared)) for _ in range(2)))


@pytest.mark.parametrize("total", [40, 400, 3000])
@pytest.mark.parametrize("shared", [0.3, 0.7, 0.9])
def test_the_sketch_estimates_the_jaccard_without_bias(total: int, shared: float) -> None:
    random = np.random.default_rng(total)
    make = maker()
    pairs = [pair(random, total, int(shared * total)) for _ in range(60)]
    prints = make([item for two in pairs for item in two])
    estimates = compare(prints, prints.signatures, np.arange(1, 120, 2), np.arange(0, 120, 2))["body"]
    exact = []
    for a, b in pairs:
        x, y = make.exact(a).body, make.exact(b).body
        exact.append(len(x & y) / len(x | y))
    errors = estimates - np.array(exact)
    # Binomial bound of 256 independent bins, b-bit collisions included; means lie within 4 standard errors.
    deviation = np.sqrt(0.25 / 256) * 15 / 14
    assert abs(errors.mean()) < 4 * deviation / np.sqrt(60)
    assert np.sqrt((errors**2).mean()) < 1.5 * deviation


def test_every_setting_of_the_fingerprint_makes_another_scheme() -> None:
    changes: dict[str, int | str] = {"seed": 2, "body_bands": 17, "anchors": 15, "shingle_words": 4, "body_bins": 512}
    changes |= {"shingle_letters": 5, "chinese": "words", "verify": "exact"}
    schemes = [scheme(**{name: value}).id for name, value in changes.items()]
    assert len({scheme().id, *schemes}) == len(changes) + 1
    assert scheme().id == scheme().id
