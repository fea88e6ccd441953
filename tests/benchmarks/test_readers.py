"""What readers say of a rule: weighted, each question by its own pairs; how the peer's threshold is chosen."""

from pathlib import Path

import pytest

from stream_dedup.errors import InputError
from tests.benchmarks import readers
from tests.benchmarks.readers import Found, Pair, best_threshold, figures_of, jaccard, missing, rates, read_pairs

NOT_FOUND, NAMED, HELD = Found(False, False), Found(True, False), Found(True, True)


def test_what_is_held_back_or_named_an_update_is_found_and_weights_count() -> None:
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


def test_missed_is_what_a_reader_would_miss_of_all_that_is_held_back() -> None:
    found = rates(
        [
            (Pair("a", "b", "copy", 6.0, "no"), HELD),
            (Pair("a", "c", "cut", 1.0, "yes"), HELD),
            (Pair("a", "d", "template", 1.0, "yes"), HELD),
            (Pair("a", "e", "update", 50.0, "yes"), NAMED),
        ]
    )
    assert found == {"missed": 0.25, "repeated": 0.0}


def test_repeated_is_what_is_let_through_of_all_that_brings_nothing_new() -> None:
    found = rates(
        [
            (Pair("a", "b", "copy", 5.0, "no"), HELD),
            (Pair("a", "c", "cut", 2.0, "little"), NOT_FOUND),
            (Pair("a", "d", "copy", 1.0, "no"), NAMED),
            (Pair("a", "e", "different", 50.0, "yes"), NOT_FOUND),
        ]
    )
    assert found == {"missed": 0.0, "repeated": 0.375}


@pytest.mark.parametrize("said", [HELD, NOT_FOUND])
def test_another_article_without_anything_of_its_own_counts_for_neither(said: Found) -> None:
    pairs = [(Pair("a", "b", "copy", 1.0, "no"), HELD), (Pair("a", "c", "copy", 1.0, "yes"), HELD)]
    assert rates([*pairs, (Pair("a", "d", "furniture", 9.0, "no"), said)]) == rates(pairs)


def test_figures_are_of_each_corpus_and_of_all() -> None:
    answers = [(Pair("a", "b", "copy", corpus="one"), HELD), (Pair("a", "b", "cut", corpus="two"), NOT_FOUND)]
    found = figures_of("ours", answers)
    assert [found[f"readers_recall_ours_{corpus}"] for corpus in ("one", "two", "all")] == [1.0, 0.0, 0.5]
    assert "readers_precision_ours_two" not in found


def test_the_threshold_goes_by_weight() -> None:
    scores = [0.9, 0.8, 0.7]

    def chosen(weight: float) -> float:
        return best_threshold(
            [Pair("a", "b", "copy"), Pair("a", "c", "template"), Pair("a", "d", "cut", weight)], scores
        )

    assert (chosen(0.1), chosen(5.0)) == (0.9, 0.7)


def test_chinese_is_compared_by_characters_and_case_counts_for_nothing() -> None:
    assert jaccard("榆河大桥周一通车", "榆河大桥周一开放") == pytest.approx(2 / 6)
    assert jaccard("The Elm Bridge opens", "the elm bridge opens") == 1.0
    assert jaccard("Elm", "Oak") == 0.0


def test_pairs_are_of_the_corpus_they_name_or_of_the_file_s(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    row = '"earlier": "a", "later": "b", "label": "copy", "why": "the same"'
    path.write_text(f'{{{row}}}\n{{{row}, "corpus": "other", "new": "little"}}\n', "utf-8")
    assert [(pair.corpus, pair.new) for pair in read_pairs(path, "news")] == [("news", None), ("other", "little")]


def test_a_line_that_is_no_pair_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"earlier": "a", "later": "b", "label": "copied"}\n', "utf-8")
    with pytest.raises(InputError, match=r"labels\.jsonl, line 1"):
        read_pairs(path)


def test_a_folder_without_label_files_is_told_which(tmp_path: Path) -> None:
    assert "has no webz_en_pair_labels.jsonl, " in str(missing(tmp_path))
    for name in [*readers.SAME_FILES, "reader_labels.jsonl"]:
        (tmp_path / name).touch()
    assert missing(tmp_path) is None


def test_the_project_s_own_pairs_can_be_read() -> None:
    pairs = read_pairs(Path(readers.NEW_FILES[1]))
    assert len({(pair.corpus, pair.later) for pair in pairs}) == len(pairs) == 728
    assert all(pair.new and pair.corpus and pair.weight >= 1 for pair in pairs)
