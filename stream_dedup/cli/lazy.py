"""A command group that imports a command only when it is used.

`lazy_group` turns a table of commands into a class for `typer.Typer(cls=...)`. Importing every command would load the
compiled kernels, numba and the Kafka client: over a second of processor time, which `--help`, `--version`, a TAB and a
health check do not need.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command to import later: `target` is `module:name` within `stream_dedup.cli`, `help` its line in the list."""

    target: str
    help: str


class LazyGroup(TyperGroup):
    """A group that lists its commands without importing them, and imports one when it is run or asked for its help."""

    table: Mapping[str, LazyCommand] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, command in self.table.items():
            # A placeholder with a name and a help text: resolve_command replaces it with the command.
            self.add_command(TyperCommand(name, help=command.help, rich_markup_mode=self.rich_markup_mode))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import and return the command that these arguments name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if command is None or name is None else self.load(name), rest

    def load(self, name: str) -> Any:
        """Import and return the command or subgroup of this name."""
        module, attribute = self.table[name].target.split(":")
        target = getattr(import_module(f"stream_dedup.cli.{module}"), attribute)
        # Typer builds commands only from an app, so make one that has this command alone.
        app = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
        app.callback()(_no_options)
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name)
        else:
            app.command(name)(target)
        return get_command(app).commands[name]  # type: ignore[attr-defined]  # a group, because it has a callback


def _no_options() -> None:
    """A callback; an app that has one is a group even with a single command."""


def lazy_group(table: Mapping[str, LazyCommand]) -> type[LazyGroup]:
    """Return the class of a group with these commands."""
    return type("LazyGroup", (LazyGroup,), {"table": table})
