"""What an update adds, in the words of the item."""

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind
from stream_dedup.settings import load_settings
from tests.dedup.world import BANK, FERRY, TITLE, item

REPLACED = BANK[1].split()[3]


def adds(before: str, after: str, title: str = TITLE, hour: float = 1) -> str:
    """What the second version of an article adds to the first one."""
    first, second = item("a", before), item("a", after, hour=hour, title=title)
    with Decider(load_settings(policy={"updates": "forward"})) as dedup:
        verdict = dedup.judge([first, second]).verdicts[1]
    assert verdict.kind is Kind.UPDATE
    assert verdict.evidence is not None
    return verdict.evidence.adds or ""


@pytest.mark.parametrize("hour", [1, 60], ids=["by the diff", "by the filters of an older original"])
def test_a_new_sentence_is_named_whole(hour: float) -> None:
    sentence = "Divers of the coast guard found the missing engineer in a cabin."
    assert adds(" ".join(BANK), " ".join([*BANK[:2], sentence, *BANK[2:]]), hour=hour) == sentence.rstrip(".")


def test_a_replaced_word_is_named_with_the_words_around_it() -> None:
    text = " ".join(BANK)
    found = adds(text, text.replace(REPLACED, "Zanzibar", 1))
    assert found.startswith('"Zanzibar": ')
    assert found.removeprefix('"Zanzibar": ').replace("Zanzibar", REPLACED) in text


def test_figures_that_changed_places_are_named_although_both_are_known() -> None:
    before = f"{BANK[0]} The crew saved 40 passengers and 12 sailors from the cold water before noon. {BANK[1]}"
    assert '"12 passengers and 40": ' in adds(before, before.replace("40", "x").replace("12", "40").replace("x", "12"))


def test_a_moved_paragraph_and_boilerplate_s_lines_are_not_what_is_new() -> None:
    found = adds(
        " ".join(BANK), "\n".join([*BANK[2:], *BANK[:2], "Two of the sailors died.", "Menu Home Sport Weather"])
    )
    assert found == "Two of the sailors died"


def test_a_new_word_of_the_headline_is_said() -> None:
    assert adds(FERRY, f"{FERRY} Divers found 17 more bodies in the hull on Friday night.", f"{TITLE} Zanzibar") == (
        "new headline; numbers: 17; Divers found 17 more bodies in the hull on Friday night"
    )


def test_a_last_line_that_names_the_site_is_not_named() -> None:
    sentence = "Divers of the coast guard found the missing engineer in a cabin."
    text = " ".join([*BANK[:2], sentence, *BANK[2:]]) + "\nRead more local news on Harbor Post."
    items = [item("a", " ".join(BANK), "harborpost.example"), item("a", text, "harborpost.example", hour=1)]
    with Decider(load_settings(policy={"updates": "forward"})) as dedup:
        verdict = dedup.judge(items).verdicts[1]
    assert verdict.evidence is not None
    assert verdict.evidence.adds == sentence.rstrip(".")
