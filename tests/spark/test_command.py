"""`stream-dedup pairs --engine spark`: what it prints, directories as outputs, inputs that it refuses."""

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from stream_dedup.batch.pairs import find_pairs
from stream_dedup.cli.pairs import pairs_command
from stream_dedup.errors import InputError, UsageError
from stream_dedup.settings import Settings
from stream_dedup.spark.files import _exists
from tests.batch.feed import feed, rows, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer()
app.command("pairs")(pairs_command)


@pytest.fixture
def shared(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """The command takes the session of the tests, and leaves it running."""
    monkeypatch.setattr("stream_dedup.spark.files.open_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)


# The first test also starts a JVM and the executors' kernels.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments), "--engine", "spark", "--master", "local[2]"])


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
    assert {name: json.loads(result.stdout)[name] for name in ("items", "bad", "pairs", "compared")} == {
        "items": found.items, "bad": found.bad, "pairs": found.pairs, "compared": found.compared
    }  # fmt: skip
    parts: list[dict[str, Any]] = []
    for part in sorted((tmp_path / "pairs.jsonl").glob("part-*")):
        parts += rows(part)
    assert parts == rows(tmp_path / "p.jsonl")
    written = spark.read.parquet(f"{tmp_path}/clusters.parquet")
    assert sorted(map(tuple, written.collect())) == sorted(
        (row["id"], row["cluster"]) for row in rows(tmp_path / "c.jsonl")
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("-", "executor can open.* not -; convert"),
        ("news.csv", "not .*news.csv; convert"),
        ("news.jsonl.zst", "not .*zst; convert"),
        ("news.jsonl.xz", "not .*xz; convert"),
    ],
)
def test_inputs_that_spark_would_misread_are_refused(shared: None, tmp_path: Path, name: str, problem: str) -> None:
    path = name if name == "-" else str(write(tmp_path / name, [b"{}"]))
    result = invoke(path, "--output", tmp_path / "p.jsonl")
    with pytest.raises(UsageError, match=problem):
        raise result.exception or AssertionError(result.stdout)


def test_what_spark_cannot_read_is_one_line(shared: None, tmp_path: Path) -> None:
    for name, content, problem in (
        ("none.jsonl", None, "none.jsonl"),
        ("not.parquet", b"no columns", "Parquet"),
        ("one.jsonl", b"[\n{}\n]\n", "looks like one JSON document"),
    ):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        error = invoke(path, "--output", tmp_path / "p.jsonl").exception
        assert isinstance(error, InputError)
        assert problem.lower() in str(error).lower()
        assert "\n" not in str(error)


def test_outputs_that_would_destroy_something_are_refused(shared: None, tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [b"{}"])
    (tmp_path / "news").mkdir()
    for arguments, problem in (
        ((path, "--output", path), "would destroy it"),
        ((f"{tmp_path}/news", "--output", f"{tmp_path}/news/"), "would destroy it"),
        ((path, "--output", f"{tmp_path}/x/", "--clusters", f"{tmp_path}/x/"), "are the same directory"),
        ((path, "--output", f"{tmp_path}/x.csv/"), "cannot be written as .csv"),
    ):
        error = invoke(*arguments).exception
        assert isinstance(error, UsageError)
        assert problem in str(error)


@pytest.mark.parametrize("name", ["pairs.jsonl/", "pairs.jsonl"])
def test_an_output_that_exists_is_refused(shared: None, tmp_path: Path, name: str) -> None:
    output = f"{tmp_path}/{name}"
    kept = Path(output) / "part-0" if name.endswith("/") else Path(output)
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("what was there before")
    with pytest.raises(UsageError, match=r"pairs\.jsonl exists; .*--force"):
        raise invoke(write(tmp_path / "news.jsonl", feed(3)), "--output", output).exception or AssertionError
    assert kept.read_text() == "what was there before"


def test_a_directory_that_is_missing_is_free(spark: "SparkSession", tmp_path: Path) -> None:
    assert not _exists(spark, f"{tmp_path}/missing/")
    assert _exists(spark, f"file://{tmp_path}/")
