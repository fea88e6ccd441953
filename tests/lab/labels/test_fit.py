"""Trees learn the decision, and cross-validation does not reward overfitting to a group."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stream_dedup.errors import InputError
from stream_dedup.settings import load_settings
from stream_dedup.tools import pair_rule
from stream_dedup.tools.evaluate.labels import Label, read_labels
from tests.lab.labels import files
from tests.lab.labels.files import FRESH, MEASURED, READ_AGAIN, TAUGHT, corrected
from tests.lab.labels.fit import (
    Pairs,
    boosted,
    compare_in_stream,
    log_loss,
    logits_by_others,
    measures,
    outcome_of,
    repeated_at,
    tree_logits,
)

OWN_FILES = [path for path in (*MEASURED, *TAUGHT, *FRESH) if isinstance(path, Path)]
NOTICE = "Readers who want the whole story of the valley can buy our printed edition at every station kiosk."
OPENED = "The bridge over the Elm opened on Monday after two years of work, and the mayor thanked all the builders."


def test_trees_that_know_the_group_are_not_praised_for_it() -> None:
    # Every group has a value of its own, and one outcome: whoever has seen the group knows all, the others nothing.
    groups = np.repeat(np.arange(20), 60)
    columns, outcome = np.zeros((1200, len(pair_rule.NOVELTY))), groups % 2 == 0
    columns[:, list(pair_rule.NOVELTY).index("tokens")] = groups
    leaky = tree_logits(boosted(columns, outcome), columns)
    honest = logits_by_others(columns, outcome, np.ones(1200, np.bool_), [str(group) for group in groups])
    assert log_loss(leaky, outcome) < 0.2
    assert log_loss(honest, outcome) > 0.6


def test_rows_that_are_not_usable_teach_nothing() -> None:
    random = np.random.default_rng(7)
    columns = random.uniform(0.0, 1.0, (400, len(pair_rule.NOVELTY)))
    outcome, groups, usable = random.random(400) < columns[:, 0], ["a", "b"] * 200, np.arange(400) < 300
    whole = logits_by_others(columns, outcome, usable, groups)
    assert whole == pytest.approx(logits_by_others(columns, outcome ^ ~usable, usable, groups))


@pytest.mark.parametrize(
    ("label", "new", "expected"),
    [
        ("copy", "no", False), ("copy", "yes", True), ("cut", "little", False), ("template", "no", False),
        ("copy", None, False), ("update", None, True), ("different", None, True), ("cut", None, None),
    ],
)  # fmt: skip
def test_a_label_says_whether_something_is_new(label: str, new: str | None, expected: bool | None) -> None:
    assert outcome_of(Label("a", "b", label, new=new)) is expected


def test_no_threshold_lies_within_a_tie() -> None:
    labels = [Label("a", "b", "copy", new="no"), Label("a", "c", "cut", new="yes")]
    assert repeated_at(labels, np.array([0.0, 0.0]), 0.1) == 1.0
    assert repeated_at(labels, np.array([-1.0, 0.0]), 0.1) == 0.0


def line(name: str, title: str, text: str, hour: int, source: str) -> bytes:
    item = {"id": name, "title": title, "text": text, "source": source, "published": f"2026-01-05T{hour:02}:00:00Z"}
    return json.dumps(item).encode()


def corpus(notices: int) -> list[bytes]:
    """Make a story, other stories of a site that share a notice, and the story again on that site with the notice."""
    subjects = ["harbour ferries", "school kitchens", "forest wardens", "winter markets"]
    others = [
        line(
            f"other-{n}",
            f"{one.capitalize()} wanted",
            f"Nobody in the valley has enough {one}. {NOTICE}",
            1 + n,
            "b.example",
        )
        for n, one in enumerate(subjects[:notices])
    ]
    story = line("story", "Elm bridge opens after two years", OPENED, 0, "a.example")
    return [story, *others, line("again", "Elm bridge opens after two years", f"{OPENED} {NOTICE}", 9, "b.example")]


def in_stream(lines: list[bytes]) -> Pairs:
    """The pairs of the story and its copy, one item a batch: what the stream has learnt by then is known."""
    settings = load_settings()
    settings = settings.model_copy(update={"worker": settings.worker.model_copy(update={"batch_items": 1})})
    return compare_in_stream(lines, [Label("story", "again", "copy", new="no")], settings)


def test_a_pair_is_compared_with_the_boilerplate_of_its_moment() -> None:
    known, unknown = (in_stream(corpus(notices)) for notices in (4, 1))
    assert [one.similar["new_sentences"].tolist() for one in (known, unknown)] == [[0], [len(NOTICE.split())]]
    assert known.sites == ["b.example"]


def test_candidates_that_are_alike_in_nothing_are_added_as_other_articles() -> None:
    """Two pages share the notice of their site, and therefore keys."""
    texts = (" ".join(f"{name}word{n}" for n in range(60)) + "." for name in "pq")
    pages = [line(name, text[:30], f"{text} {NOTICE}", 10, "c.example") for name, text in zip("pq", texts, strict=True)]
    labels = in_stream([*corpus(0), *pages]).labels
    assert [(one.later, one.sample, one.weight) for one in labels] == [("again", None, 1.0), ("q", "far", 0.0)]
    assert labels[1].earlier in ("p", "again"), "the nearer one, of two that have the notice"
    assert (labels[1].label, labels[1].new) == ("different", "yes")
    assert not measures(labels[1])


@pytest.mark.parametrize(
    ("earlier", "later", "named"), [("story", "missing", "missing"), ("again", "story", "again does not come before")]
)
def test_an_item_that_does_not_come_or_comes_too_late_is_named(earlier: str, later: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        compare_in_stream(corpus(1), [Label(earlier, later, "copy")], load_settings())


# -- label files ---------------------------------------------------------------------------------------------


def test_the_label_files_hold_every_pair_once_and_no_text() -> None:
    seen = set()
    for path in [*OWN_FILES, READ_AGAIN]:
        rows = [json.loads(one) for one in path.read_bytes().splitlines()]
        assert len(read_labels(path)) == len(rows)
        assert max(len(row["why"]) for row in rows) < 100
        pairs = {(row["corpus"], row["earlier"], row["later"]) for row in rows}
        assert len(pairs) == len(rows)
        assert not pairs & seen
        seen |= pairs


def test_a_pair_that_was_read_again_has_the_second_label_and_the_first_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "again"
    path.write_text('{"corpus": "c", "earlier": "a", "later": "b", "label": "update", "new": "yes", "unsure": true}')
    monkeypatch.setattr(files, "READ_AGAIN", path)
    first = Label("a", "b", "copy", 7.0, new="no", corpus="c")
    labels = [first, msgspec.structs.replace(first, corpus="d"), msgspec.structs.replace(first, new=None)]
    one, *others = corrected(labels)
    assert (one.label, one.new, one.unsure, one.weight) == ("update", "yes", True, 7.0)
    assert others == labels[1:]


def test_the_draws_of_a_corpus_stand_together_for_its_held_items_once() -> None:
    corpus = files.DRAWN_AGAIN[0]
    row = Label("a", "b", "copy", new="no", corpus=corpus, sample="held")
    weights = [50.0] * 12 + [600.0] * 3 + [20.0] * 30
    near = msgspec.structs.replace(row, sample="near", weight=9.0)
    other = msgspec.structs.replace(row, corpus="c", weight=7.0)
    found = corrected([*(msgspec.structs.replace(row, weight=weight) for weight in weights), near, other])
    held = [label.weight for label in found if label.sample == "held" and label.corpus == corpus]
    assert sum(held) == pytest.approx(600)
    assert sum(held[12:15]) == pytest.approx(200), "600 was the weight of the draw, not of a row"
    assert [label.weight for label in found[-2:]] == [3.0, 7.0]
