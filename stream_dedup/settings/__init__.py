"""All settings: typed, validated, each with a default and a description.

`load_settings` reads a TOML file and the environment (load.py). The tables that verdicts depend on are in judging.py,
those of a worker in operation in running.py. The field descriptions are the text of config/reference.md (`stream-dedup
config reference`): write them for the person who runs the container, and say when one would change the setting. A
secret is a `SecretStr`, or the content of a file (values.py); it prints as stars in every log, page and error.
"""

from stream_dedup.settings.judging import (
    DecisionSettings,
    FingerprintSettings,
    IndexSettings,
    ItemSettings,
    PolicySettings,
    WindowSettings,
)
from stream_dedup.settings.load import PREFIX, TABLES, Settings, is_setting, load_settings, variable
from stream_dedup.settings.running import KafkaSettings, ObserveSettings, TopicSettings, WorkerSettings
from stream_dedup.settings.values import parse_duration, read_from_files, secrets_of

__all__ = [
    "PREFIX",
    "TABLES",
    "DecisionSettings",
    "FingerprintSettings",
    "IndexSettings",
    "ItemSettings",
    "KafkaSettings",
    "ObserveSettings",
    "PolicySettings",
    "Settings",
    "TopicSettings",
    "WindowSettings",
    "WorkerSettings",
    "is_setting",
    "load_settings",
    "parse_duration",
    "read_from_files",
    "secrets_of",
    "variable",
]
