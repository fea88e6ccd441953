"""The bare exactly-once loop: kafka-python forwards every record and decides nothing.

It polls, begins a transaction, sends each record and the offsets, flushes, waits for every future and commits. It has
the worker's client settings, so tuned settings speed up both. `python -m tests.lab.benchmarks.bare` runs it as a
process of its own, with settings from the environment, until it is ended.
"""

from collections.abc import Generator

from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata

from stream_dedup.kafka import client
from stream_dedup.settings import Settings, load_settings


def forward(settings: Settings) -> Generator[int, None, None]:
    """Forward records without end; yield the number of those of each transaction, once it is committed."""
    group, output = f"{settings.kafka.group_id}-bare", settings.topics.output
    config = client.consumer(settings, None) | {"group_id": group, "auto_offset_reset": "earliest"}
    del config["partition_assignment_strategy"]  # use the client's default
    reader = KafkaConsumer(settings.topics.input, **config)
    writer = KafkaProducer(**client.producer(settings, group))
    try:
        writer.init_transactions()
        while True:
            batches = reader.poll(200)
            if not batches:
                continue
            member = reader.group_metadata()
            writer.begin_transaction()
            futures, offsets = [], {}
            for partition, records in batches.items():
                futures += [
                    writer.send(output, one.value, one.key, one.headers, one.partition, one.timestamp)
                    for one in records
                ]
                offsets[partition] = OffsetAndMetadata(records[-1].offset + 1, "", -1)
            writer.send_offsets_to_transaction(offsets, member)
            writer.flush()
            for future in futures:
                future.get(0)
            writer.commit_transaction()
            yield len(futures)
    finally:
        reader.close()
        writer.close()


if __name__ == "__main__":
    for _ in forward(load_settings()):
        pass
