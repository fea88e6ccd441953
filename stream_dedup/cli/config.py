"""`stream-dedup config`: the settings in force, and the generated references.

    show        every effective setting with its origin: default, file or environment
    reference   the reference of all settings as Markdown; committed as config/reference.md
    metrics     the reference of all metrics as Markdown; committed as config/metrics.md

The types, bounds, defaults and descriptions of the settings classes are the only source. tests/cli/test_config.py
compares the committed references with what is generated.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from annotated_types import MinLen
from pydantic import BeforeValidator, SecretStr
from pydantic.fields import FieldInfo
from rich.text import Text

from stream_dedup.cli.common import CleanConsole, ConfigOption, JsonOption, print_table
from stream_dedup.settings import TABLES, Settings, load_settings, read_toml, variable
from stream_dedup.settings.values import UNITS, parse_size

_STARS = "**********"  # as SecretStr prints; independent of the secret's length
config_app = typer.Typer(
    help="Show the settings in force and the references.", no_args_is_help=True, rich_markup_mode=None
)


@config_app.command()
def show(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print each effective setting and its origin.

    Secrets print as stars.
    """
    settings = load_settings(config)
    if settings.fingerprint.family != "minhash":
        from stream_dedup.fingerprint.scheme import Scheme  # imports numpy; the default family needs no check

        _ = Scheme(settings.fingerprint).id  # raises ConfigError for wrong layout, hamming or idf, as `run` would
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
    typer.echo(reference(), nl=False)


@config_app.command("metrics")
def print_metrics() -> None:
    """Print the reference of all metrics as Markdown."""
    from stream_dedup.observe.catalogue import metrics_reference

    typer.echo(metrics_reference(), nl=False)


# -- the settings in force -------------------------------------------------------------------------------


def effective(
    settings: Settings, path: Path | None, environment: Mapping[str, str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what is in force: table -> setting -> `value`, `origin` and `source`, as JSON has them.

    `settings` were loaded from `path` and `environment`. `origin`: default, file or environment; `source`: the name of
    the file or the variable.
    """
    in_file = read_toml(path) if path else {}
    found: dict[str, dict[str, dict[str, Any]]] = {table: {} for table in TABLES}
    for table, name in ((table, name) for table, fields in TABLES.items() for name in fields):
        row = {"value": plain(getattr(getattr(settings, table), name)), "origin": "default", "source": None}
        if variable_there := _source_variable(table, name, environment):
            row |= {"origin": "environment", "source": variable_there}
        elif name in in_file.get(table, {}):
            row |= {"origin": "file", "source": str(path)}
        found[table][name] = row
    return found


def _source_variable(table: str, name: str, environment: Mapping[str, str]) -> str:
    """Return the variable that sets this setting, or an entry of it, or an empty string. Case does not matter."""
    wanted = variable(table, name)
    return next((key for key in environment if f"{key.upper()}__".startswith(f"{wanted}__")), "")


def plain(value: Any) -> Any:
    """Convert a setting's value to what the file would have: text, number, boolean or table; secrets as stars.

    >>> plain(timedelta(hours=36)), plain(SecretStr("x")), plain(Path("ca.pem"))
    ('36h', '**********', 'ca.pem')
    """
    if isinstance(value, timedelta):
        return duration(value)
    if isinstance(value, SecretStr):
        return _STARS
    return os.fspath(value) if isinstance(value, Path) else value


def duration(value: timedelta) -> str:
    """Write a duration exactly, with the largest unit that gives a whole number.

    >>> duration(timedelta(days=7)), duration(timedelta(seconds=90)), duration(timedelta(0))
    ('7d', '90s', '0s')
    """
    milliseconds = round(value.total_seconds() * 1000)
    if milliseconds == 0:
        return "0s"
    sizes = ((unit, round(1000 * seconds)) for unit, seconds in reversed(UNITS.items()))
    return next(f"{milliseconds // size}{unit}" for unit, size in sizes if milliseconds % size == 0)


def to_toml(value: Any) -> str:
    """Write a value as TOML; None gives an empty string.

    >>> to_toml("36h"), to_toml(True), to_toml({"title": "head.line"}), to_toml(None)
    ('"36h"', 'true', '{ title = "head.line" }', '')
    """
    if value is None:
        return ""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {to_toml(entry)}" for key, entry in value.items()) + " }" if value else "{}"
    return json.dumps(value, ensure_ascii=False)  # TOML writes strings, numbers and booleans as JSON does


# -- the reference ---------------------------------------------------------------------------------------


def reference() -> str:
    """Return the text of config/reference.md."""
    out = [
        "# Settings",
        "",
        "Generated by `stream-dedup config reference`; the source is `stream_dedup/settings/`.",
        "",
        "Set a setting in the TOML file under its table, or in its environment variable, which wins over the file: "
        f"`{variable('kafka', 'group_id')}`, for an entry of a map `{variable('item', 'fields', 'title')}`. "
        "A duration is a number and a unit: `250ms`, `30s`, `15m`, `36h`, `7d`; so is a size: `512M`, `1.5G`. "
        "An unknown name is an error in both places. `stream-dedup config show --config FILE` shows the settings in "
        "force and their origins.",
    ]
    for table, fields in TABLES.items():
        out += ["", f"## [{table}]", "", (Settings.model_fields[table].annotation.__doc__ or "").splitlines()[0], ""]
        out += ["| setting | allowed | default | what it does |", "| --- | --- | --- | --- |"]
        for name, field in fields.items():
            computed = field.default_factory not in (None, dict)  # from the system, or from other settings
            default = "" if computed else to_toml(plain(field.get_default(call_default_factory=True)))
            cells = [f"`{name}`", allowed(field), f"`{default}`" if default else "unset", field.description or ""]
            out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(out) + "\n"


def allowed(field: FieldInfo) -> str:
    """Describe the values that a setting accepts.

    >>> allowed(Settings.model_fields["window"].annotation.model_fields["length"])
    'a duration, more than 0s'
    """
    kinds = get_args(field.annotation) if get_origin(field.annotation) in (Union, UnionType) else (field.annotation,)
    is_size = any(isinstance(rule, BeforeValidator) and rule.func is parse_size for rule in field.metadata)
    described = []
    for annotation in (kind for kind in kinds if kind is not NoneType):
        kind, metadata = annotation, list(field.metadata)
        if get_origin(annotation) is Annotated:  # one of several, with bounds of its own
            kind, *inner = get_args(annotation)
            metadata = [rule for one in inner for rule in (one.metadata if isinstance(one, FieldInfo) else [one])]
        described.append(", ".join(["a size" if is_size else _describe(kind), *_bounds(metadata, kind)]))
    return "; or ".join(described) + (", or unset" if NoneType in kinds else "")


def _describe(kind: Any) -> str:
    if get_origin(kind) is Literal:
        *others, last = (f"`{to_toml(value)}`" for value in get_args(kind))
        return f"{', '.join(others)} or {last}" if others else last
    if get_origin(kind) is tuple:
        return "a list of text"
    if get_origin(kind) is dict:
        keys, _ = get_args(kind)
        return "a table with any of " + ", ".join(f"`{key}`" for key in get_args(keys))
    words = {
        bool: "`true` or `false`",
        int: "a whole number",
        float: "a number",
        str: "text",
        SecretStr: "text, kept secret",
        Path: "a path",
        timedelta: "a duration",
    }
    return words[kind]


def _bounds(metadata: Collection[object], kind: Any) -> Iterator[str]:
    def text(value: Any) -> str:
        return duration(value) if isinstance(value, timedelta) else f"{value:,}" if kind is int else str(value)

    words = {"ge": "at least", "le": "at most", "gt": "more than", "lt": "less than"}
    found = {name: text(getattr(rule, name)) for rule in metadata for name in words if hasattr(rule, name)}
    if "ge" in found and "le" in found:
        yield f"from {found.pop('ge')} to {found.pop('le')}"
    yield from (f"{words[name]} {bound}" for name, bound in found.items())
    if any(isinstance(rule, MinLen) for rule in metadata):  # a validator's condition is in its message and description
        yield "not empty"
