"""Secrets: each is a setting or the content of a file, and this process remembers those it has read.

A secret `x` of a table has two settings: `x` for the environment, and `x_file` for a file, as Docker and Kubernetes
mount secrets. The file is read again for each use, so a replaced file takes effect without a restart. The log and the
status page replace the secrets of the settings (`secrets_of`), and all that files have had (`read_from_files`), by
stars.
"""

import logging
from pathlib import Path
from typing import Any

from pydantic import SecretStr, model_validator

from stream_dedup.errors import ConfigError
from stream_dedup.settings.values import Table

log = logging.getLogger(__name__)

_FILE = "_file"
# A text may show a secret that has been replaced since. Each line of the log is searched for all of them, and tokens
# are replaced every few minutes, so only the last ones are kept: those of some hours at least.
_MOST = 100
_from_files: dict[str, None] = {}  # oldest first
_last_read: dict[Path, str] = {}


def read_from_files() -> frozenset[str]:
    """Return the secrets that this process has read from files, the last ones that have been replaced included."""
    return frozenset(_from_files)


class SecretTable(Table):
    """A table with secrets."""

    @classmethod
    def secret_names(cls) -> list[str]:
        """Return the settings that are secrets."""
        return [name for name in cls.model_fields if name + _FILE in cls.model_fields]

    @model_validator(mode="after")
    def _secret_files_are_usable(self) -> "SecretTable":
        for name in self.secret_names():
            path = getattr(self, name + _FILE)
            if path is None:
                continue
            if getattr(self, name):
                raise ValueError(f"{name} and {name}{_FILE} are both set; keep one of them")
            _last_read[path] = _read(path, name + _FILE)
        return self

    def has_secret(self, name: str) -> bool:
        """Return whether the secret is set, in its setting or by a file."""
        return bool(getattr(self, name)) or getattr(self, name + _FILE) is not None

    def secret(self, name: str) -> str | None:
        """Read the secret; None if it is not set. Raises ConfigError for a file that could never be read."""
        path, value = getattr(self, name + _FILE), getattr(self, name)
        if path is not None:
            try:
                text = _read(path, name + _FILE)
            except ValueError as error:
                if path not in _last_read:
                    raise ConfigError(str(error)) from None
                log.warning("%s; the secret that it had before is used", error)
                text = _last_read[path]
            _last_read[path] = text
            for secret in (text, *text.splitlines()):  # a file of several keys has one in each line
                _from_files.pop(secret, None)
                _from_files[secret] = None
            for oldest in list(_from_files)[:-_MOST]:
                _from_files.pop(oldest, None)
            return text
        return value.get_secret_value() if isinstance(value, SecretStr) and value else None


def secrets_of(tables: Any) -> list[str]:
    """Read every secret of these tables (a `Settings`)."""
    found = [
        table.secret(name) for _, table in tables if isinstance(table, SecretTable) for name in table.secret_names()
    ]
    return [line for secret in found if secret for line in dict.fromkeys([secret, *secret.splitlines()])]


def _read(path: Path, setting: str) -> str:
    """Read a file without the newline that editors put at the end. Raises ValueError with place and cure."""
    try:
        text = path.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(
            f"{setting}: cannot read {path} ({error.strerror}); mount the secret there, readable for this user"
        ) from None
    except UnicodeDecodeError:  # its text shows a byte of the secret
        raise ValueError(f"{setting}: {path} is not UTF-8 text; write the secret itself into it") from None
    if not text:
        raise ValueError(f"{setting}: {path} is empty; write the secret into it")
    return text
