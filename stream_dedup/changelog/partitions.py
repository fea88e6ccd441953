"""The two changelog partitions of an index, one for blocks and one for merged blocks, and their ends."""

from typing import NamedTuple

from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.record_batch import PARTITIONS


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
