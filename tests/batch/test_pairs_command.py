"""`stream-dedup pairs`: what it prints, where, and how it ends."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from stream_dedup.cli.files import pairs_command
from stream_dedup.precompile.compilations import COMPILING
from tests.batch.feed import feed, rows, story, write

app = typer.Typer()
app.command("pairs")(pairs_command)


def invoke(directory: Path, *arguments: str | Path, input: bytes | None = None) -> Result:
    outputs = ["--output", str(directory / "p.jsonl"), "--clusters", str(directory / "c.jsonl")]
    return CliRunner().invoke(app, [*map(str, arguments), *outputs], input=input)


def test_the_counts_are_printed_and_bad_lines_named(tmp_path: Path) -> None:
    path = write(tmp_path / "in", [story(1), story(1, 1, "copy"), b"{"])
    result = invoke(tmp_path, path)
    assert result.exit_code == 0
    assert f"1 in {tmp_path / 'p.jsonl'}" in result.stdout
    assert f"2 in {tmp_path / 'c.jsonl'}" in result.stdout
    assert any(line.startswith(f"{path}:3: json: ") for line in result.stderr.splitlines())


def test_with_json_standard_output_is_one_object(tmp_path: Path) -> None:
    printed = json.loads(invoke(tmp_path, write(tmp_path / "in", feed(100)), "--json", "--memory", "64M").stdout)
    assert printed["items"] + printed["bad"] == 100
    assert printed["pairs"] == len(rows(tmp_path / "p.jsonl"))
    assert printed["items"] == len(rows(tmp_path / "c.jsonl"))


def test_without_clusters_they_are_only_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "in", [story(1), story(1, 1, "copy")])
    result = CliRunner().invoke(app, [str(path), "--output", str(tmp_path / "p"), "--json"])
    assert json.loads(result.stdout)["clusters"] == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in", "p"]


def test_settings_come_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[item]\nfields = {title = "head.line", text = "body"}\n')
    items = [json.dumps({"id": i, "head": {"line": "One"}, "body": "and the same"}).encode() for i in (1, 2)]
    result = invoke(tmp_path, write(tmp_path / "in", items), "--config", tmp_path / "config.toml", "--json")
    assert json.loads(result.stdout)["pairs"] == 1


def test_at_the_end_it_says_what_it_understood_and_all_bad_ends_with_1(tmp_path: Path) -> None:
    sound = invoke(tmp_path, write(tmp_path / "in", feed(100)))
    assert sound.exit_code == 0
    assert "read as  plain" in sound.stdout
    assert "out of order" not in sound.stdout, "the order says nothing here"
    odd = invoke(tmp_path, write(tmp_path / "odd", [b'{"kopf": "Elm", "rumpf": "It is open."}'] * 30), "--force")
    assert odd.exit_code == 1
    assert "warning: All 30 items are bad" in odd.stdout
    assert "The records have rumpf, kopf" in odd.stdout


@pytest.mark.slow
def test_of_many_bad_lines_only_the_first_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "in", [story(1), *[b"{"] * 30])
    printed = [line for line in invoke(tmp_path, path).stderr.splitlines() if line != COMPILING]
    assert [line.split(": ")[0] for line in printed[:5]] == [f"{path}:{number}" for number in range(2, 7)]
    assert printed[5:] == ["more of them are only counted; `stream-dedup filter --duplicates FILE` names each"]
