"""The two changelog partitions of an index, one for blocks and one for merged blocks, and their ends."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.admin import OffsetSpec

from stream_dedup.changelog.limits import PARTITIONS


class IndexPartitions(NamedTuple):
    """The partition of blocks and the partition of merged blocks (entries.py)."""

    blocks: TopicPartition
    merged: TopicPartition


def index_partitions(topic: str, index: int) -> IndexPartitions:
    """The partitions of the index with this number: two neighbours, so that the input topic can gain partitions.

    >>> [one.partition for one in index_partitions("news.dedup-changelog", 3)]
    [6, 7]
    """
    return IndexPartitions(TopicPartition(topic, PARTITIONS * index), TopicPartition(topic, PARTITIONS * index + 1))


def log_end_offsets(admin: Any, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The log end offset of each, committed or not. `admin`: a KafkaAdminClient."""
    offsets = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    return {partition: int(offsets[partition].offset) for partition in partitions}
