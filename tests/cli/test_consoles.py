"""A terminal shows ids and headlines unchanged: the name of an emoji in them does not become an emoji."""

import ast
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import stream_dedup.cli
from stream_dedup.cli.main import _report_error, app
from stream_dedup.errors import InputError

MODULES = sorted(Path(stream_dedup.cli.__file__).parent.glob("*.py"))
TEXT = "The old ferry was taken out of service on Monday morning after engineers had found cracks in its hull."
# Ids of RSS items that have the name of an emoji between colons.
IDS = ["urn:x:1", "tag:on:2"]


def rows() -> list[dict[str, str]]:
    return [
        {"id": name, "title": "Ferry :ship: stopped", "text": TEXT, "source": f"{name[-1]}.example"} for name in IDS
    ]


@pytest.mark.slow
def test_the_id_of_a_labelled_pair_is_shown_unchanged(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows())))
    (tmp_path / "l.jsonl").write_text(json.dumps({"earlier": IDS[0], "later": IDS[1], "label": "different"}))
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "c.jsonl"), "--labels", str(tmp_path / "l.jsonl")])
    assert result.exit_code == 0, result.output
    assert "Held back or named an update, but another article: 1" in result.stdout
    assert [*IDS, "different", "1"] in [line.split() for line in result.stdout.splitlines()]


def test_an_error_shows_the_id_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    _report_error(InputError("no item 'urn:x:1'"))
    assert capsys.readouterr().err == "error: no item 'urn:x:1'\n"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_no_command_makes_a_plain_console(module: Path) -> None:
    """Another one would take names of emoji, markup and control characters in foreign text for its own."""
    calls = [call for call in ast.walk(ast.parse(module.read_text("utf-8"))) if isinstance(call, ast.Call)]
    assert "Console" not in {call.func.id for call in calls if isinstance(call.func, ast.Name)}
