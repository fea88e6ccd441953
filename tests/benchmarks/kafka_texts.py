"""Topics of one measurement on a broker: settings, topics, and an input topic filled before the clock runs."""

from collections.abc import Sequence
from typing import Any

from kafka import KafkaProducer

from stream_dedup.settings import Settings, load_settings
from stream_dedup.stream import client
from stream_dedup.stream.topics import create_topics

_ROLES = ("input", "output", "duplicates", "dead_letters", "changelog")
_TIME = 1_700_000_000_000


def fresh_topics(bootstrap: str, name: str, **kafka: Any) -> Settings:
    """Settings of a group and five topics of this name, which are made; `kafka`: more of the table [kafka]."""
    settings = load_settings(
        kafka={"bootstrap_servers": bootstrap, "group_id": name, **kafka},
        topics={role: f"{name}.{role}" for role in _ROLES},
        observe={"enabled": False},
    )
    create_topics(settings, 1)
    return settings


def fill(settings: Settings, records: Sequence[bytes], moment: int = _TIME) -> None:
    producer = KafkaProducer(**client.connection(settings), batch_size=client.BATCH_BYTES, compression_type="lz4")
    sent = [producer.send(settings.topics.input, record, partition=0, timestamp_ms=moment) for record in records]
    producer.flush()
    for one in sent:
        one.get(0)
    producer.close()
