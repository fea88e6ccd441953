"""The two partitions of the changelog topic that belong to an index, and where they end."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.admin import OffsetSpec

from stream_dedup.changelog.limits import PARTITIONS


class Places(NamedTuple):
    """The partition of blocks and the partition of merged blocks (entries.py)."""

    blocks: TopicPartition
    folds: TopicPartition


def places_of(topic: str, index: int) -> Places:
    """The partitions of the index with this number: two neighbours, so that the input topic can gain partitions.

    >>> [one.partition for one in places_of("news.dedup-changelog", 3)]
    [6, 7]
    """
    return Places(TopicPartition(topic, PARTITIONS * index), TopicPartition(topic, PARTITIONS * index + 1))


def end_of(make_admin: Callable[[], Any], partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The log end offset of each, committed or not. `make_admin` returns a KafkaAdminClient."""
    admin = make_admin()
    try:
        offsets = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        return {one: int(offsets[one].offset) for one in partitions}
    finally:
        admin.close()
