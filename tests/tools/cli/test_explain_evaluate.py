"""The commands explain, evaluate and plan."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import ConfigError, InputError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import most_originals
from stream_dedup.settings import load_settings
from stream_dedup.settings.judging import NOVELTY_PROMISES
from tests.cli.commands import json_of, run, words

TEXT = "The old ferry was taken out of service on Monday morning after engineers had found cracks in its hull."
A = {"id": "a", "title": "Ferry stopped", "text": TEXT, "source": "a.example"}
B = {"id": "b", "title": "Ferry stopped", "text": TEXT + " More soon.", "source": "b.example"}
C = {"id": "c", "title": "Asteroid turns fast", "text": "Astronomers measured a small rock.", "source": "c.example"}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return Path(lines(tmp_path / "corpus.jsonl", [A, B, C]))


def lines(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return str(path)


def test_explain_takes_ids_of_a_corpus(corpus: Path) -> None:
    output = json_of("explain", "a", "b", "--in", str(corpus))
    assert output["verdict"]["verdict"] == "duplicate"
    assert [view["name"] for view in output["views"]] == ["headline", "body"]
    assert [part["where"] for part in output["text"]["passages"]] == ["both", "second"]
    assert [part["words"] for part in output["text"]["passages"]] == [19, 2]


def test_explain_names_the_rules_for_sources(corpus: Path, tmp_path: Path) -> None:
    config = tmp_path / "rules.toml"
    config.write_text('[sources]\nprefer = ["b.example"]\n', "utf-8")
    shown = words("explain", "a", "b", "--in", str(corpus), "--config", str(config))
    assert "[sources] earlier none, later prefer" in shown
    assert (
        "verdict update (stage: policy) why its source is preferred to those that had the article; sources.prefer"
        in shown
    )


def test_explain_gives_what_is_new_with_reasons(corpus: Path) -> None:
    shown = words("explain", "a", "b", "--in", str(corpus))
    assert "keys in common anchors 12 of 14, headline 2 of 2, text 0 of 1" in shown
    assert "new in its article 0 of 19 words, 0 words in new sentences, 0 of 0 numbers" in shown
    assert "; let through from 0.40 for something new" in shown
    assert "for nothing new " in shown
    assert "words that the original lacks: 0 (-" in shown
    assert re.search(r"; \d+ weaker \(-\d", shown)
    assert "an update, if it is let through, from 0.50 for the same article " in shown
    elsewhere = {**B, "source": A["source"], "title": "Harbour news"}
    output = words("explain", json.dumps(A), json.dumps(elsewhere))
    assert "one source, which seldom tells a story twice (+" in output
    assert "one source" not in shown


def test_two_items_without_ids_are_two_items(tmp_path: Path) -> None:
    first, copy, other = ({name: item[name] for name in ("title", "text", "source")} for item in (A, B, C))
    path = tmp_path / "other.json"
    path.write_text(json.dumps(other), "utf-8")
    output = json_of("explain", json.dumps(first), json.dumps(copy))
    assert (output["same_id"], output["verdict"]["verdict"]) == (False, "duplicate")
    output = json_of("explain", json.dumps(first), str(path))
    assert (output["same_id"], output["verdict"]["verdict"]) == (False, "unique")
    assert "(later, without id)" in run("explain", json.dumps(first), str(path))


def test_no_heading_of_the_numbers_is_cut_on_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("explain", json.dumps(A), json.dumps(B))
    headings = ["view", "earlier", "later", "shared", "Jaccard", "containment", "estimate"]
    assert headings in [line.split() for line in shown.splitlines()]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("zz", "no item 'zz' in .*, whose last item has the id 'c'"),
        ('{"id": ', "cannot be judged"),
    ],
)
def test_explain_refuses_unknown_and_bad_items(corpus: Path, second: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run("explain", "a", second, "--in", str(corpus))


def test_explain_says_that_the_items_have_other_fields(tmp_path: Path) -> None:
    corpus = lines(tmp_path / "export.jsonl", [{"nr": "a", "kop": "Elm bridge opens"}])
    with pytest.raises(InputError, match=r"no item 'a' in .*nr, kop.*--config FILE names the fields"):
        run("explain", "a", "b", "--in", corpus)


def test_evaluate_measures_on_labels(corpus: Path, tmp_path: Path) -> None:
    pairs: list[dict[str, Any]] = [
        {"earlier": "a", "later": "b", "label": "copy", "weight": 2.0},
        {"earlier": "a", "later": "c", "label": "different", "unsure": True},
    ]
    labels = lines(tmp_path / "labels.jsonl", pairs)
    found = json_of("evaluate", str(corpus), "--labels", labels)
    assert (found["agreement"]["all"]["recall"], found["agreement"]["sure"]["pairs"]) == (1.0, 1)
    assert found["items"] == {"unique": 2, "duplicate": 1}
    assert "recall" in run("evaluate", str(corpus), "--labels", labels)


def test_plan_prints_recall_memory_curve_and_promises_in_this_order() -> None:
    """Counts in any form."""
    shown = run("plan", "--items", "200,000")
    assert shown == run("plan", "--items", "2e5")
    parts = ["recall at body Jaccard 0.5: 0.998", "memory for 200,000 originals"]
    parts += [
        "What the index proposes, by Jaccard (the S-curve)",
        "WHAT IS HELD BACK: decision.novelty is 0.4 balanced",
    ]
    parts += [f"{name}: {promise}" for name, promise in NOVELTY_PROMISES.items()]
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)
    assert "e+" not in shown, "numbers without exponents"
    found = json_of("plan", "--items", "200000")
    assert found["plan"]["memory"] > 200_000 * found["plan"]["takes"]["record_bytes"]


def test_plan_answers_in_the_words_of_a_feed_with_the_numbers_of_the_sizing_table() -> None:
    asked = "plan", "--per-day", "2000000", "--window", "7d", "--share-held", ".2", "--memory"
    shown = run(*asked, "8G")
    parts = ["11,200,000 originals are remembered in 7 days. They need 16 GiB.\n"]
    parts += ["That does not fit into 8 GiB, which has room for 5,100,000.\n", '[worker]\nmemory = "16G"\n']
    parts += ['[window]\nlength = "7d"\n', 'Or keep 8 GiB, and paste\n\n[window]\nlength = "76h"\n', "It costs"]
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)
    table = (Path(__file__).parents[3] / "deploy" / "sizing.md").read_text("utf-8")
    assert "| 8 GiB | 5,100,000 |" in table

    assert run("plan", "--per-day", "2M", "--window", "7d", "--share-held", "20 %", "--memory", "8G") == shown
    pasted = json_of(*asked, "16G")
    assert pasted["fits"]
    assert pasted["instead"] == ""
    settings = load_settings(**tomllib.loads(pasted["settings"]))
    assert most_originals(settings, Scheme(settings.fingerprint)) >= 11_200_000
    with pytest.raises(ConfigError, match="more than one process can hold"):
        run("plan", "--per-day", "1G")
    with pytest.raises(ConfigError, match="more than memory = 256 MiB"):
        run("plan", "--per-day", "1M", "--memory", "256M")


def test_plan_of_a_simhash_knows_no_novelty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_DEDUP_FINGERPRINT__FAMILY", "simhash")
    shown = run("plan", "--threshold", "0.95", "--items", "17G")
    assert "58 signature + 12 keys" in shown
    assert "recall at body Jaccard 0.95: 0." in shown
    assert "WHAT IS HELD BACK" not in shown


@pytest.mark.parametrize(
    ("items", "labels", "message"),
    [
        ("", None, "is empty"),
        ('{"kop": "x"}\n', None, "all 1 items .* are bad"),
        (json.dumps(A), "\n", "holds no labels"),
    ],
)
def test_evaluate_refuses_files_without_items_or_labels(
    tmp_path: Path, items: str, labels: str | None, message: str
) -> None:
    (tmp_path / "in.jsonl").write_text(items)
    (tmp_path / "l").write_text(labels or "")
    with pytest.raises(InputError, match=message):
        run("evaluate", str(tmp_path / "in.jsonl"), *([] if labels is None else ["--labels", str(tmp_path / "l")]))


def test_evaluate_warns_of_suspicious_labels(corpus: Path, tmp_path: Path) -> None:
    pairs: list[dict[str, Any]] = [
        {"earlier": "typo", "later": "c", "label": "different", "knew": "yes"},
        {"earlier": "a", "later": "b", "label": "copy"},
        {"earlier": "a", "later": "b", "label": "different"},
    ]
    labels = lines(tmp_path / "labels.jsonl", pairs)
    shown = run("evaluate", str(corpus), "--labels", labels)
    assert "warning: 1 label names an earlier item that the corpus lacks, the first: typo" in shown
    assert "warning: no label has `new`" in shown


def test_explain_shows_missing_fields_as_unknown() -> None:
    texts = [{name: item[name] for name in ("title", "text")} for item in (A, B)]
    shown = words("explain", *map(json.dumps, texts))
    assert "same source unknown" in shown
    assert "hours apart unknown" in shown
    dated = [{**A, "published": "2026-03-02T09:00Z"}, {**B, "published": "2026-03-02T06:00Z"}]
    shown = words("explain", *map(json.dumps, dated))
    assert "hours apart 3.0, but the later one has the earlier date" in shown
    assert "hours apart 3.0 headline" in words("explain", *map(json.dumps, dated[::-1]))


def test_explain_finds_items_without_ids_by_their_position_as_filter_and_pairs_write_it(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    lines = [json.dumps({"title": item["title"], "text": item["text"]}) for item in (A, B, C)]
    path.write_text("\n\n".join(lines))
    run("pairs", str(path), "--output", str(tmp_path / "p"))
    pair = json.loads((tmp_path / "p").read_text())
    assert "Ferry stopped" in run("explain", pair["a"], pair["b"], "--in", str(path))


def test_explain_says_that_an_id_occurs_again_and_finds_each_item_by_its_place(tmp_path: Path) -> None:
    path = lines(tmp_path / "in.jsonl", [A | {"id": "x"}, C | {"id": "x"}, B | {"id": "y"}])
    result = CliRunner().invoke(app, ["explain", "x", "y", "--in", path, "--json"])
    assert json.loads(result.stdout)["verdict"]["verdict"] == "duplicate"
    assert f"the id 'x' occurs again at {path}:2" in result.stderr
    by_place = CliRunner().invoke(app, ["explain", "0:2", "y", "--in", path, "--json"])
    assert json.loads(by_place.stdout)["verdict"]["verdict"] == "unique"
    assert by_place.stderr == ""


def test_explain_on_a_file_with_many_items_names_the_cure(corpus: Path) -> None:
    with pytest.raises(InputError, match=f"explain ID ID --in {corpus}"):
        run("explain", str(corpus), json.dumps(A))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("--items 2T", "2e6 or 2M"), ("--items 1.5", "whole number"), ("--items 0", "from 1 to"),
        ("--items 5G", "from 1 to"), ("--items -5", "write it as"), ("--memory lots", "is not a size"),
    ],
)  # fmt: skip
def test_plan_refuses_other_numbers_with_the_right_form(written: str, message: str) -> None:
    result = CliRunner().invoke(app, ["plan", *written.split()], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert message in result.stderr
