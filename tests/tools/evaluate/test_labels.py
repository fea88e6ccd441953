"""Agreement with labels is weighted and has intervals; labels of another corpus are refused."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.dedup.verdict import Kind, Original, Stage, Verdict
from stream_dedup.errors import InputError
from stream_dedup.tools.evaluate.labels import Label, read_labels
from stream_dedup.tools.evaluate.rates import Agreement, agreement, judged


def verdicts(**held: bool) -> dict[str, Verdict]:
    return {
        name: Verdict(name, Kind.DUPLICATE if is_held else Kind.UNIQUE, Stage.NONE, not is_held)
        for name, is_held in held.items()
    }


def agreed(labels: list[Label], **held: bool) -> Agreement:
    return agreement(judged(labels, verdicts(**held), {}))


def test_weights_count() -> None:
    kinds = {"b": ("copy", 3.0), "c": ("cut", 1.0), "d": ("template", 1.0), "e": ("different", 5.0)}
    labels = [Label("a", name, kind, weight) for name, (kind, weight) in kinds.items()]
    found = agreed(labels, b=True, c=False, d=True, e=False)
    assert (found.recall, found.precision, found.f1) == (0.75, 0.75, 0.75)
    assert [label.later for label in found.not_found] == ["c"]
    assert [label.later for label in found.another_article] == ["d"]


def test_an_update_counts_as_found_and_a_bad_item_does_not() -> None:
    update = {"b": Verdict("b", Kind.UPDATE, Stage.BODY, True, Original("z", 0, -1, -1))}
    assert agreement(judged([Label("a", "b", "cut")], update, {})).recall == 1.0
    assert agreement(judged([Label("a", "b", "different")], update, {})).precision == 0.0
    bad = {"b": Verdict("b", Kind.BAD, Stage.NONE, False)}
    assert agreement(judged([Label("a", "b", "copy")], bad, {})).recall == 0.0


@pytest.mark.parametrize("count", [1, 10])
def test_a_few_labels_that_agree_prove_little(count: int) -> None:
    found = agreed([Label("a", "b", "copy")] * count, b=True)
    for low, high in (found.recall_interval, found.precision_interval):
        assert high == 1.0
        assert low < 0.9, "it was 1.000 to 1.000"
    low, high = agreed([Label("a", "b", "different")] * count, b=True).precision_interval
    assert low == 0.0
    assert high > 0.25


def test_one_heavy_pair_is_worth_little_more_than_one() -> None:
    light = [Label("a", "b", "copy")] * 20
    heavy = [*light[:-1], Label("a", "c", "copy", weight=1000.0)]
    assert agreed(light, b=True, c=True).precision_interval[0] > 0.8
    assert agreed(heavy, b=True, c=True).precision_interval[0] < 0.25


def test_labels_of_one_kind_leave_a_rate_undefined() -> None:
    found = agreed([Label("a", "b", "different")], b=False)
    assert math.isnan(found.recall)
    assert math.isnan(found.recall_interval[0])


# -- files ------------------------------------------------------------------------------------------------------------


def read(folder: Path, *rows: dict[str, Any], corpus: str | None = None) -> list[Label]:
    """Read the rows as a file; what they leave out is a plain copy."""
    plain = {"earlier": "a", "later": "b", "label": "copy"}
    path = folder / "labels.jsonl"
    path.write_text("\n".join(json.dumps(plain | row) for row in rows), "utf-8")
    return read_labels(path, corpus)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"earlier": None}, "earlier"),
        ({"label": "perhaps"}, "`label` is 'perhaps'; allowed: copy, cut, update, template, furniture, different"),
        ({"new": "perhaps"}, "`new` is 'perhaps'; allowed: yes, no, little"),
        ({"sample": "perhaps"}, "`sample` is 'perhaps'; allowed: held, near"),
        *(({"label": word}, "label") for word in (2, 0.5, "2", "", [1])),
    ],
)
def test_a_line_that_is_no_label_is_named_with_the_words_that_there_are(
    tmp_path: Path, row: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InputError, match=rf"labels\.jsonl, line 2: not a labelled pair: .*{reason}"):
        read(tmp_path, {}, row)
    with pytest.raises(InputError, match="cannot read the labels"):
        read_labels(tmp_path / "none")


@pytest.mark.parametrize(
    ("field", "words", "means"),
    [
        ("label", ("same", "duplicate", "Dup", " DUPLICATE ", "yes", "true", "1", 1, True), "copy"),
        ("label", ("different", "Distinct", "no", "false", "0", 0, False), "different"),
        ("new", ("YES", 1, True), "yes"),
        ("new", (False, "0"), "no"),
        ("later", (2, "2"), "2"),  # ids may be numbers, as those of items
    ],
)
def test_words_that_others_use_are_understood(
    tmp_path: Path, field: str, words: tuple[object, ...], means: str
) -> None:
    assert {getattr(label, field) for label in read(tmp_path, *({field: word} for word in words))} == {means}


def test_of_a_file_of_several_corpora_one_is_chosen(tmp_path: Path) -> None:
    rows = (
        {"new": "little", "corpus": "elm", "lang": None, "why": "same"},
        {"later": "d", "label": "cut", "new": "yes", "corpus": "oak", "sample": "held"},
    )
    assert [label.later for label in read(tmp_path, *rows, corpus="oak")] == ["d"]
    assert len(read(tmp_path, *rows)) == 2
    with pytest.raises(InputError, match="no label of the corpus 'ash'; it has labels of elm, oak"):
        read(tmp_path, *rows, corpus="ash")
    with pytest.raises(InputError, match="1 of 2 labels name a later item that the corpus lacks, the first: d; "):
        agreed(read(tmp_path, *rows), b=True)
    with pytest.raises(InputError, match="are of elm, oak: choose with --corpus NAME"):
        agreed(read(tmp_path, *rows), b=True)
    with pytest.raises(InputError, match="leave --corpus out"):
        read(tmp_path, {}, corpus="elm")
