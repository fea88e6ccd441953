"""Copy a changelog topic into an empty one, on the same cluster or another: a backup, and the way back.

Each settings file says how to log in ([kafka]), and which topic is meant ([topics] changelog). The committed records of
the first topic go to the second with key, value, headers, timestamp and partition; their offsets may differ. The
partition of blocks is copied before that of merged blocks. So a copy that is made while workers write has no gap: it
lacks only the last batches.
"""

from stream_dedup.changelog import MOST_BYTES
from stream_dedup.errors import TopicError
from stream_dedup.kafka import client, errors
from stream_dedup.kafka.client import KafkaProducer, TopicPartition
from stream_dedup.kafka.runtime import make_consumer
from stream_dedup.settings import Settings


def copy(source: Settings, target: Settings) -> int:
    """Copy all records that are committed now; return their number. Raises TopicError if the target has records."""
    with errors.translated(f"copying {source.topics.changelog}"):
        return _copy(source, target)


def _copy(source: Settings, target: Settings) -> int:
    reader = make_consumer(client.changelog_reader(source), MOST_BYTES)
    writer = client.make(
        KafkaProducer,
        client.connection(target)
        | {"acks": "all", "max_request_size": MOST_BYTES, "compression_type": "lz4", "metrics_enabled": False},
    )
    topic, copied = target.topics.changelog, 0
    target_reader = make_consumer(client.changelog_reader(target))
    try:
        numbers = sorted(reader.partitions_for_topic(source.topics.changelog) or ())
        places = [TopicPartition(topic, number) for number in numbers]
        if any(target_reader.end_offsets(places).values()):
            raise TopicError(f"{topic} has records: name an empty topic, with {len(numbers)} partitions")
        for number in numbers:
            place = TopicPartition(source.topics.changelog, number)
            reader.assign([place])
            reader.seek(place, reader.beginning_offsets([place])[place])
            end = reader.end_offsets([place])[place]
            while reader.position(place) < end:
                futures = [
                    writer.send(topic, record.value, record.key, list(record.headers), number, record.timestamp)
                    for record in reader.poll(500).get(place, ())
                ]
                for future in futures:
                    future.get(60)
                copied += len(futures)
    finally:
        for consumer in (reader, target_reader):
            consumer.close(autocommit=False)
        writer.close()
    return copied
