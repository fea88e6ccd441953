"""An item is a correction only if it says so, in a mark that is set apart."""

from stream_dedup.dedup.corrections import IN_HEADLINE, corrections
from stream_dedup.news.item import Item

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
    assert corrections(items).tolist() == [IN_HEADLINE] * len(MARKED) + [0] * len(ORDINARY)
