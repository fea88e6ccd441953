"""Novelty end to end: fuller versions, standard notices, wrong clocks and restarts."""

import re
from typing import Any

import numpy as np
import pytest

from stream_dedup.dedup.boilerplate import Boilerplate
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.rule import judge_pairs, probability, thresholds
from stream_dedup.dedup.similarity import compare
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.news.item import Item
from stream_dedup.settings import DecisionSettings, load_settings
from tests.batch.feed import prose
from tests.dedup.test_deduplicator import BANK, FERRY
from tests.dedup.world import HOUR, START, judged, kinds, original_of

TITLE = "Ferry over the Elm taken out of service after cracks in its hull"
ARTICLE = " ".join(BANK[:4])
MENU = "\n".join(f"Section {n} of the paper" for n in range(12))
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


def item(name: str, text: str, source: str = "", hour: float = 0, title: str = TITLE) -> Item:
    return Item(name, title, text, source or f"{name}.example", START + int(hour * HOUR))


def other(number: int, notice: str, hour: float = 0) -> Item:
    """A separate article on a page with a notice."""
    return item(f"o{number}", f"{sentences(number, 4)} {notice}", "harbour.example", hour, prose(-number, 8))


def judge(*items: Item, **tables: Any) -> list[Verdict]:
    """Judge and apply one item after the other."""
    return judged(Deduplicator(load_settings(**tables)), items)


def novelty(verdict: Verdict) -> float:
    assert verdict.evidence is not None
    assert verdict.evidence.novelty is not None
    return verdict.evidence.novelty


# -- one pair ------------------------------------------------------------------------------------------------


def test_a_fuller_version_is_let_through_and_names_the_teaser() -> None:
    teaser, whole = (re.findall(r"\w+", text.lower()) for text in (f"{TITLE} {BANK[0]}", FERRY))
    new = sum(word not in teaser for word in whole)
    _, full = judge(item("a", BANK[0]), item("b", FERRY, "a.example", 1))
    assert (full.kind, full.forward) == (Kind.UPDATE, True)
    assert original_of(full) == "a"
    assert full.evidence is not None
    assert novelty(full) > 0.6
    assert full.evidence.new_words == pytest.approx(new, rel=0.06)
    assert full.evidence.new_share == pytest.approx(new / len(whole), rel=0.06)


@pytest.mark.parametrize(
    ("why", "page", "expected"),
    [
        ("the same headline", item("b", MENU), Kind.DUPLICATE),
        ("another headline", item("b", MENU, title="A boat from the coast arrives"), Kind.UNIQUE),
        ("another text under the headline", item("b", f"{MENU}\n{sentences(1, 12)}"), Kind.UPDATE),
    ],
)
def test_menus_alone_under_a_headline_that_was_let_through_bring_nothing(why: str, page: Item, expected: Kind) -> None:
    _, verdict = judge(item("a", FERRY), page)
    assert verdict.kind is expected, why


@pytest.mark.parametrize(
    ("source", "text", "hours", "kind"),
    [
        ("wire.example", BANK[3], 1, Kind.DUPLICATE),
        ("wire.example", BANK[3], 15, Kind.DUPLICATE),
        ("wire.example", BANK[3], 24, Kind.UNIQUE),
        ("wire.example", "", 15, Kind.DUPLICATE),
        ("wire.example", "", 24, Kind.UNIQUE),
        ("other.example", BANK[3], 24, Kind.DUPLICATE),
        ("wire.example", FERRY, 24, Kind.DUPLICATE),
    ],
    ids=["notice", "same day", "next day", "headline", "headline next day", "other source", "whole article"],
)
def test_the_same_few_words_of_one_source_a_day_later_are_a_new_event(
    source: str, text: str, hours: float, kind: Kind
) -> None:
    _, again = judge(item("a", text, "wire.example"), item("b", text, source, hours))
    assert again.kind is kind


def test_the_stream_s_novelty_is_the_rule_s() -> None:
    items = [item("a", " ".join(BANK[:3])), item("b", f"{FERRY} {sentences(2, 3)}", "a.example", 9)]
    dedup = Deduplicator()
    prints = dedup.prepare(items).prints
    pair = np.array([1]), np.array([0])
    similar = compare(prints, prints.signatures, *pair, boilerplate=(Boilerplate(), np.zeros(2, np.int64)))
    asked = thresholds(DecisionSettings(), has_words=True)
    for verdict in (judged(dedup, items)[1], Deduplicator().judge(items).verdicts[1]):
        assert novelty(verdict) == pytest.approx(float(probability(judge_pairs(similar, asked).logit)[0]), rel=1e-4)


@pytest.mark.parametrize("together", [True, False])
def test_what_was_held_back_was_shown_to_nobody(together: bool) -> None:
    """If updates are held back, a copy of an update still has something new: readers know only the original."""
    items = [item("a", BANK[0], "a.example"), item("b", FERRY, "a.example", 1)]
    items.append(item("c", f"{FERRY} More soon.", "a.example", 2))
    dedup = Deduplicator(load_settings(policy={"updates": "drop"}))
    _, held, again = dedup.judge(items).verdicts if together else judged(dedup, items)
    assert kinds([held, again]) == ["update", "update"]
    assert novelty(again) == pytest.approx(novelty(held), abs=0.1)
    assert original_of(again) == "a"
    assert kinds(judge(*items)) == ["unique", "update", "duplicate"], "let through, it is known"


# -- boilerplate ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("originals", "kind"), [(0, Kind.UPDATE), (2, Kind.UPDATE), (3, Kind.DUPLICATE)])
def test_a_site_s_standard_notice_is_nothing_new_once_it_is_known(originals: int, kind: Kind) -> None:
    before = [other(n, NOTICE, n) for n in range(originals)]
    *firsts, copy = judge(
        *before, item("a", ARTICLE, "harbour.example", 4), item("b", f"{ARTICLE} {NOTICE}", "harbour.example", 5)
    )
    assert set(kinds(firsts)) == {"unique"}
    assert copy.kind is kind
    assert copy.evidence is not None
    assert copy.evidence.new_words is not None
    assert (copy.evidence.new_words < 5) == (kind is Kind.DUPLICATE)


def test_only_articles_of_their_own_teach() -> None:
    """Sentences that recur only in copies and updates of one article are not boilerplate."""
    dedup = Deduplicator()
    texts = [BANK[0], FERRY, f"{FERRY} {sentences(1, 7)}", f"{FERRY} {sentences(1, 14)}"]
    verdicts = judged(dedup, [item(f"a{n}", text, "a.example", 3 * n) for n, text in enumerate(texts)])
    assert kinds(verdicts) == ["unique", "update", "update", "update"]
    judged(dedup, [item(f"b{n}", texts[-1].replace("twenty", f"{n}"), hour=12) for n in range(4)])
    prints = dedup.prepare([item("d", FERRY)]).prints
    again = compare(
        prints, prints.signatures, np.array([0]), np.array([0]), boilerplate=(dedup.boilerplate, np.array([0]))
    )
    assert again["article_tokens"].tolist() == [110], "all of them count as words of the article"


def test_a_site_that_changes_its_template_is_learnt_anew_within_a_day_of_its_feed() -> None:
    """Six articles a day: a new notice replaces the old one, which expires with the window."""
    dedup = Deduplicator(load_settings(window={"length": "3d"}))
    old = [other(n, NOTICE, 4 * n) for n in range(12)]
    new = [other(100 + n, NEW_NOTICE, 48 + 4 * n) for n in range(24)]

    def adds(name: str, notice: str, hour: float) -> str:
        """The verdict about a page that adds only the notice; not applied."""
        text = sentences(500 + ord(name), 4)
        first, copy = (item(f"{name}{n}", one, "harbour.example", hour, prose(-ord(name) - 500, 8))
                       for n, one in enumerate((text, f"{text} {notice}")))  # fmt: skip
        return str(dedup.judge([first, copy]).verdicts[1].kind)

    judged(dedup, old)
    assert (adds("p", NOTICE, 47), adds("q", NEW_NOTICE, 47)) == ("duplicate", "update")
    judged(dedup, new[:6])
    assert (adds("r", NOTICE, 72), adds("s", NEW_NOTICE, 72)) == ("duplicate", "duplicate")
    judged(dedup, new[6:])
    assert (adds("t", NOTICE, 144), adds("u", NEW_NOTICE, 144)) == ("update", "duplicate")
