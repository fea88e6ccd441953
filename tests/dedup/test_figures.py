"""Numbers in which two texts differ, in various notations."""

import pytest

from stream_dedup.dedup.figures import Figures, compare_figures

NOTHING = Figures((), (), (), "")


@pytest.mark.parametrize(
    ("first", "second", "changed"),
    [
        ("It cost 38 million", "It cost 83 million", ("38 million", "83 million")),
        ("It cost $38m in all", "It cost $83m in all", ("38m", "83m")),
        ("a 38-million-euro deal", "an 83-million-euro deal", ("38-million", "83-million")),
        ("about 3.8 billion euros", "about 8.3 billion euros", ("3.8 billion", "8.3 billion")),
        ("rund 3,8 Milliarden Euro", "rund 8,3 Mrd. Euro", ("3,8 Milliarden", "8,3 Mrd")),
        ("1,000 people came", "1,100 people came", ("1,000", "1,100")),
        ("es kamen 1.000 Menschen", "es kamen 1.100 Menschen", ("1.000", "1.100")),
        ("1 000 personnes", "1 100 personnes", ("1 000", "1 100")),
        ("rose by 38 % in May", "rose by 83 percent in May", ("38 %", "83 percent")),
        ("The talks began at 10:30", "The talks began at 10:45", ("10:30", "10:45")),
        ("on 1.2.2024 he said", "on 1.3.2024 he said", ("1.2.2024", "1.3.2024")),
        ("有38万人参加", "有83万人参加", ("38万", "83万")),
        ("38 dead", "Quake: 83 dead", ("38", "83")),
    ],
)
def test_a_number_that_changed_is_told_as_each_text_writes_it(
    first: str, second: str, changed: tuple[str, str]
) -> None:
    assert compare_figures(first, second) == Figures((changed,), (), (), "")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1,000 people", "1.000 people"),
        ("1 000 people", "1000 people"),
        ("1,234,567 votes", "1.234.567 votes"),
        ("1,234.50 euros", "1.234,5 euros"),
        ("38 % of them", "38% of them"),
        ("38 per cent of them", "38 Prozent of them"),
        ("$38m for it", "$38,000,000 for it"),
        ("38 million", "38,000 thousand"),
        ("It is 38.", "It is 38"),
        ("The G7 met", "The G8 met"),
        ("", ""),
        ("no number", "none here either"),
    ],
)
def test_the_same_number_written_otherwise_is_no_difference(first: str, second: str) -> None:
    assert compare_figures(first, second) == NOTHING


def test_what_stands_in_one_text_alone_is_told_apart_and_once() -> None:
    found = compare_figures("38 dead, 7 hurt", "83 dead, says mayor; of 200 in the hall 12 escaped, 200 in all")
    assert found == Figures((("38", "83"),), ("7",), ("200", "12"), "")


def test_a_change_that_both_headline_and_text_show_is_told_once() -> None:
    found = compare_figures("Cost 38 million\nIt will cost 38 million", "Cost 83 million\nIt will cost 83m")
    assert found.changed == (("38 million", "83 million"),)


def test_five_metres_are_not_five_million() -> None:
    assert compare_figures("it is 5 m high", "it is 5 high") == NOTHING
    assert compare_figures("it is 38 % of it", "it is 38 of it").changed == (("38 %", "38"),)


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ("Bridge opens", "Bridge opens (corrected)", "corrected"),
        ("Bridge opens", "CORRECTED-Bridge opens", "CORRECTED"),
        ("Bridge opens", "Correction: bridge opens", "Correction"),
        ("Brücke offen", "Korrektur: Brücke offen", "Korrektur"),
        ("大桥通车", "更正:大桥通车", "更正"),
        ("Bridge opens (corrected)", "Bridge opens (corrected)", ""),
        ("Bridge opens", "Incorrectly built bridge opens", ""),
    ],
)
def test_the_later_one_says_that_it_corrects(first: str, second: str, word: str) -> None:
    assert compare_figures(first, second).correction == word


def test_strange_texts_are_not_aligned_number_by_number() -> None:
    found = compare_figures("1 cat saw 2 dogs", "in 3 towns rain fell for 4 days")
    assert (found.changed, found.first, found.second) == ((), ("1", "2"), ("3", "4"))


def test_digits_of_other_scripts_and_endless_ones_are_read() -> None:
    assert compare_figures("عدد ٣٨ شخص", "عدد ٨٣ شخص").changed == (("٣٨", "٨٣"),)
    endless = "9" * 2_000_000
    assert compare_figures(endless, endless[:-1] + "8").second == (endless[:-1] + "8",)


def test_a_long_text_is_compared_as_far_as_its_first_words() -> None:
    words = "word " * 20_000
    assert compare_figures(words + "38", words + "83") == NOTHING
