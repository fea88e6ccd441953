"""The client knows no partitions of a topic for a moment: a worker tries again, a migration leaves nothing out."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition

from stream_dedup.changelog.headers import MigrationCheckpoint
from stream_dedup.errors import MigrationError, TransactionFailed
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.runtime import Runtime, no_deadline
from stream_dedup.settings import load_settings
from stream_dedup.tools.topics.migration import Migration
from stream_dedup.worker.group import Group
from tests.worker.support import context


class Ignorant:
    """A client of kafka-python that connects, and knows nothing of topics."""

    config: Mapping[str, int] = {"fetch_max_bytes": 1}
    _fetcher = SimpleNamespace(_append=None)

    def __init__(self, partitions: Any = None) -> None:
        self._partitions = partitions

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    def partitions_for_topic(self, topic: str) -> Any:
        return self._partitions

    partitions_for = partitions_for_topic


def ignorant(partitions: Any = None) -> Runtime:
    return Runtime(make_client=lambda *_: Ignorant(partitions))


def test_a_member_of_the_group_tries_again() -> None:
    group = Group(replace(context(load_settings()), runtime=ignorant()))
    with pytest.raises(TransactionFailed, match=r"no broker knows the partitions of news\.raw at present"):
        group.partitions()
    group.leave()


@pytest.mark.parametrize("partitions", [None, set()])  # of kafka-python, by version
def test_a_commit_stands_and_the_former_numbers_of_partitions_are_used(partitions: Any) -> None:
    producer = TaskProducer({"transactional_id": "t"}, 10, no_deadline, ["news.unique"], ignorant(partitions))
    producer.commit()
    assert producer.partitions == {}
    producer.close()


def test_a_migration_does_not_take_an_unknown_topic_for_an_empty_one() -> None:
    migration = Migration(load_settings(), lambda progress: None)
    migration._consumer = Ignorant()
    with pytest.raises(MigrationError, match=r"partitions of news\.unique at present; run the migration again"):
        migration._open(MigrationCheckpoint([], False))


def test_a_partition_that_a_broker_leaves_out_is_worth_another_try_and_another_key_error_is_a_bug() -> None:
    missing = TopicPartition("news.dedup-changelog", 1)
    with pytest.raises(
        TransactionFailed, match=r"does not know partition 1 of news\.dedup-changelog\. If it was added"
    ):
        context(load_settings()).call_once("looking", lambda: {}[missing])
    with pytest.raises(KeyError) as failure:
        context(load_settings()).call_once("looking", lambda: {}["name"])
    assert failure.value.__cause__ is None, "a chain without an end, which main would follow for ever"
