"""Measure the latency from the time a record is due until a read_committed consumer receives it.

The worker runs as deployed: `stream-dedup run` in its own process. Beside it stands the floor: the bare exactly-once
loop (bare.py) in the worker's place, since the round trips of a transaction are most of it. This process feeds the
input at a steady rate and reads the output and duplicates topics, both with confluent-kafka, whose C threads disturb
least. A record's key is its number. Latency counts from the time the record was due, not from the time it was sent, so
stalls of the feeder count.
"""

import json
import time
from collections.abc import Sequence
from itertools import product

import click
import confluent_kafka
import numpy as np
from numpy.typing import NDArray

from stream_dedup.settings import Settings
from tests.broker import EmbeddedKafka
from tests.lab.benchmarks.corpus import Run
from tests.lab.benchmarks.kafka_texts import fresh_topics, start

RATES = (100, 1000, 3000)
_CONTESTANTS = {"latency": ("stream_dedup", "run"), "latency_bare": ("tests.lab.benchmarks.bare",)}
_WARM_SECONDS = 3.0  # not counted
_TIMEOUT = 60.0  # seconds that a worker has to catch up after the last record was due
_POLL_SECONDS = 0.001


def measure(run: Run) -> dict[str, float]:
    """Return `latency_p50_ms_RATE`, `latency_p99_ms_RATE` and `latency_max_ms_RATE`; the same of `latency_bare`."""
    figures: dict[str, float] = {}
    records, seconds = [record for record, _ in run.unique], 20.0 if run.full else 5.0
    with EmbeddedKafka(say=click.echo) as kafka:
        for rate, (name, module) in product(RATES, _CONTESTANTS.items()):
            settings = fresh_topics(kafka.bootstrap, f"bench-{name}-{rate}")
            process = start(settings, *module)
            try:
                delays = _delays(settings, records, rate, seconds) * 1000
            finally:
                process.terminate()
                process.wait(30)
            for part, value in zip(("p50", "p99", "max"), np.quantile(delays, (0.5, 0.99, 1)), strict=True):
                figures[f"{name}_{part}_ms_{rate}"] = float(value)
    return figures


def _delays(settings: Settings, records: Sequence[bytes], rate: int, seconds: float) -> NDArray[np.float64]:
    """Return the seconds from due to readable of each record after the warm-up."""
    common = {"bootstrap.servers": settings.kafka.bootstrap_servers}
    config = {"group.id": "bench-latency", "isolation.level": "read_committed", "enable.auto.commit": False}
    reader = confluent_kafka.Consumer(common | config | {"fetch.wait.max.ms": 10})
    outputs = (settings.topics.output, settings.topics.duplicates)
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0) for topic in outputs])
    writer = confluent_kafka.Producer(common | {"linger.ms": 1, "compression.type": "lz4"})
    # The worker's start does not count: one record passes through before the clock starts.
    writer.produce(settings.topics.input, _with_id(records[0], "first"), b"first", 0)
    writer.flush()
    deadline = time.perf_counter() + _TIMEOUT
    while not _keys(reader, 0.1):
        if time.perf_counter() > deadline:
            raise TimeoutError(f"the worker let nothing through within {_TIMEOUT:.0f} s")
    warm, total = int(rate * _WARM_SECONDS), int(rate * (_WARM_SECONDS + seconds))
    read_at = np.full(total, np.nan)
    sent = arrived = 0
    start = time.perf_counter()
    while arrived < total:
        now = time.perf_counter()
        if now > start + total / rate + _TIMEOUT:
            raise TimeoutError(f"{total - arrived} of {total} records did not arrive")
        for n in range(sent, min(total, int((now - start) * rate) + 1)):
            writer.produce(settings.topics.input, _with_id(records[n % len(records)], str(n)), str(n).encode(), 0)
            sent = n + 1
        writer.poll(0)
        keys = _keys(reader, _POLL_SECONDS)
        read_at[keys] = time.perf_counter()
        arrived += len(keys)
    reader.close()
    due = start + np.arange(total) / rate
    return (read_at - due)[warm:]


def _keys(reader: confluent_kafka.Consumer, seconds: float) -> list[int]:
    messages = reader.consume(500, seconds)
    keys = [message.key() for message in messages if message.error() is None]
    return [-1 if key == b"first" else int(key) for key in keys]


def _with_id(record: bytes, name: str) -> bytes:
    """Return the record under another id, so that its repetition is not a redelivery."""
    item = json.loads(record)
    return json.dumps(item | {"id": name}).encode()
