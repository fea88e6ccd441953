"""`stream-dedup filter`: what it prints, where, and how it ends."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest
import typer
from numba.core import event
from typer.testing import CliRunner, Result

from stream_dedup.cli.files import filter_command, pairs_command
from stream_dedup.errors import InputError
from stream_dedup.precompile.compilations import COMPILING
from tests.batch.feed import feed, story, write

app = typer.Typer()
app.command("filter")(filter_command)


def invoke(directory: Path, *arguments: str | Path, input: bytes | None = None) -> Result:
    outputs = ["--output", str(directory / "u"), "--duplicates", str(directory / "d")]
    return CliRunner().invoke(app, [*map(str, arguments), *outputs], input=input)


def test_the_counts_are_printed_as_a_table(tmp_path: Path) -> None:
    result = invoke(tmp_path, write(tmp_path / "in", [story(1), story(1, 1, "copy"), b"{"]))
    assert result.exit_code == 0
    words = result.stdout.split()
    assert [words[words.index(name) + 1] for name in ("unique", "duplicate", "bad", "all")] == ["1", "1", "1", "3"]
    assert f"1 in {tmp_path / 'u'}" in result.stdout
    assert f"2 in {tmp_path / 'd'}" in result.stdout
    assert result.stderr.replace(COMPILING, "").strip() == ""  # no bar where nobody looks


def test_with_json_standard_output_is_one_object(tmp_path: Path) -> None:
    path = write(tmp_path / "in", feed(100))
    printed = json.loads(invoke(tmp_path, path, "--json", "--state", tmp_path / "state").stdout)
    counts = ["items", "unique", "duplicate", "update", "bad", "forwarded", "resumed", "seconds"]
    assert list(printed) == [*counts, "odd_times", "evicted", "summary"]
    assert printed["summary"]["items"] == 100
    assert printed["odd_times"]["missing"] > 0
    assert printed["items"] == printed["unique"] + printed["duplicate"] + printed["update"] + printed["bad"] == 100
    again = json.loads(invoke(tmp_path, path, "--json", "--state", tmp_path / "state").stdout)
    assert again["resumed"] == 100
    assert again["summary"] is None, "nothing came"


def test_without_duplicates_their_rows_are_only_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "in", [story(1), story(1, 1, "copy")])
    result = CliRunner().invoke(app, [str(path), "--output", str(tmp_path / "u")])
    assert result.exit_code == 0
    assert "1 held back or bad, not written: name a file with --duplicates" in result.stdout
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in", "u"]


def test_at_the_end_it_says_what_it_understood(tmp_path: Path) -> None:
    items = [json.dumps({"id": i, "title": f"Elm {i}", "text": "It is open.", "published": "soon"}) for i in range(5)]
    result = invoke(tmp_path, write(tmp_path / "in", [*(one.encode() for one in items), b"{"]))
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert f"bad: {tmp_path / 'in'}:6: json: " in shown
    assert "filled id 100%, title 100%, text 100%, source 0%, url 0%, published 100%" in shown
    assert f"warning: 5 dates cannot be read ({tmp_path / 'in'}:1: " in shown
    assert "'soon'" in shown


def test_a_feed_that_is_all_bad_ends_with_1_and_says_why(tmp_path: Path) -> None:
    items = [json.dumps({"kopf": f"Elm {i}", "rumpf": "It is open."}).encode() for i in range(30)]
    path = write(tmp_path / "in", items)
    result = invoke(tmp_path, path)
    assert result.exit_code == 1
    assert "warning: All 30 items are bad" in result.stdout
    assert "The records have rumpf, kopf" in result.stdout
    quiet = invoke(tmp_path, path, "--json", "--force")
    assert quiet.exit_code == 1
    assert json.loads(quiet.stdout)["bad"] == 30
    assert "All 30 items are bad" in quiet.stderr


def test_wrong_usage_ends_with_2(tmp_path: Path) -> None:
    path = write(tmp_path / "in", [story(1)])
    assert CliRunner().invoke(app, [str(path), "--duplicates", "d"]).exit_code == 2
    assert invoke(tmp_path, path, "--format", "xml").exit_code == 2
    assert invoke(tmp_path).exit_code == 2


def test_an_empty_input_is_said(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\n\n")
    result = CliRunner().invoke(app, [str(tmp_path / "in"), "--output", str(tmp_path / "u")])
    assert result.exit_code == 0
    assert "The input is empty" in result.stdout
    assert "--duplicates" not in result.stdout, "nothing was held back"


@pytest.mark.parametrize("command", ["filter", "pairs"])
def test_it_says_that_it_compiles(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an empty cache the first items wait a minute, in which nothing else is printed."""

    def compiling(*_: object, **__: object) -> NoReturn:
        dispatcher = SimpleNamespace(py_func=compiling)
        event.broadcast(event.Event("numba:compile", event.EventStatus.START, {"dispatcher": dispatcher}))
        raise InputError("no further")

    monkeypatch.setattr("stream_dedup.precompile.compilations._PATIENCE_SECONDS", -1)
    monkeypatch.setattr("stream_dedup.batch.filter.filter_files", compiling)
    monkeypatch.setattr("stream_dedup.batch.pairs.find_pairs", compiling)
    both = typer.Typer()
    both.command("filter")(filter_command)
    both.command("pairs")(pairs_command)
    shown = CliRunner().invoke(both, [command, "in.jsonl", "--output", str(tmp_path / "out")]).stderr
    assert COMPILING in shown
