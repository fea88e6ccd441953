"""Copy a changelog topic into an empty one, on the same cluster or another: a back-up, and the way back.

usage: python deploy/copy_changelog.py FROM.toml TO.toml

In: two settings files; of each [kafka] says how to log in, and [topics] changelog which topic is meant. Out: the
committed records of the first in the second, with key, value, headers, timestamp and partition. Offsets differ, and
need not agree. Of each two partitions that of blocks is copied first, so that a copy that is made while workers write
has no gap: what it lacks are the last batches.
"""

import sys

from kafka import KafkaProducer

from stream_dedup.kafka import client
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.record_batch import MOST_BYTES
from stream_dedup.settings import Settings, load_settings


def copy(source: Settings, target: Settings) -> int:
    """Copy all records that are committed now; return their number. Ends the program if the target has records."""
    reader = client.make_consumer(client.changelog_reader(source), MOST_BYTES)
    writer = client.make(
        KafkaProducer,
        client.connection(target)
        | {"acks": "all", "max_request_size": MOST_BYTES, "compression_type": "lz4", "metrics_enabled": False},
    )
    topic, copied = target.topics.changelog, 0
    with_records = client.make_consumer(client.changelog_reader(target))
    try:
        numbers = sorted(reader.partitions_for_topic(source.topics.changelog) or ())
        places = [TopicPartition(topic, number) for number in numbers]
        if any(with_records.end_offsets(places).values()):
            sys.exit(f"{topic} has records: name an empty topic, with {len(numbers)} partitions")
        for number in numbers:
            place = TopicPartition(source.topics.changelog, number)
            reader.assign([place])
            reader.seek(place, reader.beginning_offsets([place])[place])
            end = reader.end_offsets([place])[place]
            while reader.position(place) < end:
                sent = [
                    writer.send(topic, one.value, one.key, list(one.headers), number, one.timestamp)
                    for one in reader.poll(500).get(place, ())
                ]
                for future in sent:
                    future.get(60)
                copied += len(sent)
    finally:
        for one in (reader, with_records):
            one.close(autocommit=False)
        writer.close()
    return copied


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(copy(load_settings(sys.argv[1]), load_settings(sys.argv[2])), "records copied")
