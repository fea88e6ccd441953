"""The words of an item that count as one. What a filter of them tells is tested in tests/dedup/test_similarity.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.fingerprint.scheme import FILTER_BITS
from tests.fingerprint.built import texts_of


def words_of(text: str) -> list[int]:
    return [h for h in texts_of(text).words.tolist() if h < FILTER_BITS]


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
    begin = f"{word}xxxxx"[:5]
    assert words_of(begin + ending) == words_of(begin)
