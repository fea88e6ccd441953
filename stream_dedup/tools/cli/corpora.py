"""Commands on files and pipes: `filter` and `pairs` (on one machine or on Spark)."""

from __future__ import annotations

import sys
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from stream_dedup import cli
from stream_dedup.cli import option
from stream_dedup.errors import UsageError
from stream_dedup.phrases import counted
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import number
from stream_dedup.tools.terminal import Console, ProgressLine, one_line, print_table, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stream_dedup.settings import Settings
    from stream_dedup.tools.batch.corpus import BadLine
    from stream_dedup.tools.batch.filter import FilterProgress, FilterResult
    from stream_dedup.tools.batch.pairs import PairsProgress, PairsResult
    from stream_dedup.tools.batch.shown import PairsReport

# -- filter ----------------------------------------------------------------------------------------------

# Odd dates, by the kinds of dedup/clocks.py, and how the items were compared.
_BEFORE = "compared with what came just before"
_ODD_TIMES = {
    "missing": f"without a date that can be read: {_BEFORE}",
    "future": f"dated in the future: {_BEFORE}",
    "alone": f"dated further than the window from what is around: {_BEFORE}",
    "late": "older than what came before by more than the window: compared with items of the same time; several files "
    "are best named in the order of their dates",
}


def filter_command(
    inputs: shared.InputsArgument,
    output: Annotated[
        Path,
        option(
            "New items and updates, unchanged: JSON Lines, or by suffix .csv, .tsv or .parquet (the rows of such "
            "inputs). Packed if it ends in .gz or .zst; - is standard output."
        ),
    ],
    duplicates: Annotated[
        Path | None,
        option("Held-back items and why, one JSON row each; - is standard output. Default: only count them."),
    ] = None,
    verdicts: Annotated[
        Path | None, option("The verdict on every item, in rows like those of --duplicates; - is standard output.")
    ] = None,
    report: shared.ReportOption = None,
    state: Annotated[
        Path | None,
        option("Directory for what is remembered: the next run continues with it, a killed run where it stopped."),
    ] = None,
    file_format: shared.FormatOption = None,
    force: shared.ForceOption = False,
    config: cli.ConfigOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Hold back near-duplicates in files and pipes.

    With --state a killed run continues where it stopped: nothing is lost or doubled. If an output is standard output,
    the result is printed on standard error. The result says how the input was understood. Exit code 1 if every item is
    bad.
    """
    from stream_dedup.tools.batch.filter import filter_files

    settings = cli.settings_of(config)
    console = shared.result_console(output, duplicates, verdicts, report)
    page = shared.report_of(settings, report, shared.inputs_named(inputs))
    with shared.exit_on_broken_pipe():
        with ProgressLine() as status:

            def show(progress: FilterProgress) -> None:
                # A bar of bytes, because the number of items is unknown.
                counts = f"{progress.items:,} items, {progress.items - progress.forwarded:,} held back"
                status("filter", progress.bytes_read, progress.bytes_total, counts)

            result = filter_files(
                inputs, output, duplicates, settings=settings, verdicts=verdicts, state=state,
                file_format=file_format, force=force, report=page, progress=show,
            )  # fmt: skip
        if as_json:
            _print_json(console, result)
        else:
            _print_filtered(console, result, (output, duplicates, verdicts, report), settings)
    if result.items and result.bad == result.items:
        sys.exit(1)


def _print_json(console: Console, result: FilterResult | PairsResult) -> None:
    shared.print_json(result, err=console.stderr)
    shared.print_warnings(Console(stderr=True), result.summary)


def _print_filtered(
    console: Console, result: FilterResult, outputs: tuple[Path | None, ...], settings: Settings
) -> None:
    verdicts = [(name, getattr(result, name)) for name in ("unique", "duplicate", "update", "bad")]
    print_table(console, ("verdict", "items"), [*verdicts, ("all", result.items)])
    held = result.items - result.forwarded
    if settings.policy.shadow:
        console.print("shadow mode: the output holds every item, those held back too")
    forwarded = result.items if settings.policy.shadow else result.forwarded
    contents = f"{forwarded:,}", f"{held:,}", counted(result.items, "verdict"), "the report"
    lines = [f"{text} in {shared.display_name(name)}" for text, name in zip(contents, outputs, strict=True) if name]
    if held and not any(outputs[1:3]):
        lines.append(f"{held:,} held back or bad, not written: name a file with --duplicates")
    if result.resumed:
        lines.append(f"{result.resumed:,} were done before: a killed or finished run was resumed")
    lines += [f"{counted(count, 'item')} {_ODD_TIMES[kind]}" for kind, count in result.odd_times.items() if count]
    if result.evicted:
        lines.append(f"{result.evicted:,} originals were forgotten before their time: more than window.max_originals")
    for line in lines:
        console.print(line, soft_wrap=True)
    shared.print_rules(console, settings, result.rules)
    shared.print_end(console, result, result.items - result.resumed, reasons=True)


# -- pairs -----------------------------------------------------------------------------------------------

# With less, a single batch of items does not fit.
_LEAST_MEMORY = 2**26
# Bad lines that are printed; with a wrong field map every line is one.
_MOST_PRINTED = 5
# Heap of a local Spark: blocks of 64 MiB pass through it, some for each core.
_SPARK_MEMORY = 2**31
_TITLES = {"PART": "fingerprints", "TABLE": "tables", "COMPARE": "pairs", "ARTICLE": "articles"}


class Engine(StrEnum):
    """What `pairs` works with."""

    LOCAL = "local"
    SPARK = "spark"


def pairs_command(
    inputs: shared.InputsArgument,
    output: Annotated[
        str,
        option(
            "The pairs, one row each; - is standard output. JSON Lines or .csv (.gz or .zst: packed), or .parquet.",
            "PATH",
        ),
    ],
    clusters: Annotated[
        str | None,
        option("The cluster of each item, one row each, in the same formats. Default: only count clusters.", "PATH"),
    ] = None,
    keep: Annotated[
        str | None,
        option(
            "The item that represents each cluster, and stays: earliest (by date, default), first (in the input), "
            "longest (body), or source:NAME,NAME,... (of the first of these sites that has it). Ties go to the "
            "earliest, then to the longest.",
            "CHOICE",
        ),
    ] = None,
    drop_new: Annotated[
        bool,
        option("Also drop what has something new beside the item that represents it. Without it such items stay."),
    ] = False,
    report: Annotated[
        Path | None,
        option("A page for a browser (HTML): clusters, each item beside the one that is kept, those with news first."),
    ] = None,
    memory: Annotated[
        str | None,
        option(
            "Memory, such as 512M (default 1G), beyond which disk is used. Local Spark: its heap (default 2G).", "SIZE"
        ),
    ] = None,
    threads: Annotated[int | None, number("Default: all processors.", min=1)] = None,
    bucket_limit: Annotated[
        int | None,
        number(
            "If more items share a key, compare each only with this many before it, the newest (default 1024).",
            min=1,
            max=100_000,
        ),
    ] = None,
    engine: Annotated[
        Engine, option("local: this process. spark: Apache Spark, for archives (extra `spark`).")
    ] = Engine.LOCAL,
    master: Annotated[
        str | None,
        option(
            "With --engine spark: local[*] (this machine) or the URL of a cluster; spark-submit sets it, too.", "URL"
        ),
    ] = None,
    file_format: shared.FormatOption = None,
    force: shared.ForceOption = False,
    config: cli.ConfigOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Find all near-duplicate pairs and clusters of a corpus.

    Bad lines are counted and left out; standard error names the first ones. If an output is standard output, the result
    is printed on standard error. Exit code 1 if every item is bad.
    """
    from stream_dedup.tools.batch.pairs import BUCKET_LIMIT, DEFAULT_MEMORY, find_pairs

    settings = cli.settings_of(config)
    memory_bytes = None if memory is None else shared.parse_size(memory)
    if memory_bytes is not None and memory_bytes < _LEAST_MEMORY:
        raise click.BadParameter(f"{memory} is too little to work in; give 64M or more")
    _check_engine(engine, master, memory, threads, report)
    console = shared.result_console(output, clusters, report)
    with shared.exit_on_broken_pipe():
        arguments: dict[str, Any] = {
            "inputs": inputs, "pairs": output, "clusters": clusters, "settings": settings, "keep": keep,
            "drop_new": drop_new,
            "bucket_limit": bucket_limit or BUCKET_LIMIT, "force": force,
            "file_format": file_format,
        }  # fmt: skip
        if engine is Engine.SPARK:
            result = _find_on_spark(arguments, memory_bytes or _SPARK_MEMORY, master)
        else:
            with ProgressLine() as status:

                def show(progress: PairsProgress) -> None:
                    status(_TITLES[progress.step.name], progress.done, progress.total, counts="")

                result = find_pairs(
                    **arguments, memory=memory_bytes or DEFAULT_MEMORY, threads=threads, progress=show,
                    bad_line=_bad_lines(status), report=_cluster_report(settings, report, inputs),
                )  # fmt: skip
        for name in result.absent_sources:
            warn(f"no item has the source {name!r} of --keep; `stream-dedup check` lists the sources")
        if as_json:
            _print_json(console, result)
        else:
            _print_pairs(console, result, output, clusters, drop_new)
            if report is not None:
                console.print(f"the report in {shared.display_name(report)}", soft_wrap=True)
    if result.bad and not result.items:
        sys.exit(1)


def _check_engine(
    engine: Engine, master: str | None, memory: str | None, threads: int | None, report: Path | None
) -> None:
    """Raise UsageError for options of the other engine, or that come too late."""
    on_spark = engine is Engine.SPARK
    is_local = (master or "").startswith("local")
    threads_of_spark = f"--threads is for --engine local; Spark takes its number from --master local[{threads}]"
    cluster = "--memory is for this machine; for a cluster say --conf spark.executor.memory=... to spark-submit"
    shared.refuse(
        (master is not None and not on_spark, "--master is for --engine spark"),
        (threads is not None and on_spark, threads_of_spark),
        (report is not None and on_spark, "--report is for --engine local; Spark writes the rows of --clusters"),
        (memory is not None and on_spark and not is_local, cluster),
    )
    if memory is not None and on_spark:
        from stream_dedup.tools.spark.engine import is_submitted

        if is_submitted():
            text = "spark-submit has started the JVM with its memory: say --driver-memory to it, not --memory"
            raise UsageError(text)


def _cluster_report(settings: Settings, report: Path | None, inputs: Sequence[str]) -> PairsReport | None:
    """What makes the page of --report, if one is wanted."""
    if report is None:
        return None
    from stream_dedup.tools.cluster_report import ClusterReport
    from stream_dedup.tools.inputs.packing import files_of

    names = files_of(inputs)
    return ClusterReport(settings, report, shared.inputs_named(inputs), lambda number, line: f"{names[number]}:{line}")


def _find_on_spark(arguments: dict[str, Any], memory: int, master: str | None) -> PairsResult:
    from stream_dedup.tools.spark.engine import find_pairs_on_spark, open_session

    stderr = Console(stderr=True)
    heap = {"spark.driver.memory": f"{memory // 2**20}m"} if (master or "").startswith("local") else {}
    spark = open_session(master, **heap, **{"spark.ui.showConsoleProgress": str(stderr.is_terminal).lower()})
    try:
        return find_pairs_on_spark(spark, **arguments, bad_line=lambda text: stderr.print(text, soft_wrap=True))
    finally:
        spark.stop()


def _bad_lines(status: ProgressLine) -> Callable[[str, BadLine], None]:
    """Return what prints the first bad lines."""
    printed = count(1)

    def show(name: str, line: BadLine) -> None:
        if (number := next(printed)) <= _MOST_PRINTED:
            status.print(f"{name}:{line.number}: {line.reason}")
        elif number == _MOST_PRINTED + 1:
            status.print("more of them are only counted; `stream-dedup filter --duplicates FILE` names each")

    return show


def _print_pairs(console: Console, result: PairsResult, output: str, clusters: str | None, drop_new: bool) -> None:
    counts = (
        ("items", result.items),
        ("bad lines", result.bad),
        ("candidate pairs compared", result.compared),
        ("near-duplicate pairs", result.pairs),
        ("clusters of two or more", result.clusters),
        ("items in them", result.clustered),
        ("of these with something new", result.new),
    )
    print_table(console, (), counts)
    console.print(f"{result.pairs:,} in {shared.display_name(output)}", soft_wrap=True)
    if clusters is not None:
        console.print(f"{result.items:,} in {shared.display_name(clusters)}", soft_wrap=True)
    if result.new:
        does = "are dropped, too (--drop-new)" if drop_new else "stay; --drop-new would drop them"
        console.print(f"{counted(result.new, 'item')} with something new beside their representatives {does}:")
        for title, kept in result.doubtful:
            console.print(f"  {one_line(title) or '(no headline)'} | beside: {one_line(kept)}", soft_wrap=True)
    if result.largest:
        rows = [(cluster.items, cluster.headlines, one_line(cluster.title)) for cluster in result.largest]
        print_table(console, ("items", "headlines", "the largest clusters"), rows)
    for cluster in result.largest:
        if cluster.is_doubtful:
            named = f"{cluster.items} items under {cluster.headlines} headlines, {one_line(cluster.title)!r}"
            warn(f"one cluster has {named}: read some before you drop them", console)
    if result.hot:
        console.print(
            f"{result.hot:,} buckets are larger than the limit, so each item in them was compared only with the "
            f"newest before it: {result.left_out:,} pairs of a table were left out"
        )
    shared.print_end(console, result, result.items)
