"""A group of commands of which each is imported when it is used, and not before.

In: a table, command name -> where it is and its line of help. Out: a class for `typer.Typer(cls=...)`. Why: importing
every command brings in the compiled kernels, numba and the Kafka client, over a second of processor time, which
`--help`, `--version`, a TAB and a health check would pay for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


@dataclass(frozen=True, slots=True)
class Late:
    """A command to import later: `place` is `module:name` within `stream_dedup.cli`, `help` its line in the list."""

    place: str
    help: str


class LateGroup(TyperGroup):
    """Lists its commands without importing them; the one that is used, or asked for its help, is imported then."""

    table: Mapping[str, Late] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, late in self.table.items():
            # Only its name and help are ever used: resolve_command puts the command itself in its place.
            self.add_command(TyperCommand(name, help=late.help, rich_markup_mode=self.rich_markup_mode))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that these arguments name, imported."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if command is None or name is None else self.load(name), rest

    def load(self, name: str) -> Any:
        """The command or group of this name, imported."""
        module, attribute = self.table[name].place.split(":")
        found = getattr(import_module(f"stream_dedup.cli.{module}"), attribute)
        # Typer makes commands for an app: so one holds just this, with our own way of writing help.
        holder = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
        holder.callback()(_nothing)  # a group, although it has one command
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=name)
        else:
            holder.command(name)(found)
        return get_command(holder).commands[name]  # type: ignore[attr-defined]  # it is a group


def _nothing() -> None:
    """Makes Typer build a group."""


def late_group(table: Mapping[str, Late]) -> type[LateGroup]:
    """The class of a group with these commands."""
    return type("LateGroup", (LateGroup,), {"table": table})
