"""The report and the figures of a small corpus."""

import base64
import json
import re
from dataclasses import replace

import pytest

from stream_dedup.settings import Settings
from stream_dedup.tools.evaluate.evaluation import Evaluation, evaluate, figures, page, sections
from stream_dedup.tools.evaluate.labels import Label
from stream_dedup.tools.evaluate.rates import Judged, novelty_report
from tests.tools.batch.feed import numbered
from tests.tools.evaluate.news import copies

ITEMS = copies(12, [0.02, 0.3])
VALUES = [
    json.dumps({name: getattr(item, name) for name in ("id", "title", "text", "source")}).encode() for item in ITEMS
]
LINES = list(numbered(VALUES))
JACCARD = "body Jaccard ≥ 0.8"
LABELS = [Label("0-0", "0-1", "copy", 3.0), Label("1-0", "1-1", "copy", 1.0, True), Label("0-0", "5-1", "different")]


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return evaluate(list(numbered([*VALUES, b"{broken"])), Settings(), LABELS)


def test_every_item_is_counted(found: Evaluation) -> None:
    assert found.lines == 37
    assert sum(found.items.values()) == sum(found.stages.values()) == 37
    assert found.items["bad"] == 1
    assert found.exact.items == 36
    assert set(found.agreement) == {"all", "sure"}


def test_it_works_without_labels_and_says_what_it_does() -> None:
    steps = []
    found = evaluate(LINES, Settings(), progress=lambda what, done, total: steps.append((what, done, total)))
    assert not found.agreement
    assert found.exact.agreement == 1.0
    assert ("decide", 36, 36) in steps
    assert ("exact sets", 36, 36) in steps
    assert "No judged pairs" in made(found)


def made(found: Evaluation, title: str = "x") -> str:
    return page(found, title, figures(found, Settings().fingerprint), Settings())


def test_the_page_stands_alone(found: Evaluation) -> None:
    shown = made(found, "a <corpus>")
    (figure,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', shown)
    assert b"<svg" in base64.b64decode(figure)
    assert "a &lt;corpus&gt;" in shown
    assert "<script" not in shown
    assert not re.findall(r'(?:src|href)="(?!#|data:)', shown)
    assert "Would a reader miss something?" not in shown, "no label says what is new"
    assert made(found, "a <corpus>") == shown, "the same bytes each time"


def test_the_page_shows_the_pairs_on_which_decision_and_label_disagree_and_no_others() -> None:
    labels = [Label("0-0", "0-1", "different", 3.0), Label("1-0", "1-1", "copy"), Label("nowhere", "2-1", "different")]
    found = evaluate(LINES, Settings(), labels)
    shown, text_of = made(found), {item.id: item.text for item in ITEMS}
    assert found.errors() == {"another article": [labels[0], labels[2]]}
    assert shown.count("<details") == 1
    assert "labelled different; weight 3" in shown
    assert "Held back: " in shown
    assert "<mark>" in shown
    assert all(text_of[name].split()[0] in shown for name in ("0-0", "0-1"))
    assert text_of["1-1"][-40:] not in shown, "there they agree"
    assert re.search("Labelled different: .*nowhere.* whose texts are not in the corpus", shown)
    assert "shown" not in found.as_json(), "figures are for programs, texts for readers"


def with_novelty(found: Evaluation, *novelty: float | None) -> Evaluation:
    pairs = [
        Judged(Label("0-0", f"{n}-1", ("copy", "cut")[n % 2], new=("no", "yes")[n % 2]), True, True, value, "", "")
        for n, value in enumerate(novelty)
    ]
    report, _ = novelty_report(pairs, {"exact <copies>": {}}, 0.45) or (None, None)
    return replace(found, novelty=report)


def test_labels_that_say_what_is_new_answer_the_second_question() -> None:
    found = evaluate(
        LINES, Settings(), [Label("0-0", "0-1", "copy", 3.0, new="no"), Label("1-0", "1-1", "cut", new="yes")]
    )
    assert found.novelty is not None
    assert [(rule, one.missed) for rule, one in found.novelty.rates.items()] == [("decision", 0.25), (JACCARD, 0.25)]
    assert "No value of decision.novelty is recommended from 2 labelled pairs" in made(found)


def test_the_page_shows_the_curve_and_where_the_settings_stand_on_it(found: Evaluation) -> None:
    shown_with = with_novelty(found, 0.1, 0.8, 0.4, 0.3)
    shown = made(shown_with)
    assert shown.count("data:image/svg+xml") == 2
    assert "<td>0.45</td><td>0.333</td><td>0.000</td><td>the settings</td>" in shown
    assert "decision.novelty moves along the curve; it is 0.45." in shown
    assert "exact &lt;copies&gt;" in shown
    errors = [one.title for one in sections(shown_with) if one.title.startswith("Held back, but a reader misses")]
    assert errors == ["Held back, but a reader misses something: 2"], "as decided, not as the curve says"


def test_without_novelty_there_is_no_curve(found: Evaluation) -> None:
    without = with_novelty(found, None, None)
    assert set(figures(without, Settings().fingerprint)) == {"s-curve"}
    assert "The trade-off" not in made(without)
