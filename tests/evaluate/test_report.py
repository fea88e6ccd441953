"""The report and the figures of a small corpus."""

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from stream_dedup.batch.judge import judge_lines, numbered
from stream_dedup.dedup.verdict import Evidence, Kind, Stage, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.evaluation import Evaluation, evaluate
from stream_dedup.evaluate.labels import Label
from stream_dedup.evaluate.novelty import novelty_report
from stream_dedup.evaluate.plots import figures, save
from stream_dedup.evaluate.proposals import judge_and_count
from stream_dedup.evaluate.report import page
from stream_dedup.evaluate.sweep import sweep, sweep_steps
from stream_dedup.fingerprint.layout import layout
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.evaluate.news import copies

ITEMS = copies(12, [0.02, 0.3])
VALUES = [
    json.dumps({"id": one.id, "title": one.title, "text": one.text, "source": one.source}).encode() for one in ITEMS
]
LINES = list(numbered(VALUES))
LABELS = [Label("0-0", "0-1", "copy", 3.0), Label("1-0", "1-1", "copy", 1.0, True), Label("0-0", "5-1", "different")]


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate(list(numbered([*VALUES, b"{broken"])), Settings(), LABELS, with_sweep=True)


def test_every_item_is_counted(found: Evaluation) -> None:
    assert found.lines == 37
    assert sum(found.kinds.values()) == sum(found.stages.values()) == 37
    assert found.kinds["bad"] == 1
    assert sum(found.held) == found.kinds["duplicate"]
    assert found.oracle.items == 36
    assert set(found.labels) == {"all", "sure"}


def test_the_threshold_moves_and_its_present_value_gives_the_same_figures(found: Evaluation) -> None:
    assert [point.title for point in found.sweep] == [
        "0.2", "0.3 cautious", "0.4 balanced", "0.5 eager", "0.6", "0.7"
    ]  # fmt: skip
    assert {point.setting for point in found.sweep} == {"decision.novelty"}
    present = found.sweep[2]
    assert (present.recall, present.precision) == (found.labels["all"].recall, found.labels["all"].precision)
    assert present.held_share == (found.kinds["duplicate"] + found.kinds["bad"]) / found.lines


def test_without_labels_each_step_has_a_share_and_examples_of_what_it_adds() -> None:
    """Ten rewritten versions of each of six articles, with more and more new words."""
    shares = [0.04, 0.08, 0.12, 0.16, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6]
    points = sweep([*numbered(map(_sentences, copies(6, shares)))], Settings(), [])
    held = [point.held_share for point in points]
    assert held == sorted(set(held)), "each step holds back more"
    assert points[0].examples == []
    for before, point in pairwise(points):
        assert 1 <= len(point.examples) <= 3
        assert not set(point.examples) & set(before.examples)
        for original, item in point.examples:
            assert item.split("-")[0] == original.split("-")[0]
    new = [max(int(item.split("-")[1]) for _, item in point.examples) for point in points[1:]]
    assert new == sorted(new)
    assert all(math.isnan(rate) for point in points for rate in (point.recall, point.missed, point.repeated))


def _sentences(item: Item) -> bytes:
    """A line with the item's words in sentences of ten, under a headline of its own."""
    words = item.text.split()
    text = " ".join(" ".join(words[k : k + 10]).capitalize() + "." for k in range(0, len(words), 10))
    return json.dumps({"id": item.id, "title": " ".join(words[-5:]), "text": text, "source": item.source}).encode()


def test_candidates_are_those_that_the_decision_compared() -> None:
    """Up to 24 of the index are compared, and no item of this corpus has as many."""
    judged = judge_and_count(numbered(VALUES * 2), Settings())
    compared = [verdict.evidence.candidates if verdict.evidence else 0 for verdict in judged.verdicts]
    assert judged.verdicts == list(judge_lines(VALUES * 2, Settings()))
    assert judged.candidates * len(compared) == sum(compared) > 0


def test_it_works_without_labels_and_says_what_it_does() -> None:
    steps = []
    found = evaluate(LINES, Settings(), progress=lambda what, done, total: steps.append((what, done, total)))
    assert not found.labels
    assert found.as_json()["oracle"]["agreement"] == 1.0
    assert ("decide", 36, 36) in steps
    assert ("oracle", 36, 36) in steps


def test_the_sweep_of_a_simhash_moves_distance_and_layout() -> None:
    """Its rows were once seven runs of a body threshold that decides nothing there."""
    settings = load_settings(fingerprint={"family": "simhash"}, decision={"rule": "jaccard"})
    points = evaluate(LINES, settings, LABELS, with_sweep=True).sweep
    assert {point.name for point in points} == {"hamming"}
    assert [point.value for point in points if point.layout == "5 choose 2"] == [0, 1, 2, 3]
    assert sorted({point.value for point in points}) == [0, 1, 2, 3, 4, 5, 6]
    for point in points:
        assert layout(point.layout, 64).max_hamming >= point.value
    by_distance = {point.value: point for point in points}
    held = [by_distance[bits].held_share for bits in range(7)]
    assert held == sorted(held)
    assert held[0] < held[-1]
    assert len({point.candidates for point in points}) > 1
    assert "9 choose 3" in page(evaluate(LINES, settings, with_sweep=True), "news", {})


def test_the_sweep_moves_what_decides() -> None:
    def names(field: str | None = None, rule: str = "novelty", **changes: object) -> set[str]:
        settings = load_settings(fingerprint=changes, item={"fingerprint": field}, decision={"rule": rule})
        return {step.name for step in sweep_steps(settings)}

    assert names(family="simhash") == {"hamming"}
    assert names("print", family="given") == {"hamming"}
    assert names(rule="jaccard") == {"body"}
    assert names() == {"novelty"}


def test_undefined_rates_are_null_in_json(found: Evaluation) -> None:
    without = evaluate(LINES[:2], Settings(), [Label("0-0", "0-1", "different")])
    assert without.as_json()["all"]["recall"] is None
    json.dumps(found.as_json(), allow_nan=False)


def test_the_page_stands_alone_and_holds_no_text_of_the_corpus(found: Evaluation) -> None:
    drawn = figures(found, Settings().fingerprint)
    shown = page(found, "a <corpus>", drawn)
    assert shown.count("<svg") == 4
    assert "a &lt;corpus&gt;" in shown
    assert "<script" not in shown
    assert not re.findall(r'(?:src|href)="(?!#)', shown)
    assert not any(one.title in shown or one.text[:40] in shown for one in ITEMS)
    assert "No judged pairs" in page(evaluate(LINES, Settings()), "x", {})


def with_novelty(found: Evaluation, *novelty: float | None) -> Evaluation:
    labels = [
        Label("0-0", f"{n}-1", "cut" if n % 2 else "copy", new="yes" if n % 2 else "no") for n in range(len(novelty))
    ]
    verdicts = {
        label.later: Verdict(label.later, Kind.DUPLICATE, Stage.BODY, False, None, Evidence(novelty=value))
        for label, value in zip(labels, novelty, strict=True)
    }
    return replace(found, novelty=novelty_report(labels, verdicts, {"exact <copies>": {}}, {}, 0.45))


def test_labels_that_say_what_is_new_answer_the_second_question() -> None:
    labels = [Label("0-0", "0-1", "copy", 3.0, new="no"), Label("1-0", "1-1", "cut", new="yes")]
    found = evaluate(LINES, Settings(), labels)
    assert found.novelty is not None
    assert [one.rule for one in found.novelty.groups] == ["decision", "body Jaccard ≥ 0.8", "exact copies"]
    assert found.as_json()["novelty"]["groups"][1]["rates"]["missed"] == 0.25
    assert found.as_json()["novelty"]["setting"] == "decision.novelty"
    assert found.as_json()["advice"]["novelty"] is None
    assert "No value of decision.novelty is recommended from 2 labelled pairs" in page(found, "x", {})
    json.dumps(found.as_json(), allow_nan=False)


def test_the_page_shows_the_curve_and_where_the_settings_stand_on_it(found: Evaluation) -> None:
    shown_with = with_novelty(found, 0.1, 0.8, 0.4, 0.3)
    drawn = figures(shown_with, Settings().fingerprint)
    shown = page(shown_with, "x", drawn)
    assert shown.count("<svg") == 5
    assert "<td>0.45</td><td>0.333</td><td>0.000</td><td>the settings</td>" in shown
    assert "The setting decision.novelty moves along the curve; it is 0.45." in shown
    assert "exact &lt;copies&gt;" in shown
    points = shown_with.as_json()["novelty"]["curve"]
    assert {"threshold": 0.45, "missed": pytest.approx(1 / 3), "repeated": 0.0} in points
    assert "<h3>Missed: 2</h3>" in shown, "it stands at what was decided, not at what the curve says"


def test_without_novelty_the_page_says_so_and_draws_no_curve(found: Evaluation) -> None:
    without = with_novelty(found, None, None)
    drawn = figures(without, Settings().fingerprint)
    assert "novelty" not in drawn
    assert "No labelled item has a novelty" in page(without, "x", drawn)
    assert without.as_json()["novelty"]["curve"] == []


def test_without_new_the_page_does_not_ask_the_second_question(found: Evaluation) -> None:
    assert "Would a reader miss something?" not in page(found, "x", {})
    assert found.as_json()["novelty"] is None


def test_figures_come_as_png_and_svg_and_are_the_same_each_time(found: Evaluation, tmp_path: Path) -> None:
    paths = save(figures(found, Settings().fingerprint), tmp_path / "one")
    assert sorted(path.name for path in paths) == sorted(
        f"{name}.{kind}" for name in ("s-curve", "similarity", "stages", "sweep") for kind in ("png", "svg")
    )
    again = save(figures(found, Settings().fingerprint), tmp_path / "two")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write the figures"):
        save({}, tmp_path / "file" / "folder")
