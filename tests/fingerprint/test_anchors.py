"""Anchors: the smallest hashes of runs of eight words, which two texts share if one holds part of the other."""

import numpy as np
import pytest

from tests.fingerprint.built import items, maker

MAKE = maker()


def words(count: int, random: np.random.Generator) -> list[str]:
    return [f"w{n}" for n in random.integers(0, 10**6, count)]


def anchors(text: str) -> list[int]:
    keys: list[int] = MAKE(items(text)).keys[0, MAKE.scheme.columns["anchors"]].tolist()
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


def test_unlike_texts_share_no_key() -> None:
    random = np.random.default_rng(5)
    keys = [set(anchors(" ".join(words(300, random)))) for _ in range(100)]
    assert len(set.union(*keys)) == 16 * 100
