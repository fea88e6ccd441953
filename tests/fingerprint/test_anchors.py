"""Anchors: the smallest hashes of runs of eight words, which two texts share if one holds part of the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fingerprint.built import M64, items, maker, mix, texts_of

SCHEMES: dict[str, dict[str, int]] = {
    "words": {},
    "few": {"anchors": 3},
    "letters": {"shingle_letters": 5},
    "one word": {"shingle_words": 1, "shingle_characters": 2},
    "long shingles": {"shingle_words": 13},
}
MAKE = {name: maker(**given) for name, given in SCHEMES.items()}
TEXTS = st.lists(st.sampled_from([*"abcdefgh", "新", "闻", "联", "播", "."]), max_size=60).map(" ".join)


def words(count: int, random: np.random.Generator) -> list[str]:
    return [f"w{n}" for n in random.integers(0, 10**6, count)]


def anchors(text: str, scheme: str = "words") -> list[int]:
    make = MAKE[scheme]
    keys: list[int] = make(items(text)).keys[0, make.scheme.columns["anchors"]].tolist()
    return keys


def by_definition(text: str, scheme: str) -> list[int]:
    """The k smallest keys of all runs, in plain Python."""
    make = MAKE[scheme]
    shingles = texts_of(text, make=make).shingles.tolist()
    step, last, character_step, character_last = make.scheme.anchor_runs
    if make.tokens(text).kinds.any():
        step, last = character_step, character_last
    runs = [(shingles[i], [shingles[i + step], shingles[i + last]]) for i in range(len(shingles) - last)]
    keys = set()
    for h, rest in runs or [(0, shingles)] * bool(shingles):
        for shingle in rest:
            h = ((h << 5 | h >> 59) & M64 ^ shingle) * 0x100000001B3 & M64
        keys.add(max(mix(h) >> 32, 1))
    k = make.scheme.settings.anchors
    return (sorted(keys) + [0] * k)[:k]


@pytest.mark.parametrize("scheme", SCHEMES)
@given(text=TEXTS)
def test_anchors_are_the_smallest_keys_of_all_runs(scheme: str, text: str) -> None:
    assert anchors(text, scheme) == by_definition(text, scheme)


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
