"""`stream-dedup filter` and `pairs`: what they print, where, and how they end."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.tools.batch.conftest import invoke
from tests.tools.batch.feed import feed, rows, story, write

SECOND = {"filter": "--duplicates", "pairs": "--clusters"}
BOTH = pytest.mark.parametrize("command", list(SECOND))


def run(command: str, directory: Path, *arguments: str | Path) -> Result:
    return invoke(command, *arguments, "--output", directory / "first", SECOND[command], directory / "second")


@BOTH
def test_the_counts_are_printed_and_bad_lines_named(tmp_path: Path, command: str) -> None:
    path = write(tmp_path / "in", [story(1), story(1, 1, "copy"), b"{"])
    result = run(command, tmp_path, path)
    assert result.exit_code == 0
    assert all(f"{count} in {tmp_path / name}" in result.stdout for count, name in ((1, "first"), (2, "second")))
    assert "read as  plain" in result.stdout
    assert "out of order" not in result.stdout, "in pairs the order says nothing, and here it is right"
    errors = result.stderr.strip()
    if command == "pairs":
        assert errors.startswith(f"{path}:3: json: ")
        return
    words = result.stdout.split()
    assert [words[words.index(name) + 1] for name in ("unique", "duplicate", "bad", "all")] == ["1", "1", "1", "3"]
    assert f"bad: {path}:3: json: " in " ".join(words)
    assert errors == "", "no bar where nobody looks"


def test_with_json_standard_output_is_one_object(tmp_path: Path) -> None:
    path = write(tmp_path / "in", feed(100))
    printed = json.loads(run("filter", tmp_path, path, "--json", "--state", tmp_path / "state").stdout)
    counts = ["items", "unique", "duplicate", "update", "bad", "forwarded", "resumed", "seconds"]
    assert list(printed) == [*counts, "odd_times", "evicted", "rules", "summary"]
    assert printed["summary"]["items"] == 100
    assert printed["odd_times"]["missing"] > 0
    assert printed["items"] == printed["unique"] + printed["duplicate"] + printed["update"] + printed["bad"] == 100
    again = json.loads(run("filter", tmp_path, path, "--json", "--state", tmp_path / "state").stdout)
    assert again["resumed"] == 100
    assert again["summary"] is None, "nothing came"
    found = json.loads(run("pairs", tmp_path, path, "--json", "--memory", "64M", "--force").stdout)
    assert found["items"] + found["bad"] == 100
    assert found["pairs"] == len(rows(tmp_path / "first"))
    assert found["items"] == len(rows(tmp_path / "second"))


def test_what_the_rules_for_sources_let_through_is_printed(tmp_path: Path) -> None:
    path = write(tmp_path / "in", [story(1), story(1, 1, "copy"), story(2), story(2, 1, "again")])
    rules = '[sources]\npass = ["copy.example"]\nignore = ["again.example"]\nprefer = ["none.example"]'
    config = write(tmp_path / "rules.toml", [rules.encode()])
    result = run("filter", tmp_path, path, "--config", config)
    assert "let through by [sources]: pass 1, ignore 1, prefer 0" in result.stdout
    assert len(rows(tmp_path / "first")) == 4


def test_rows_of_a_file_that_is_not_named_are_only_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "in", [story(1), story(1, 1, "copy")])
    result = invoke("filter", path, "--output", tmp_path / "u")
    assert result.exit_code == 0
    assert "1 held back or bad, not written: name a file with --duplicates" in result.stdout
    found = invoke("pairs", path, "--output", tmp_path / "p", "--json")
    assert json.loads(found.stdout)["clusters"] == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in", "p", "u"]


def test_at_the_end_it_says_what_it_understood(tmp_path: Path) -> None:
    items = [json.dumps({"id": i, "title": f"Elm {i}", "text": "It is open.", "published": "soon"}) for i in range(5)]
    result = run("filter", tmp_path, write(tmp_path / "in", [one.encode() for one in items]))
    shown = " ".join(result.stdout.split())
    assert "filled id 100%, title 100%, text 100%, source 0%, url 0%, published 100%" in shown
    assert f"warning: 5 dates cannot be read ({tmp_path / 'in'}:1: " in shown
    assert "'soon'" in shown


@BOTH
def test_a_feed_that_is_all_bad_ends_with_1_and_says_why(tmp_path: Path, command: str) -> None:
    path = write(tmp_path / "in", [b'{"kopf": "Elm", "rumpf": "It is open."}'] * 30)
    result = run(command, tmp_path, path)
    assert result.exit_code == 1
    assert "warning: All 30 items are bad" in result.stdout
    assert "The records have rumpf, kopf" in result.stdout
    if command == "pairs":
        named = result.stderr.splitlines()
        assert [line.split(": ")[0] for line in named[:5]] == [f"{path}:{number}" for number in range(1, 6)]
        assert named[5:] == ["more of them are only counted; `stream-dedup filter --duplicates FILE` names each"]
    quiet = run(command, tmp_path, path, "--json", "--force")
    assert quiet.exit_code == 1
    assert json.loads(quiet.stdout)["bad"] == 30
    assert "All 30 items are bad" in quiet.stderr


def test_an_empty_input_is_said(tmp_path: Path) -> None:
    result = invoke("filter", write(tmp_path / "in", [b""]), "--output", tmp_path / "u")
    assert result.exit_code == 0
    assert "The input is empty" in result.stdout
    assert "--duplicates" not in result.stdout, "nothing was held back"
