"""Figures from human labels: weights, the pairs of each question, and the choice of the peer's threshold."""

from pathlib import Path

import pytest

from stream_dedup.errors import InputError
from tests.benchmarks import readers
from tests.benchmarks.readers import (
    Pair,
    RuleResult,
    best_threshold,
    figures_of,
    jaccard,
    missing_files,
    rates,
    read_pairs,
)

NOT_FOUND, NAMED, HELD = RuleResult(False, False), RuleResult(True, False), RuleResult(True, True)


def test_items_held_back_and_updates_count_as_the_same_article_by_weight() -> None:
    found = rates(
        [
            (Pair("a", "b", "copy", 3.0), HELD),
            (Pair("a", "c", "update", 4.0), NAMED),
            (Pair("a", "d", "cut", 1.0), NOT_FOUND),
            (Pair("a", "e", "template", 1.0), HELD),
            (Pair("a", "f", "different", 9.0), NOT_FOUND),
        ]
    )
    assert found == {"recall": 0.875, "precision": 0.875}


def test_missed_is_the_share_of_items_held_back_that_have_something_new() -> None:
    found = rates(
        [
            (Pair("a", "b", "copy", 6.0, "no"), HELD),
            (Pair("a", "c", "cut", 1.0, "yes"), HELD),
            (Pair("a", "d", "template", 1.0, "yes"), HELD),
            (Pair("a", "e", "update", 50.0, "yes"), NAMED),
        ]
    )
    assert found == {"missed": 0.25, "repeated": 0.0}


def test_repeated_is_the_share_of_items_without_news_that_are_let_through() -> None:
    found = rates(
        [
            (Pair("a", "b", "copy", 5.0, "no"), HELD),
            (Pair("a", "c", "cut", 2.0, "little"), NOT_FOUND),
            (Pair("a", "d", "copy", 1.0, "no"), NAMED),
            (Pair("a", "e", "different", 50.0, "yes"), NOT_FOUND),
        ]
    )
    assert found == {"missed": 0.0, "repeated": 0.375}


@pytest.mark.parametrize("result", [HELD, NOT_FOUND])
def test_another_page_without_an_article_counts_for_neither_rate(result: RuleResult) -> None:
    pairs = [(Pair("a", "b", "copy", 1.0, "no"), HELD), (Pair("a", "c", "copy", 1.0, "yes"), HELD)]
    assert rates([*pairs, (Pair("a", "d", "furniture", 9.0, "no"), result)]) == rates(pairs)


def test_figures_exist_for_each_corpus_and_for_all() -> None:
    answers = [(Pair("a", "b", "copy", corpus="one"), HELD), (Pair("a", "b", "cut", corpus="two"), NOT_FOUND)]
    found = figures_of("ours", answers)
    assert [found[f"readers_recall_ours_{corpus}"] for corpus in ("one", "two", "all")] == [1.0, 0.0, 0.5]
    assert "readers_precision_ours_two" not in found


def test_the_threshold_depends_on_the_weights() -> None:
    scores = [0.9, 0.8, 0.7]

    def chosen(weight: float) -> float:
        return best_threshold(
            [Pair("a", "b", "copy"), Pair("a", "c", "template"), Pair("a", "d", "cut", weight)], scores
        )

    assert (chosen(0.1), chosen(5.0)) == (0.9, 0.7)


def test_chinese_is_compared_by_characters_and_case_is_ignored() -> None:
    assert jaccard("榆河大桥周一通车", "榆河大桥周一开放") == pytest.approx(2 / 6)
    assert jaccard("The Elm Bridge opens", "the elm bridge opens") == 1.0
    assert jaccard("Elm", "Oak") == 0.0


def test_pairs_belong_to_the_corpus_they_name_or_to_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    row = '"earlier": "a", "later": "b", "label": "copy", "why": "the same"'
    path.write_text(f'{{{row}}}\n{{{row}, "corpus": "other", "new": "little"}}\n', "utf-8")
    assert [(pair.corpus, pair.new) for pair in read_pairs(path, "news")] == [("news", None), ("other", "little")]


def test_a_line_without_a_pair_is_reported_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"earlier": "a", "later": "b", "label": "copied"}\n', "utf-8")
    with pytest.raises(InputError, match=r"labels\.jsonl, line 1"):
        read_pairs(path)


def test_missing_label_files_are_named(tmp_path: Path) -> None:
    assert "has no webz_en_pair_labels.jsonl, " in str(missing_files(tmp_path))
    for name in [*readers.SAME_FILES, "reader_labels.jsonl"]:
        (tmp_path / name).touch()
    assert missing_files(tmp_path) is None


def test_the_project_s_own_pairs_can_be_read() -> None:
    pairs = read_pairs(Path(readers.NEW_FILES[1]))
    assert len({(pair.corpus, pair.later) for pair in pairs}) == len(pairs) == 728
    assert all(pair.new and pair.corpus and pair.weight >= 1 for pair in pairs)
