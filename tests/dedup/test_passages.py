"""Alignment of two texts, in any script and of any length."""

import random

import pytest

from stream_dedup.dedup.passages import Side, compare_texts


def passages(first: str, second: str) -> list[tuple[str, str]]:
    return [(str(p.where), (p.first or p.second).strip()) for p in compare_texts(first, second).passages]


def words(count: int, seed: int) -> list[str]:
    """Words with the frequencies of news: few words make most of a text."""
    return random.Random(seed).choices([f"w{n}" for n in range(3000)], [1 / (n + 1) for n in range(3000)], k=count)


def test_case_typography_and_punctuation_are_no_difference() -> None:
    found = compare_texts("“Don’t,” she SAID — twice", "don't she said: ｔｗｉｃｅ")
    assert [p.where for p in found.passages] == [Side.BOTH]
    assert (found.word_edits, found.words_alike, found.character_edits) == (0, 1.0, 0)


def test_chinese_goes_by_character() -> None:
    assert passages("新华社今天电讯北京消息", "新华社昨天电讯上海消息") == [
        ("both", "新华社"), ("first", "今"), ("second", "昨"),
        ("both", "天电讯"), ("first", "北京"), ("second", "上海"), ("both", "消息"),
    ]  # fmt: skip
    assert compare_texts("新华社今天电讯", "新华社昨天电讯").word_edits == 1


def test_common_words_do_not_split_unrelated_texts() -> None:
    found = compare_texts(
        "The price of the corn rose to a height of two crowns", "A mayor of some town in the north said to us"
    )
    assert [p.where for p in found.passages] == [Side.FIRST, Side.SECOND]


@pytest.mark.parametrize("seed", range(20))
def test_passages_joined_are_the_texts(seed: int) -> None:
    draw = random.Random(seed)
    letters = ["one", "two", "the", " ", ", ", "\n", "“", "新", "ไ", "\u200b", "\x1b[1m", "’s", "é", "\ud800", "🚢"]
    first, second = ("x" + "".join(draw.choices(letters, k=60)) for _ in range(2))
    found = compare_texts(first, second).passages
    assert "".join(p.first for p in found) == first
    assert "".join(p.second for p in found) == second


def test_long_texts_are_compared_whole_and_huge_ones_are_cut() -> None:
    first, second = words(5_000, 1), words(5_000, 2)
    assert not compare_texts(" ".join(first), " ".join(second)).cut
    huge = compare_texts(" ".join(first * 40), " ".join(second * 40))
    assert huge.cut
    assert sum(p.words for p in huge.passages if p.where != Side.SECOND) == 20_000
    assert compare_texts("x" * 3_000_000, "y" * 3_000_000).cut
