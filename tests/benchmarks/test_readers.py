"""Figures from human labels: weights, the pairs of each question, and the choice of the peer's threshold."""

import json
from pathlib import Path

import pytest

from stream_dedup.evaluate.labels import Label, read_labels
from tests.benchmarks.readers import (
    RuleResult,
    best_threshold,
    figures_of,
    jaccard,
    missing_files,
    rates,
    read_pairs,
)
from tests.labels.files import MEASURED, READ_AGAIN, SAME_FILES

NOT_FOUND, NAMED, HELD = RuleResult(False, False), RuleResult(True, False), RuleResult(True, True)


def test_items_held_back_and_updates_count_as_the_same_article_by_weight() -> None:
    found = rates(
        [
            (Label("a", "b", "copy", 3.0), HELD),
            (Label("a", "c", "update", 4.0), NAMED),
            (Label("a", "d", "cut", 1.0), NOT_FOUND),
            (Label("a", "e", "template", 1.0), HELD),
            (Label("a", "f", "different", 9.0), NOT_FOUND),
        ]
    )
    assert found == {"recall": 0.875, "precision": 0.875}


def test_missed_is_the_share_of_items_held_back_that_have_something_new() -> None:
    found = rates(
        [
            (Label("a", "b", "copy", 6.0, new="no"), HELD),
            (Label("a", "c", "cut", 1.0, new="yes"), HELD),
            (Label("a", "d", "template", 1.0, new="yes"), HELD),
            (Label("a", "e", "update", 50.0, new="yes"), NAMED),
        ]
    )
    assert found == {"missed": 0.25, "repeated": 0.0}


def test_repeated_is_the_share_of_items_without_news_that_are_let_through() -> None:
    found = rates(
        [
            (Label("a", "b", "copy", 5.0, new="no"), HELD),
            (Label("a", "c", "cut", 2.0, new="little"), NOT_FOUND),
            (Label("a", "d", "copy", 1.0, new="no"), NAMED),
            (Label("a", "e", "different", 50.0, new="yes"), NOT_FOUND),
        ]
    )
    assert found == {"missed": 0.0, "repeated": 0.375}


@pytest.mark.parametrize("result", [HELD, NOT_FOUND])
def test_another_page_without_an_article_counts_for_neither_rate(result: RuleResult) -> None:
    pairs = [(Label("a", "b", "copy", 1.0, new="no"), HELD), (Label("a", "c", "copy", 1.0, new="yes"), HELD)]
    assert rates([*pairs, (Label("a", "d", "furniture", 9.0, new="no"), result)]) == rates(pairs)


def test_figures_exist_for_each_corpus_and_for_all() -> None:
    answers = [(Label("a", "b", "copy", corpus="one"), HELD), (Label("a", "b", "cut", corpus="two"), NOT_FOUND)]
    found = figures_of("ours", answers)
    assert [found[f"readers_recall_ours_{corpus}"] for corpus in ("one", "two", "all")] == [1.0, 0.0, 0.5]
    assert "readers_precision_ours_two" not in found


def test_the_threshold_depends_on_the_weights() -> None:
    scores = [0.9, 0.8, 0.7]

    def chosen(weight: float) -> float:
        return best_threshold(
            [Label("a", "b", "copy"), Label("a", "c", "template"), Label("a", "d", "cut", weight)], scores
        )

    assert (chosen(0.1), chosen(5.0)) == (0.9, 0.7)


def test_chinese_is_compared_by_characters_and_case_is_ignored() -> None:
    assert jaccard("榆河大桥周一通车", "榆河大桥周一开放") == pytest.approx(2 / 6)
    assert jaccard("The Elm Bridge opens", "the elm bridge opens") == 1.0
    assert jaccard("Elm", "Oak") == 0.0


def label_files(folder: Path) -> None:
    """Label files without a row."""
    for path in (*SAME_FILES, *(name for name in MEASURED if isinstance(name, str))):
        (folder / path).touch()


def test_missing_label_files_are_named(tmp_path: Path) -> None:
    assert "has no webz_en_pair_labels.jsonl, " in str(missing_files(tmp_path))
    label_files(tmp_path)
    assert missing_files(tmp_path) is None


def test_pairs_have_the_corpus_of_their_file_and_what_was_read_again_counts(tmp_path: Path) -> None:
    label_files(tmp_path)
    first = next(iter(SAME_FILES))
    (tmp_path / first).write_text('{"earlier": "a", "later": "b", "label": "copy"}\n')
    again = next(label for label in read_labels(READ_AGAIN) if label.new == "yes")
    row = {"earlier": again.earlier, "later": again.later, "corpus": again.corpus, "label": "copy", "new": "no"}
    (tmp_path / "reader_labels.jsonl").write_text(json.dumps(row))
    pairs = read_pairs(tmp_path)
    assert (pairs[0].later, pairs[0].corpus) == ("b", SAME_FILES[first])
    (read,) = [
        pair for pair in pairs if pair.weight == 1 and (pair.earlier, pair.later) == (again.earlier, again.later)
    ]
    assert (read.label, read.new) == (again.label, "yes")


def test_the_project_s_own_pairs_can_be_read(tmp_path: Path) -> None:
    label_files(tmp_path)
    pairs = read_pairs(tmp_path)
    assert len(pairs) == 728 + 179
    assert all(pair.new and pair.corpus and pair.weight >= 1 for pair in pairs)
