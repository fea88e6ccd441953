"""The bulk producer makes the same batches as kafka-python, and reports every one that fails."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from stream_dedup.errors import Refused, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.fetch import unpack
from stream_dedup.kafka.producer import RecordBatch, TaskProducer, batch_builder
from stream_dedup.kafka.record_batch import ESCAPED, Outgoing, batch_sizes, pack, size_bound
from stream_dedup.kafka.runtime import Runtime, no_deadline
from tests.harness.check import read_all
from tests.harness.topics import Make

BATCH = 2000
LZ4 = DefaultRecordBatchBuilder.CODEC_LZ4

contents = st.binary(max_size=300)
records = st.builds(
    Outgoing,
    st.just("out"),
    st.just(0),
    st.none() | contents,
    st.none() | contents,
    st.lists(
        st.tuples(st.text(max_size=9) | st.text("ab", min_size=60, max_size=70), st.none() | contents), max_size=3
    ),
    st.integers(0, 2**42),
)


def client_batch(some: Sequence[Outgoing]) -> Any:
    """The batch that kafka-python makes when these records are appended one by one."""
    batch = MemoryRecordsBuilder(2, LZ4, 2**30)
    for record in some:
        assert batch.append(record.timestamp, record.key, record.value, record.headers) is not None
    return batch


@given(st.lists(records, min_size=1, max_size=30))
def test_a_batch_has_the_bytes_that_the_client_would_write(some: list[Outgoing]) -> None:
    packed = list(pack(some, BATCH))
    assert [record for each in packed for record in each.records] == some
    for each in packed:
        ours, theirs = batch_builder(each, LZ4, BATCH), client_batch(each.records)
        assert len(each.body) + DefaultRecordBatchBuilder.header_size_in_bytes() <= BATCH
        assert ours.next_offset() == theirs.next_offset()
        for batch in (ours, theirs):
            batch.set_producer_state(7, 1, 40, True)
            batch.close()
        assert bytes(ours.buffer()) == bytes(theirs.buffer())
    assert client_batch(some[:1]).size_in_bytes() <= size_bound(some[0])


@given(st.binary(max_size=80), st.none() | contents)
def test_a_header_keeps_its_bytes(name: bytes, value: bytes | None) -> None:
    record = Outgoing("out", 0, b"k", b"v", [(name.decode(errors=ESCAPED), value)], 0)
    [packed] = pack([record], BATCH)
    plain, compressed = batch_sizes(record)
    assert compressed <= plain <= size_bound(record)
    batch = batch_builder(packed, 0, BATCH)
    batch.close()
    assert batch.size_in_bytes() == plain
    [read] = unpack(MemoryRecords(bytes(batch.buffer())).next_batch(), "out", 0)
    assert read.headers == record.headers
    assert (read.headers[0][0].encode(errors=ESCAPED), read.headers[0][1]) == (name, value)


def a_producer() -> TaskProducer:
    client = _Silent()
    client._accumulator = RecordAccumulator(batch_size=BATCH, compression_attrs=LZ4)
    return TaskProducer({"transactional_id": "t"}, 5, no_deadline, runtime=Runtime(make_client=lambda *_: client))


def test_a_partition_keeps_its_order() -> None:
    def one(partition: int, number: int, size: int = 1) -> Outgoing:
        return Outgoing("out", partition, None, b"x" * size, [], number)

    some = [one(0, 0), one(1, 1), one(0, 2), one(0, 3, size=BATCH), one(0, 4), one(1, 6)]
    producer = a_producer()
    batches = [(batch.place.partition, [r.timestamp for r in batch.records]) for batch in producer.pack(some)]
    assert batches == [(0, [0, 2]), (0, [3]), (0, [4]), (1, [1, 6])], "a large record has a batch of its own"
    producer.close()


Answer = Callable[[ProducerBatch], Any]


def answered(*answers: Answer, size: int = 3) -> list[RecordBatch]:
    """Batches of `size` records, with sources numbered throughout, each completed by its answer."""
    sent = []
    for i, answer in enumerate(answers):
        some = [Outgoing("out", i, None, b"x", [], 0, i * size + n) for n in range(size)]
        sent.append(RecordBatch(TopicPartition("out", i), some, client_batch(some)))
        answer(sent[-1].sent())
    return sent


def success(batch: ProducerBatch) -> None:
    batch.complete(17, -1)


def failure(error: Exception, error_of: Callable[[int], Exception] | None = None) -> Answer:
    return lambda batch: batch.complete_exceptionally(error, error_of or (lambda _: error))


def given_up(error: Exception) -> Answer:
    return lambda batch: batch.abort(error)


def no_answer(batch: ProducerBatch) -> None:
    pass


BESIDE = kafka_errors.KafkaError("part of a batch which had invalid records")
OLD = kafka_errors.InvalidTimestampError("too old")
EXPIRED = kafka_errors.KafkaTimeoutError("Expiring 3 record(s)")


def named(*places: int) -> Answer:
    return failure(OLD, lambda place: kafka_errors.InvalidTimestampError("too old") if place in places else BESIDE)


@pytest.mark.parametrize(
    ("sent", "text", "refused", "lasting", "sources"),
    [
        (answered(success, no_answer), "not acknowledged in time", False, False, ()),  # P1
        (answered(failure(EXPIRED)), "Expiring 3 record", False, False, ()),  # P1
        (answered(named(1), success, named(0, 2)), "too old", True, True, (1, 6, 8)),
        (answered(success, failure(OLD), size=1), "too old", True, True, (1,)),
        # The client gives waiting batches up with the error of the one that failed.
        (answered(given_up(OLD), failure(OLD), given_up(OLD), size=1), "too old", True, True, (1,)),
        (answered(success, failure(OLD), given_up(OLD)), "refuses a batch of 3", False, True, (3, 4, 5)),
        (answered(success, failure(kafka_errors.KafkaConnectionError("gone")), no_answer), "gone", False, False, ()),
    ],
    ids=["no answer", "expired", "named records", "only record", "given up beside", "whole batch", "network"],
)
def test_a_batch_that_fails_fails_the_transaction(
    sent: list[RecordBatch], text: str, refused: bool, lasting: bool, sources: tuple[int, ...]
) -> None:
    producer = a_producer()
    producer._sent = sent
    with pytest.raises(TransactionFailed, match=text) as caught:
        producer.flush()
    producer.close()
    assert (isinstance(caught.value, Refused), caught.value.lasting, caught.value.sources) == (
        refused,
        lasting,
        sources,
    )


def test_acknowledged_batches_may_be_committed() -> None:
    producer = a_producer()
    producer._sent = answered(success, success)
    producer.flush()
    assert producer.ends_in("out") == {TopicPartition("out", 0): 20, TopicPartition("out", 1): 20}
    producer.close()


class _Silent:
    _accumulator: RecordAccumulator

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


@pytest.mark.kafka
def test_a_real_broker_gets_every_record_once_and_in_order(make: Make, topic_name: Callable[[str], str]) -> None:
    settings = make(2)
    rng = random.Random(5)
    topic = settings.topics.output
    sent = [
        Outgoing(topic, i % 2, b"%d" % i, rng.randbytes(rng.choice((10, 5_000, 1_200_000 if i == 70 else 50_000))),
                 [("n", b"%d" % i)], 1_700_000_000_000 + rng.randrange(1000), i)
        for i in range(150)
    ]  # fmt: skip
    producer = TaskProducer(client.producer(settings, topic_name("id")), 30, no_deadline)
    for part in (sent[:60], sent[60:]):
        producer.write("sending", part)
    producer.begin()
    with pytest.raises(TransactionFailed, match="no partition 9"):
        producer.send(producer.pack([Outgoing(topic, 9, None, b"x", [], 0)]))
    producer.close()
    came = read_all(settings, topic)
    for partition in (0, 1):
        assert [(r.key, r.value, r.headers, r.timestamp) for r in came if r.partition == partition] == [
            (r.key, r.value, r.headers, r.timestamp) for r in sent if r.partition == partition
        ]
