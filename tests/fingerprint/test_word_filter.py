"""The filter of an item's words: what it holds is always found, and what is found absent is counted without bias."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.fingerprint.word_filter import (
    FILTER_BITS,
    NO_WORD,
    STEM_LETTERS,
    absence,
    bit_of_number,
    bit_of_word,
    has_number,
    has_word,
    second_bit,
    set_bit,
)
from tests.fingerprint.built import texts_of

NO_FIGURES = np.uint64(0)
HASHES = st.lists(st.integers(1, 2**32 - 1).map(np.uint32), max_size=300)


def filled(words: Iterable[np.uint32], numbers: Iterable[np.uint32] = ()) -> tuple[np.ndarray, np.uint64]:
    """The two filters of an item: of its words and numbers, and of its numbers alone."""
    bits, figures = np.zeros(FILTER_BITS // 8, np.uint8), NO_FIGURES
    for h in (*words, *numbers):
        set_bit(bits, bit_of_word(h))
    for h in numbers:
        set_bit(bits, second_bit(h))
        figures |= np.uint64(bit_of_number(h))
    return bits, figures


@given(HASHES, HASHES)
def test_what_a_filter_holds_is_never_absent(words: list[np.uint32], numbers: list[np.uint32]) -> None:
    bits, figures = filled(words, numbers)
    assert all(has_word(bits, h) for h in words)
    assert all(has_number(bits, figures, h) for h in numbers)


@pytest.mark.parametrize(("held", "figures_held"), [(0, 0), (40, 3), (300, 20), (300, 200), (1500, 40)])
def test_the_count_of_absent_words_and_numbers_is_right_on_average(held: int, figures_held: int) -> None:
    random, asked = np.random.default_rng(held), 4000
    words, numbers = [], []
    for _ in range(20):
        drawn = random.integers(1, 2**32, held + figures_held, np.uint32)
        bits, figures = filled(drawn[:held], drawn[held:])
        each_word, each_number = absence(bits, figures)
        others = random.integers(1, 2**32, asked, np.uint32)
        words.append(sum(not has_word(bits, h) for h in others) * each_word / asked)
        numbers.append(sum(not has_number(bits, figures, h) for h in others) * each_number / asked)
    assert np.mean(words) == pytest.approx(1, abs=0.02)
    assert np.mean(numbers) == pytest.approx(1, abs=0.02)


def test_a_full_filter_counts_with_a_bounded_factor() -> None:
    each_word, each_number = absence(np.full(FILTER_BITS // 8, 255, np.uint8), np.uint64(2**64 - 1))
    assert each_word == each_number == pytest.approx(1 / 0.03)


def test_a_new_figure_is_seldom_found_by_chance() -> None:
    """An article of 250 words and ten figures. With the filter of the words alone, one in eleven is."""
    random, found, of_words_alone = np.random.default_rng(5), 0, 0
    for _ in range(50):
        drawn = random.integers(1, 2**32, 260, np.uint32)
        bits, figures = filled(drawn[:250], drawn[250:])
        for h in random.integers(1, 2**32, 100, np.uint32):
            found += has_number(bits, figures, h)
            of_words_alone += has_number(bits, np.uint64(2**64 - 1), h)
    assert found < 0.02 * 5000 < 0.07 * 5000 < of_words_alone


# -- which words are one -----------------------------------------------------------------------------------------------


def words_of(text: str) -> list[int]:
    return [h for h in texts_of(text).words.tolist() if h != NO_WORD]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("investigating", "investigated", True),
        ("bridge", "bridges", True),
        ("gesperrte", "gesperrten", True),
        ("मन्त्रालयले", "मन्त्रालयमा", True),
        ("министерство", "министерства", True),
        ("bank", "banks", False),  # four letters, and five
        ("price", "pride", False),
        ("1234567", "1234568", False),
        ("2026-11-23", "2026-11-24", False),
        ("123456", "12345", False),
    ],
)
def test_a_word_counts_by_its_first_letters_and_a_number_as_a_whole(one: str, other: str, alike: bool) -> None:
    assert (words_of(one) == words_of(other)) == alike


@given(st.text("abcdeéßжяक", min_size=1, max_size=12), st.text("abcжक", max_size=8))
def test_an_ending_changes_no_word(word: str, ending: str) -> None:
    begin = f"{word}xxxxx"[:STEM_LETTERS]
    assert words_of(begin + ending) == words_of(begin)
