"""Agreement with a reader: weighted, with intervals, and refused where labels and corpus do not belong together."""

import math
from pathlib import Path

import pytest

from stream_dedup.dedup.verdict import Kind, Original, Stage, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.labels import Label, agreement, read_labels


def verdicts(**held: bool) -> dict[str, Verdict]:
    return {
        name: Verdict(name, Kind.DUPLICATE if is_held else Kind.UNIQUE, Stage.NONE, not is_held)
        for name, is_held in held.items()
    }


def test_weights_count() -> None:
    labels = [
        Label("a", "b", "copy", 3.0),
        Label("a", "c", "cut", 1.0),
        Label("a", "d", "template", 1.0),
        Label("a", "e", "different", 5.0),
    ]
    found = agreement(labels, verdicts(b=True, c=False, d=True, e=False))
    assert (found.recall, found.precision, found.f1) == (0.75, 0.75, 0.75)
    assert [label.later for label in found.missed] == ["c"]
    assert [label.later for label in found.false_drops] == ["d"]


def test_the_intervals_hold_the_figures_and_narrow_with_more_pairs() -> None:
    def spread(times: int) -> float:
        labels = [Label("a", "b", "copy"), Label("a", "c", "update"), Label("a", "d", "furniture")] * times
        found = agreement(labels, verdicts(b=True, c=False, d=True))
        low, high = found.recall_interval
        assert low <= found.recall <= high
        return high - low

    assert spread(100) < spread(5)


def test_labels_of_another_corpus_are_refused() -> None:
    with pytest.raises(InputError, match="1 of 1 labelled items are not in the corpus"):
        agreement([Label("a", "z", "copy")], verdicts(b=True))


def test_a_line_that_is_no_label_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"earlier": "a", "later": "b", "label": "copy"}\n\n{"earlier": "a"}\n', "utf-8")
    with pytest.raises(InputError, match="line 3"):
        read_labels(path)
    with pytest.raises(InputError, match="cannot read the labels"):
        read_labels(tmp_path / "none")


def by(original: str, *names: str) -> dict[str, Verdict]:
    """`original` is let through and holds back `names`."""
    first = {original: Verdict(original, Kind.UNIQUE, Stage.NONE, True)}
    held = Original(original, 0, -1, -1)
    return first | {name: Verdict(name, Kind.DUPLICATE, Stage.LEAD, False, held) for name in names}


def test_must_links_make_clusters_and_a_found_cluster_is_an_original_with_what_it_holds_back() -> None:
    labels = [Label("a", "b", "copy"), Label("b", "c", "cut"), Label("x", "y", "update"), Label("a", "x", "different")]
    assert agreement(labels, by("a", "b", "c") | by("x", "y")).ari == 1.0
    assert agreement(labels, by("a", "b") | by("c") | by("x", "y")).ari < 1.0
    assert agreement(labels, by("a", "b", "c", "x", "y")).ari == 0.0


def test_the_original_may_be_an_item_that_nobody_judged() -> None:
    assert agreement([Label("a", "b", "copy"), Label("a", "c", "template")], by("z", "a", "b") | by("c")).ari == 1.0


def test_labels_of_one_kind_leave_a_rate_undefined() -> None:
    found = agreement([Label("a", "b", "different")], verdicts(b=False))
    assert math.isnan(found.recall)
    assert math.isnan(found.recall_interval[0])
