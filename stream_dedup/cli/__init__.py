"""The command line: parse, call, print. Nothing is decided here. This module has what commands share: how they declare
options, load settings, and end at a signal.

A command module imports at its top only what its options and printing need: click, and this module. What the work
needs is imported in the function that uses it, and by type checkers. So help is fast, and no command loads what only
another one needs; tests/cli/test_lazy.py holds all commands to this.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from importlib import import_module
from inspect import Parameter, getdoc, signature
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

import click

if TYPE_CHECKING:
    from stream_dedup.settings import Settings

# A command declares each option once: as an annotated parameter of the function that does its work, whose name, type
# and default are those of the option.
#
#     since: Annotated[str, option("How far back to begin: 90m, 2h, 7d.", "DURATION")] = "24h"


def option(help: str, metavar: str | None = None, *names: str, **limits: float) -> Any:
    """Declare an option; without names its name is that of the parameter. limits: min and max of a number."""

    def make(name: str, kind: type, many: bool, **more: Any) -> click.Option:
        more |= {"is_flag": True} if kind is bool else {"type": click_type(kind, limits), "multiple": many}
        return click.Option([name, *(names or [f"--{name.replace('_', '-')}"])], help=help, metavar=metavar, **more)

    return make


def click_type(kind: type, limits: Mapping[str, Any]) -> Any:
    """Return what click makes of an argument or option of this kind. limits: min and max of a number."""
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


def tool(target: str) -> Any:
    """Import what `module:name` in `stream_dedup` names. Only so do commands and `run` get at the tools."""
    module, name = target.split(":")
    return getattr(import_module(f"stream_dedup.{module}"), name)


def settings_of(config: Path | None, **overrides: dict[str, Any]) -> Settings:
    """Load the settings of --config; `overrides` are those that options set, None where an option was not given."""
    from stream_dedup.settings import load_settings

    given = {
        table: {name: value for name, value in values.items() if value is not None}
        for table, values in overrides.items()
    }
    return load_settings(config, **given)


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
