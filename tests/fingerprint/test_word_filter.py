"""The filter of an item's words: what it holds is always found, and what is found absent is counted without bias."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.fingerprint.word_filter import (
    FILTER_BITS,
    absence,
    bit_of_word,
    has_number,
    has_word,
    second_bit,
    set_bit,
)

HASHES = st.lists(st.integers(1, 2**32 - 1).map(np.uint32), max_size=300)


def filled(words: object, numbers: object = ()) -> np.ndarray:
    bits = np.zeros(FILTER_BITS // 8, np.uint8)
    for h in (*words, *numbers):  # type: ignore[misc]
        set_bit(bits, bit_of_word(h))
    for h in numbers:  # type: ignore[attr-defined]
        set_bit(bits, second_bit(h))
    return bits


@given(HASHES, HASHES)
def test_what_a_filter_holds_is_never_absent(words: list[np.uint32], numbers: list[np.uint32]) -> None:
    bits = filled(words, numbers)
    assert all(has_word(bits, h) for h in words)
    assert all(has_number(bits, h) for h in numbers)


@pytest.mark.parametrize("held", [0, 40, 300, 1500])
def test_the_count_of_absent_words_and_numbers_is_right_on_average(held: int) -> None:
    random, asked = np.random.default_rng(held), 4000
    words, numbers = [], []
    for _ in range(20):
        bits = filled(random.integers(1, 2**32, held, np.uint32))
        each_word, each_number = absence(bits)
        others = random.integers(1, 2**32, asked, np.uint32)
        words.append(sum(not has_word(bits, h) for h in others) * each_word / asked)
        numbers.append(sum(not has_number(bits, h) for h in others) * each_number / asked)
    assert np.mean(words) == pytest.approx(1, abs=0.02)
    assert np.mean(numbers) == pytest.approx(1, abs=0.02)


def test_a_full_filter_counts_with_a_bounded_factor() -> None:
    each_word, each_number = absence(np.full(FILTER_BITS // 8, 255, np.uint8))
    assert each_word == each_number == pytest.approx(1 / 0.03)
