"""A record that cannot be written becomes a dead letter with its bytes, without delaying the others."""

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from stream_dedup.errors import TopicError
from stream_dedup.kafka import fetch, producer
from stream_dedup.kafka.record_batch import ESCAPED, PackedBatch
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.setup import fix_topics
from tests.harness.check import assert_exactly_once, header, outcome
from tests.harness.feed import article, feed, made_up
from tests.harness.topics import Make, administrator
from tests.worker.support import Watching, run_until, run_worker
from tests.worker.test_partitions import places

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def compact(settings: Settings) -> None:
    alter(settings, settings.topics.output, "cleanup.policy", "compact")


def alter(settings: Settings, topic: str, name: str, value: object) -> None:
    with administrator(settings) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: str(value)})])


def noise(size: int) -> str:
    """A text that does not compress, and resembles no other."""
    return os.urandom(size).hex(" ", 4)


def keyless(settings: Settings, sent: Sequence[Any]) -> set[str]:
    return {f"{settings.topics.input}/{record.partition}/{record.offset}" for record in sent if record.key is None}


def test_a_record_without_a_key_for_a_compacted_output_costs_no_reopening(settings: Settings) -> None:
    compact(settings)
    sent = feed(settings, [(key if i % 2 else None, value) for i, (key, value) in enumerate(made_up(40))])
    recorder = run_until(settings, 40)
    assert recorder.openings == 1
    came = outcome(settings)
    assert set(places(came.dead_letters)) == keyless(settings, sent)
    assert {header(record, "dedup-reason") for record in came.dead_letters} == {"refused"}
    assert sum(places(came.every).values()) == 40


@pytest.mark.parametrize("role", ["output", "changelog"])
def test_a_topic_whose_limit_is_lowered_while_the_worker_runs_ends_it_with_the_command(make: Make, role: str) -> None:
    """As at a start: with such a limit records would become dead letters that the input took. Each record of the output
    is within the limit, but not the batch, which the client would split: the transaction would wait in vain.
    """
    settings = make(worker={"session_timeout": "10s"})  # on a busy machine a shorter one may end in between
    topic, records = getattr(settings.topics, role), list(made_up(20))
    sent = feed(settings, records[:10])

    def change(recorder: Watching) -> None:
        if recorder.judged == 10:
            alter(settings, topic, "max.message.bytes", 1500)
            sent.extend(feed(settings, records[10:]))

    recorder = Watching(20, change)
    with pytest.raises(TopicError) as ended:
        run_worker(settings, recorder)
    assert "MessageSizeTooLargeError" in str(recorder.errors[0])
    says = (
        rf"{re.escape(topic)} takes .*max.message.bytes is 1500, and must be \d+; fix it with: stream-dedup topics fix"
    )
    assert re.search(says, str(ended.value), re.MULTILINE)
    assert fix_topics(settings)
    run_until(settings, 10)
    assert not assert_exactly_once(settings, sent).dead_letters


class _Raw(str):
    """A header name that encodes to bytes which are not UTF-8."""

    __slots__ = ()

    def encode(self, *_: Any) -> bytes:
        return b"\xff\xfename"


def raw(settings: Settings, topic: str) -> list[Any]:
    """The records of partition 0 of a topic, whose header names kafka-python takes for damage."""
    place = TopicPartition(topic, 0)
    config = {"bootstrap_servers": settings.kafka.bootstrap_servers, "isolation_level": "read_committed"}
    with closing(KafkaConsumer(**config)) as consumer:
        fetch.install(consumer)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        records: list[Any] = []
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            records += consumer.poll(500).get(place, [])
        return records


def test_a_record_with_a_header_name_that_is_not_utf8_is_a_dead_letter_with_its_bytes(
    settings: Settings,
) -> None:
    feed(settings, made_up(5))
    producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers)
    value, headers = article("x", "A text of its own."), [("before", b"1"), (_Raw("?"), b"\x00\xff"), ("ü", b"2")]
    producer.send(settings.topics.input, value, b"odd", headers, partition=0, timestamp_ms=77).get(10)
    producer.close()
    feed(settings, made_up(5, seed=2))
    recorder = run_until(settings, 11)
    assert recorder.openings == 1
    [dead] = raw(settings, settings.topics.dead_letters)
    assert (dead.key, dead.value, dead.timestamp) == (b"odd", value, 77)
    names = [(name.encode(errors=ESCAPED), content) for name, content in dead.headers]
    assert names[:3] == [(b"before", b"1"), (b"\xff\xfename", b"\x00\xff"), ("ü".encode(), b"2")]
    assert header(dead, "dedup-reason") == "header"
    assert header(dead, "dedup-source") == f"{settings.topics.input}/0/5"
    others = [*raw(settings, settings.topics.output), *raw(settings, settings.topics.duplicates)]
    assert len(places(others)) == 10


POISON = b"POISON"


def damage_batches(monkeypatch: pytest.MonkeyPatch, is_damaged: Callable[[Sequence[Any]], bool]) -> None:
    """Damage batches of these records from now on: the broker refuses them and names no record."""
    original = producer.batch_builder

    def builder(packed: PackedBatch, compression: int, batch_bytes: int) -> Any:
        body = b"\xff" * len(packed.body) if is_damaged(packed.records) else packed.body
        return original(packed._replace(body=body), compression, batch_bytes)

    monkeypatch.setattr("stream_dedup.kafka.producer.batch_builder", builder)


@pytest.mark.slow
def test_a_record_that_damages_its_batch_is_isolated(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    damage_batches(monkeypatch, lambda records: any(POISON in (one.value or b"") for one in records))
    sent = feed(settings, [*made_up(15), (b"bad", article("bad", POISON.decode())), *made_up(8, seed=2)])
    recorder = run_until(settings, len(sent), seconds=240)
    came = outcome(settings)
    [dead] = came.dead_letters
    assert (dead.key, header(dead, "dedup-reason"), header(dead, "dedup-source")) == (
        b"bad",
        "refused",
        f"{settings.topics.input}/0/15",
    )
    assert places(came.every) == Counter(f"{settings.topics.input}/0/{one.offset}" for one in sent)
    assert recorder.stuck_times >= 3, "the third failure of the batch, and each of its halves"
    errors = [record for record in caplog.records if record.levelname == "ERROR" and "in a row" in record.getMessage()]
    assert "records have failed 3 times in a row" in errors[0].message
    assert "It becomes a dead letter; partition/offset: 0/15" in errors[-1].message
