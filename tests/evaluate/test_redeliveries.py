"""The first delivery of an id counts, and an item without an id has its position, as in the output of `filter`."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from stream_dedup.cli.main import app
from tests.evaluate.news import copies

FIRST, COPY, OTHER = copies(1, [0.05])[0], copies(1, [0.05])[1], copies(2, [])[1]


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


def test_an_item_that_was_let_through_is_not_found_because_it_came_again(tmp_path: Path) -> None:
    corpus = tmp_path / "in.jsonl"
    corpus.write_text("\n".join([row(FIRST, id="a"), row(OTHER, id="b"), row(OTHER, id="b")]), "utf-8")
    found = evaluated(tmp_path, corpus, {"earlier": "a", "later": "b", "label": "copy", "new": "no"})
    assert found["agreement"]["all"]["recall"] == 0
    assert set(held_by_rule(found).values()) == {0}, "the simpler rules, too"


def test_an_item_that_cannot_be_read_at_first_counts_by_its_next_delivery(tmp_path: Path) -> None:
    corpus = tmp_path / "in.jsonl"
    broken = json.dumps({"id": "b", "title": 5})
    corpus.write_text("\n".join([row(FIRST, id="a"), broken, row(COPY, id="b")]), "utf-8")
    found = evaluated(tmp_path, corpus, {"earlier": "a", "later": "b", "label": "copy"})
    assert found["agreement"]["all"]["recall"] == 1


def test_a_label_of_two_deliveries_of_one_id_is_left_out_and_said(tmp_path: Path) -> None:
    corpus = tmp_path / "in.jsonl"
    corpus.write_text("\n".join([row(FIRST, id="a"), row(COPY, id="b"), row(FIRST, id="a")]), "utf-8")
    labels = {"earlier": "a", "later": "a", "label": "copy"}, {"earlier": "a", "later": "b", "label": "copy"}
    found = evaluated(tmp_path, corpus, *labels)
    assert (found["agreement"]["all"]["pairs"], found["agreement"]["all"]["recall"]) == (1, 1)
    assert "1 label is of two deliveries of one id" in found["remarks"][0]


def test_items_without_ids_have_the_positions_that_filter_writes_and_the_simpler_rules_know_them(
    tmp_path: Path,
) -> None:
    corpus, duplicates = tmp_path / "in.csv", tmp_path / "held.jsonl"
    lines = ["title,text,source", *(f"{one.title},{one.text},{one.source}" for one in (OTHER, FIRST, COPY))]
    corpus.write_text("\n".join(lines), "utf-8")
    run("filter", str(corpus), "--output", str(tmp_path / "out.csv"), "--duplicates", str(duplicates))
    held = json.loads(duplicates.read_text("utf-8"))
    pair = {"earlier": held["original"]["id"], "later": held["id"], "label": "copy", "new": "no"}
    found = evaluated(tmp_path, corpus, pair)
    assert found["agreement"]["all"]["recall"] == 1
    assert held_by_rule(found) == {"decision": 1, "body Jaccard ≥ 0.8": 1}
