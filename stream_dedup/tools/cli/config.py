"""`stream-dedup config`: the settings in force, and the generated references.

show        every effective setting with its origin: default, file or environment
reference   the reference of all settings as Markdown; committed as config/reference.md
metrics     the reference of all metrics as Markdown; committed as config/metrics.md
"""

from __future__ import annotations

import json
import os

import click

from stream_dedup import cli
from stream_dedup.cli import ConfigOption
from stream_dedup.tools.cli.shared import JsonOption
from stream_dedup.tools.terminal import Console, print_table


def show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print each effective setting and its origin.

    Secrets print as stars.
    """
    from stream_dedup.tools.reference import effective, to_toml

    settings = cli.settings_of(config)
    tables = effective(settings, config, os.environ)
    if as_json:
        click.echo(json.dumps(tables, ensure_ascii=False, indent=2))
        return
    shown = []
    for setting, row in ((f"{table}.{name}", row) for table, rows in tables.items() for name, row in rows.items()):
        origin = f"{row['origin']}: {row['source']}" if row["source"] else row["origin"]
        cells = setting, to_toml(row["value"]) or "unset", origin
        shown.append([[(cell, "dim" if origin == "default" else "bold")] for cell in cells])
    print_table(Console(), ("setting", "value", "origin"), shown)


def print_reference() -> None:
    """Print the reference of all settings as Markdown."""
    from stream_dedup.tools.reference import reference

    click.echo(reference(), nl=False)


def print_metrics() -> None:
    """Print the reference of all metrics as Markdown."""
    from stream_dedup.tools.reference import metrics_reference

    click.echo(metrics_reference(), nl=False)


config_commands = {"show": show, "reference": print_reference, "metrics": print_metrics}
