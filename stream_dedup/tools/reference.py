"""Describe the settings: those in force with their origins, and as Markdown the references of settings and metrics.

The types, bounds, defaults and docstrings of the settings classes, and the catalogue of metrics, are the only source. A
test compares the committed config/reference.md and config/metrics.md with what is generated here.
"""

import ast
import inspect
import json
import os
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_origin

from annotated_types import MinLen
from pydantic import BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from stream_dedup.settings import TABLES, Settings, read_toml, variable
from stream_dedup.settings.base import FILE, UNITS, Table, parse_size

if TYPE_CHECKING:
    from stream_dedup.observe.catalogue import Spec

MOST_SET = (
    "kafka.bootstrap_servers", "topics.input", "item.fields", "window.length", "decision.novelty", "policy.shadow",
    "worker.memory", "observe.host",
)  # fmt: skip
"""The settings that people set, with which the reference begins, and which config/stream-dedup.toml has."""
_STARS = "**********"  # as SecretStr prints; independent of the secret's length


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


# -- the settings in force -------------------------------------------------------------------------------


def effective(
    settings: Settings, path: Path | None, environment: Mapping[str, str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return each setting in force: table -> setting -> `value`, `origin` and `source`, as in JSON.

    `settings` were loaded from `path` and `environment`. `origin`: default, file or environment; `source`: the name of
    the file or the variable.
    """
    in_file = read_toml(path) if path else {}
    tables: dict[str, dict[str, dict[str, Any]]] = {table: {} for table in TABLES}
    for table, name in ((table, name) for table, fields in TABLES.items() for name in fields):
        row = {"value": plain(getattr(getattr(settings, table), name)), "origin": "default", "source": None}
        if variable_there := _source_variable(table, name, environment):
            row |= {"origin": "environment", "source": variable_there}
        elif name in in_file.get(table, {}):
            row |= {"origin": "file", "source": str(path)}
        tables[table][name] = row
    return tables


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


def descriptions(table: str) -> dict[str, str]:
    """Return what each setting of a table does: the docstring below it, in the source of the table's class.

    >>> descriptions("window")["length"][:35]
    'How long an original is remembered.'
    """
    [cls] = ast.parse(inspect.getsource(_class_of(table))).body
    documented = {
        field.target.id: " ".join(text.value.value.split())
        for field, text in pairwise(getattr(cls, "body", ()))
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
    return {name: field.description or documented.get(name, "") for name, field in TABLES[table].items()}


def _class_of(table: str) -> type[Table]:
    return cast("type[Table]", Settings.model_fields[table].annotation)


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
        "An unknown name is an error in both places. A secret may stand in a file, as Kubernetes mounts them: "
        "the setting with `_file` has its name, and the file is read again for each use. `stream-dedup config show "
        "--config FILE` shows the settings in force and their origins.",
        "",
        "Most people set these; [config/stream-dedup.toml](stream-dedup.toml) has them to start from:",
        "",
        *_HEAD,
    ]
    for setting in MOST_SET:
        table, name = setting.split(".")
        out.append(
            _row(
                f"[`{setting}`](#{table})",
                TABLES[table][name],
                descriptions(table)[name].split(". ")[0].rstrip(".") + ".",
            )
        )
    for table, fields in TABLES.items():
        described = descriptions(table)
        out += ["", f"## [{table}]", "", (_class_of(table).__doc__ or "").splitlines()[0], ""]
        out += _HEAD
        secrets = {name for name in fields if f"{name}{FILE}" in fields}
        for name, field in fields.items():
            if name.removesuffix(FILE) in secrets and name not in secrets:
                continue  # the same setting, by the name of a file
            both = f"`{name}`" + (f", `{name}{FILE}`" if name in secrets else "")
            out.append(_row(both, field, described[name]))
    return "\n".join(out) + "\n"


_HEAD = ["| setting | allowed | default | what it does |", "| --- | --- | --- | --- |"]


def _row(name: str, field: FieldInfo, description: str) -> str:
    computed = field.default_factory not in (None, dict)  # from the system, or from other settings
    default = "" if computed else to_toml(plain(field.get_default(call_default_factory=True)))
    cells = [name, allowed(field), f"`{default}`" if default else "unset", description]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


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
    bounds = {name: text(getattr(rule, name)) for rule in metadata for name in words if hasattr(rule, name)}
    if "ge" in bounds and "le" in bounds:
        yield f"from {bounds.pop('ge')} to {bounds.pop('le')}"
    yield from (f"{words[name]} {bound}" for name, bound in bounds.items())
    if any(isinstance(rule, MinLen) for rule in metadata):  # a validator's condition is in its message and description
        yield "not empty"


# -- the metrics ----------------------------------------------------------------------------------------

_METRICS = """\
# Metrics

Generated by `stream-dedup config metrics`; the source is `stream_dedup/observe/catalogue.py`.

Served at `/metrics` in the text formats of Prometheus and OpenMetrics, on `[observe] host` and `port`. \
The usual `process_` metrics are there too. A histogram has `_bucket`, `_sum` and `_count`.

| metric | type | labels | meaning, and what to do |
| --- | --- | --- | --- |
"""


def metrics_reference() -> str:
    """Return the text of config/metrics.md; a test compares the two."""
    from stream_dedup.observe.catalogue import CATALOGUE  # imports arrays, which `config show` does without

    return _METRICS + "".join(map(_metric, CATALOGUE))


def _metric(spec: "Spec") -> str:
    labels = "; ".join(
        f"`{name}`: {values if isinstance(values, str) else ', '.join(f'`{value}`' for value in values)}"
        for name, values in spec.labels.items()
    )
    cells = [f"`{spec.name}`", spec.kind, labels or "none", spec.help]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
