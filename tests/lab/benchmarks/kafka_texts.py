"""Create the topics of one measurement on a broker, fill its input before the clock starts, and start workers."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from kafka import KafkaProducer

from stream_dedup.kafka import client
from stream_dedup.settings import PREFIX, Settings, load_settings
from stream_dedup.tools.topics.setup import create_topics
from tests.harness.topics import variables_of

_ROLES = ("input", "output", "duplicates", "dead_letters", "changelog")
TIMESTAMP_MS = 1_700_000_000_000


def fresh_topics(bootstrap: str, name: str, partitions: int = 1, **kafka: Any) -> Settings:
    """Create the topics, whose names begin with `name`; return the settings of a group `name` with these topics.

    `kafka`: more settings of [kafka].
    """
    settings = load_settings(
        kafka={"bootstrap_servers": bootstrap, "group_id": name, **kafka},
        topics={role: f"{name}.{role}" for role in _ROLES},
        worker={"scope": "global" if partitions == 1 else "partition"},
        observe={"host": ""},
    )
    create_topics(settings, partitions)
    return settings


def start(settings: Settings, *module: str) -> "subprocess.Popen[bytes]":
    """Run a module with arguments (by default the worker, as deployed) in a process of its own, with these settings."""
    command = [sys.executable, "-m", *(module or ("stream_dedup", "run"))]
    environment = os.environ | variables_of(settings) | {f"{PREFIX}OBSERVE__HOST": ""}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def fill(settings: Settings, records: Sequence[bytes], timestamp_ms: int = TIMESTAMP_MS, partition: int = 0) -> None:
    """Send the records to a partition of the input topic, and wait until the broker has them."""
    producer = KafkaProducer(**client.connection(settings), batch_size=client.BATCH_BYTES, compression_type="lz4")
    futures = [
        producer.send(settings.topics.input, record, partition=partition, timestamp_ms=timestamp_ms)
        for record in records
    ]
    producer.flush()
    for future in futures:
        future.get(0)
    producer.close()
