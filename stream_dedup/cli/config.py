"""`stream-dedup config`: what is set, from where, and what could be.

    show        every effective setting with its origin: default, file or environment
    reference   the reference of all settings as Markdown; committed as config/reference.md
    metrics     the reference of all metrics as Markdown; committed as config/metrics.md

Thin: the words are made in cli/reference.py and observe/reference.py. A `ConfigError` is left to the caller,
which prints it and chooses the exit code, as for every command.
"""

import json
import os
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from stream_dedup.cli.common import ConfigOption, JsonOption

if TYPE_CHECKING:
    from stream_dedup.settings import Settings

config_app = typer.Typer(
    help="What is set, from where, and what could be.", no_args_is_help=True, rich_markup_mode=None
)


@config_app.command()
def show(
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print each effective setting and where it comes from.

    Secrets are shown as stars.
    """
    from stream_dedup.cli.reference import effective, written
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    _refuse_unfit_bits(settings)
    rows = effective(settings, config, os.environ)
    if as_json:
        tables: dict[str, dict[str, object]] = {}
        for row in rows:
            entry = {"value": row.value, "origin": row.origin, "source": row.source or None}
            tables.setdefault(row.table, {})[row.name] = entry
        typer.echo(json.dumps(tables, ensure_ascii=False, indent=2))
        return
    table = Table("setting", "value", "origin", box=None, pad_edge=False)
    for row in rows:
        origin = row.origin if not row.source else f"{row.origin}: {row.source}"
        # What differs from the default is what the reader looks for.
        style = "dim" if row.origin == "default" else "bold"
        table.add_row(f"{row.table}.{row.name}", written(row.value) or "unset", origin, style=style)
    Console(emoji=False, markup=False, highlight=False).print(table)


def _refuse_unfit_bits(settings: "Settings") -> None:
    """Raises ConfigError where `layout`, `hamming` or `idf` make no scheme: `run` would, later."""
    if settings.fingerprint.family != "minhash":
        from stream_dedup.fingerprint.scheme import Scheme  # loads the compiler, which the default family need not

        _ = Scheme(settings.fingerprint).id


@config_app.command("reference")
def print_reference() -> None:
    """Print the reference of all settings as Markdown."""
    from stream_dedup.cli.reference import reference

    typer.echo(reference(), nl=False)


@config_app.command("metrics")
def print_metrics() -> None:
    """Print the reference of all metrics as Markdown."""
    from stream_dedup.observe.reference import metrics_reference

    typer.echo(metrics_reference(), nl=False)
