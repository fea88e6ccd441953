"""Numbers: the same value in every notation and script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fingerprint.built import texts_of

ZEROS = {"Arabic": 0x0660, "Persian": 0x06F0, "Devanagari": 0x0966, "Bengali": 0x09E6, "full width": 0xFF10}


def numbers(text: str) -> list[int]:
    values: list[int] = texts_of(text).numbers["value"].tolist()
    return values


@pytest.mark.parametrize("zero", ZEROS.values(), ids=ZEROS)
@given(number=st.from_regex(r"[1-9][0-9]{0,2}([.,/:-][0-9]{1,3}){0,3}", fullmatch=True))
def test_a_number_is_the_same_in_every_script(zero: int, number: str) -> None:
    other = "".join(chr(zero + int(c)) if c.isdigit() else c for c in number)
    assert len(numbers(number)) == 1
    assert numbers(f"The price is {number} today") == numbers(f"क्या {other}।") == numbers(f"ثمن {other}؟")


@pytest.mark.parametrize(
    "same",
    [
        ("1,000", "1.000", "1000", "१,०००", "१०००", "١٠٠٠", "１，０００"),
        ("3:1", "3-1", "३-१"),
        ("2026-11-23", "2026/11/23", "2026.11.23"),
        ("38 million", "$38 million", "38 percent", "38%", "(38)", "38."),
    ],
)
def test_separators_and_units_make_no_difference(same: tuple[str, ...]) -> None:
    assert len({tuple(numbers(text)) for text in same}) == 1
    assert len(numbers(same[0])) == 1


@pytest.mark.parametrize(("one", "other"), [("1,000", "1,001"), ("38", "83"), ("3:1", "1:3"), ("0.5", "5"), ("०", "१")])
def test_other_values_are_other_numbers(one: str, other: str) -> None:
    assert numbers(one) != numbers(other)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("no number, none at all - here: nothing.", 0),
        ("The G7 met in Room B12 for the 2nd time", 0),
        ("On 3 May, 40 of 1,200 fans came at 10:30; it was 3-1.", 5),
        ("a 12-year deal of 1 000 crowns", 3),
        ("38 39,40 - 41", 3),  # a mark with spaces joins nothing
        ("有38万人参加，增长3.5%", 2),
        ("नेपाल १२३ र ४५६।", 2),
        ("9" * 5000 + " and 1", 2),
    ],
)
def test_numbers_are_counted(text: str, count: int) -> None:
    assert len(numbers(text)) == count
