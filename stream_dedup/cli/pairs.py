"""`stream-dedup pairs CORPUS... --output FILE`: find all near-duplicates in files (batch/pairs.py)."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from stream_dedup.cli.common import ConfigOption, ForceOption, JsonOption, new_console, parse_size, print_json
from stream_dedup.cli.console import Bars, print_table, progress_bars
from stream_dedup.cli.pipes import FormatOption, InputsArgument, display_name, exit_on_broken_pipe, result_console
from stream_dedup.errors import UsageError

if TYPE_CHECKING:
    from stream_dedup.batch.pair_search import BadLine
    from stream_dedup.batch.pairs import PairsProgress, PairsResult

# With less, a single batch of items does not fit.
_LEAST_MEMORY = 2**26
# Bad lines that are printed; with a wrong field map every line is one.
_MOST_PRINTED = 5
# Heap of a local Spark: blocks of 64 MiB pass through it, some for each core.
_SPARK_MEMORY = 2**31
_TITLES = {"PART": "fingerprints", "TABLE": "tables", "COMPARE": "pairs"}


class Engine(StrEnum):
    """What `pairs` works with."""

    LOCAL = "local"
    SPARK = "spark"


def pairs_command(
    inputs: InputsArgument,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            metavar="PATH",
            help="The pairs, one row each; - is standard output. JSON Lines (.gz or .zst: packed) or .parquet.",
        ),
    ],
    clusters: Annotated[
        str | None,
        typer.Option(
            "--clusters",
            metavar="PATH",
            help="The cluster of each item, one row each, in the same formats. Without it clusters are only counted.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="CHOICE",
            help="Name the representative of each cluster in the rows of --clusters: earliest (by date), first (in the "
            "input), longest (body), or source:NAME,NAME,... (the first of these sites that has it). Of equal ones the "
            "earliest, then the first.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Memory to use, such as 512M or 4G (default 1G); the rest goes to disk. With a local Spark: "
            "the heap of its JVM (default 2G).",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", metavar="NUMBER", min=1, help="Default: all processors.")
    ] = None,
    bucket_limit: Annotated[
        int | None,
        typer.Option(
            "--bucket-limit",
            metavar="NUMBER",
            min=1,
            max=100_000,
            help="If more items share a key, compare each only with this many before it, the newest (default 1024). "
            "Replaces [index] bucket_limit, which is for the stream.",
        ),
    ] = None,
    engine: Annotated[
        Engine, typer.Option("--engine", help="local: this process. spark: Apache Spark, for archives (extra `spark`).")
    ] = Engine.LOCAL,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="With --engine spark: local[*] is this machine, else the URL of a cluster. spark-submit sets it, too.",
        ),
    ] = None,
    file_format: FormatOption = None,
    force: ForceOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find all near-duplicate pairs and clusters of a corpus.

    Bad lines are counted and left out; standard error
    names the first ones. If an output is standard output, the result is printed on standard error. Exit code 1 if every
    item is bad.
    """
    from stream_dedup.batch.pairs import BUCKET_LIMIT, DEFAULT_MEMORY, find_pairs
    from stream_dedup.cli.console import warn
    from stream_dedup.cli.summary import print_warnings
    from stream_dedup.precompile.compilations import report_long_compilation
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    memory_bytes = None if memory is None else parse_size(memory)
    if memory_bytes is not None and memory_bytes < _LEAST_MEMORY:
        raise typer.BadParameter(f"{memory} is too little to work in; give 64M or more")
    _check_engine(engine, master, memory, threads)
    console = result_console(*(Path(name) for name in (output, clusters) if name is not None))
    with exit_on_broken_pipe():
        arguments: dict[str, Any] = {
            "inputs": inputs, "pairs": output, "clusters": clusters, "settings": settings, "keep": keep,
            "bucket_limit": bucket_limit or BUCKET_LIMIT, "file_format": file_format, "force": force,
        }  # fmt: skip
        if engine is Engine.SPARK:
            result = _find_on_spark(arguments, memory_bytes or _SPARK_MEMORY, master)
        else:
            with progress_bars() as bars, report_long_compilation(bars.print):

                def show(progress: "PairsProgress") -> None:
                    bars(_TITLES[progress.step.name], progress.done, progress.total, counts="")

                result = find_pairs(
                    **arguments, memory=memory_bytes or DEFAULT_MEMORY, threads=threads, progress=show,
                    bad_line=_BadLines(bars),
                )  # fmt: skip
        for name in result.absent_sources:
            text = f"no item has the source {name!r} of --keep; `stream-dedup check` lists the sources"
            warn(new_console(stderr=True), text)
        if as_json:
            print_json(asdict(result), err=console.stderr)
            if result.summary is not None:
                print_warnings(new_console(stderr=True), result.summary)
        else:
            _print(console, result, output, clusters)
    if result.bad and not result.items:
        raise typer.Exit(1)


def _check_engine(engine: Engine, master: str | None, memory: str | None, threads: int | None) -> None:
    """Raise UsageError for options of the other engine, or that come too late."""
    if engine is Engine.LOCAL:
        if master is not None:
            raise UsageError("--master is for --engine spark")
        return
    if threads is not None:
        raise UsageError(f"--threads is for --engine local; Spark takes its number from --master local[{threads}]")
    if memory is not None and not (master or "").startswith("local"):
        raise UsageError(
            "--memory is for this machine; for a cluster say --conf spark.executor.memory=... to spark-submit"
        )
    from stream_dedup.spark.files import is_submitted

    if memory is not None and is_submitted():
        raise UsageError("spark-submit has started the JVM with its memory: say --driver-memory to it, not --memory")


def _find_on_spark(arguments: dict[str, Any], memory: int, master: str | None) -> "PairsResult":
    from stream_dedup.spark.files import find_pairs_on_spark, open_session

    stderr = new_console(stderr=True)
    heap = {"spark.driver.memory": f"{memory // 2**20}m"} if (master or "").startswith("local") else {}
    spark = open_session(master, **heap, **{"spark.ui.showConsoleProgress": str(stderr.is_terminal).lower()})
    try:
        return find_pairs_on_spark(
            spark, **arguments, bad_line=lambda text: stderr.print(text, soft_wrap=True)
        )  # fmt: skip
    finally:
        spark.stop()


class _BadLines:
    """Prints the first bad lines."""

    def __init__(self, bars: Bars) -> None:
        self._bars, self._printed = bars, 0

    def __call__(self, name: str, line: "BadLine") -> None:
        self._printed += 1
        if self._printed > _MOST_PRINTED + 1:
            return
        text = f"{name}:{line.number}: {line.reason}"
        if self._printed > _MOST_PRINTED:
            text = "more of them are only counted; `stream-dedup filter --duplicates FILE` names each"
        self._bars.print(text)


def _print(console: Console, result: "PairsResult", output: str, clusters: str | None) -> None:
    from stream_dedup.cli.summary import print_nothing, print_short

    counts = (
        ("items", result.items),
        ("bad lines", result.bad),
        ("candidate pairs compared", result.compared),
        ("near-duplicate pairs", result.pairs),
        ("clusters of two or more", result.clusters),
        ("items in them", result.clustered),
    )
    print_table(console, (), counts)
    console.print(f"{result.pairs:,} in {_name(output)}", soft_wrap=True)
    if clusters is not None:
        console.print(f"{result.items:,} in {_name(clusters)}", soft_wrap=True)
    if result.hot:
        console.print(
            f"{result.hot:,} buckets are larger than the limit, so each item in them was compared only with the "
            f"newest before it: {result.left_out:,} pairs of a table were left out"
        )
    console.print(f"{result.seconds:.1f} s, {result.items / max(result.seconds, 1e-9):,.0f} items/s")
    if result.summary is not None:
        print_short(console, result.summary)
    elif not result.items:
        print_nothing(console)


def _name(output: str) -> str:
    return output if "://" in output or output.endswith("/") else display_name(Path(output))
