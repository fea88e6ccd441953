"""The broker in memory behaves as a real one: the same scenes give the same facts on both."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndMetadata

from stream_dedup.tools.demo.embedded import EmbeddedKafka
from tests.lab.model.broker import Broker
from tests.lab.model.clients import maker
from tests.lab.model.simulation import Process, Simulation

Names = Callable[[str], str]
Facts = dict[str, Any]
PATIENCE = 30.0


class OnModel:
    """kafka-python's clients on the model, within a fiber of a simulation."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        self.broker = Broker(self.simulation)
        self.make = maker(self.broker)
        self.now: Callable[[], float] = lambda: self.simulation.now
        self.pause = self.simulation.sleep

    def create(self, topic: str, **config: str) -> None:
        self.broker.create(topic, 1, config)

    def delete_before(self, place: TopicPartition, offset: int) -> None:
        self.broker.log(place).delete_before(offset)

    def run(self, scene: Callable[[Any, Names], Facts], names: Names) -> Facts:
        found: list[Facts] = []
        self.simulation.spawn("scene", Process("scene"), lambda: found.append(scene(self, names)))
        self.simulation.run(lambda: bool(found), 1000)
        return found[0]


class OnKafka:
    """The real clients on the embedded broker."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self._bootstrap = kafka.bootstrap
        self.now, self.pause = time.monotonic, time.sleep

    def make(self, kind: Any, config: dict[str, Any]) -> Any:
        return kind(bootstrap_servers=self._bootstrap, **config)

    def create(self, topic: str, **config: str) -> None:
        spec = {"num_partitions": 1, "replication_factor": 1, "configs": config}
        with closing(self.make(KafkaAdminClient, {})) as admin:
            admin.create_topics({topic: spec}, wait_for_metadata=True)

    def delete_before(self, place: TopicPartition, offset: int) -> None:
        with closing(self.make(KafkaAdminClient, {})) as admin:
            admin.delete_records({place: offset})

    def run(self, scene: Callable[[Any, Names], Facts], names: Names) -> Facts:
        return scene(self, names)


def a_producer(on: Any, name: str) -> Any:
    config = {"transactional_id": name, "transaction_timeout_ms": 20_000, "compression_type": "lz4"}
    producer = on.make(KafkaProducer, config)
    producer.init_transactions()
    return producer


def sent(producer: Any, topic: str, count: int, key: bytes | None = b"key") -> list[Any]:
    futures = [producer.send(topic, b"value", key, partition=0) for _ in range(count)]
    producer.flush(PATIENCE)
    return futures


READER = {"isolation_level": "read_committed", "enable_auto_commit": False, "auto_offset_reset": "none"}


def a_reader(on: Any, place: TopicPartition) -> Any:
    reader = on.make(KafkaConsumer, READER)
    reader.assign([place])
    return reader


def read_to(on: Any, place: TopicPartition, end: int) -> tuple[Any, list[int]]:
    """A reader whose position is at the last stable offset `end`, and the offsets of the records before it."""
    reader, read = a_reader(on, place), []
    until(on, lambda: reader.end_offsets([place])[place] == end)
    reader.seek(place, 0)

    def is_there() -> bool:
        read.extend(record.offset for records in reader.poll(100).values() for record in records)
        return bool(reader.position(place) >= end)

    until(on, is_there)
    return reader, read


def until(on: Any, condition: Callable[[], bool]) -> bool:
    end = on.now() + PATIENCE
    while not condition() and on.now() < end:
        on.pause(0.05)
    return condition()


def failure(call: Callable[[], Any]) -> str:
    """The name of the error that the call raises; of its cause if the client wraps it."""
    try:
        call()
    except kafka_errors.KafkaError as error:
        cause = next((one for one in error.args if isinstance(one, kafka_errors.KafkaError)), error)
        return type(cause).__name__
    return ""


def markers_and_the_last_stable_offset(on: Any, names: Names) -> Facts:
    """Two records and their marker, an aborted record and its marker, and a record of an open transaction."""
    topic = names("scene")
    on.create(topic)
    place, producers = TopicPartition(topic, 0), []
    for count in (2, 1, 1):
        producers.append(a_producer(on, topic))  # it aborts the open transaction of the one before
        producers[-1].begin_transaction()
        sent(producers[-1], topic, count)
        if count == 2:
            producers[-1].commit_transaction()
    admin, (reader, read) = on.make(KafkaAdminClient, {}), read_to(on, place, 5)
    facts = {
        "end": admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset,
        "stable": reader.end_offsets([place])[place],
        "read": read,
        "position": reader.position(place),
    }
    for client in (reader, admin, *producers):
        client.close(*([0] if client in producers else []))
    return facts


def a_new_producer_fences_the_old_one(on: Any, names: Names) -> Facts:
    topic = names("scene")
    on.create(topic)
    place, old = TopicPartition(topic, 0), a_producer(on, topic)
    old.begin_transaction()
    sent(old, topic, 1)
    new = a_producer(on, topic)
    new.begin_transaction()
    sent(new, topic, 1)
    new.commit_transaction()
    reader, read = read_to(on, place, 4)
    facts = {"old": failure(old.commit_transaction) != "", "read": read}
    for client in (reader, new, old):
        client.close(*([] if client is reader else [0]))
    return facts


def offsets_of_a_generation_that_is_gone(on: Any, names: Names) -> Facts:
    topic = names("scene")
    on.create(topic)
    place = TopicPartition(topic, 0)
    facts: Facts = {}
    for name, membership in (
        ("gone", ConsumerGroupMetadata(topic, 3, "nobody", None, MemberState.STABLE)),
        ("anonymous", ConsumerGroupMetadata(topic)),
    ):
        producer = a_producer(on, f"{topic}-{name}")
        producer.begin_transaction()
        offsets = {place: OffsetAndMetadata(7, "note", -1)}
        facts[name] = failure(lambda: producer.send_offsets_to_transaction(offsets, membership))  # noqa: B023
        if not facts[name]:
            producer.commit_transaction()
        producer.close(0)
    reader = on.make(KafkaConsumer, READER | {"group_id": topic})
    until(on, lambda: reader.committed(place) is not None)
    found = reader.committed(place, metadata=True)
    facts["committed"] = found.offset, found.metadata
    reader.close()
    return facts


def a_compacted_topic_takes_no_record_without_a_key(on: Any, names: Names) -> Facts:
    topic = names("scene")
    on.create(topic, **{"cleanup.policy": "compact"})
    producer = a_producer(on, topic)
    producer.begin_transaction()
    [refused] = sent(producer, topic, 1, None)
    facts = {"refused": type(refused.exception).__name__, "commit fails": failure(producer.commit_transaction) != ""}
    producer.close(0)
    return facts


def deleted_offsets_are_out_of_range(on: Any, names: Names) -> Facts:
    """Deletion past a marker too, so that the offset behind the last record is gone."""
    topic = names("scene")
    on.create(topic)
    place, producer = TopicPartition(topic, 0), a_producer(on, topic)
    producer.begin_transaction()
    sent(producer, topic, 2)
    producer.commit_transaction()
    reader = a_reader(on, place)
    until(on, lambda: reader.end_offsets([place])[place] == 3)
    on.delete_before(place, 3)
    facts: Facts = {"beginning": reader.beginning_offsets([place])[place]}
    reader.seek(place, 2)  # behind the last record, where its marker was

    def has_failed() -> bool:
        facts["behind the last record"] = failure(lambda: reader.poll(200))
        return bool(facts["behind the last record"])

    until(on, has_failed)
    reader.close()
    producer.close(0)
    return facts


SCENES: dict[Callable[[Any, Names], Facts], Facts] = {
    markers_and_the_last_stable_offset: {"end": 6, "stable": 5, "read": [0, 1], "position": 5},
    # Offsets 0 and 1 are the old producer's record and the marker that aborts it.
    a_new_producer_fences_the_old_one: {"old": True, "read": [2]},
    offsets_of_a_generation_that_is_gone: {
        "gone": "CommitFailedError", "anonymous": "", "committed": (7, "note"),
    },
    a_compacted_topic_takes_no_record_without_a_key: {"refused": "InvalidRecordError", "commit fails": True},
    deleted_offsets_are_out_of_range: {"beginning": 3, "behind the last record": "OffsetOutOfRangeError"},
}  # fmt: skip


@pytest.mark.parametrize("scene", list(SCENES), ids=lambda scene: scene.__name__)
def test_the_model_gives_these_facts(scene: Callable[[Any, Names], Facts]) -> None:
    assert OnModel().run(scene, lambda role: role) == SCENES[scene]


@pytest.mark.kafka
@pytest.mark.parametrize("scene", list(SCENES), ids=lambda scene: scene.__name__)
def test_a_real_broker_gives_them_too(
    scene: Callable[[Any, Names], Facts], kafka: EmbeddedKafka, topic_name: Names
) -> None:
    assert OnKafka(kafka).run(scene, topic_name) == SCENES[scene]
