"""What is missing is named with its cure: PySpark, Java, a master, an option of the other engine."""

import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from stream_dedup.cli.pairs import pairs_command
from stream_dedup.errors import ConfigError, UsageError
from stream_dedup.spark.files import open_session, require_java
from tests.batch.feed import story, write

app = typer.Typer()
app.command("pairs")(pairs_command)

OLD = "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2"
STRIPPED = 'case "$1" in --add-modules=*) exit 1;; esac; echo \'openjdk version "25.0.1" 2025-10-21\' >&2'


def fake_java(home: Path, script: str) -> Path:
    (home / "bin").mkdir()
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (None, "there is none at"),
        (OLD, "is older; install Java 17"),
        (STRIPPED, "is a Java without the module jdk.incubator.vector"),
        ("echo what", "is older"),
    ],
)
def test_a_java_that_spark_cannot_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, problem: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, script) if script else tmp_path))
    with pytest.raises(ConfigError, match=problem) as raised:
        require_java()
    assert str(tmp_path) in str(raised.value)
    assert "install Java 17" in str(raised.value)


def test_no_java_at_all_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="there is none at java; install Java 17"):
        require_java()


def test_a_missing_pyspark_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "stream_dedup.spark")
    with pytest.raises(ConfigError, match=r"pip install .*\[spark\]"):
        import_module("stream_dedup.spark")


def test_a_missing_master_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--engine spark needs --master: local\[\*\]"):
        open_session(None)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--master", "local[2]"], "--master is for --engine spark"),
        (["--engine", "spark", "--master", "local[2]", "--threads", "3"], "--master local[3]"),
        (["--engine", "spark", "--master", "spark://h:7077", "--memory", "4G"], "spark.executor.memory"),
    ],
)
def test_options_of_the_other_engine_are_refused(tmp_path: Path, options: list[str], problem: str) -> None:
    path = write(tmp_path / "in.jsonl", [story(1)])
    result = CliRunner().invoke(app, [str(path), "--output", str(tmp_path / "p.jsonl"), *options])
    assert isinstance(result.exception, UsageError)
    assert problem in str(result.exception)


def test_memory_that_spark_submit_has_given_already_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heap of a JVM that runs was once left as it is, without a word."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    path = write(tmp_path / "in.jsonl", [story(1)])
    options = ["--engine", "spark", "--master", "local[2]", "--memory", "4G"]
    result = CliRunner().invoke(app, [str(path), "--output", str(tmp_path / "p.jsonl"), *options])
    assert isinstance(result.exception, UsageError)
    assert "say --driver-memory to it, not --memory" in str(result.exception)
