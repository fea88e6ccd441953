"""All settings: typed, validated, each with a default and a description.

A setting comes from a TOML file or from the environment, which wins: `STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS=host:9092`
sets `bootstrap_servers` in the table `[kafka]`. An unknown name is an error that names the closest setting. An error
message has one line for each problem, in the words of the settings file, without secret values.

A new setting is a field with its type, bounds and default in the class of its table, and its description as the
docstring below. The tables that verdicts depend on are in judging.py, those of programs that run for long in
running.py. A setting in [fingerprint] that changes fingerprints also goes into the id of a scheme
(fingerprint/scheme.py). One that goes has a row of `REMOVED`. The descriptions become config/reference.md
(`stream-dedup config reference`): write them for the person who runs the container, and say when one would change the
setting. A secret is a `SecretStr`, or the content of a file (base.py); it prints as stars in every log, page and error.
"""

import os
import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, cast, get_origin

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from stream_dedup.errors import ConfigError
from stream_dedup.settings.base import Table, parse_duration, secrets_of
from stream_dedup.settings.judging import (
    SOURCE_RULES,
    DecisionSettings,
    FingerprintSettings,
    IndexSettings,
    ItemSettings,
    PolicySettings,
    SourceSettings,
    WindowSettings,
)
from stream_dedup.settings.running import (
    FeedsSettings,
    KafkaSettings,
    ObserveSettings,
    RegistrySettings,
    TopicSettings,
    WorkerSettings,
)

__all__ = [
    "PREFIX", "REMOVED", "SOURCE_RULES", "TABLES", "DecisionSettings", "FeedsSettings", "FingerprintSettings",
    "IndexSettings", "ItemSettings", "KafkaSettings", "ObserveSettings", "PolicySettings", "RegistrySettings",
    "Settings", "SourceSettings", "TopicSettings", "WindowSettings", "WorkerSettings", "is_setting",
    "load_settings", "parse_duration", "read_toml", "secrets_of", "service_variables", "variable",
]  # fmt: skip

PREFIX = "STREAM_DEDUP_"
_MISSPELT_PREFIX = "STREAMDEDUP_"


class Settings(Table):
    """All settings. `load_settings` reads them; `Settings()` has the defaults."""

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    registry: RegistrySettings = RegistrySettings()
    item: ItemSettings = ItemSettings()
    window: WindowSettings = WindowSettings()
    fingerprint: FingerprintSettings = FingerprintSettings()
    decision: DecisionSettings = DecisionSettings()
    policy: PolicySettings = PolicySettings()
    sources: SourceSettings = SourceSettings()
    index: IndexSettings = IndexSettings()
    worker: WorkerSettings = Field(default_factory=WorkerSettings)  # asks the system, so not at import
    observe: ObserveSettings = ObserveSettings()
    feeds: FeedsSettings = FeedsSettings()
    _path: Path | None = None

    @property
    def config_option(self) -> str:
        """The option with which a command reads the same settings file, to append to it; empty without a file."""
        return f" --config {shlex.quote(str(self._path))}" if self._path is not None else ""


TABLES: dict[str, dict[str, FieldInfo]] = {
    name: cast("type[Table]", table.annotation).model_fields for name, table in Settings.model_fields.items()
}
"""The fields of each table, by name, in the order of the reference."""


def variable(*names: str) -> str:
    """The environment variable of a table, a setting or an entry.

    >>> variable("window", "length")
    'STREAM_DEDUP_WINDOW__LENGTH'
    """
    return PREFIX + "__".join(names).upper()


def load_settings(path: str | Path | None = None, **overrides: dict[str, Any]) -> Settings:
    """Load settings: the defaults, then the TOML file at `path`, then the environment, then `overrides` by table.

    Raises ConfigError, which names the file or the variable, the setting, the problem and the cure.

    >>> load_settings(window={"length": "36h"}).window.length.total_seconds() / 3600
    36.0
    """
    path = Path(path) if path is not None else None
    tables = read_toml(path) if path is not None else {}
    for names, text in _read_environment().items():
        _put(tables, text, *names)
    for table, values in overrides.items():
        for name, value in values.items():
            _put(tables, value, table, name)
    try:
        settings = Settings.model_validate(tables)
    except ValidationError as error:
        raise ConfigError(_explain(error, path, overrides)) from None
    if settings.item.has_fingerprints != (settings.fingerprint.family == "given"):
        raise ConfigError(
            "[item] fields.fingerprint and [fingerprint] family = 'given' belong together: the first names the field, "
            "the second compares it; set both or neither"
        )
    if settings.registry.url and settings.item.preset == "text":
        raise ConfigError("[registry] url would not be used: [item] preset = 'text' takes each value as it is")
    settings._path = path
    return settings


def _put(tables: Any, value: Any, *names: str) -> None:
    """Set an entry of nested tables. A value in the place of a table stays, and validation refuses it."""
    *outer, last = names
    for name in outer:
        tables = tables.setdefault(name, {})
        if not isinstance(tables, dict):
            return
    tables[last] = value


def read_toml(path: Path) -> dict[str, Any]:
    """Read a settings file, with or without the byte order mark of Windows' editors. Raises ConfigError."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read the settings file {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"cannot read the settings file {path}: it is not UTF-8 (byte {error.start}); save it as UTF-8"
        ) from None
    except ValueError as error:  # TOMLDecodeError, or Python's limit on the digits of a number
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: its arrays or tables are nested too deeply") from None


def _read_environment() -> dict[tuple[str, ...], str]:
    """Return what the variables set: table, setting and entry -> text. Raises ConfigError for an unknown one."""
    foreign = service_variables()
    ours = [name for name in os.environ if name.upper().startswith(PREFIX) and name not in foreign]
    unknown = [name for name in ours if not is_setting(name)] + list(filter(_has_misspelt_prefix, os.environ))
    if unknown:
        variables = [variable(table, name) for table, fields in TABLES.items() for name in fields]
        similar = [match for name in unknown for match in get_close_matches(name.upper(), variables, n=1, cutoff=0.8)]
        hint = f" (did you mean {', '.join(similar)}?)" if similar else ""
        if gone := [removed.cure for name in unknown if (removed := REMOVED.get(_names_of(name)))]:
            raise ConfigError(f"{', '.join(sorted(unknown))}: this setting is gone: {'; '.join(gone)}")
        raise ConfigError(
            f"unknown setting in the environment: {', '.join(sorted(unknown))}{hint}; "
            f"the form is {PREFIX}TABLE__NAME, see `stream-dedup config reference`"
        )
    # A variable that was made of a file (`kubectl create secret --from-file`) ends as the file does.
    return {_names_of(name): os.environ[name].rstrip("\r\n") for name in ours}


_OF_SERVICE = re.compile(
    r"(?:\w+?_)??(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_PROTO|_PORT|_ADDR)?|(PORT))", re.I
)


def service_variables() -> list[str]:
    """Return the variables that Kubernetes derives from a Service whose name begins with stream-dedup.

    They are not settings: STREAM_DEDUP_SERVICE_HOST, STREAM_DEDUP_PORT=tcp://10.0.0.1:80,
    STREAM_DEDUP_PORT_80_TCP_ADDR.
    """
    return [
        name
        for name, value in os.environ.items()
        if name.upper().startswith(PREFIX)
        and not is_setting(name)
        and (match := _OF_SERVICE.fullmatch(name[len(PREFIX) :]))
        and (match[1] is None or "://" in value)  # a port alone is a misspelt setting
    ]


def _has_misspelt_prefix(name: str) -> bool:
    """Return whether a variable was meant to begin with `PREFIX`.

    The variables that Kubernetes derives from a Service named streamdedup, such as STREAMDEDUP_SERVICE_HOST, were not.
    """
    rest = name.upper().removeprefix(_MISSPELT_PREFIX)
    return rest != name.upper() and ("__" in rest or rest.lower() in TABLES)


def is_setting(name: str) -> bool:
    """Return whether an environment variable that begins with `PREFIX` sets something: a setting, or an entry of a map.

    >>> [is_setting(name) for name in ("STREAM_DEDUP_ITEM__FIELDS__URL", "STREAM_DEDUP_ITEM__FIELDS")]
    [True, False]
    """
    table, *rest = _names_of(name)
    field = TABLES.get(table, {}).get(rest[0]) if rest else None
    return field is not None and len(rest) == (2 if get_origin(field.annotation) is dict else 1)


def _names_of(variable_name: str) -> tuple[str, ...]:
    return tuple(variable_name[len(PREFIX) :].lower().split("__"))


class Removed(NamedTuple):
    """A setting of earlier versions. constant: the value that it has for all now, as saved states have it."""

    constant: object
    cure: str


_SHINGLES = "a shingle is three words or five characters; for short posts write shingles = 'letters'"
_HEADLINES = "headlines have 2 bands of 3 rows; leave it out"
_KEYS = "the 16 anchors find every pair that plain deduplication asks for; leave it out"
_WEIGHTS = "each shingle counts as often as it occurs; leave it out"
_PLAIN = "for plain deduplication write jaccard = 0.8, or the body that you had; else leave it out"
REMOVED: dict[tuple[str, ...], Removed] = {
    ("registry", "token"): Removed(None, "write it as password, without a user"),
    ("registry", "token_file"): Removed(None, "name the file in password_file, without a user"),
    ("item", "format"): Removed("json", "for plain texts write preset = 'text'; else leave it out"),
    ("item", "fingerprint"): Removed(None, "write it as fields.fingerprint"),
    ("item", "list"): Removed(
        None,
        "write it as query; a name with other characters than letters, digits and _ stands in quotation marks there, "
        "as in query = 'data.\"news-items\"'",
    ),
    ("window", "future"): Removed(
        "3600000ms", "it is an hour, and what is further ahead gets the current time; leave it out"
    ),
    ("fingerprint", "seed"): Removed(
        1, "all hash functions have one seed; against people who write colliding items set salt"
    ),
    ("fingerprint", "headline_bands"): Removed(2, _HEADLINES),
    ("fingerprint", "headline_rows"): Removed(3, _HEADLINES),
    ("fingerprint", "shingle_words"): Removed(3, _SHINGLES),
    ("fingerprint", "shingle_letters"): Removed(0, _SHINGLES),
    ("fingerprint", "shingle_characters"): Removed(5, _SHINGLES),
    ("fingerprint", "chinese"): Removed(
        "characters", "characters agree with readers as well as words; leave it out, and the extra `chinese` too"
    ),
    ("fingerprint", "layout"): Removed(
        "5 choose 2",
        "it follows from hamming, '5 choose 2' up to 3 and '8 choose 2' up to 6; for '4 choose 1' write family = "
        "'compact'",
    ),
    ("fingerprint", "bits"): Removed(
        64, "fingerprints have 64 bits; 128 took more than twice the memory, for no more recall"
    ),
    ("fingerprint", "features"): Removed("shingles", "unlike texts share single words; shingles vote; leave it out"),
    ("fingerprint", "weights"): Removed("tf", _WEIGHTS),
    ("fingerprint", "idf"): Removed(None, _WEIGHTS),
    ("fingerprint", "body_bins"): Removed(128, "for fewer errors than 128 bins make write verify = 'exact'"),
    ("fingerprint", "anchors"): Removed(16, "16 find nearly all that people call copies; leave it out"),
    ("fingerprint", "body_bands"): Removed(0, _KEYS),
    ("fingerprint", "body_rows"): Removed(4, _KEYS),
    ("decision", "rule"): Removed("novelty", _PLAIN),
    ("decision", "body"): Removed(0.5, _PLAIN),
    ("index", "bucket_limit"): Removed(
        24,
        "a key gives 24; with 64 no more copies were found, and items of a template took half as long again; leave it "
        "out",
    ),
    ("observe", "enabled"): Removed(None, "to serve nothing write host = ''"),
    ("observe", "health_port"): Removed(None, "health has the port after `port`; choose port so that both are free"),
    ("observe", "log_format"): Removed(None, "the log is text on a terminal and JSON elsewhere; leave it out"),
}
"""The settings of earlier versions."""


# -- messages ---------------------------------------------------------------------------------------------


def _explain(error: ValidationError, path: Path | None, overrides: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe each problem of a validation error on its own line, without pydantic's vocabulary."""
    lines = []
    for problem in error.errors(include_url=False, include_input=False):
        if problem["type"] == "default_factory_not_called":  # it follows from a setting that is wrong itself
            continue
        names = [str(part) for part in problem["loc"] if part != "[key]"]
        setting = f"[{names[0]}] {'.'.join(names[1:])}".rstrip()
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
        if len(names) > 1 and names[1] in overrides.get(names[0], ()):
            origin = " (given as an option)" if path else ""  # without a file it can come from nowhere else
        lines.append(f"{setting}: {message}{origin}")
    return f"settings{f' in {path}' if path else ''} are not usable:\n  " + "\n  ".join(lines)


def unknown_setting(names: Sequence[str]) -> str:
    """Return the message for an unknown table (one name), or an unknown setting in a table (two or more names).

    >>> unknown_setting(["kafka", "bootstrap_server"])
    'there is no such setting (did you mean [kafka] bootstrap_servers?); see `stream-dedup config reference`'
    >>> unknown_setting(["input"])
    'there is no such setting (did you mean [topics] input?); see `stream-dedup config reference`'
    """
    if removed := REMOVED.get(tuple(names)):
        return f"this setting is gone: {removed.cure}"
    last, known = names[-1], TABLES.get(names[0], {}) if names[1:] else TABLES
    closest = get_close_matches(last.lower(), known, n=1)
    similar = [f"[{names[0]}] {match}" if names[1:] else f"[{match}]" for match in closest]
    similar += [f"[{table}] {last}" for table, fields in TABLES.items() if last in fields]
    hint = f" (did you mean {' or '.join(similar)}?)" if similar else ""
    return f"there is no such setting{hint}; see `stream-dedup config reference`"
