"""What commands share: options, numbers in arguments, signals, and every way to print.

Printed text stays as it is: no markup (`[red]`, `[link=...]`), no emoji names, and control characters escaped.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from stream_dedup.batch.file_format import FileFormat
from stream_dedup.errors import UsageError
from stream_dedup.observe.logs import escape_controls
from stream_dedup.phrases import counted, public_url

if TYPE_CHECKING:
    from stream_dedup.batch.filter import FilterResult
    from stream_dedup.batch.pairs import PairsResult
    from stream_dedup.news.summary import Summary
    from stream_dedup.observe.report import Report
    from stream_dedup.settings import Settings

# -- options ---------------------------------------------------------------------------------------------


def option(help: str, metavar: str | None = None, name: str | None = None) -> Any:
    """Declare an option; by default its name is that of the parameter."""
    return typer.Option(*([name] if name else []), help=help, metavar=metavar)


def argument(metavar: str, help: str) -> Any:
    """Declare an argument."""
    return typer.Argument(metavar=metavar, help=help)


def number(help: str, min: float | None = None, max: float | None = None) -> Any:
    """Declare an option that takes a number."""
    return typer.Option(metavar="NUMBER", help=help, min=min, max=max)


ConfigOption = Annotated[
    Path | None, option("Settings file (TOML); default: none. Environment variables override it.", "FILE")
]
JsonOption = Annotated[bool, option("Print JSON for a program instead of a table.", name="--json")]
ForceOption = Annotated[bool, option("Replace existing outputs, which are refused otherwise.", name="--force")]
ReportOption = Annotated[
    Path | None,
    option("A page for a browser (HTML): counts, and items held back beside their originals, doubtful ones first."),
]
BootstrapOption = Annotated[str | None, option("The brokers. Default: those of the settings.", "HOST:PORT")]
InputsArgument = Annotated[
    list[str],
    argument(
        "INPUT",
        "Read in this order: JSON Lines, XML (RSS, Atom, NITF, NewsML) or a JSON document; by suffix .csv, .tsv "
        "(with a header), .parquet or .avro; packed (.gz, .zst) or not. A directory stands for all files in it and "
        "below. - is standard input.",
    ),
]
FormatOption = Annotated[
    FileFormat | None,
    typer.Option(
        "--format",
        case_sensitive=False,
        help="Format of the inputs, whatever their names say. Without it - (standard input) is jsonl.",
    ),
]


def settings_of(config: Path | None, **overrides: dict[str, Any]) -> Settings:
    """Load the settings of --config; `overrides` are those that options set."""
    from stream_dedup.settings import load_settings

    return load_settings(config, **overrides)


def refuse(*cases: tuple[bool, str], error: type[Exception] = UsageError) -> None:
    """Raise an error with the message of the first case that is true."""
    for is_wrong, message in cases:
        if is_wrong:
            raise error(message)


def command_group() -> typer.Typer:
    """Make a group of commands; its help text is in `main.COMMANDS`."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode=None)


_SHOWN = 40  # characters of an argument in a message
_THOUSANDS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
# More than any machine or feed holds, and exact in a float and in a signed 64-bit integer.
_LARGEST = 10**15


def parse_count(text: str) -> int:
    """Parse a count; K, M and G are powers of 1000.

    >>> [parse_count(text) for text in ("2000000", "2,000,000", "2_000_000", "2e6", "2M", "2.5k")]
    [2000000, 2000000, 2000000, 2000000, 2000000, 2500]
    """
    plain = text.strip().replace(",", "").replace("_", "")
    match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d{1,2})?)\s*([KMG]?)", plain, re.I)
    count = Decimal(match[1]) * _THOUSANDS[match[2].upper()] if match else None
    if count is not None and count > _LARGEST:
        raise typer.BadParameter(f"{text[:_SHOWN]!r} is too large; the largest is {_LARGEST:.0e}")
    if count is None or count != int(count):
        raise typer.BadParameter(f"{text[:_SHOWN]!r} is not a whole number; write it as 2000000, 2e6 or 2M")
    return int(count)


def parse_share(text: str, most: float) -> float:
    """Parse a share from 0 to `most`: a number or a percentage.

    >>> parse_share(".2", 1.0), parse_share("20 %", 1.0)
    (0.2, 0.2)
    """
    match = re.fullmatch(r"(\d{1,9}|\d{0,9}\.\d{1,9})\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share <= most:
        raise typer.BadParameter(f"{text[:_SHOWN]!r} is not a share from 0 to {most:g}; write it as .2 or 20%")
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
        raise typer.BadParameter(f"{text[:_SHOWN]!r} is not a size; {error}") from None


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


# A person who presses Ctrl-C twice takes longer; a supervisor signals within milliseconds.
_TOGETHER_SECONDS = 0.2


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM, SIGHUP and Ctrl-C set; a later second signal ends the process at once.

    A supervisor may signal the process and its group, so a second one that comes together with the first is the same.
    """
    stop, first = threading.Event(), 0.0

    def handle(number: int, _frame: object) -> None:
        nonlocal first
        if not stop.is_set():
            first = time.monotonic()
        elif time.monotonic() - first > _TOGETHER_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) is not signal.SIG_IGN or name is not signal.SIGHUP:  # nohup
            signal.signal(name, handle)
    return stop


# -- where to print --------------------------------------------------------------------------------------

# The exit code that a shell shows for a process that a broken pipe ended: 128 plus the number of the signal.
_BROKEN_PIPE = 128 + 13


class CleanConsole(Console):
    """Escapes what is rendered, and writes past the stream that would also escape rich's own codes."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        stream = sys.stderr if stderr else sys.stdout
        file = getattr(stream, "uncleaned", stream)
        super().__init__(file=file, stderr=stderr, markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)


def result_console(*outputs: str | Path | None) -> Console:
    """Return the console for the result: standard output, or standard error if an output goes to standard output."""
    from stream_dedup.batch.output_files import target

    return CleanConsole(stderr=any(path is not None and target(Path(path)).is_stdout for path in outputs))


def report_of(settings: Settings, report: Path | None, what: str) -> Report | None:
    """Return the collector of the page of --report about `what`, if one is wanted."""
    if report is None:
        return None
    from stream_dedup.observe.report import Report

    return Report(settings, report, what)


def inputs_named(inputs: list[str]) -> str:
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
    from stream_dedup.batch.output_files import Output, check_free, checked_outputs

    targets = checked_outputs(inputs, {"--report": (report, ())})
    if not force:
        check_free(targets)
    with Output(targets["--report"], in_place=False) as output:
        yield output.write_whole


def display_name(output: str | Path) -> str:
    """Return an output's name for a person: as given, or "standard output" for "-"."""
    from stream_dedup.batch.output_files import target

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
        raise typer.Exit(_BROKEN_PIPE) from None


# -- tables, warnings, JSON ------------------------------------------------------------------------------

_SPACE = re.compile(r"\s+")


def one_line(text: str) -> str:
    r"""Put a text on one line, with control characters escaped, so that its width is known before it is laid out.

    >>> one_line("a\x1b[31m\n b")
    'a\\u001b[31m b'
    """
    return escape_controls(_SPACE.sub(" ", text))


def warn(text: str, console: Console | None = None, *, soft_wrap: bool = True) -> None:
    """Print a warning, on standard error unless a console is given."""
    console = console or CleanConsole(stderr=True)
    console.print(Text.assemble(("warning:", "bold yellow"), f" {text}"), soft_wrap=soft_wrap)


def print_json(value: Any, *, err: bool = False) -> None:
    """Print one JSON object on a line of its own."""
    import msgspec

    typer.echo(msgspec.json.encode(value).decode(), err=err)


def print_table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[str | int | Text]], title: str | None = None
) -> None:
    """Print rows under the names of their columns; without names each row is a name and a value.

    The table has no frame, so that many columns fit into 80 characters. Numbers are aligned to the right.
    """
    table = Table(*columns, title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.show_header = bool(columns)
    shown = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    for row in shown:
        table.add_row(*row)
    for column, cells in zip(table.columns, zip(*shown, strict=True), strict=False):
        is_number = all(str(cell)[:1] in "0123456789-" for cell in cells)  # or empty
        column.justify, column.overflow = "right" if is_number else "left", "fold"
    console.print(table)


# -- progress --------------------------------------------------------------------------------------------

# Between two updates of the same step: less than an eye sees, and a loop may report each record.
_UPDATE_SECONDS = 0.1


class Bars:
    """A bar for each step of the work; `progress_bars` makes it."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._steps: dict[str, TaskID] = {}
        self._next_update = 0.0

    def __call__(self, step: str, done: int, total: int | None = None, counts: str | None = None) -> None:
        """Show the progress of a step; `counts` describes it. Cheap enough to be called for each record."""
        now = time.monotonic()
        if step in self._steps and now < self._next_update and done != total:
            return
        self._next_update = now + _UPDATE_SECONDS
        if counts is None:
            counts = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        if step not in self._steps:
            self._steps[step] = self._bars.add_task(step, total=total, counts=counts)
        self._bars.update(self._steps[step], completed=done, total=total, counts=counts)

    def print(self, text: str) -> None:
        """Print a line above the bars; without a terminal, too."""
        self._bars.console.print(text, soft_wrap=True)


@contextmanager
def progress_bars() -> Iterator[Bars]:
    """Show bars on standard error while the work lasts, if it is a terminal."""
    console = CleanConsole(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield Bars(bars)


# -- the survey of an input ------------------------------------------------------------------------------

# Width of the table of fields without its samples.
_COLUMNS_BESIDE_SAMPLE = 40
_SHORT = ("read as", "filled", "dates", "record times", "sources")


def print_summary(console: Console, summary: Summary) -> None:
    """Print a whole survey in 80 columns: its fields as a table, the other figures, reasons of bad items, warnings."""
    from stream_dedup.news.names import FIELDS
    from stream_dedup.news.summary import rows_of, share

    if summary.looked:
        fields = []
        for name in FIELDS:
            stands_in = "the site of its url" if name == "source" and summary.largest else ""
            sample = Text(summary.samples.get(name, stands_in))
            sample.truncate(max(console.width - _COLUMNS_BESIDE_SAMPLE, 10), overflow="ellipsis")
            fields.append((name, share(summary, name), summary.filled[name], sample))
        print_table(console, ("field", "filled", "items", "first value"), fields)
    _print_rows(console, [row for row in rows_of(summary) if row[0] != "filled"])
    print_reasons(console, summary)
    print_notes(console, summary)


def print_short_summary(console: Console, summary: Summary) -> None:
    """Print how a command understood its input: a line each on preset, fields, dates and sources; then warnings."""
    from stream_dedup.news.summary import rows_of

    # The command has printed its own count of items; the count of a sample differs.
    names = ("items", *_SHORT) if summary.is_sampled else _SHORT
    rows = dict(rows_of(summary))
    _print_rows(console, [(name, rows[name]) for name in names if name in rows])
    print_notes(console, summary)


def _print_rows(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    print_table(console, (), [(name, text.replace(" %", "%")) for name, text in rows])


def print_reasons(console: Console, summary: Summary) -> None:
    """Print why items are bad: each reason with the first item that has it."""
    from stream_dedup.news.summary import MOST_REASONS

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
        warn(warning.text, console, soft_wrap=not console.is_terminal)


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
