"""What every table of settings builds on: value types (duration, size, share), the base class `Table`, and secrets.

A secret `x` of a table has two settings: `x` for the environment, and `x_file` for a file, as Docker and Kubernetes
mount secrets. The file is read again for each use, so a replaced file takes effect without a restart. The log and the
status page show stars in place of the secrets of the settings (`secrets_of`) and of all secrets that were read from
files (phrases.SECRETS_READ).
"""

import logging
import math
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from stream_dedup.errors import ConfigError
from stream_dedup.phrases import SECRETS_READ

log = logging.getLogger(__name__)

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LARGEST = 10**15  # more than any machine has, and exact in a float
_KIBI = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_duration(value: Any) -> Any:
    """Parse a duration such as '7d', '36h', '90s' or '250ms'; return anything but text and numbers as it is.

    >>> parse_duration("36h")
    datetime.timedelta(days=1, seconds=43200)
    """
    match = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|[smhd])", value.strip()) if isinstance(value, str) else None
    if match:
        try:
            return timedelta(seconds=float(match[1]) * UNITS[match[2]])
        except OverflowError:
            raise ValueError("this duration is too long; a window is usually a few days") from None
    if isinstance(value, str | int | float):  # a number without a unit is ambiguous
        raise ValueError("write a duration as a number and a unit: 250ms, 30s, 15m, 36h, 7d")
    return value


def parse_size(value: Any) -> Any:
    """Parse a size such as '1.5G'; K, M, G and T are powers of 1024. Return anything but text as it is.

    >>> parse_size("1.5G"), parse_size("512Mi"), parse_size(1048576)
    (1610612736, 536870912, 1048576)
    """
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)i?B?", value.strip(), re.I | re.A)
    size = float(match[1]) * _KIBI[match[2].upper()] if match else math.inf
    if size > _LARGEST:
        raise ValueError("write a size as a number and K, M, G or T: 512M, 1.5G")
    return int(size)


Size = Annotated[int, BeforeValidator(parse_size)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Share = Annotated[float, Field(ge=0, le=1)]


class Table(BaseModel):
    """The base of a table of the TOML file. An unknown name in it is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, validated like those of a file; pydantic's copy takes any name and value.

        Only explicit values are copied: a default that follows from another setting is derived again.
        """
        explicit = {name: getattr(self, name) for name in self.model_fields_set}
        copy = type(self).model_validate(explicit | dict(update or {}))
        copy.__pydantic_private__ = self.__pydantic_private__
        return copy


# -- secrets ----------------------------------------------------------------------------------------------

FILE = "_file"
# A text may show a secret that has been replaced since. Each line of the log is searched for every secret, and tokens
# are replaced every few minutes, so only the last ones are kept: those of some hours at least.
_MOST = 100
_last_read: dict[Path, str] = {}


class SecretTable(Table):
    """A table with secrets."""

    @classmethod
    def secret_names(cls) -> list[str]:
        """Return the settings that are secrets."""
        return [name for name in cls.model_fields if name + FILE in cls.model_fields]

    @model_validator(mode="after")
    def _secret_files_are_usable(self) -> "SecretTable":
        for name in self.secret_names():
            path = getattr(self, name + FILE)
            if path is None:
                continue
            if getattr(self, name):
                raise ValueError(f"{name} and {name}{FILE} are both set; keep one of them")
            _last_read[path] = _read(path, name + FILE)
        return self

    def has_secret(self, name: str) -> bool:
        """Return whether the secret is set, in its setting or by a file."""
        return bool(getattr(self, name)) or getattr(self, name + FILE) is not None

    def secret(self, name: str) -> str | None:
        """Read the secret; None if it is not set. Raises ConfigError for a file that could never be read."""
        path, value = getattr(self, name + FILE), getattr(self, name)
        if path is not None:
            try:
                text = _read(path, name + FILE)
            except ValueError as error:
                if path not in _last_read:
                    raise ConfigError(str(error)) from None
                log.warning("%s; the secret that it had before is used", error)
                text = _last_read[path]
            _last_read[path] = text
            for secret in (text, *text.splitlines()):  # a file of several keys has one in each line
                SECRETS_READ.pop(secret, None)
                SECRETS_READ[secret] = None
            for oldest in list(SECRETS_READ)[:-_MOST]:
                SECRETS_READ.pop(oldest, None)
            return text
        return value.get_secret_value() if isinstance(value, SecretStr) and value else None


def secrets_of(tables: Any) -> list[str]:
    """Read every secret of these tables (a `Settings`)."""
    secrets = [
        table.secret(name) for _, table in tables if isinstance(table, SecretTable) for name in table.secret_names()
    ]
    return [line for secret in secrets if secret for line in dict.fromkeys([secret, *secret.splitlines()])]


def _read(path: Path, setting: str) -> str:
    """Read a file without what editors add: a mark of UTF-8 and a last newline. Raises ValueError with the cure."""
    try:
        text = path.read_text("utf-8-sig").rstrip("\r\n")
    except OSError as error:
        raise ValueError(
            f"{setting}: cannot read {path} ({error.strerror}); mount the secret there, readable for this user"
        ) from None
    except UnicodeDecodeError:  # its text shows a byte of the secret
        raise ValueError(f"{setting}: {path} is not UTF-8 text; write the secret itself into it") from None
    if not text:
        raise ValueError(f"{setting}: {path} is empty; write the secret into it")
    return text
