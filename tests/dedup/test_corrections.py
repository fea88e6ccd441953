"""A correction under a new id is let through: readers of the wrong number must see the right one."""

import pytest

from stream_dedup.dedup.batch import are_corrections
from stream_dedup.dedup.verdict import Kind
from tests.dedup.test_novelty import ARTICLE, TITLE, item, judge

WRONG = f"{ARTICLE} The repair costs 38 million."
RIGHT = f"{ARTICLE} The repair costs 83 million."


@pytest.mark.parametrize(
    "headline",
    [
        "CORRECTED-Bridge costs 83 million",
        "(CORRECTED) - Bridge costs 83 million",
        "UPDATE 2-CORRECTED-Bridge costs 83 million",
        "CORRECTED 2-Bridge costs 83 million",
        "Correction: Bridge costs 83 million",
        "Bridge costs 83 million (corrected)",
        "Bridge costs 83 million [Clarification]",
        "Bridge costs 83 million - CORRECTED",
        "Korrektur: Brücke kostet 83 Millionen",
        "Rectificatif : le pont coûte 83 millions",
        "Corrección: el puente cuesta 83 millones",
        "更正：大桥造价8300万",
        "【更正】大桥造价8300万",
    ],
)
def test_a_headline_is_marked_as_a_correction(headline: str) -> None:
    assert are_corrections(["Ferry sinks", headline]).tolist() == [False, True]


@pytest.mark.parametrize(
    "headline",
    [
        "Market correction looms",
        "Corrections officer held",
        "Was the umpire correct?",
        "Correction of the market: why",
        "",
    ],
)
def test_other_headlines_with_the_word_are_news_like_any_other(headline: str) -> None:
    assert not are_corrections([headline]).any()


@pytest.mark.parametrize("source", ["harbour.example", "other.example"])
def test_a_correction_under_a_new_id_is_an_update(source: str) -> None:
    first = item("wrong", WRONG, "harbour.example")
    verdict = judge(first, item("right", RIGHT, source, 1, f"{TITLE} (corrected)"))[1]
    assert (verdict.kind, verdict.forward) == (Kind.UPDATE, True)
    assert verdict.original is not None
    assert verdict.original.id == "wrong"


def test_a_copy_of_the_correction_is_a_duplicate_of_it() -> None:
    first, later = item("wrong", WRONG), item("right", RIGHT, "", 1, f"CORRECTED-{TITLE}")
    copies = [item("copy", RIGHT, "", 2, f"CORRECTED-{TITLE}"), item("plain", WRONG, "", 3)]
    verdicts = judge(first, later, *copies)
    assert [str(one.kind) for one in verdicts] == ["unique", "update", "duplicate", "duplicate"]
