"""Missed and repeated: which pairs count, intervals for correlated pairs, and the trade-off curve."""

import math

import pytest

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.evaluate.labels import Label
from stream_dedup.evaluate.novelty import (
    DECISION,
    ENOUGH,
    LANGUAGE,
    SOURCE,
    STAGE,
    NoveltyReport,
    novelty_report,
    rates,
)


def pair(name: str, label: str, new: str | None, weight: float = 1.0, lang: str | None = None) -> Label:
    return Label(f"before {name}", name, label, weight, new=new, lang=lang)


def verdict(name: str, held: bool, novelty: float | None = None, stage: Stage = Stage.BODY) -> Verdict:
    kind = Kind.DUPLICATE if held else Kind.UPDATE
    return Verdict(name, kind, stage, not held, Original(f"before {name}", 0, -1, -1), Evidence(novelty=novelty))


def report(labels: list[Label], verdicts: list[Verdict], sites: dict[str, str] | None = None) -> NoveltyReport:
    by_id = {one.id: one for one in verdicts}
    made = novelty_report(
        labels, by_id, {"nothing": {}, "all": {name: f"before {name}" for name in by_id}}, sites or {}, 0.5
    )
    assert made is not None
    return made


def test_missed_is_of_what_is_held_back_and_repeated_of_what_has_nothing_new() -> None:
    labels = [
        pair("old", "copy", "no", 3.0),
        pair("scoop", "cut", "yes", 2.0),
        pair("other", "different", "yes", 1.0),
        pair("again", "update", "little", 1.0),
        pair("later", "update", "yes", 5.0),
    ]
    held = {"old", "scoop", "other"}
    found = report(labels, [verdict(one.later, one.later in held) for one in labels])
    decision, nothing, everything = (one.rates for one in found.groups)
    assert (decision.missed, decision.repeated) == (0.5, 0.25)
    assert math.isnan(nothing.missed)
    assert nothing.repeated == 1.0
    assert (everything.missed, everything.repeated) == (8 / 12, 0.0)
    assert [label.later for label in found.missed] == ["scoop", "other"]
    assert [label.later for label in found.repeated] == ["again"]


@pytest.mark.parametrize("held", [True, False])
def test_a_page_without_an_article_of_its_own_counts_for_neither_nor_does_a_pair_of_the_first_question(
    held: bool,
) -> None:
    labels = [pair("a", "copy", "no"), pair("menu", "furniture", "no"), pair("older", "different", None)]
    found = report(labels, [verdict("a", True), verdict("menu", held), verdict("older", held)])
    assert found.groups[0].rates.rows == 1
    assert found.groups[0].rates.missed == 0.0


def test_without_new_there_is_no_second_question() -> None:
    assert novelty_report([Label("a", "b", "copy")], {"b": verdict("b", True)}, {}, {}, 0.5) is None


def test_pairs_of_one_site_tell_less_than_pairs_of_many() -> None:
    labels = [pair(str(n), "cut", "yes" if n % 4 == 0 else "no") for n in range(80)]
    held = [True] * 80

    def width(clusters: list[str]) -> float:
        found = rates(labels, held, clusters)
        low, high = found.missed_interval
        assert low <= found.missed <= high
        return high - low

    # Eight sites, two of which publish nothing but news.
    one_kind_a_site = [f"{n % 4}-{n % 2}-{n < 40}" for n in range(80)]
    assert width(one_kind_a_site) > 2 * width([str(n) for n in range(80)])


def test_where_all_sites_agree_the_interval_still_says_how_little_is_known() -> None:
    labels = [pair(str(n), "copy", "no") for n in range(20)]
    many = rates(labels, [True] * 20, [str(n) for n in range(20)])
    few = rates(labels, [True] * 20, [str(n % 5) for n in range(20)])
    assert many.missed_interval == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    assert few.missed_interval == pytest.approx((0.0, 1 - 0.025 ** (1 / 5)))
    let_through = rates(labels, [False] * 20, [str(n) for n in range(20)])
    assert let_through.repeated_interval == pytest.approx((0.025 ** (1 / 20), 1.0))


def test_sites_that_are_alike_by_chance_prove_nothing() -> None:
    """Two sites with one of two pairs missed in each: every resample of sites has the rate .5."""
    labels = [pair(str(n), "cut", "yes" if n % 2 else "no") for n in range(4)]
    low, high = rates(labels, [True] * 4, ["x", "x", "y", "y"]).missed_interval
    assert low < 0.2
    assert high > 0.8


def test_one_site_has_no_interval() -> None:
    assert math.isnan(
        rates([pair("a", "copy", "no"), pair("b", "cut", "yes")], [True, True], ["x", "x"]).missed_interval[0]
    )


def test_groups_are_large_sources_languages_and_stages_and_each_rule_stands_in_each() -> None:
    names = [str(n) for n in range(2 * ENOUGH - 1)]
    labels = [pair(name, "copy", "no", lang="czech" if n < ENOUGH else None) for n, name in enumerate(names)]
    verdicts = [verdict(name, True, stage=Stage.HEADLINE if n % 2 else Stage.BODY) for n, name in enumerate(names)]
    sites = {name: "elm.example" if n < ENOUGH else "oak.example" for n, name in enumerate(names)}
    found = report(labels, verdicts, sites)
    assert [(one.by, one.name) for one in found.groups if one.rule == DECISION] == [
        ("all", "all"),
        (SOURCE, "elm.example"),
        (LANGUAGE, "czech"),
        (STAGE, "duplicate: body"),
    ]
    assert len(found.groups) == 4 * 3
    assert found.groups[3].title == "source elm.example"


def test_sure_pairs_stand_apart_where_some_are_not() -> None:
    labels = [pair("a", "copy", "no"), Label("before b", "b", "cut", unsure=True, new="yes")]
    found = report(labels, [verdict("a", True), verdict("b", True)])
    assert [(one.name, one.rates.rows) for one in found.groups if one.rule == DECISION] == [("all", 2), ("sure", 1)]


def test_the_curve_falls_in_one_rate_and_rises_in_the_other_and_meets_the_decision_at_its_setting() -> None:
    labels = [
        pair("a", "copy", "no"),
        pair("b", "copy", "little"),
        pair("c", "cut", "yes"),
        pair("d", "update", "yes"),
    ]
    novelty = {"a": 0.1, "b": 0.7, "c": 0.3, "d": 0.9}
    found = report(labels, [verdict(name, value < 0.5, value) for name, value in novelty.items()])
    at = {point.threshold: (point.missed, point.repeated) for point in found.curve}
    assert at[0.2] == (0.0, 0.5)
    assert at[0.5] == (0.5, 0.5) == (found.groups[0].rates.missed, found.groups[0].rates.repeated)
    assert at[0.8] == (1 / 3, 0.0)
    assert math.isnan(at[0.0][0]), "nothing is held back"
    repeated = [point.repeated for point in found.curve]
    assert repeated == sorted(repeated, reverse=True)
    assert found.carrying == 4
    assert 0.5 in [point.threshold for point in found.shown()]
    assert "decision.novelty moves along the curve; it is 0.5" in found.remarks()[-1]


def test_what_novelty_did_not_settle_stays_as_it_is_at_every_threshold() -> None:
    labels = [pair("exact", "copy", "no"), pair("c", "cut", "yes"), pair("through", "copy", "no")]
    unique = Verdict("through", Kind.UNIQUE, Stage.NONE, True)  # it met nothing
    found = report(labels, [verdict("exact", True, 1.0, Stage.EXACT), verdict("c", True, 0.2), unique])
    assert found.carrying == 1
    assert {point.repeated for point in found.curve} == {0.5}
    assert [point.missed for point in found.shown()[:1]] == [0.0]


def test_another_article_too_would_be_held_back_at_a_higher_threshold() -> None:
    """It once kept its verdict at every threshold, because the views had said "another article"."""
    unique = Verdict("a", Kind.UNIQUE, Stage.NONE, True, Original("before a", 0, -1, -1), Evidence(novelty=0.6))
    found = report([pair("a", "copy", "no")], [unique])
    assert {point.threshold: point.repeated for point in found.curve if point.threshold in (0.5, 0.7)} == {
        0.5: 1.0, 0.7: 0.0
    }  # fmt: skip


def test_without_novelty_the_report_says_that_there_is_no_curve() -> None:
    found = report([pair("a", "copy", "no")], [verdict("a", True)])
    assert found.curve == []
    assert found.remarks()[-1] == (
        "No labelled item has a novelty (evidence.novelty), so there is no curve along decision.novelty."
    )


def test_items_held_back_for_another_original_are_reported() -> None:
    other = Verdict("a", Kind.DUPLICATE, Stage.BODY, False, Original("elsewhere", 0, -1, -1))
    found = report([pair("a", "copy", "no"), pair("b", "copy", "no")], [other, verdict("b", True)])
    assert [one.other_original for one in found.groups] == [1, 0, 0]
    assert any(
        "another original than the annotator was shown" in note and "1 by decision." in note for note in found.remarks()
    )
