"""`stream-dedup check` on files: what it shows, and how it ends. On topics: tests/worker/test_check_kafka.py."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from typer.testing import CliRunner, Result

from stream_dedup.cli.main import app
from stream_dedup.errors import InputError, UsageError
from tests.batch.feed import feed, story, write

ODD = [json.dumps({"headline": f"Elm {i}", "body": "The bridge opened. " * 9}).encode() for i in range(30)]


def invoke(*arguments: str | Path, input: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, arguments)], input=input, env={"COLUMNS": "80"})


def plain(directory: Path) -> list[str | Path]:
    path = directory / "plain.toml"
    path.write_text('[item]\npreset = "plain"\n')
    return ["--config", path]


def test_a_sound_file_is_shown_on_80_columns(tmp_path: Path) -> None:
    result = invoke(write(tmp_path / "in.jsonl", feed(200)))
    assert result.exit_code == 0
    assert max(map(len, result.stdout.split("\nbad")[0].splitlines())) <= 80
    shown = " ".join(result.stdout.split())
    assert " title " in shown
    assert "items 200 items," in shown
    assert "dates 2023-11-14 22:13 to 2023-11-15 01:" in shown
    assert "bad, the first reasons:" in shown
    assert result.stderr == ""  # no bar where nobody looks


def test_a_feed_that_is_all_bad_ends_with_1_and_says_why(tmp_path: Path) -> None:
    result = invoke(write(tmp_path / "in.jsonl", ODD), *plain(tmp_path))
    assert result.exit_code == 1
    shown = " ".join(result.stdout.split())
    assert "warning: All 30 items are bad" in shown
    assert f"{tmp_path / 'in.jsonl'}:1: empty: " in shown
    assert 'title = "headline", text = "body"' in shown


def test_nothing_ends_with_1(tmp_path: Path) -> None:
    result = invoke(write(tmp_path / "in.jsonl", []))
    assert result.exit_code == 1
    assert "The input is empty" in result.stdout


def test_settings_name_the_fields(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[item.fields]\ntitle = "headline"\ntext = "body"\n')
    result = invoke(write(tmp_path / "in.jsonl", ODD), "--config", tmp_path / "s.toml", "--json")
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert (printed["filled"]["title"], printed["filled"]["text"], printed["bad"]) == (30, 30, 0)
    assert {"no-title", "no-text"}.isdisjoint(one["kind"] for one in printed["warnings"])


def test_packed_files_and_standard_input_are_read(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(b"\n".join([story(1), b"", story(2)])))
    assert _json(invoke(tmp_path / "in.jsonl.gz", "--json"))["items"] == 2
    assert _json(invoke("-", "--json", input=story(1) + b"\n" + story(2)))["items"] == 2


def test_places_are_file_and_line(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", [story(1)]), write(tmp_path / "b", [b"", story(2), b"{"])
    assert _json(invoke(first, second, "--json"))["reasons"][0].startswith(f"{second}:3: json")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ([], UsageError, "--topic NAME"),
        (["x", "--topic", "y"], UsageError, "--topic NAME"),
        (["x", "--bootstrap", "z:1"], UsageError, "--bootstrap goes with --topic"),
        (["nowhere.jsonl"], InputError, "if it is a topic, write --topic nowhere.jsonl"),
        (["-", "-"], UsageError, "only once"),
        (["."], InputError, "is a directory; name its files"),
    ],
)
def test_wrong_usage_names_the_cure(arguments: list[str], error: type[Exception], said: str) -> None:
    result = invoke(*arguments)
    assert isinstance(result.exception, error)
    assert said in str(result.exception)


def _json(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_latin_1_is_reported_with_its_cure(tmp_path: Path) -> None:
    items = [json.dumps({"id": i, "title": "Größe", "text": "x y"}, ensure_ascii=False) for i in range(20)]
    shown = invoke(write(tmp_path / "in.jsonl", [one.encode("latin-1") for one in items])).stdout
    assert "iconv -f WINDOWS-1252 -t UTF-8" in " ".join(shown.split())


def test_the_format_may_be_written_large(tmp_path: Path) -> None:
    assert invoke("-", "--format", "CSV", input=b"id,title,text\n1,Elm bridge,It opened.\n").exit_code == 0


def test_brokers_that_do_not_answer_are_reported_with_what_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> Any:
        raise KafkaTimeoutError("Unable to bootstrap from ['x:1']")

    monkeypatch.setattr("stream_dedup.kafka.client.make", none)
    error = str(invoke("--topic", "news", "--bootstrap", "x:1").exception)
    assert error == "no broker answers at x:1: Unable to bootstrap from ['x:1']"


def test_a_name_that_is_no_utf_8_is_shown(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path / "news") + b"\xff.jsonl"))
    path.write_text('{"id": "1", "title": "Elm bridge opens", "text": "On Monday."}\n{broken\n')
    result = CliRunner().invoke(app, ["check", str(path), "--json"], catch_exceptions=False)
    assert r"news\xff.jsonl:2: json" in json.loads(result.stdout)["reasons"][0]
