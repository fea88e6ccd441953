"""`stream-dedup config`: the settings in force and the generated references.

    show        every effective setting with its origin: default, file or environment
    reference   the reference of all settings as Markdown; committed as config/reference.md
    metrics     the reference of all metrics as Markdown; committed as config/metrics.md

The text comes from cli/reference.py and observe/catalogue.py.
"""

import json
import os
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from stream_dedup.cli.common import ConfigOption, JsonOption, new_console
from stream_dedup.cli.console import print_table

if TYPE_CHECKING:
    from stream_dedup.settings import Settings

config_app = typer.Typer(
    help="Show the settings in force and the references.", no_args_is_help=True, rich_markup_mode=None
)


@config_app.command()
def show(
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print each effective setting and its origin.

    Secrets print as stars.
    """
    from stream_dedup.cli.reference import effective, to_toml
    from stream_dedup.settings import load_settings

    settings = load_settings(config)
    _check_scheme(settings)
    rows = effective(settings, config, os.environ)
    if as_json:
        tables: dict[str, dict[str, object]] = {}
        for row in rows:
            entry = {"value": row.value, "origin": row.origin, "source": row.source or None}
            tables.setdefault(row.table, {})[row.name] = entry
        typer.echo(json.dumps(tables, ensure_ascii=False, indent=2))
        return
    shown = []
    for row in rows:
        origin = row.origin if not row.source else f"{row.origin}: {row.source}"
        style = "dim" if row.origin == "default" else "bold"
        cells = f"{row.table}.{row.name}", to_toml(row.value) or "unset", origin
        shown.append([Text(cell, style) for cell in cells])
    print_table(new_console(), ("setting", "value", "origin"), shown)


def _check_scheme(settings: "Settings") -> None:
    """Raise ConfigError if `layout`, `hamming` or `idf` are not usable, as `run` would."""
    if settings.fingerprint.family != "minhash":
        from stream_dedup.fingerprint.scheme import Scheme  # imports numba; the default family needs no check

        _ = Scheme(settings.fingerprint).id


@config_app.command("reference")
def print_reference() -> None:
    """Print the reference of all settings as Markdown."""
    from stream_dedup.cli.reference import reference

    typer.echo(reference(), nl=False)


@config_app.command("metrics")
def print_metrics() -> None:
    """Print the reference of all metrics as Markdown."""
    from stream_dedup.observe.catalogue import metrics_reference

    typer.echo(metrics_reference(), nl=False)
