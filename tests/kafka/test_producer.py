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
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import Refused, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.bounded import no_deadline
from stream_dedup.kafka.fetch import unpack
from stream_dedup.kafka.producer import BulkSender, SentBatch, TaskProducer, _by_partition, batch_builder
from stream_dedup.kafka.record_batch import ESCAPED, Outgoing, batch_sizes, pack, size_bound, varint
from tests.worker.support import make_settings, read_all, ready

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
    for one in some:
        assert batch.append(one.timestamp, one.key, one.value, one.headers) is not None
    return batch


@given(st.lists(records, min_size=1, max_size=30))
def test_a_batch_has_the_bytes_that_the_client_would_write(some: list[Outgoing]) -> None:
    packed = list(pack(some, BATCH))
    assert [one for each in packed for one in each.records] == some
    for each in packed:
        ours, theirs = batch_builder(each, LZ4, BATCH), client_batch(each.records)
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
def test_the_bound_holds_for_each_batch_of_one_record(record: Outgoing) -> None:
    assert client_batch([record]).size_in_bytes() <= size_bound(record)


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


@given(st.integers(-(2**62), 2**62))
def test_a_number_is_written_as_the_client_writes_it(value: int) -> None:
    from kafka.record.util import encode_varint

    out = bytearray()
    encode_varint(value, out.append)
    assert varint(value) == bytes(out)


def test_a_partition_keeps_its_order() -> None:
    def one(partition: int, number: int, size: int = 1) -> Outgoing:
        return Outgoing("out", partition, None, b"x" * size, [], number)

    some = [one(0, 0), one(1, 1), one(0, 2), one(0, 3, size=BATCH), one(0, 4), one(1, 6)]
    groups = {place: [r.timestamp for r in group] for place, group in _by_partition(some).items()}
    assert groups == {("out", 0): [0, 2, 3, 4], ("out", 1): [1, 6]}
    batches = [[r.timestamp for r in packed.records] for packed in pack(_by_partition(some)["out", 0], BATCH)]
    assert batches == [[0, 2], [3], [4]], "a record larger than a batch has a batch of its own"


Answer = Callable[[ProducerBatch], Any]


def answered(*answers: Answer, size: int = 3) -> list[SentBatch]:
    """Batches of `size` records, with sources numbered throughout, each completed by its answer."""
    sent = []
    for i, answer in enumerate(answers):
        some = [Outgoing("out", i, None, b"x", [], 0, i * size + n) for n in range(size)]
        batch = ProducerBatch(TopicPartition("out", i), client_batch(some))
        answer(batch)
        sent.append(SentBatch(some, batch))
    return sent


def success(batch: ProducerBatch) -> None:
    batch.complete(17, -1)


def failure(error: Exception, error_of: Callable[[int], Exception] | None = None) -> Answer:
    return lambda batch: batch.complete_exceptionally(error, error_of or (lambda _: error))


def given_up(error: Exception) -> Answer:
    return lambda batch: batch.abort(error)


def no_answer(batch: ProducerBatch) -> None:
    pass


def test_an_acknowledged_batch_has_no_errors() -> None:
    [sent] = answered(success)
    assert sent.failures() == []


def test_p1_a_batch_without_an_answer_is_an_error() -> None:
    [sent] = answered(no_answer)
    assert [type(error) for _, error in sent.failures()] == [kafka_errors.KafkaTimeoutError] * 3


def test_p1_an_expired_batch_is_an_error() -> None:
    expired = kafka_errors.KafkaTimeoutError("Expiring 3 record(s)")
    [sent] = answered(failure(expired))
    assert sent.failures() == [(record, expired) for record in sent.records]


BESIDE = kafka_errors.KafkaError("part of a batch which had invalid records")
OLD = kafka_errors.InvalidTimestampError("too old")


def named(*places: int) -> Answer:
    return failure(OLD, lambda place: kafka_errors.InvalidTimestampError("too old") if place in places else BESIDE)


def raised(sent: list[SentBatch], monkeypatch: pytest.MonkeyPatch) -> TransactionFailed:
    """The error that a producer raises for these batches."""
    producer = TaskProducer(
        {"transactional_id": "t", "batch_size": BATCH, "max_request_size": BATCH}, 5, no_deadline, lambda _: _Silent()
    )
    monkeypatch.setattr(BulkSender, "pack", lambda *_: [])
    monkeypatch.setattr(BulkSender, "send", lambda *_: iter(sent))
    producer.begin()
    producer.send(producer.pack([Outgoing("out", 0, None, b"x", [], 0)]))
    with pytest.raises(TransactionFailed) as caught:
        producer.flush()
    producer.close()
    return caught.value


def test_every_refused_record_of_all_refused_batches_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    error = raised(answered(named(1), success, named(0, 2)), monkeypatch)
    assert isinstance(error, Refused)
    assert error.sources == (1, 6, 8)
    assert "too old" in str(error)


def test_the_only_record_of_a_refused_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    error = raised(answered(success, failure(OLD), size=1), monkeypatch)
    assert isinstance(error, Refused)
    assert error.sources == (1,)


def test_batches_given_up_beside_a_refused_one_are_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gives waiting batches up with the error of the one that failed."""
    error = raised(answered(given_up(OLD), failure(OLD), given_up(OLD), size=1), monkeypatch)
    assert isinstance(error, Refused)
    assert error.sources == (1,)


def test_the_records_of_a_batch_refused_as_a_whole_are_suspected(monkeypatch: pytest.MonkeyPatch) -> None:
    error = raised(answered(success, failure(OLD), given_up(OLD)), monkeypatch)
    assert not isinstance(error, Refused)
    assert (error.lasting, error.sources) == (True, (3, 4, 5))


def test_a_network_failure_names_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    error = raised(answered(success, failure(kafka_errors.KafkaConnectionError("gone")), no_answer), monkeypatch)
    assert (error.lasting, error.sources) == (False, ())


class _Silent:
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


@pytest.mark.kafka
def test_a_real_broker_gets_every_record_once_and_in_order(
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
    producer = TaskProducer(client.producer(settings, topic_name("id")), 30, no_deadline)
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
