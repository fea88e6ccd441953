"""`stream-dedup check` on files: what it shows, and how it ends. On topics: tests/worker/test_check_kafka.py."""

import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from typer.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import InputError, StreamError, UsageError
from tests.batch.feed import feed, story, write
from tests.cli.commands import json_of, run, words

ODD = [json.dumps({"headline": f"Elm {i}", "body": "The bridge opened. " * 9}).encode() for i in range(30)]


def test_a_sound_file_is_shown_on_80_columns(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(write(tmp_path / "in.jsonl", feed(200)))], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert max(map(len, result.stdout.split("\nbad")[0].splitlines())) <= 80
    shown = " ".join(result.stdout.split())
    assert " title " in shown
    assert "items 200 items," in shown
    assert "dates 2023-11-14 22:13 to 2023-11-15 01:" in shown
    assert "bad, the first reasons:" in shown
    assert result.stderr == ""  # no bar where nobody looks


def test_a_feed_that_is_all_bad_ends_with_1_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text('[item]\npreset = "plain"\n')
    shown = words("check", write(tmp_path / "in.jsonl", ODD), "--config", tmp_path / "plain.toml", code=1)
    assert "warning: All 30 items are bad" in shown
    assert f"{tmp_path / 'in.jsonl'}:1: empty: " in shown
    assert 'title = "headline", text = "body"' in shown


def test_nothing_ends_with_1(tmp_path: Path) -> None:
    assert "The input is empty" in words("check", write(tmp_path / "in.jsonl", []), code=1)


def test_settings_name_the_fields(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[item.fields]\ntitle = "headline"\ntext = "body"\n')
    printed = json_of("check", write(tmp_path / "in.jsonl", ODD), "--config", tmp_path / "s.toml")
    assert (printed["filled"]["title"], printed["filled"]["text"], printed["bad"]) == (30, 30, 0)
    assert {"no-title", "no-text"}.isdisjoint(one["kind"] for one in printed["warnings"])


def test_packed_files_and_standard_input_are_read(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(b"\n".join([story(1), b"", story(2)])))
    assert json_of("check", tmp_path / "in.jsonl.gz")["items"] == 2
    assert json_of("check", "-", input=story(1) + b"\n" + story(2))["items"] == 2


def test_places_are_file_and_line(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", [story(1)]), write(tmp_path / "b", [b"", story(2), b"{"])
    assert json_of("check", first, second)["reasons"][0].startswith(f"{second}:3: json")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ([], UsageError, "--topic NAME"),
        (["x", "--topic", "y"], UsageError, "--topic NAME"),
        (["x", "--bootstrap", "z:1"], UsageError, "--bootstrap goes with --topic"),
        (["nowhere.jsonl"], InputError, "if it is a topic, write --topic nowhere.jsonl"),
        (["-", "-"], UsageError, "only once"),
    ],
)
def test_wrong_usage_names_the_cure(arguments: list[str], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        run("check", *arguments)


def test_latin_1_is_reported_with_its_cure(tmp_path: Path) -> None:
    items = [json.dumps({"id": i, "title": "Größe", "text": "x y"}, ensure_ascii=False) for i in range(20)]
    path = write(tmp_path / "in.jsonl", [one.encode("latin-1") for one in items])
    assert "iconv -f WINDOWS-1252 -t UTF-8" in words("check", path, code=1)


def test_the_format_may_be_written_large(tmp_path: Path) -> None:
    run("check", "-", "--format", "CSV", input=b"id,title,text\n1,Elm bridge,It opened.\n")


def test_brokers_that_do_not_answer_are_reported_with_what_to_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> Any:
        raise KafkaTimeoutError("Unable to bootstrap from ['x:1']")

    monkeypatch.setattr("stream_dedup.kafka.client.make", none)
    with pytest.raises(StreamError, match=r"^no broker answers at x:1: Unable to bootstrap from \['x:1'\]$"):
        run("check", "--topic", "news", "--bootstrap", "x:1")


def test_a_name_that_is_no_utf_8_is_shown(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path / "news") + b"\xff.jsonl"))
    path.write_text('{"id": "1", "title": "Elm bridge opens", "text": "On Monday."}\n{broken\n')
    assert r"news\xff.jsonl:2: json" in json_of("check", path)["reasons"][0]
