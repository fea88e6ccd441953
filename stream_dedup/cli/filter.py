"""`stream-dedup filter INPUT... --output FILE`: hold back near-duplicates in files and pipes (batch/filter.py)."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from stream_dedup.cli.common import ConfigOption, ForceOption, JsonOption, new_console, print_json
from stream_dedup.cli.console import print_table, progress_bars
from stream_dedup.cli.pipes import FormatOption, InputsArgument, display_name, exit_on_broken_pipe, result_console
from stream_dedup.phrases import counted

if TYPE_CHECKING:
    from stream_dedup.batch.filter import FilterProgress, FilterResult


def filter_command(
    inputs: InputsArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            help="Lines of new items and updates, unchanged; - is standard output. JSON Lines; or by suffix .csv or "
            ".tsv or .parquet (the rows of such inputs). Packed if it ends in .gz or .zst.",
        ),
    ],
    duplicates: Annotated[
        Path | None,
        typer.Option(
            "--duplicates",
            help="The items held back and why, one JSON row each; - is standard output. Without it they "
            "are only counted.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            help="Directory for what is remembered: the next run continues with it, a killed run where it stopped.",
        ),
    ] = None,
    file_format: FormatOption = None,
    force: ForceOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hold back near-duplicates in files and pipes.

    With --state a killed run continues where it stopped: nothing is lost or doubled. If an output is standard output,
    the result is printed on standard error. The result says how the input was understood. Exit code 1 if every item is
    bad.
    """
    from stream_dedup.batch.filter import filter_files
    from stream_dedup.cli.summary import print_warnings
    from stream_dedup.precompile.compilations import report_long_compilation
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    console = result_console(output, duplicates)
    with exit_on_broken_pipe():
        with progress_bars() as bars, report_long_compilation(bars.print):

            def show(progress: "FilterProgress") -> None:
                # A bar of bytes, because the number of items is unknown.
                counts = f"{progress.items:,} items, {progress.items - progress.forwarded:,} held back"
                bars("filter", progress.bytes_read, progress.bytes_total, counts)

            result = filter_files(
                inputs,
                output,
                duplicates,
                settings=settings,
                state=state,
                file_format=file_format,
                force=force,
                progress=show,
            )
        if as_json:
            print_json(asdict(result), err=console.stderr)
            if result.summary is not None:
                print_warnings(new_console(stderr=True), result.summary)
        else:
            _print(console, result, output, duplicates, settings.policy.shadow)
    if result.items and result.bad == result.items:
        raise typer.Exit(1)


# Odd dates, by the kinds of dedup/clocks.py, and how the items were compared.
_BEFORE = "compared with what came just before"
_ODD_TIMES = {
    "missing": f"without a date that can be read: {_BEFORE}",
    "future": f"dated in the future: {_BEFORE}",
    "alone": f"dated further than the window from what is around: {_BEFORE}",
    "late": "older than what came before by more than the window: compared with items of the same time; several files "
    "are best named in the order of their dates",
}


def _print(console: Console, result: "FilterResult", output: Path, duplicates: Path | None, shadow: bool) -> None:
    from stream_dedup.cli.summary import print_nothing, print_reasons, print_short

    verdicts = [(name, getattr(result, name)) for name in ("unique", "duplicate", "update", "bad")]
    print_table(console, ("verdict", "items"), [*verdicts, ("all", result.items)])
    held = result.items - result.forwarded
    if shadow:
        console.print("shadow mode: the output holds every item, those held back too")
    console.print(f"{result.items if shadow else result.forwarded:,} in {display_name(output)}", soft_wrap=True)
    if duplicates:
        console.print(f"{held:,} in {display_name(duplicates)}", soft_wrap=True)
    elif held:
        console.print(f"{held:,} held back or bad, not written: name a file with --duplicates", soft_wrap=True)
    if result.resumed:
        console.print(f"{result.resumed:,} were done before: a killed or finished run was resumed")
    for kind, count in result.odd_times.items():
        if count:
            console.print(f"{counted(count, 'item')} {_ODD_TIMES[kind]}", soft_wrap=True)
    if result.evicted:
        console.print(
            f"{result.evicted:,} originals were forgotten before their time: more than window.max_originals",
            soft_wrap=True,
        )
    new = result.items - result.resumed
    console.print(f"{result.seconds:.1f} s, {new / max(result.seconds, 1e-9):,.0f} items/s")
    if result.summary is not None:
        print_reasons(console, result.summary)
        print_short(console, result.summary)
    elif not result.items:
        print_nothing(console)
