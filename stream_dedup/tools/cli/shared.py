"""What the commands of the tools share: options, numbers in arguments, outputs, surveys, and the end of a run."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from stream_dedup.cli import click_type, option
from stream_dedup.errors import UsageError
from stream_dedup.phrases import counted
from stream_dedup.tools.addresses import public_url
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.terminal import Console, one_line, print_table, warn

if TYPE_CHECKING:
    from stream_dedup.settings import Settings
    from stream_dedup.tools.batch.filter import FilterResult
    from stream_dedup.tools.batch.pairs import PairsResult
    from stream_dedup.tools.report import Report
    from stream_dedup.tools.survey.summary import Summary


def number(help: str, **limits: float) -> Any:
    """Declare an option that takes a number."""
    return option(help, "NUMBER", **limits)


def argument(metavar: str, help: str) -> Any:
    """Declare an argument."""

    def make(name: str, kind: type, many: bool, **more: Any) -> click.Argument:
        shown = (metavar if more["required"] else f"[{metavar}]") + "..." * many
        return click.Argument(
            [name], help=help, metavar=shown, type=click_type(kind, {}), nargs=-1 if many else 1, **more
        )

    return make


JsonOption = Annotated[bool, option("Print JSON for a program instead of a table.", None, "--json")]
BootstrapOption = Annotated[str | None, option("The brokers. Default: those of the settings.", "HOST:PORT")]
FormatOption = Annotated[
    FileFormat | None,
    option("Format of the inputs, whatever their names say. Without it - (standard input) is jsonl.", None, "--format"),
]
ForceOption = Annotated[bool, option("Replace existing outputs, which are refused otherwise.")]
ReportOption = Annotated[
    Path | None,
    option("A page for a browser (HTML): counts, and items held back beside their originals, doubtful ones first."),
]
InputsArgument = Annotated[
    tuple[str, ...],
    argument(
        "INPUT",
        "Read in this order: JSON Lines, XML (RSS, Atom, NITF, NewsML) or a JSON document; by suffix .csv, .tsv "
        "(with a header), .parquet or .avro; packed (.gz, .zst) or not. A directory stands for all files in it and "
        "below. - is standard input.",
    ),
]
_SHOWN = 40  # characters of an argument in a message
_THOUSANDS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
# More than any machine or feed holds, and exact in a float and in a signed 64-bit integer.
_LARGEST = 10**15
# The exit code that a shell shows for a process that a broken pipe ended: 128 plus the number of the signal.
_BROKEN_PIPE = 128 + 13
_SHORT = ("read as", "filled", "dates", "record times", "sources")


def refuse(*cases: tuple[bool, str], error: type[Exception] = UsageError) -> None:
    """Raise an error with the message of the first case that is true."""
    for is_wrong, message in cases:
        if is_wrong:
            raise error(message)


def parse_count(text: str) -> int:
    """Parse a count; K, M and G are powers of 1000.

    >>> [parse_count(text) for text in ("2000000", "2,000,000", "2_000_000", "2e6", "2M", "2.5k")]
    [2000000, 2000000, 2000000, 2000000, 2000000, 2500]
    """
    plain = text.strip().replace(",", "").replace("_", "")
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d{1,2})?)\s*([KMG]?)", plain, re.I)
    count = Decimal(match[1]) * _THOUSANDS[match[2].upper()] if match else None
    if count is not None and count > _LARGEST:
        raise click.BadParameter(f"{text[:_SHOWN]!r} is too large; the largest is {_LARGEST:.0e}")
    if count is None or count != int(count):
        raise click.BadParameter(f"{text[:_SHOWN]!r} is not a whole number; write it as 2000000, 2e6 or 2M")
    return int(count)


def parse_share(text: str, most: float) -> float:
    """Parse a share from 0 to `most`: a number or a percentage.

    >>> parse_share(".2", 1.0), parse_share("20 %", 1.0)
    (0.2, 0.2)
    """
    match = re.fullmatch(r"(\d{1,9}|\d{0,9}\.\d{1,9})\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share <= most:
        raise click.BadParameter(f"{text[:_SHOWN]!r} is not a share from 0 to {most:g}; write it as .2 or 20%")
    return share


def parse_size(text: str) -> int:
    """Parse a size in bytes; K, M, G and T are powers of 1024.

    >>> parse_size("512M"), parse_size("4 GiB")
    (536870912, 4294967296)
    """
    from stream_dedup.settings import base

    try:
        return int(base.parse_size(text))
    except ValueError as error:
        raise click.BadParameter(f"{text[:_SHOWN]!r} is not a size; {error}") from None


def seconds_of(option: str, text: str) -> float:
    """Parse the duration of an option.

    >>> seconds_of("--every", "2h")
    7200.0
    """
    from stream_dedup.settings import parse_duration

    try:
        return float(parse_duration(text).total_seconds())
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None


def begin_ms(since: str) -> int:
    """Return where to start reading, in ms since 1970, given how far back `--since` reaches."""
    # Kafka has no time before 1970, and takes some negative numbers as commands.
    return max(0, int((time.time() - seconds_of("--since", since)) * 1000))


def result_console(*outputs: str | Path | None) -> Console:
    """Return the console for the result: standard output, or standard error if an output goes to standard output."""
    from stream_dedup.tools.batch.output_files import target

    return Console(stderr=any(path is not None and target(Path(path)).is_stdout for path in outputs))


def report_of(settings: Settings, report: Path | None, topic: str) -> Report | None:
    """Return the collector of the page of --report about this topic, if one is wanted."""
    if report is None:
        return None
    from stream_dedup.tools.report import Report

    return Report(settings, report, topic)


def inputs_named(inputs: Sequence[str]) -> str:
    """Name inputs in the heading of a report."""
    more = f" and {counted(len(inputs) - 1, 'more input')}" if len(inputs) > 1 else ""
    return ("standard input" if inputs[0] == "-" else inputs[0]) + more


@contextmanager
def report_output(report: Path | None, force: bool, *inputs: str) -> Iterator[Callable[[str], None]]:
    """Open the file of --report, if one is wanted, so that a wrong one fails before the work; yield what writes it."""
    if report is None:
        refuse((force, "--force is for --report, which writes a file"))
        yield lambda text: None
        return
    from stream_dedup.tools.batch.output_files import Output, check_free, checked_outputs

    targets = checked_outputs(inputs, {"--report": (report, ())})
    if not force:
        check_free(targets)
    with Output(targets["--report"], in_place=False) as output:
        yield output.write_whole


def display_name(output: str | Path) -> str:
    """Return an output's name for a person: as given, or "standard output" for "-"."""
    from stream_dedup.tools.batch.output_files import target

    if "://" in str(output):
        return public_url(str(output))
    return str(output) if not target(Path(output)).is_stream else str(target(Path(output)))


@contextmanager
def exit_on_broken_pipe() -> Iterator[None]:
    """End the command quietly when nobody reads the output any more (`| head`), as Unix tools do."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes standard output at exit; on the closed pipe that would be another error.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)
        raise SystemExit(_BROKEN_PIPE) from None


def print_json(value: Any, *, err: bool = False) -> None:
    """Print one JSON object on a line of its own."""
    import msgspec

    click.echo(msgspec.json.encode(value).decode(), err=err)


def print_rows(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    print_table(console, (), [(name, text.replace(" %", "%")) for name, text in rows])


def print_reasons(console: Console, summary: Summary) -> None:
    """Print why items are bad: each reason with the first item that has it."""
    from stream_dedup.tools.survey.summary import MOST_REASONS

    if summary.reasons:
        console.print("bad, the first reasons:" if len(summary.reasons) == MOST_REASONS else "bad:")
        for reason in summary.reasons:
            console.print(f"  {reason}", soft_wrap=True)


def print_notes(console: Console, summary: Summary) -> None:
    """Print the notes of a survey, then its warnings."""
    for note in summary.notes:
        console.print(f"note: {one_line(note)}", soft_wrap=True)
    print_warnings(console, summary)


def print_warnings(console: Console, summary: Summary | None) -> None:
    """Print a paragraph for each warning."""
    for warning in summary.warnings if summary else ():
        warn(warning.text, console)


def print_short_summary(console: Console, summary: Summary) -> None:
    """Print how a command understood its input: a line each on preset, fields, dates and sources; then warnings."""
    from stream_dedup.tools.survey.summary import rows_of

    # The command has printed its own count of items; the count of a sample differs.
    names = ("items", *_SHORT) if summary.is_sampled else _SHORT
    rows = dict(rows_of(summary))
    print_rows(console, [(name, rows[name]) for name in names if name in rows])
    print_notes(console, summary)


def print_rules(console: Console, settings: Settings, rules: Mapping[str, int]) -> None:
    """Print how many items each rule for sources let through; 0 may mean a misspelt name."""
    from stream_dedup.settings import SOURCE_RULES

    if settings.sources.rules:
        names = [rule for rule in SOURCE_RULES if getattr(settings.sources, rule)]
        counts = ", ".join(f"{rule} {rules.get(rule, 0):,}" for rule in names)
        console.print(f"let through by [sources]: {counts}")


def print_end(console: Console, result: FilterResult | PairsResult, count: int, *, reasons: bool = False) -> None:
    """Print how long `count` items took, and how the command understood the input."""
    console.print(f"{result.seconds:.1f} s, {count / max(result.seconds, 1e-9):,.0f} items/s")
    if result.summary is not None:
        if reasons:
            print_reasons(console, result.summary)
        print_short_summary(console, result.summary)
    elif not result.items:  # no error: an hour may bring no news
        warn("The input is empty: it has no items.", console)
