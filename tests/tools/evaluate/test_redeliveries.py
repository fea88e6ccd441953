"""The first delivery of an id counts, and an item without an id has its position, as in the output of `filter`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stream_dedup.cli.main import app
from tests.tools.evaluate.news import copies

FIRST, COPY, OTHER = copies(1, [0.02])[0], copies(1, [0.02])[1], copies(2, [])[1]


def row(item: Any, **more: Any) -> str:
    return json.dumps({"title": item.title, "text": item.text, "source": item.source, **more})


def run(*args: str) -> str:
    result = CliRunner().invoke(app, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def evaluated(folder: Path, corpus: Path, *labels: dict[str, Any]) -> Any:
    path = folder / "labels.jsonl"
    path.write_text("\n".join(map(json.dumps, labels)), "utf-8")
    return json.loads(run("evaluate", str(corpus), "--labels", str(path), "--json"))


def held_by_rule(found: Any) -> dict[str, int]:
    return {rule: rates["held"] for rule, rates in found["novelty"]["rates"].items()}


@pytest.mark.parametrize(
    ("lines", "later", "found"),
    [
        ([row(FIRST, id="a"), row(OTHER, id="b"), row(OTHER, id="b")], "b", 0),
        ([row(FIRST, id="a"), json.dumps({"id": "b", "title": 5}), row(COPY, id="b")], "b", 1),
        ([row(FIRST, id="a"), row(COPY, id="b"), row(FIRST, id="a")], "ab", 1),
    ],
    ids=["was let through", "cannot be read at first", "label of one id"],
)
def test_of_several_deliveries_the_first_that_can_be_read_counts(
    tmp_path: Path, lines: list[str], later: str, found: int
) -> None:
    corpus = tmp_path / "in.jsonl"
    corpus.write_text("\n".join(lines), "utf-8")
    labels = ({"earlier": "a", "later": name, "label": "copy", "new": "no"} for name in later)
    figures = evaluated(tmp_path, corpus, *labels)
    assert (figures["agreement"]["all"]["pairs"], figures["agreement"]["all"]["recall"]) == (1, found)
    assert set(held_by_rule(figures).values()) == {found}, "the simpler rules, too"
    assert any("1 label is of two deliveries of one id" in remark for remark in figures["remarks"]) == ("a" in later)


def test_items_without_ids_have_the_positions_that_filter_writes(tmp_path: Path) -> None:
    corpus, duplicates = tmp_path / "in.csv", tmp_path / "held.jsonl"
    lines = ["title,text,source", *(f"{one.title},{one.text},{one.source}" for one in (OTHER, FIRST, COPY))]
    corpus.write_text("\n".join(lines), "utf-8")
    run("filter", str(corpus), "--output", str(tmp_path / "out.csv"), "--duplicates", str(duplicates))
    held = json.loads(duplicates.read_text("utf-8"))
    pair = {"earlier": held["original"]["id"], "later": held["id"], "label": "copy", "new": "no"}
    found = evaluated(tmp_path, corpus, pair)
    assert found["agreement"]["all"]["recall"] == 1
    assert held_by_rule(found) == {"decision": 1, "body Jaccard ≥ 0.8": 1}
