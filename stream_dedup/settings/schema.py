"""`Settings`: all tables together, and the environment variable of each setting."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from stream_dedup.settings.decision import DecisionSettings, PolicySettings
from stream_dedup.settings.fingerprint import FingerprintSettings
from stream_dedup.settings.index import IndexSettings
from stream_dedup.settings.item import ItemSettings
from stream_dedup.settings.kafka import KafkaSettings
from stream_dedup.settings.observe import ObserveSettings
from stream_dedup.settings.topics import TopicSettings
from stream_dedup.settings.window import WindowSettings
from stream_dedup.settings.worker import WorkerSettings

PREFIX = "STREAM_DEDUP_"


class _SortedEnvironment(EnvSettingsSource):
    """Environment variables, read in sorted order.

    pydantic-settings lets a variable of a whole table replace the entries that it read before. Without sorting,
    ITEM__FIELDS would win over ITEM__FIELDS__TITLE or not, depending on the order of the process's environment.
    """

    def explode_env_vars(self, field_name: str, field: FieldInfo, env_vars: Mapping[str, str | None]) -> dict[str, Any]:
        return super().explode_env_vars(field_name, field, dict(sorted(env_vars.items())))


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
        return _SortedEnvironment(settings_cls), init_settings


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
