"""`Settings`, all tables together, and `load_settings`, which reads them from a TOML file and the environment.

The environment wins over the file: `STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS=host:9092` sets `bootstrap_servers` in the
table `[kafka]`. Unknown names, in the file or the environment, are errors that name the closest setting. A message has
one line a problem, in the words of the settings file, without secret values.
"""

import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self, get_origin

from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from stream_dedup.errors import ConfigError
from stream_dedup.settings.judging import (
    DecisionSettings,
    FingerprintSettings,
    IndexSettings,
    ItemSettings,
    PolicySettings,
    WindowSettings,
)
from stream_dedup.settings.running import KafkaSettings, ObserveSettings, TopicSettings, WorkerSettings

PREFIX = "STREAM_DEDUP_"


class Settings(BaseSettings):
    """All settings. Call `load_settings` to get them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
    )

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    item: ItemSettings = ItemSettings()
    window: WindowSettings = WindowSettings()
    fingerprint: FingerprintSettings = FingerprintSettings()
    decision: DecisionSettings = DecisionSettings()
    policy: PolicySettings = PolicySettings()
    index: IndexSettings = IndexSettings()
    worker: WorkerSettings = Field(default_factory=WorkerSettings)  # asks the system, so not at import
    observe: ObserveSettings = ObserveSettings()
    _path: Path | None = None

    @property
    def config_option(self) -> str:
        """The option with which a command reads the same settings file, to append to it; empty without a file."""
        return f" --config {shlex.quote(str(self._path))}" if self._path is not None else ""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other tables. They were validated; to do it again would read the environment again."""
        for name, table in (update or {}).items():
            if name not in TABLES:
                raise TypeError(f"there is no table [{name}]")
            if not isinstance(table, kind := type(getattr(self, name))):
                raise TypeError(f"[{name}] is a {kind.__name__}, not a {type(table).__name__}")
        return super().model_copy(update=update, deep=deep)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The environment wins over the file, whose tables are the init arguments.
        return env_settings, init_settings


TABLES: dict[str, dict[str, FieldInfo]] = {
    name: table.annotation.model_fields
    for name, table in Settings.model_fields.items()
    if isinstance(table.annotation, type) and issubclass(table.annotation, BaseModel)
}
"""The fields of each table, by name, in the order of the reference."""


def variable(*names: str) -> str:
    """The environment variable of a table, a setting or an entry.

    >>> variable("window", "length")
    'STREAM_DEDUP_WINDOW__LENGTH'
    """
    return PREFIX + "__".join(names).upper()


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
    """Return whether an environment variable that begins with `PREFIX` sets something: a setting, or an entry of a map.

    >>> [is_setting(name) for name in ("STREAM_DEDUP_ITEM__FIELDS__URL", "STREAM_DEDUP_ITEM__FIELDS")]
    [True, False]
    """
    table, *rest = name[len(PREFIX) :].lower().split("__")
    field = TABLES.get(table, {}).get(rest[0]) if rest else None
    return field is not None and len(rest) == (2 if get_origin(field.annotation) is dict else 1)


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


# -- messages ---------------------------------------------------------------------------------------------


def explain(error: ValidationError, path: Path | None, prefix: tuple[str, ...] = ()) -> str:
    """Describe each problem of a validation error on a line of its own, without pydantic's vocabulary.

    `path` is the settings file; `prefix` are the names that lead to the validated table.
    """
    lines = []
    for problem in error.errors(include_url=False, include_input=False):
        if problem["type"] == "default_factory_not_called":  # it follows from a setting that is wrong itself
            continue
        names = [*prefix, *(str(part) for part in problem["loc"] if part != "[key]")]
        setting = "[" + names[0] + "]" + (" " + ".".join(names[1:]) if names[1:] else "") if names else "settings"
        message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        if problem["type"] == "extra_forbidden":
            message = unknown_setting(names)
        elif names[:2] == ["item", "fields"] and problem["type"] == "literal_error":
            message += ' (ours is on the left, yours on the right, such as title = "head.line")'
        elif problem["type"] == "dict_type":
            message = 'must be a table, such as { name = "value" }'
        elif problem["type"] == "model_type":
            message = f"this is a table: write [{names[0]}] and its settings below it"
        origin = f" (from {variable(*names)})" if variable(*names) in os.environ else ""
        lines.append(f"{setting}: {message}{origin}")
    return f"settings{f' in {path}' if path else ''} are not usable:\n  " + "\n  ".join(lines)


def unknown_setting(names: Sequence[str]) -> str:
    """The message for an unknown table (one name) or an unknown setting in a table (two or more names).

    >>> unknown_setting(["kafka", "bootstrap_server"])
    'there is no such setting (did you mean [kafka] bootstrap_servers?); see `stream-dedup config reference`'
    >>> unknown_setting(["input"])
    'there is no such setting (did you mean [topics] input?); see `stream-dedup config reference`'
    """
    last = names[-1]
    if len(names) == 1:
        similar = [f"[{match}]" for match in get_close_matches(last.lower(), TABLES, n=1)]
    else:
        matches = get_close_matches(last.lower(), TABLES.get(names[0], []), n=1)
        similar = [f"[{names[0]}] {match}" for match in matches]
    similar += [f"[{table}] {last}" for table, fields in TABLES.items() if last in fields]
    hint = f" (did you mean {' or '.join(similar)}?)" if similar else ""
    return f"there is no such setting{hint}; see `stream-dedup config reference`"
