"""The least that exactly-once costs: what a team would write that forwards every record and does nothing else.

Poll, begin, send each record, the offsets, flush, every future, commit: with kafka-python, and with confluent-kafka
(librdkafka, C), for the record. kafka-python gets the very client settings of the worker, so what is tuned there
speeds both. The clock runs from the end of the first commit, when all is connected and fetches run ahead, to the
end of the last; it counts the processor's time of this process too, which a busy machine changes less.
"""

import time

import confluent_kafka
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata

from stream_dedup.settings import Settings
from stream_dedup.stream import client


def kafka_python(settings: Settings, count: int) -> "Clock":
    """The clock of `count` records."""
    group = f"{settings.kafka.group_id}-bare"
    config = client.consumer(settings, None) | {"group_id": group, "auto_offset_reset": "earliest"}
    del config["partition_assignment_strategy"]  # the client's own
    reader = KafkaConsumer(settings.topics.input, **config)
    writer = KafkaProducer(**client.producer(settings, group))
    writer.init_transactions()
    clock = Clock(count)
    while not clock.over:
        polled = reader.poll(200)
        if not polled:
            continue
        member = reader.group_metadata()
        writer.begin_transaction()
        sent, offsets = [], {}
        for place, records in polled.items():
            sent += [
                writer.send(
                    settings.topics.output,
                    one.value,
                    one.key,
                    one.headers,
                    partition=one.partition,
                    timestamp_ms=one.timestamp,
                )
                for one in records
            ]
            offsets[place] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        writer.send_offsets_to_transaction(offsets, member)
        writer.flush()
        for future in sent:
            future.get(0)
        writer.commit_transaction()
        clock.committed(len(sent))
    reader.close()
    writer.close()
    return clock


def confluent(settings: Settings, count: int) -> "Clock":
    """The clock of `count` records."""
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

    def delivered(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        if error is not None:
            failed.append(error)

    while not clock.over:
        records = reader.consume(settings.worker.batch_items, 0.2)
        if not records:
            continue
        writer.begin_transaction()
        for one in records:
            writer.produce(
                settings.topics.output,
                one.value(),
                one.key(),
                one.partition(),
                on_delivery=delivered,
                timestamp=one.timestamp()[1],
                headers=one.headers() or [],
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
    """Seconds from the end of the first commit to the end of the last, on the wall and of the processor."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._counted = 0
        self._start: tuple[float, float] | None = None
        self._end = (0.0, 0.0)

    @property
    def over(self) -> bool:
        return self._left <= 0

    @property
    def an_item(self) -> tuple[float, float]:
        """Seconds of an item: wall, processor."""
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
