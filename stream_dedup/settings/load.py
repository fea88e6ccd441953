"""Load `Settings` from a TOML file and the environment.

The environment wins over the file: `STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS=host:9092` sets `bootstrap_servers` in the
table `[kafka]`. Unknown names, in the file or the environment, are errors that name the closest setting.
"""

import json
import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import SettingsError

from stream_dedup.errors import ConfigError
from stream_dedup.settings.messages import explain, unknown_setting
from stream_dedup.settings.schema import PREFIX, TABLES, Settings, variable

_MISSPELT_PREFIX = "STREAMDEDUP_"


def load_settings(path: str | Path | None = None, **overrides: dict[str, Any]) -> Settings:
    """Load settings: the defaults, then the TOML file at `path`, then the environment, then `overrides` by table.

    Raises ConfigError, which names the file or the variable, the setting, the problem and the cure.

    >>> load_settings(window={"length": "36h"}).window.length.total_seconds() / 3600
    36.0
    """
    path = Path(path) if path is not None else None
    tables = _read_toml(path) if path is not None else {}
    _refuse_unknown_variables()
    try:
        settings = _override(Settings(**tables), overrides)
    except ValidationError as error:
        raise ConfigError(explain(error, path)) from None
    except (SettingsError, RecursionError) as error:  # the text names the table and shows no value
        raise ConfigError(_invalid_json() or f"settings in the environment cannot be read: {error}") from None
    settings._path = path
    _check_across_tables(settings)
    return settings


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the settings file {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read the settings file {path}: {error}") from None
    except ValueError as error:  # TOMLDecodeError, or Python's limit on the digits of a number
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: its arrays or tables are nested too deeply") from None


def _refuse_unknown_variables() -> None:
    unknown = sorted(
        name
        for name in os.environ
        if (name.upper().startswith(PREFIX) and not is_setting(name)) or _has_misspelt_prefix(name)
    )
    if not unknown:
        return
    variables = [variable(table, name) for table, fields in TABLES.items() for name in fields]
    similar = [match for name in unknown for match in get_close_matches(name.upper(), variables, n=1, cutoff=0.8)]
    hint = f" (did you mean {', '.join(similar)}?)" if similar else ""
    raise ConfigError(
        f"unknown setting in the environment: {', '.join(unknown)}{hint}; "
        f"the form is {PREFIX}TABLE__NAME, see `stream-dedup config reference`"
    )


def _has_misspelt_prefix(name: str) -> bool:
    """Return whether a variable was meant to begin with `PREFIX`.

    Not those that Kubernetes derives from a Service named streamdedup, such as STREAMDEDUP_SERVICE_HOST.
    """
    rest = name.upper().removeprefix(_MISSPELT_PREFIX)
    return rest != name.upper() and ("__" in rest or rest.lower() in TABLES)


def is_setting(name: str) -> bool:
    """Return whether an environment variable that begins with `PREFIX` sets something."""
    table, *rest = _parts(name)
    if table not in TABLES:
        return False
    if not rest:
        return True
    field = TABLES[table].get(rest[0])
    return field is not None and (len(rest) == 1 or _is_map(field))  # only a map has entries to set


def _parts(name: str) -> list[str]:
    return name[len(PREFIX) :].lower().split("__")


def _is_map(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is dict


def _invalid_json() -> str:
    """Name the variable that sets a whole table but is not JSON; the message shows no value, which may be secret."""
    for name, value in sorted(os.environ.items()):
        if not name.upper().startswith(PREFIX):
            continue
        table, *rest = _parts(name)
        if not rest or (len(rest) == 1 and _is_map(TABLES[table][rest[0]])):
            try:
                json.loads(value)
            except (ValueError, RecursionError):
                return (
                    f"{name} stands for a whole table and must be JSON, such as "
                    f'\'{{"NAME": "value"}}\'; or set its entries one by one: {name}__NAME=value'
                )
    return ""


def _override(settings: Settings, overrides: dict[str, dict[str, Any]]) -> Settings:
    tables: dict[str, BaseModel] = {}
    for name, table in overrides.items():
        if name not in TABLES:
            raise ConfigError(f"[{name}]: {unknown_setting([name])}")
        current = getattr(settings, name)
        try:
            tables[name] = current.model_copy(update=table)
        except ValidationError as error:
            raise ConfigError(explain(error, None, (name,))) from None
    return settings.model_copy(update=tables)


def _check_across_tables(settings: Settings) -> None:
    if (settings.item.fingerprint is None) == (settings.fingerprint.family == "given"):
        raise ConfigError(
            "[item] fingerprint and [fingerprint] family = 'given' belong together: the first names the field, the "
            "second compares it; set both or neither"
        )
