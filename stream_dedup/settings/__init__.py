"""All settings: typed, validated, each with a default and a description.

`load_settings` reads a TOML file and the environment. Each table of the file has its own module. The field descriptions
are the text of config/reference.md (`stream-dedup config reference`): write them for the person who runs the container.
A secret is a `SecretStr`, or the content of a file (secrets.py); it prints as stars in every log, page and error.
"""

from stream_dedup.settings.decision import DecisionSettings, PolicySettings
from stream_dedup.settings.fingerprint import FingerprintSettings
from stream_dedup.settings.index import IndexSettings
from stream_dedup.settings.item import ItemSettings
from stream_dedup.settings.kafka import KafkaSettings
from stream_dedup.settings.load import is_setting, load_settings
from stream_dedup.settings.observe import ObserveSettings
from stream_dedup.settings.schema import PREFIX, TABLES, Settings, variable
from stream_dedup.settings.secrets import SecretTable, read_from_files, secrets_of
from stream_dedup.settings.topics import TopicSettings
from stream_dedup.settings.values import Duration, Share, parse_duration
from stream_dedup.settings.window import WindowSettings
from stream_dedup.settings.worker import WorkerSettings

__all__ = [
    "PREFIX",
    "TABLES",
    "DecisionSettings",
    "Duration",
    "FingerprintSettings",
    "IndexSettings",
    "ItemSettings",
    "KafkaSettings",
    "ObserveSettings",
    "PolicySettings",
    "SecretTable",
    "Settings",
    "Share",
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
