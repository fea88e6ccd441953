"""What is missing is named with its cure: PySpark, Java, a master, an option of the other engine."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from stream_dedup.errors import ConfigError, UsageError
from stream_dedup.tools.spark.engine import open_session, require_java
from tests.tools.batch.conftest import invoke
from tests.tools.batch.feed import story, write

OLD = "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2"
STRIPPED = 'case "$1" in --add-modules=*) exit 1;; esac; echo \'openjdk version "25.0.1" 2025-10-21\' >&2'


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (None, "there is none at"), (OLD, "is older; install Java 17"), ("echo what", "is older"),
        (STRIPPED, "is a Java without the module jdk.incubator.vector"),
    ],
)  # fmt: skip
def test_a_java_that_spark_cannot_use_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, problem: str
) -> None:
    if script:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=rf"{tmp_path}.*{problem}|{problem} {tmp_path}.*install Java 17"):
        require_java()


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"--engine spark needs --master: local\[\*\]"):
        open_session(None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="there is none at java; install Java 17"):
        require_java()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "stream_dedup.tools.spark")
    with pytest.raises(ConfigError, match=r"pip install .*\[spark\]"):
        import_module("stream_dedup.tools.spark")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--engine", "spark", "--master", "spark://h:7077", "--memory", "4G"], "spark.executor.memory"),
        # The heap of a JVM that runs was once left as it is, without a word.
        (["--engine", "spark", "--master", "local[2]", "--memory", "4G"], "say --driver-memory to it, not --memory"),
    ],
)
def test_memory_that_comes_too_late_or_is_of_other_machines_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], problem: str
) -> None:
    if "driver" in problem:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    error = invoke("pairs", write(tmp_path / "in", [story(1)]), "--output", tmp_path / "p.jsonl", *options).exception
    assert isinstance(error, UsageError)
    assert problem in str(error)
