"""A consumer without a group: the base class of `TopicReader` and `LiveReader`, which commands use.

`TopicReader` reads stored records, `LiveReader` follows a topic. Both assign partitions by hand, so no consumer group
appears. They commit and write nothing, and return committed records only.
"""

import sys
from typing import Any, Self

from kafka import TopicPartition
from kafka.errors import KafkaError

from stream_dedup.errors import TopicError
from stream_dedup.kafka import client
from stream_dedup.settings import Settings

# Per partition and response; a larger record comes all the same (KIP-74). Some 250 articles of 4 KB.
_FETCH_BYTES = 2**20


class StandaloneReader:
    """Use it in a `with`. `most_of_record`: as of `make_consumer`. Raises StreamError where Kafka cannot be read."""

    def __init__(self, settings: Settings, most_of_record: int = sys.maxsize) -> None:
        self._servers = settings.kafka.bootstrap_servers
        config = client.changelog_reader(settings) | {"max_partition_fetch_bytes": _FETCH_BYTES}
        try:
            self._consumer: Any = client.make_consumer(config, most_of_record)
        except KafkaError as error:
            raise client.not_reached(error, settings) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def _find_partitions(self, topic: str) -> list[TopicPartition]:
        """Raises TopicError for a topic that does not exist."""
        try:
            partitions = self._consumer.partitions_for_topic(topic)
        except KafkaError as error:
            raise client.translate(error, f"reading {topic}") from error
        if not partitions:
            raise TopicError(f"there is no topic {topic} at {self._servers}, or this user may not see it")
        return [TopicPartition(topic, number) for number in sorted(partitions)]
