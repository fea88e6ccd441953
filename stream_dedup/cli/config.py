"""`stream-dedup config`: the settings in force, and the generated references.

show        every effective setting with its origin: default, file or environment
reference   the reference of all settings as Markdown; committed as config/reference.md
metrics     the reference of all metrics as Markdown; committed as config/metrics.md
"""

from __future__ import annotations

import json
import os

import typer
from rich.text import Text

from stream_dedup.cli import common
from stream_dedup.cli.common import CleanConsole, ConfigOption, JsonOption, print_table

config_app = common.command_group()


@config_app.command()
def show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print each effective setting and its origin.

    Secrets print as stars.
    """
    from stream_dedup.settings.reference import effective, to_toml

    settings = common.settings_of(config)
    tables = effective(settings, config, os.environ)
    if as_json:
        typer.echo(json.dumps(tables, ensure_ascii=False, indent=2))
        return
    shown = []
    for setting, row in ((f"{table}.{name}", row) for table, rows in tables.items() for name, row in rows.items()):
        origin = f"{row['origin']}: {row['source']}" if row["source"] else row["origin"]
        cells = setting, to_toml(row["value"]) or "unset", origin
        shown.append([Text(cell, "dim" if origin == "default" else "bold") for cell in cells])
    print_table(CleanConsole(), ("setting", "value", "origin"), shown)


@config_app.command("reference")
def print_reference() -> None:
    """Print the reference of all settings as Markdown."""
    from stream_dedup.settings.reference import reference

    typer.echo(reference(), nl=False)


@config_app.command("metrics")
def print_metrics() -> None:
    """Print the reference of all metrics as Markdown."""
    from stream_dedup.observe.catalogue import metrics_reference

    typer.echo(metrics_reference(), nl=False)
