"""What `stream-dedup config` prints: pure functions, from `Settings` to rows and Markdown.

In: the settings' classes (their types, bounds, defaults and descriptions are the only source), and, for
`origins`, the file and the environment. Out: `Effective` rows for `config show`, and the Markdown of
`config/reference.md`. Nothing here is written by hand twice, so a reference cannot go stale unnoticed:
tests/cli/test_config.py compares the committed file with what these functions say.
"""

import json
import os
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from stream_dedup.settings import PREFIX, Settings

_STARS = "**********"  # as SecretStr prints itself; the length says nothing about the secret's
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))  # in milliseconds
Origin = Literal["default", "file", "environment"]


@dataclass(frozen=True, slots=True)
class Effective:
    """One setting as it is in force. `value` is JSON-ready, `source` names the file or the variable."""

    table: str
    name: str
    value: Any
    origin: Origin
    source: str


def fields() -> Iterator[tuple[str, type[BaseModel], str, FieldInfo]]:
    """(table, its class, name, field) of every setting, in the order of the file."""
    for table, holder in Settings.model_fields.items():
        kind = holder.annotation
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            raise TypeError(f"{table} is not a table: Settings has nothing but tables")
        for name, field in kind.model_fields.items():
            yield table, kind, name, field


def variable(table: str, name: str) -> str:
    """The environment variable of a setting.

    >>> variable("window", "length")
    'STREAM_DEDUP_WINDOW__LENGTH'
    """
    return f"{PREFIX}{table}__{name}".upper()


def effective(settings: Settings, path: Path | None, environment: Mapping[str, str]) -> list[Effective]:
    """Every setting of `settings`, which was loaded from `path` and `environment`, with its origin."""
    in_file = tomllib.loads(path.read_text("utf-8")) if path else {}
    rows = []
    for table, _, name, _ in fields():
        value = plain(getattr(getattr(settings, table), name))
        from_variable = _variable_that_sets(table, name, environment)
        if from_variable:
            rows.append(Effective(table, name, value, "environment", from_variable))
        elif name in in_file.get(table, {}):
            rows.append(Effective(table, name, value, "file", str(path)))
        else:
            rows.append(Effective(table, name, value, "default", ""))
    return rows


def _variable_that_sets(table: str, name: str, environment: Mapping[str, str]) -> str:
    """The variable from which the setting came, or nothing. Names count without regard to case, as when read."""
    own = variable(table, name)
    whole_table = f"{PREFIX}{table}".upper()
    for key, value in environment.items():
        upper = key.upper()
        if upper == own or upper.startswith(own + "__"):  # `__`: one entry of a setting that is itself a table
            return key
        if upper == whole_table and name in json.loads(value):  # a whole table as JSON; it was valid when loaded
            return key
    return ""


def plain(value: Any) -> Any:
    """A setting's value as it would be written in the file; secrets as stars.

    >>> plain(timedelta(hours=36)), plain(SecretStr("x")), plain(Path("ca.pem"))
    ('36h', '**********', 'ca.pem')
    """
    if isinstance(value, timedelta):
        return duration(value)
    if isinstance(value, SecretStr):
        return _STARS
    return os.fspath(value) if isinstance(value, Path) else value


def duration(value: timedelta) -> str:
    """The shortest way to write a duration without losing any of it.

    >>> duration(timedelta(days=7)), duration(timedelta(seconds=90)), duration(timedelta(0))
    ('7d', '90s', '0s')
    """
    milliseconds = round(value.total_seconds() * 1000)
    if milliseconds == 0:
        return "0s"
    unit, size = next((unit, size) for unit, size in _UNITS if milliseconds % size == 0)
    return f"{milliseconds // size}{unit}"


def written(value: Any) -> str:
    """A value as TOML writes it; nothing for an unset one.

    >>> written("36h"), written(True), written({"title": "head.line"}), written(None)
    ('"36h"', 'true', '{ title = "head.line" }', '')
    """
    if value is None:
        return ""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {written(one)}" for key, one in value.items()) + " }" if value else "{}"
    return json.dumps(value, ensure_ascii=False)  # TOML's strings, numbers and booleans are written like JSON's


# -- the reference ---------------------------------------------------------------------------------------


def reference() -> str:
    """config/reference.md."""
    out = [
        "# Settings",
        "",
        "Generated by `stream-dedup config reference`; the source is `stream_dedup/settings.py`.",
        "",
        "A setting is written in the TOML file under its table, or given in its environment variable, which wins. "
        "A duration is a number and a unit: `250ms`, `30s`, `15m`, `36h`, `7d`. An unknown name is an error in "
        "both places. `stream-dedup config show --config FILE` says what is in force and where it comes from.",
    ]
    current = ""
    for table, kind, name, field in fields():
        if table != current:
            current = table
            out += ["", f"## [{table}]", "", (kind.__doc__ or "").strip().splitlines()[0], ""]
            out += ["| setting | allowed | default | environment | what it does |", "| --- | --- | --- | --- | --- |"]
        default = written(plain(field.get_default(call_default_factory=True, validated_data={})))
        cells = [f"`{name}`", allowed(field), f"`{default}`" if default else "unset"]
        cells += [f"`{variable(table, name)}`", field.description or ""]
        out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(out) + "\n"


def allowed(field: FieldInfo) -> str:
    """What may be written for a setting, in words.

    >>> allowed(Settings.model_fields["window"].annotation.model_fields["length"])
    'a duration, more than 0s'
    """
    kind, optional = _unwrap(field.annotation)
    words = ", ".join([_kind(kind), *_limits(field.metadata, kind)])
    return words + (", or unset" if optional else "")


def _unwrap(annotation: Any) -> tuple[Any, bool]:
    """(type, may be unset) of an annotation such as `Literal["a", "b"] | None`."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [one for one in get_args(annotation) if one is not type(None)]
        return rest[0], len(rest) < len(get_args(annotation))
    return annotation, False


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        *others, last = (f"`{written(one)}`" for one in get_args(kind))
        return f"{', '.join(others)} or {last}" if others else last
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


def _limits(metadata: Iterable[object], kind: Any) -> Iterator[str]:
    def show(value: Any) -> str:
        return duration(value) if isinstance(value, timedelta) else f"{value:,}" if kind is int else str(value)

    least = next((one.ge for one in metadata if isinstance(one, Ge)), None)
    most = next((one.le for one in metadata if isinstance(one, Le)), None)
    if least is not None and most is not None:
        yield f"from {show(least)} to {show(most)}"
    elif least is not None:
        yield f"at least {show(least)}"
    elif most is not None:
        yield f"at most {show(most)}"
    for one in metadata:  # what a validator asks is not here: its own message and the description say it
        if isinstance(one, Gt):
            yield f"more than {show(one.gt)}"
        elif isinstance(one, Lt):
            yield f"less than {show(one.lt)}"
        elif isinstance(one, MinLen):
            yield "not empty"
