"""Estimates follow their theory: sketches and anchors."""

import numpy as np
import pytest

from stream_dedup.tools.pair_rule import compare
from tests.fingerprint.built import items, maker


def words(count: int, random: np.random.Generator) -> list[str]:
    return [f"w{n}" for n in random.integers(0, 10**9, count)]


@pytest.mark.parametrize("total", [40, 400, 3000])
@pytest.mark.parametrize("shared", [0.3, 0.7, 0.9])
def test_the_sketch_estimates_the_jaccard_without_bias(total: int, shared: float) -> None:
    random = np.random.default_rng(total)
    make = maker()
    heads, rest = [words(int(shared * total), random) for _ in range(60)], total - int(shared * total)
    texts = items(*(" ".join(head + words(rest, random)) for head in heads for _ in range(2)))
    prints, sets = make(texts), [make.exact(item).body for item in texts]
    estimates = compare(prints, prints.signatures, np.arange(1, 120, 2), np.arange(0, 120, 2))["body"]
    exact = [len(a & b) / len(a | b) for a, b in zip(sets[::2], sets[1::2], strict=True)]
    errors = estimates - np.array(exact)
    # Binomial bound of 256 independent bins, b-bit collisions included; means lie within 4 standard errors.
    deviation = np.sqrt(0.25 / 256) * 15 / 14
    assert abs(errors.mean()) < 4 * deviation / np.sqrt(60)
    assert np.sqrt((errors**2).mean()) < 1.5 * deviation


# -- anchors: the smallest hashes of runs of eight words ----------------------------------------------------------

ANCHORS = maker()


def anchors(text: str) -> list[int]:
    keys: list[int] = ANCHORS(items(text)).keys[0, ANCHORS.scheme.columns["anchors"]].tolist()
    return keys


@pytest.mark.parametrize("script", ["words", "characters"])
@pytest.mark.parametrize(("part", "least"), [(0.4, 0.99), (0.15, 0.85)])
def test_a_text_shares_a_key_with_a_part_of_it(script: str, part: float, least: float) -> None:
    """Each anchor of the whole lies in the part with the probability `part`: one of 16 does in 1 - (1 - part)^16."""
    random, shared, texts = np.random.default_rng(4), 0, 200
    for _ in range(texts):
        space = " " if script == "words" else ""
        whole = words(400, random) if space else [chr(0x4E00 + n) for n in random.integers(0, 3000, 600)]
        first = int(random.integers(0, int((1 - part) * len(whole))))
        excerpt = space.join([*words(9, random), *whole[first : first + int(part * len(whole))], *words(9, random)])
        shared += bool(set(anchors(space.join(whole))) & set(anchors(excerpt)) - {0})
    assert least <= shared / texts
