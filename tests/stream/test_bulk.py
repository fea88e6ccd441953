"""Batches put together here are those that kafka-python makes, and none is lost without a word."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.future import FutureProduceResult
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import Refused, TransactionFailed
from stream_dedup.stream import client
from stream_dedup.stream.bounded import no_hurry
from stream_dedup.stream.bulk import Sent, builder, pack, size_bound, varint
from stream_dedup.stream.producer import LaneProducer, _by_partition
from stream_dedup.stream.transaction import Outgoing
from tests.stream.support import make_settings, read_all, ready

BATCH = 2000
LZ4 = DefaultRecordBatchBuilder.CODEC_LZ4

contents = st.binary(max_size=300)
records = st.builds(
    Outgoing,
    st.just("out"),
    st.just(0),
    st.none() | contents,
    st.none() | contents,
    st.lists(st.tuples(st.text(max_size=9) | st.text("ab", min_size=60, max_size=70), contents), max_size=3),
    st.integers(0, 2**42),
)


def appended(some: Sequence[Outgoing]) -> Any:
    """The batch that kafka-python makes of these records, one by one."""
    batch = MemoryRecordsBuilder(2, LZ4, 2**30)
    for one in some:
        assert batch.append(one.timestamp, one.key, one.value, one.headers) is not None
    return batch


@given(st.lists(records, min_size=1, max_size=30))
def test_a_batch_has_the_bytes_that_the_client_would_write(some: list[Outgoing]) -> None:
    packed = list(pack(some, BATCH))
    assert [one for each in packed for one in each.records] == some
    for each in packed:
        ours, theirs = builder(each, LZ4, BATCH), appended(each.records)
        assert len(each.body) + DefaultRecordBatchBuilder.header_size_in_bytes() <= BATCH
        assert ours.next_offset() == theirs.next_offset()
        for batch in (ours, theirs):
            batch.set_producer_state(7, 1, 40, True)
            batch.close()
        assert bytes(ours.buffer()) == bytes(theirs.buffer())
        read = list(MemoryRecords(bytes(ours.buffer())).next_batch())
        assert [(one.key, one.value, one.timestamp) for one in read] == [
            (one.key, one.value, one.timestamp) for one in each.records
        ]


@given(records)
def test_no_batch_of_one_record_is_larger_than_its_bound(record: Outgoing) -> None:
    assert appended([record]).size_in_bytes() <= size_bound(record)


@given(st.integers(-(2**62), 2**62))
def test_a_number_is_written_as_the_client_writes_it(value: int) -> None:
    from kafka.record.util import encode_varint

    out = bytearray()
    encode_varint(value, out.append)
    assert varint(value) == bytes(out)


def test_a_partition_keeps_its_order_round_what_goes_alone() -> None:
    def one(partition: int | None, number: int, size: int = 1) -> Outgoing:
        return Outgoing("out", partition, None, b"x" * size, [], number)

    some = [one(0, 0), one(1, 1), one(0, 2), one(0, 3, size=BATCH), one(0, 4), one(None, 5), one(1, 6)]
    groups = [(partition, [r.timestamp for r in group]) for partition, group in _by_partition(some, BATCH)]
    assert groups == [(0, [0, 2]), (1, [1]), (None, [3]), (0, [4]), (None, [5]), (1, [6])]


def answered(answer: Any) -> Sent:
    future = FutureProduceResult(TopicPartition("out", 0))
    if answer is not None:
        future.success(answer)
    return Sent([Outgoing("out", 0, None, b"x", [], 0, source) for source in (4, 5, 6)], future)


def test_an_acknowledged_batch_has_no_errors() -> None:
    assert answered((17, -1, None)).errors() == []


def test_p1_a_batch_without_an_answer_is_an_error() -> None:
    assert [type(error) for error in answered(None).errors()] == [kafka_errors.KafkaTimeoutError] * 3


def test_p1_an_expired_batch_is_an_error() -> None:
    expired = kafka_errors.KafkaTimeoutError("Expiring 3 record(s)")
    assert answered((-1, -1, lambda _: expired)).errors() == [expired] * 3


def test_of_a_refused_batch_the_record_is_named_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = kafka_errors.KafkaError("part of a batch which had invalid records")

    def error_of(place: int) -> Exception:
        return kafka_errors.InvalidTimestampError("too old") if place == 1 else beside

    producer = LaneProducer(
        {"transactional_id": "t", "batch_size": BATCH, "max_request_size": BATCH}, 5, no_hurry, lambda _: _Silent()
    )
    monkeypatch.setattr("stream_dedup.stream.bulk.compressed", lambda *_: [])
    monkeypatch.setattr("stream_dedup.stream.bulk.hand_over", lambda *_: iter([answered((-1, -1, error_of))]))
    producer.begin()
    producer.send(producer.pack([Outgoing("out", 0, None, b"x", [], 0)]))
    with pytest.raises(Refused, match="too old") as caught:
        producer.flush()
    assert caught.value.source == 5
    producer.close()


class _Silent:
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


@pytest.mark.kafka
def test_on_a_real_broker_everything_comes_once_and_in_order(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str]
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name), partitions=2)
    rng = random.Random(5)
    topic = settings.topics.output
    sent = [
        Outgoing(topic, i % 2, b"%d" % i, rng.randbytes(rng.choice((10, 5_000, 1_200_000 if i == 70 else 50_000))),
                 [("n", b"%d" % i)], 1_700_000_000_000 + rng.randrange(1000), i)
        for i in range(150)
    ]  # fmt: skip
    producer = LaneProducer(client.producer(settings, topic_name("id")), 30, no_hurry)
    for part in (sent[:60], sent[60:]):
        producer.begin()
        producer.send(producer.pack(part))
        producer.flush()
        producer.commit()
    producer.begin()
    with pytest.raises(TransactionFailed, match="no partition 9"):
        producer.send(producer.pack([Outgoing(topic, 9, None, b"x", [], 0)]))
    producer.close()
    came = read_all(settings, topic)
    for partition in (0, 1):
        assert [(r.key, r.value, r.headers, r.timestamp) for r in came if r.partition == partition] == [
            (r.key, r.value, r.headers, r.timestamp) for r in sent if r.partition == partition
        ]


def test_the_client_still_has_what_we_reach_for() -> None:
    """kafka-python promises none of it; this fails first when a new version has moved it."""
    import inspect

    from kafka.producer.producer_batch import ProducerBatch
    from kafka.producer.record_accumulator import RecordAccumulator
    from kafka.producer.transaction_manager import TransactionManager

    accumulator = RecordAccumulator(batch_size=BATCH, compression_attrs=LZ4)
    assert {"batch_size", "compression_attrs"} <= accumulator.config.keys()
    for name in ("_batches", "_incomplete", "_tp_lock", "_closed"):
        assert hasattr(accumulator, name), name
    assert hasattr(TransactionManager, "maybe_add_partition_to_transaction")
    assert list(inspect.signature(ProducerBatch).parameters) == ["tp", "records", "now"]
    assert "_sender" in inspect.getsource(KafkaProducer.__init__)
