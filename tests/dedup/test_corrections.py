"""A correction under a new id is let through: readers of the wrong number must see the right one."""

import pytest

from stream_dedup.dedup.corrections import corrections
from stream_dedup.dedup.verdict import Kind
from stream_dedup.news.item import Item
from tests.dedup.test_novelty import ARTICLE, TITLE, item, judge
from tests.dedup.world import original_of

WRONG = f"{ARTICLE} The repair costs 38 million."
RIGHT = f"{ARTICLE} The repair costs 83 million."


MARKED = [
    "CORRECTED-Bridge costs 83 million",
    "(CORRECTED) - Bridge costs 83 million",
    "UPDATE 2-CORRECTED-Bridge costs 83 million",
    "CORRECTED 2-Bridge costs 83 million",
    "Correction: Bridge costs 83 million",
    "Bridge costs 83 million [Clarification]",
    "Bridge costs 83 million - CORRECTED",
    "Korrektur: Brücke kostet 83 Millionen",
    "Rectificatif : le pont coûte 83 millions",
    "【更正】大桥造价8300万",
]
ORDINARY = [
    "Market correction looms",
    "Corrections officer held",
    "Was the umpire correct?",
    "Correction of a map: why",
    "",
]


def test_a_headline_is_marked_as_a_correction_only_if_the_mark_is_set_apart() -> None:
    items = [Item("1", headline, "", "a.example", 0) for headline in (*MARKED, *ORDINARY)]
    assert corrections(items).tolist() == [True] * len(MARKED) + [False] * len(ORDINARY)


@pytest.mark.parametrize("source", ["harbour.example", "other.example"])
def test_a_correction_under_a_new_id_is_an_update(source: str) -> None:
    first = item("wrong", WRONG, "harbour.example")
    verdict = judge(first, item("right", RIGHT, source, 1, f"{TITLE} (corrected)"))[1]
    assert (verdict.kind, verdict.forward) == (Kind.UPDATE, True)
    assert original_of(verdict) == "wrong"
