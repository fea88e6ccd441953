"""What commands share: how they declare options, settings, durations, signals, JSON, and the survey of an input."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from inspect import Parameter, getdoc, signature
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

import click

from stream_dedup.cli.terminal import Console, cut, one_line, print_table, warn
from stream_dedup.errors import UsageError
from stream_dedup.inputs.file_format import FileFormat

if TYPE_CHECKING:
    from stream_dedup.news.summary import Summary
    from stream_dedup.settings import Settings

# -- options ---------------------------------------------------------------------------------------------

# A command declares each option once: as an annotated parameter of the function that does its work, whose name, type
# and default are those of the option.
#
#     since: Annotated[str, option("How far back to begin: 90m, 2h, 7d.", "DURATION")] = "24h"


def option(help: str, metavar: str | None = None, *names: str, **limits: float) -> Any:
    """Declare an option; without names its name is that of the parameter. limits: min and max of a number."""

    def make(name: str, kind: type, many: bool, **more: Any) -> click.Option:
        more |= {"is_flag": True} if kind is bool else {"type": _type(kind, limits), "multiple": many}
        return click.Option([name, *(names or [f"--{name.replace('_', '-')}"])], help=help, metavar=metavar, **more)

    return make


def number(help: str, **limits: float) -> Any:
    """Declare an option that takes a number."""
    return option(help, "NUMBER", **limits)


def argument(metavar: str, help: str) -> Any:
    """Declare an argument."""

    def make(name: str, kind: type, many: bool, **more: Any) -> click.Argument:
        shown = (metavar if more["required"] else f"[{metavar}]") + "..." * many
        return click.Argument([name], help=help, metavar=shown, type=_type(kind, {}), nargs=-1 if many else 1, **more)

    return make


def _type(kind: type, limits: dict[str, Any]) -> Any:
    if limits:
        return (click.IntRange if kind is int else click.FloatRange)(**limits)
    if issubclass(kind, Enum):
        return click.Choice(kind, case_sensitive=False)
    return click.Path(path_type=Path, readable=False) if kind is Path else kind


def command(name: str, function: Callable[..., None]) -> click.Command:
    """Make a command of a function: its parameters are the options, and its docstring is the help."""
    parameters = signature(function, eval_str=True).parameters.values()
    return click.Command(name, callback=function, params=[*map(_parameter, parameters)], help=getdoc(function))


def _parameter(parameter: Parameter) -> click.Parameter:
    annotation, make = get_args(parameter.annotation)
    kind = get_args(annotation)[0] if isinstance(annotation, UnionType) else annotation  # of X | None
    many = get_origin(kind) is tuple
    given = str(parameter.default) if isinstance(parameter.default, Enum) else parameter.default  # help shows it
    default = {} if given is Parameter.empty else {"default": given}
    made = make(parameter.name, get_args(kind)[0] if many else kind, many, required=not default, **default)
    return cast("click.Parameter", made)


ConfigOption = Annotated[
    Path | None, option("Settings file (TOML); default: none. Environment variables override it.", "FILE")
]
JsonOption = Annotated[bool, option("Print JSON for a program instead of a table.", None, "--json")]
BootstrapOption = Annotated[str | None, option("The brokers. Default: those of the settings.", "HOST:PORT")]
FormatOption = Annotated[
    FileFormat | None,
    option("Format of the inputs, whatever their names say. Without it - (standard input) is jsonl.", None, "--format"),
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


def print_json(value: Any, *, err: bool = False) -> None:
    """Print one JSON object on a line of its own."""
    import msgspec

    click.echo(msgspec.json.encode(value).decode(), err=err)


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
            sample = cut(summary.samples.get(name, stands_in), max(console.width - _COLUMNS_BESIDE_SAMPLE, 10))
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
        warn(warning.text, console)
