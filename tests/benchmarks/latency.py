"""How long until an item can be read: from when it was due to be produced to when read_committed delivers it.

The worker runs as it is deployed, `stream-dedup run` in a process of its own. This process feeds its input at a
steady rate and reads its output and duplicates topics; both with confluent-kafka, whose C threads disturb least.
A record's key is its number. It counts from the moment it was due, not from the moment it was sent, so a stall of
the feeder is not overlooked.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence

import confluent_kafka
import numpy as np
from numpy.typing import NDArray

from stream_dedup.settings import Settings
from tests.benchmarks.kafka_texts import fresh_topics

RATES = (100, 1000, 3000)
_WARM_SECONDS = 3.0  # not counted
_PATIENCE = 60.0  # seconds; a worker that cannot keep up at a rate has all of them to catch up
_TICK = 0.001


def measure_latency(bootstrap: str, records: Sequence[bytes], seconds: float) -> dict[str, float]:
    """`latency_p50_ms_RATE`, `latency_p99_ms_RATE`, `latency_max_ms_RATE`."""
    figures: dict[str, float] = {}
    for rate in RATES:
        settings = fresh_topics(bootstrap, f"bench-latency-{rate}")
        with _Running(settings):
            delays = _delays(settings, records, rate, seconds) * 1000
        for name, value in zip(("p50", "p99", "max"), np.quantile(delays, (0.5, 0.99, 1)), strict=True):
            figures[f"latency_{name}_ms_{rate}"] = float(value)
    return figures


class _Running:
    """The worker, between `with` and its end."""

    def __init__(self, settings: Settings) -> None:
        kafka, topics = settings.kafka, settings.topics
        self._environment = os.environ | {
            "STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "STREAM_DEDUP_KAFKA__GROUP_ID": kafka.group_id,
            "STREAM_DEDUP_OBSERVE__ENABLED": "false",
            **{f"STREAM_DEDUP_TOPICS__{role.upper()}": topic for role, topic in topics.model_dump().items()},
        }

    def __enter__(self) -> None:
        command = [sys.executable, "-m", "stream_dedup", "run"]
        self._process = subprocess.Popen(command, env=self._environment, stderr=subprocess.DEVNULL)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)


def _delays(settings: Settings, records: Sequence[bytes], rate: int, seconds: float) -> NDArray[np.float64]:
    """Seconds from due to readable of each counted record."""
    common = {"bootstrap.servers": settings.kafka.bootstrap_servers}
    reader = confluent_kafka.Consumer(
        common
        | {
            "group.id": "bench-latency",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    places = [confluent_kafka.TopicPartition(one, 0, 0) for one in (settings.topics.output, settings.topics.duplicates)]
    reader.assign(places)
    writer = confluent_kafka.Producer(common | {"linger.ms": 1, "compression.type": "lz4"})
    # The worker's start is not a matter of latency: one record goes through before the clock runs.
    writer.produce(settings.topics.input, _fresh(records[0], "first"), b"first", 0)
    writer.flush()
    deadline = time.perf_counter() + _PATIENCE
    while not _keys(reader, 0.1):
        if time.perf_counter() > deadline:
            raise TimeoutError("the worker let nothing through")
    warm, total = int(rate * _WARM_SECONDS), int(rate * (_WARM_SECONDS + seconds))
    read = np.full(total, np.nan)
    sent = arrived = 0
    start = time.perf_counter()
    while arrived < total:
        now = time.perf_counter()
        if now > start + total / rate + _PATIENCE:
            raise TimeoutError(f"{total - arrived} of {total} records did not arrive")
        for n in range(sent, min(total, int((now - start) * rate))):
            writer.produce(settings.topics.input, _fresh(records[n % len(records)], str(n)), str(n).encode(), 0)
            sent = n + 1
        writer.poll(0)
        keys = _keys(reader, _TICK)
        read[keys] = time.perf_counter()
        arrived += len(keys)
    reader.close()
    due = start + np.arange(total) / rate
    return (read - due)[warm:]


def _keys(reader: confluent_kafka.Consumer, seconds: float) -> list[int]:
    found = reader.consume(500, seconds)
    keys = [one.key() for one in found if one.error() is None]
    return [-1 if key == b"first" else int(key) for key in keys]


def _fresh(record: bytes, name: str) -> bytes:
    """The record under an id of its own, so that its second time round is no redelivery."""
    item = json.loads(record)
    return json.dumps(item | {"id": name}).encode()
