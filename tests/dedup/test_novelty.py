"""Novelty end to end: what a fuller version adds, and standard notices."""

import re

import numpy as np
import pytest

from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.rule import probability, rule_of
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.news.item import Item
from stream_dedup.settings import DecisionSettings, load_settings
from stream_dedup.tools.pair_rule import compare, judge_pairs
from tests.dedup.world import BANK, FERRY, TITLE, item, judged, kinds
from tests.tools.batch.feed import prose

ARTICLE = " ".join(BANK[:4])
NOTICE = (
    "This page belongs to the Harbour Press Group and its partners in four countries of the north. "
    "No part of it may be printed, stored or sent on without the written consent of the publisher. "
    "Readers who subscribe before Friday receive the weekend supplement free of charge for a whole year. "
    "Letters to the editor are welcome and may be shortened before they are printed in the paper. "
    "Our photographers are members of the national union and keep all rights in their own pictures. "
    "Complaints about our work may be sent to the press council at the address that is given below."
)
NEW_NOTICE = (
    "From this month on the Harbour Post is made by an office of its own in the old customs house. "
    "All texts and pictures on these pages are protected by law and may be quoted with their source alone. "
    "Would you like to read the paper on your telephone without any advertising from tomorrow morning on? "
    "The editors choose which comments are shown and do not write to those whose words are left out. "
    "Corrections are printed on the second page and stand under the article for as long as it is kept. "
    "Advertisers find the prices of the season in a list that is sent by post to every town hall."
)


def sentences(seed: int, count: int) -> str:
    """Random sentences of 13 words, unlike those of any other seed."""
    drawn = (prose(1000 * seed + n, 26).split() for n in range(count))
    return " ".join(" ".join(map("".join, zip(one[::2], one[1::2], strict=True))).capitalize() + "." for one in drawn)


def other(number: int, notice: str, hour: float = 0) -> Item:
    """A separate article on a page with a notice."""
    return item(f"o{number}", f"{sentences(number, 4)} {notice}", "harbour.example", hour, prose(-number, 8))


def novelty(verdict: Verdict) -> float:
    assert verdict.evidence is not None
    assert verdict.evidence.novelty is not None
    return verdict.evidence.novelty


def test_the_evidence_of_a_fuller_version_is_what_it_adds_and_the_rule_s_novelty() -> None:
    teaser, whole = (re.findall(r"\w+", text.lower()) for text in (f"{TITLE} {BANK[0]}", FERRY))
    new = sum(word not in teaser for word in whole)
    dedup, items = Decider(), [item("a", BANK[0]), item("b", source="a.example", hour=1)]
    prints = dedup.prepare(items).prints
    pair = np.array([1]), np.array([0])
    pairs = compare(prints, prints.signatures, *pair, boilerplate=(Boilerplate(), np.zeros(2, np.int64)))
    expected = float(probability(judge_pairs(pairs, rule_of(DecisionSettings(), has_words=True)).logit)[0])
    for full in (dedup.judge(items).verdicts[1], judged(dedup, items)[1]):
        assert novelty(full) == pytest.approx(expected, rel=1e-4)
        assert novelty(full) > 0.6
        assert full.evidence is not None
        assert full.evidence.new_words == pytest.approx(new, rel=0.06)
        assert full.evidence.new_share == pytest.approx(new / len(whole), rel=0.06)


# -- boilerplate ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("originals", "kind"), [(0, Kind.UPDATE), (2, Kind.UPDATE), (3, Kind.DUPLICATE)])
def test_a_site_s_standard_notice_is_nothing_new_once_it_is_known(originals: int, kind: Kind) -> None:
    texts = enumerate((ARTICLE, f"{ARTICLE} {NOTICE}"))
    items = [
        *(other(n, NOTICE, n) for n in range(originals)),
        *(item(f"{n}", one, "harbour.example", 4) for n, one in texts),
    ]
    *firsts, copy = judged(Decider(), items)
    assert set(kinds(firsts)) == {"unique"}
    assert copy.kind is kind
    assert copy.evidence is not None
    assert copy.evidence.new_words is not None
    assert (copy.evidence.new_words < 5) == (kind is Kind.DUPLICATE)


def test_only_articles_of_their_own_teach() -> None:
    """Sentences that recur only in copies and updates of one article are not boilerplate."""
    dedup = Decider()
    texts = [BANK[0], FERRY, f"{FERRY} {sentences(1, 7)}", f"{FERRY} {sentences(1, 14)}"]
    verdicts = judged(dedup, [item(f"a{n}", text, "a.example", 3 * n) for n, text in enumerate(texts)])
    assert kinds(verdicts) == ["unique", "update", "update", "update"]
    judged(dedup, [item(f"b{n}", texts[-1].replace("twenty", f"{n}"), hour=12) for n in range(4)])
    prints = dedup.prepare([item("d")]).prints
    again = compare(
        prints, prints.signatures, np.array([0]), np.array([0]), boilerplate=(dedup.boilerplate, np.array([0]))
    )
    assert again["tokens"].tolist() == [110], "all of them count as words of the article"


def test_a_site_that_changes_its_template_is_learnt_anew_within_a_day_of_its_feed() -> None:
    """Six articles a day: a new notice replaces the old one, which expires with the window."""
    dedup = Decider(load_settings(window={"length": "3d"}))
    old = [other(n, NOTICE, 4 * n) for n in range(12)]
    new = [other(100 + n, NEW_NOTICE, 48 + 4 * n) for n in range(24)]

    def kinds_of_additions(seed: int, hour: float) -> list[str]:
        """The verdicts about pages that add only the old or the new notice; not applied."""
        found = []
        for number, notice in ((seed, NOTICE), (seed + 1, NEW_NOTICE)):
            pages = [other(500 + number, more, hour) for more in ("", notice)]
            found.append(str(dedup.judge(pages).verdicts[1].kind))
        return found

    judged(dedup, old)
    assert kinds_of_additions(1, 47) == ["duplicate", "update"]
    judged(dedup, new[:6])
    assert kinds_of_additions(3, 72) == ["duplicate", "duplicate"]
    judged(dedup, new[6:])
    assert kinds_of_additions(5, 144) == ["update", "duplicate"]
