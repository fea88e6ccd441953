"""The worker against a bare exactly-once pass-through of kafka-python: same broker, records and batch size.

The pass-through does the least that the guarantee costs: poll, send each record, offsets into the transaction,
flush, every future, commit. Both read a topic that was filled before; rounds are interleaved.
"""

import statistics
import threading
import time
from collections.abc import Sequence

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.settings import Settings, load_settings
from stream_dedup.stream import client
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.topics import create_topics
from stream_dedup.stream.worker import Worker


class _Until(Observer):
    """Stops the worker after so many items; the clock runs from the first poll that brought something."""

    def __init__(self, count: int) -> None:
        self.left, self.stop = count, threading.Event()
        self.start = self.end = 0.0

    def batch(self, report: BatchReport) -> None:
        now = time.perf_counter()
        if not self.start:
            self.start = now - sum(report.seconds.values())
        self.left -= len(report.verdicts)
        if self.left <= 0:
            self.end = now
            self.stop.set()


def _settings(kafka: EmbeddedKafka, name: str) -> Settings:
    topics = {key: f"{name}.{key}" for key in ("input", "output", "duplicates", "dead_letters", "changelog")}
    return load_settings(
        kafka={"bootstrap_servers": kafka.bootstrap, "group_id": name}, topics=topics, observe={"enabled": False}
    )


def _fill(settings: Settings, records: Sequence[bytes]) -> None:
    producer = KafkaProducer(**client.connection(settings), batch_size=client.BATCH_BYTES, compression_type="lz4")
    sent = [
        producer.send(settings.topics.input, record, partition=0, timestamp_ms=1_700_000_000_000) for record in records
    ]
    producer.flush()
    for one in sent:
        one.get(0)
    producer.close()


def _worker_seconds(settings: Settings, count: int) -> float:
    until = _Until(count)
    Worker(settings, observer=until).run(until.stop)
    return until.end - until.start


def _passthrough_seconds(settings: Settings, count: int) -> float:
    batch = settings.worker.batch_items
    reader = KafkaConsumer(
        settings.topics.input,
        **client.connection(settings),
        group_id=settings.kafka.group_id + "-bare",
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        max_poll_records=batch,
        fetch_max_bytes=settings.worker.batch_bytes,
        max_partition_fetch_bytes=settings.worker.batch_bytes,
    )
    writer = KafkaProducer(
        **client.connection(settings),
        transactional_id=settings.kafka.group_id + "-bare",
        batch_size=client.BATCH_BYTES,
        linger_ms=5,
        retry_backoff_ms=20,
        compression_type="lz4",
    )
    writer.init_transactions()
    start = 0.0
    while count > 0:
        polled = reader.poll(500)
        if not polled:
            continue
        start = start or time.perf_counter()
        writer.begin_transaction()
        sent, offsets = [], {}
        for place, records in polled.items():
            sent += [
                writer.send(settings.topics.output, one.value, one.key, partition=0, timestamp_ms=one.timestamp)
                for one in records
            ]
            offsets[TopicPartition(place.topic, place.partition)] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        writer.send_offsets_to_transaction(offsets, reader.group_metadata())
        writer.flush()
        for future in sent:
            future.get(0)
        writer.commit_transaction()
        count -= len(sent)
    end = time.perf_counter()
    reader.close()
    writer.close()
    return end - start


def measure(kafka: EmbeddedKafka, name: str, records: Sequence[bytes], rounds: int) -> dict[str, float]:
    """Items a second of both, and the worker's share of the pass-through's, round by round."""
    times: dict[str, list[float]] = {"worker": [], "passthrough": []}
    for n in range(rounds + 1):  # the first round warms the broker and is not counted
        settings = _settings(kafka, f"bench-{name}-{n}")
        create_topics(settings, 1)
        _fill(settings, records)
        pair = _worker_seconds(settings, len(records)), _passthrough_seconds(settings, len(records))
        if n:
            times["worker"].append(pair[0])
            times["passthrough"].append(pair[1])
    ratios = [b / a for a, b in zip(times["worker"], times["passthrough"], strict=True)]
    return {
        f"worker_items_per_second_{name}": len(records) / statistics.median(times["worker"]),
        f"passthrough_items_per_second_{name}": len(records) / statistics.median(times["passthrough"]),
        f"worker_vs_passthrough_{name}": statistics.median(ratios),
        f"worker_vs_passthrough_{name}_low": min(ratios),
        f"worker_vs_passthrough_{name}_high": max(ratios),
    }
