"""Measure the minimal cost of exactly-once: a loop that forwards every record and does nothing else.

The loop polls, begins a transaction, sends each record and the offsets, flushes, waits for every future and commits.
It exists with kafka-python and, for comparison, with confluent-kafka (librdkafka, C). kafka-python gets the worker's
client settings, so tuned settings speed up both. The clock runs from the end of the first commit, when clients are
connected and prefetch, to the end of the last commit. It also counts the processor time of this process, which varies
less on a busy machine.
"""

import time

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata

from stream_dedup.kafka import client
from stream_dedup.settings import Settings


def kafka_python(settings: Settings, count: int) -> "Clock":
    """Forward `count` records with kafka-python; return the clock."""
    group = f"{settings.kafka.group_id}-bare"
    config = client.consumer(settings, None) | {
        "group_id": group,
        "auto_offset_reset": "earliest",
    }
    del config["partition_assignment_strategy"]  # use the client's default
    reader = KafkaConsumer(settings.topics.input, **config)
    writer = KafkaProducer(**client.producer(settings, group))
    writer.init_transactions()
    clock = Clock(count)
    while not clock.is_over:
        batches = reader.poll(200)
        if not batches:
            continue
        member = reader.group_metadata()
        writer.begin_transaction()
        futures, offsets = [], {}
        for partition, records in batches.items():
            futures += [
                writer.send(
                    settings.topics.output,
                    record.value,
                    record.key,
                    record.headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            offsets[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        writer.send_offsets_to_transaction(offsets, member)
        writer.flush()
        for future in futures:
            future.get(0)
        writer.commit_transaction()
        clock.committed(len(futures))
    reader.close()
    writer.close()
    return clock


def confluent(settings: Settings, count: int) -> "Clock":
    """Forward `count` records with confluent-kafka; return the clock."""
    import confluent_kafka  # of the extra bench; tests of the load use the rest of this module without it

    group = f"{settings.kafka.group_id}-confluent"
    common = {"bootstrap.servers": settings.kafka.bootstrap_servers}
    reader = confluent_kafka.Consumer(
        common
        | {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    reader.subscribe([settings.topics.input])
    writer = confluent_kafka.Producer(common | {"transactional.id": group, "compression.type": "lz4", "linger.ms": 5})
    writer.init_transactions()
    clock, failed = Clock(count), []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    while not clock.is_over:
        records = reader.consume(settings.worker.batch_items, 0.2)
        if not records:
            continue
        writer.begin_transaction()
        for record in records:
            writer.produce(
                settings.topics.output,
                record.value(),
                record.key(),
                record.partition(),
                on_delivery=delivered,
                timestamp=record.timestamp()[1],
                headers=record.headers() or [],
            )
        writer.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata())
        writer.flush()
        if failed:
            raise confluent_kafka.KafkaException(failed[0])
        writer.commit_transaction()
        clock.committed(len(records))
    reader.close()
    return clock


class Clock:
    """A clock of wall and processor time that runs from the end of the first commit to the end of the last."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._counted = 0
        self._start: tuple[float, float] | None = None
        self._end = (0.0, 0.0)

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    @property
    def seconds_per_item(self) -> tuple[float, float]:
        """Seconds an item: wall time, processor time."""
        if self._start is None or not self._counted:
            raise ValueError("two commits are needed to measure between them")
        (wall, cpu), (wall_end, cpu_end) = self._start, self._end
        return (wall_end - wall) / self._counted, (cpu_end - cpu) / self._counted

    def committed(self, items: int) -> None:
        self._end = time.perf_counter(), time.process_time()
        self._left -= items
        if self._start is None:
            self._start = self._end
        else:
            self._counted += items
