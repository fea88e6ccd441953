"""Spark finds what the single process finds: the same pairs with the same numbers, clusters and counts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stream_dedup.errors import StreamDedupWarning, UsageError
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.pairs import PairsResult, find_pairs
from stream_dedup.tools.spark import Archive, deduplicate
from stream_dedup.tools.spark.engine import find_pairs_on_spark, read_files
from tests.tools.batch.feed import feed, line, prose, rows, story, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# The first test also starts a JVM and its executors.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def single(directory: Path, *inputs: Path, settings: Settings | None = None, **options: Any) -> PairsResult:
    """What the single process finds, in p.jsonl and c.jsonl, without what only it counts."""
    outputs = directory / "p.jsonl", directory / "c.jsonl"
    result = find_pairs(inputs, *outputs, settings=settings or Settings(), **options)
    return replace(result, seconds=0, summary=None)


def same(spark: "SparkSession", directory: Path, *inputs: Path, **options: Any) -> PairsResult:
    """What both find, byte for byte."""
    options = {"settings": Settings()} | options
    names = directory / "ps.jsonl", directory / "cs.jsonl"
    found = find_pairs_on_spark(spark, list(map(str, inputs)), *map(str, names), **options)
    expected = single(directory, *inputs, **options)
    assert replace(found, seconds=0, summary=None) == expected
    assert names[0].read_bytes() == (directory / "p.jsonl").read_bytes()
    assert names[1].read_bytes() == (directory / "c.jsonl").read_bytes()
    return expected


def listed(frame: "DataFrame") -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def test_files_give_the_same_bytes_as_the_single_process(spark: "SparkSession", tmp_path: Path) -> None:
    # Several parts in a file, undated items, items without an id, lines that are none.
    nameless = [json.dumps({"title": prose(-n - 1, 8), "text": prose(n)}).encode() for n in (3, 5000, 3)]
    first = write(tmp_path / "b.jsonl", [*feed(5200), b"", *nameless])
    second = write(tmp_path / "a.jsonl", [*nameless, *feed(700, seed=2)])
    assert same(spark, tmp_path, first, second).pairs > 1000
    assert any(row["id"] == "0:5204" for row in rows(tmp_path / "cs.jsonl"))


@pytest.mark.soak  # each job takes Spark some ten seconds on two cores
def test_a_file_that_several_tasks_read_has_the_same_lines(spark: "SparkSession", tmp_path: Path) -> None:
    lines = feed(900)
    lines[800] = json.dumps({"title": prose(-1, 8), "text": prose(0)}).encode()
    path = write(tmp_path / "in.jsonl", lines)
    expected = single(tmp_path, path)
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(path.stat().st_size // 5))
    try:
        frame = read_files(spark, [str(path)])
        assert frame.rdd.getNumPartitions() >= 5
        archive = Archive(frame)
        assert listed(archive.clusters()) == rows(tmp_path / "c.jsonl")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert archive.counts().bad == expected.bad
    assert "0:801" in {row["id"] for row in rows(tmp_path / "c.jsonl")}


@pytest.mark.soak  # each job takes Spark some ten seconds on two cores
def test_exact_bodies_and_the_plain_rule_decide_alike(spark: "SparkSession", tmp_path: Path) -> None:
    settings = Settings(fingerprint={"verify": "exact"}, decision={"jaccard": 0.5})
    path = write(tmp_path / "in.jsonl", feed(400))
    assert same(spark, tmp_path, path, settings=settings).pairs > 0


def test_simhash_with_a_salt_decides_alike_and_executors_receive_no_password(
    spark: "SparkSession", tmp_path: Path
) -> None:
    secret = tmp_path / "salt"
    secret.write_text("a salt of a file that only the driver has")
    kafka = {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "a password of a broker"}
    settings = Settings(
        fingerprint={"family": "simhash", "salt_file": secret}, kafka=kafka | {"security_protocol": "SASL_SSL"}
    )
    path = write(tmp_path / "in.jsonl", feed(200))
    single(tmp_path, path, settings=settings)
    archive = Archive(read_files(spark, [str(path)]), settings)
    secret.unlink()
    assert listed(archive.pairs()) == rows(tmp_path / "p.jsonl") != []
    from pyspark.serializers import CloudPickleSerializer

    assert b"password of a broker" not in CloudPickleSerializer().dumps(archive._settings)


def test_a_flood_of_one_form_is_capped_and_counted_as_in_the_single_process(
    spark: "SparkSession", tmp_path: Path
) -> None:
    form = prose(1, 200)
    path = write(tmp_path / "in.jsonl", [line(f"p{n}", f"Quarterly report {n}", f"{form} {n}") for n in range(600)])
    expected = same(spark, tmp_path, path, bucket_limit=8)
    # Not squared: 600 * 599 / 2 pairs share a key.
    assert expected.compared < 600 * 8 * 6 < expected.left_out


@pytest.mark.soak  # each job takes Spark some ten seconds on two cores
def test_a_dataframe_of_fields_is_read_as_a_table(spark: "SparkSession", tmp_path: Path) -> None:
    import pyarrow

    items = [json.loads(value) for value in (story(1), story(2), story(1, 5, "copy"))]
    frame = spark.createDataFrame(pyarrow.Table.from_pylist(items)).coalesce(1)
    assert [(row["a"], row["b"]) for row in listed(Archive(frame).pairs())] == [("s1", "copy")]
    frame.write.parquet(str(tmp_path / "in.parquet"))
    clusters = Archive(read_files(spark, [f"{tmp_path}/in.parquet"])).clusters()
    assert [row["story"] for row in listed(clusters)] == ["s1", "s2", "s1"]


def test_deduplicate_keeps_one_row_of_each_cluster(spark: "SparkSession") -> None:
    lines = [story(1, 5), story(2, 1), b"{", story(1, 2, "earlier"), story(3, None), story(1, 9, "later")]
    lines.append(story(2, 1, "x"))
    frame = spark.createDataFrame([(n, value) for n, value in enumerate(lines)], "n int, value binary").repartition(
        3, "n"
    )
    values = frame.orderBy("n").select("value")
    with pytest.warns(StreamDedupWarning, match="1 row without an item left out, such as 0:3: json"):
        kept = deduplicate(values)
    assert [bytes(row.value) for row in kept.collect()] == [lines[1], lines[3], lines[4]]
    with pytest.warns(StreamDedupWarning):
        kept = deduplicate(values, keep="first")
    assert [bytes(row.value) for row in kept.collect()] == [lines[0], lines[1], lines[4]]
    assert kept.columns == ["value"]


@pytest.mark.soak  # each job takes Spark some ten seconds on two cores
def test_what_stays_is_what_stays_in_the_single_process(spark: "SparkSession", tmp_path: Path) -> None:
    """In the rows of the clusters, and of those that `deduplicate` leaves."""
    lines = feed(300, seed=3)
    path = write(tmp_path / "in.jsonl", lines)
    by_source = f"source:misspelt.example,{json.loads(lines[5])['source']}"
    assert same(spark, tmp_path, path, keep=by_source).absent_sources == ("misspelt.example",)
    archive = Archive(spark.createDataFrame([(value,) for value in lines], "value binary").coalesce(1))
    with pytest.warns(StreamDedupWarning) as warned:
        unique = [bytes(row.value) for row in archive.deduplicate(by_source).collect()]
    assert any("no item has the source 'misspelt.example'" in str(one.message) for one in warned)
    stays = [row["id"] for row in rows(tmp_path / "c.jsonl") if row["keep"]]
    assert [item["id"] for item in map(json.loads, unique)] == stays
    single(tmp_path, path, keep="longest")
    assert listed(archive.clusters("longest")) == rows(tmp_path / "c.jsonl")


def test_an_archive_of_bad_lines_has_no_pairs_and_wrong_values_name_the_right_ones(spark: "SparkSession") -> None:
    archive = Archive(spark.createDataFrame([("",), ("{",), ("[1]",)], "value string"))
    assert archive.pairs().count() == archive.clusters().count() == 0
    assert (archive.counts().items, archive.counts().bad) == (0, 2)
    with pytest.raises(UsageError, match=r"is no DataFrame of Spark; read one with spark\.read"):
        Archive("news.jsonl")
    with pytest.raises(UsageError, match="keep = 'best' is none of 'earliest', 'first', 'longest' and"):
        deduplicate(spark.range(0), keep="best")
