"""Agreement with labels is weighted and has intervals; labels of another corpus are refused."""

import json
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
    assert [label.later for label in found.not_found] == ["c"]
    assert [label.later for label in found.another_article] == ["d"]


def test_an_update_that_is_let_through_names_its_original_and_so_is_found() -> None:
    update = {"b": Verdict("b", Kind.UPDATE, Stage.BODY, True, Original("z", 0, -1, -1))}
    assert agreement([Label("a", "b", "cut")], update).recall == 1.0
    assert agreement([Label("a", "b", "different")], update).precision == 0.0


def test_what_cannot_be_judged_is_not_found() -> None:
    assert agreement([Label("a", "b", "copy")], {"b": Verdict("b", Kind.BAD, Stage.NONE, False)}).recall == 0.0


def test_the_intervals_hold_the_figures_and_narrow_with_more_pairs() -> None:
    def spread(times: int) -> float:
        labels = [Label("a", "b", "copy"), Label("a", "c", "update"), Label("a", "d", "furniture")] * times
        found = agreement(labels, verdicts(b=True, c=False, d=True))
        low, high = found.recall_interval
        assert low <= found.recall <= high
        return high - low

    assert spread(100) < spread(5)


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_a_few_labels_that_agree_prove_little(count: int) -> None:
    found = agreement([Label("a", "b", "copy")] * count, verdicts(b=True))
    for low, high in (found.recall_interval, found.precision_interval):
        assert high == 1.0
        assert low < 0.9, "it was 1.000 to 1.000"
    wrong = agreement([Label("a", "b", "different")] * count, verdicts(b=True))
    assert wrong.precision_interval[0] == 0.0
    assert wrong.precision_interval[1] > 0.25


def test_one_heavy_pair_is_worth_little_more_than_one() -> None:
    light = [Label("a", "b", "copy")] * 20
    heavy = [*light[:-1], Label("a", "c", "copy", weight=1000.0)]
    low, _ = agreement(light, verdicts(b=True, c=True)).precision_interval
    low_of_heavy, _ = agreement(heavy, verdicts(b=True, c=True)).precision_interval
    assert low > 0.8
    assert low_of_heavy < 0.25


def test_labels_of_another_corpus_are_refused() -> None:
    with pytest.raises(InputError, match="1 of 1 labels name a later item that the corpus lacks, the first: "):
        agreement([Label("a", "z", "copy")], verdicts(b=True))


def test_a_line_that_is_no_label_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"earlier": "a", "later": "b", "label": "copy"}\n\n{"earlier": "a"}\n', "utf-8")
    with pytest.raises(InputError, match="line 3"):
        read_labels(path)
    with pytest.raises(InputError, match="cannot read the labels"):
        read_labels(tmp_path / "none")


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        ("label", "copy, cut, update, template, furniture, different"),
        ("new", "yes, no, little"),
        ("sample", "held, near"),
    ],
)
def test_a_word_that_no_label_has_is_refused_with_those_that_there_are(
    tmp_path: Path, field: str, allowed: str
) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"earlier": "a", "later": "b", "label": "copy", field: "perhaps"}), "utf-8")
    with pytest.raises(InputError, match=rf"labels\.jsonl, line 1: .*`{field}` is 'perhaps'; allowed: {allowed}"):
        read_labels(path)


@pytest.mark.parametrize(
    ("field", "word", "means"),
    [
        *(("label", word, "copy") for word in ("same", "duplicate", "Dup", " DUPLICATE ", "yes", "true", "1", 1, True)),
        *(("label", word, "different") for word in ("different", "Distinct", "no", "false", "0", 0, False)),
        *(("new", word, "yes") for word in ("YES", 1, True)),
        *(("new", word, "no") for word in (False, "0")),
    ],
)
def test_words_that_others_use_are_understood(tmp_path: Path, field: str, word: object, means: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"earlier": "a", "later": "b", "label": "copy", field: word}), "utf-8")
    assert [getattr(label, field) for label in read_labels(path)] == [means]


@pytest.mark.parametrize("word", [2, 0.5, "2", "", "near-duplicate", [1]])
def test_a_value_that_is_no_answer_is_refused(tmp_path: Path, word: object) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps({"earlier": "a", "later": "b", "label": word}), "utf-8")
    with pytest.raises(InputError, match=r"labels\.jsonl, line 1: not a labelled pair: .*label"):
        read_labels(path)


def test_ids_may_be_numbers_as_those_of_items(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"earlier": 1, "later": 2, "label": "same"}', "utf-8")
    assert [(label.earlier, label.later) for label in read_labels(path)] == [("1", "2")]


def test_of_a_file_of_several_corpora_one_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    rows = [
        {"earlier": "a", "later": "b", "label": "copy", "new": "little", "corpus": "elm", "lang": None, "why": "same"},
        {"earlier": "c", "later": "d", "label": "cut", "new": "yes", "corpus": "oak", "sample": "held"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert [label.later for label in read_labels(path, "oak")] == ["d"]
    assert len(read_labels(path)) == 2
    with pytest.raises(InputError, match="no label of the corpus 'ash'; it has labels of elm, oak"):
        read_labels(path, "ash")
    with pytest.raises(InputError, match="are of elm, oak: choose with --corpus NAME"):
        agreement(read_labels(path), verdicts(b=True))


def test_labels_that_name_no_corpus_need_no_choice(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"earlier": "a", "later": "b", "label": "copy"}', "utf-8")
    with pytest.raises(InputError, match="leave --corpus out"):
        read_labels(path, "elm")


def test_labels_of_one_kind_leave_a_rate_undefined() -> None:
    found = agreement([Label("a", "b", "different")], verdicts(b=False))
    assert math.isnan(found.recall)
    assert math.isnan(found.recall_interval[0])
