"""What commands share: options, numbers in arguments, signals, and every way to print.

Printed text stays as it is: no markup (`[red]`, `[link=...]`), no emoji names, and control characters escaped.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from stream_dedup.errors import UsageError
from stream_dedup.inputs.file_format import FileFormat
from stream_dedup.observe.logs import escape_controls

if TYPE_CHECKING:
    from stream_dedup.news.summary import Summary
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
    """Load the settings of --config; `overrides` are those that options set, None where an option was not given."""
    from stream_dedup.settings import load_settings

    given = {
        table: {name: value for name, value in values.items() if value is not None}
        for table, values in overrides.items()
    }
    return load_settings(config, **given)


def refuse(*cases: tuple[bool, str], error: type[Exception] = UsageError) -> None:
    """Raise an error with the message of the first case that is true."""
    for is_wrong, message in cases:
        if is_wrong:
            raise error(message)


def command_group() -> typer.Typer:
    """Make a group of commands; its help text is in `main.COMMANDS`."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode=None)


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


class CleanConsole(Console):
    """Escapes what is rendered, and writes past the stream that would also escape rich's own codes."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        stream = sys.stderr if stderr else sys.stdout
        file = getattr(stream, "uncleaned", stream)
        super().__init__(file=file, stderr=stderr, markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)


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
    print_rows(console, [row for row in rows_of(summary) if row[0] != "filled"])
    print_reasons(console, summary)
    print_notes(console, summary)


def print_rows(console: Console, rows: Iterable[tuple[str, str]]) -> None:
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
