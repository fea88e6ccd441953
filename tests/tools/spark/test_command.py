"""`stream-dedup pairs --engine spark`: what it prints, directories as outputs, inputs that it refuses."""

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import Result

from stream_dedup.errors import InputError, UsageError
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.pairs import find_pairs
from tests.tools.batch import conftest
from tests.tools.batch.feed import feed, rows, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shared(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """The command takes the session of the tests, and leaves it running."""
    monkeypatch.setattr("stream_dedup.tools.spark.engine.open_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


# The first test also starts a JVM and its executors.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def invoke(*arguments: object) -> Result:
    return conftest.invoke("pairs", *arguments, "--engine", "spark", "--master", "local[2]")


@pytest.mark.soak
def test_a_directory_of_files_becomes_directories(shared: None, spark: "SparkSession", tmp_path: Path) -> None:
    lines = feed(400)
    (tmp_path / "in").mkdir()
    first = tmp_path / "in" / "1.jsonl.gz"
    first.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines[:100])))
    second = write(tmp_path / "in" / "2.jsonl", lines[100:])  # larger, so Spark would read it first
    found = find_pairs([first, second], tmp_path / "p.jsonl", tmp_path / "c.jsonl", settings=Settings())
    result = invoke(
        tmp_path / "in", "--output", f"{tmp_path}/pairs.jsonl/", "--clusters", f"{tmp_path}/clusters.parquet/", "--json"
    )
    assert result.exit_code == 0, result.exception
    printed = json.loads(result.stdout)
    assert [printed[name] for name in ("items", "bad", "pairs")] == [found.items, found.bad, found.pairs]
    parts = sorted((tmp_path / "pairs.jsonl").glob("part-*"))
    assert [row for part in parts for row in rows(part)] == rows(tmp_path / "p.jsonl")
    written = spark.read.parquet(f"{tmp_path}/clusters.parquet")
    single = [tuple(row.values()) for row in rows(tmp_path / "c.jsonl")]
    assert sorted(map(tuple, written.collect()), key=str) == sorted(single, key=str)


def refused(problem: str, *arguments: object) -> None:
    result = invoke(*arguments)
    assert isinstance(result.exception, InputError | UsageError), result.stdout
    assert re.search(problem, str(result.exception), re.IGNORECASE)
    assert "\n" not in str(result.exception)


def test_what_spark_cannot_read_is_refused_in_one_line(shared: None, tmp_path: Path) -> None:
    for name, content, problem in (
        ("news.csv", b"{}", "not .*news.csv; convert"),
        ("news.jsonl.zst", b"{}", "not .*zst; convert"),
        ("news.jsonl.xz", b"{}", "not .*xz; convert"),
        ("none.jsonl", None, "none.jsonl"),
        ("not.parquet", b"no columns", "Parquet"),
        ("one.jsonl", b"[\n{}\n]\n", "looks like one JSON document"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        refused(problem, tmp_path / name, "--output", tmp_path / "p.jsonl")
    refused("executor can open.* not -; convert", "-", "--output", tmp_path / "p.jsonl")


def test_outputs_that_would_destroy_something_are_refused(shared: None, tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [b"{}"])
    for name in ("news", "there.jsonl"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "part-0", [b"what was there before"])
    file = write(tmp_path / "file.jsonl", [b"what was there before"])
    for problem, *arguments in (
        ("would destroy it", path, "--output", path),
        ("would destroy it", f"{tmp_path}/news", "--output", f"{tmp_path}/news/"),
        ("are the same directory", path, "--output", f"{tmp_path}/x/", "--clusters", f"{tmp_path}/x/"),
        ("cannot be written as .csv", path, "--output", f"{tmp_path}/x.csv/"),
        (r"there\.jsonl exists; .*--force", path, "--output", f"{tmp_path}/there.jsonl/"),
        (r"file\.jsonl exists; .*--force", path, "--output", file),
    ):
        refused(problem, *arguments)
    assert file.read_bytes() == (tmp_path / "there.jsonl" / "part-0").read_bytes() == b"what was there before\n"
