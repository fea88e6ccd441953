"""Outgoing records -> kafka-python's producer, a batch of them in one piece.

In: records of one topic and partition. Out: record batches (format 2, the bytes that `KafkaProducer.send` would make)
in the producer's accumulator, and for each the future of its acknowledgement. Why: `send` costs some 35 µs of Python a
record (checks, locks, a future, a call for each byte of a number), a third of all that an exactly-once pass-through
does; here it is 8. What sends, retries, numbers and ends transactions stays kafka-python's.

Every record goes this way. `send` must not be used beside it: the client would append its record to a batch that is
compressed already, and the broker would refuse that batch. What `send` does beyond it is done before: records.py finds
the partition and knows what is too large. What `send` does not take is written as it was read: names of headers that
are not UTF-8, headers without a value, records with neither key nor value.

`compressed` needs no transaction, so it is done while the offsets are on their way; left to the client, each batch of a
partition would be compressed when the one before is acknowledged.

kafka-python has no public way in for a batch, so `hand_over` reaches into its accumulator: 3.0.12 to below 3.1
(pyproject), and tests hold the bytes against `send`'s. A batch is never larger than the topics allow, so the client has
no reason to split one, which would leave its future without an answer; an answer that is missing fails the transaction.
"""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.producer.producer_batch import FinalState, ProducerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from stream_dedup.stream.transaction import Outgoing

# How bytes that are not UTF-8 stand in the name of a header: each as a character of its own, which no text has.
ESCAPED = "surrogateescape"
_NULL = b"\x01"  # the length -1 as a varint
_NO_ATTRIBUTES = b"\x00"
# Lengths of most keys, values and headers, and the places in a batch.
_TABLED = 2**14
_VARINT_BYTES = 5
_UTF8_BYTES = 4  # of one character, at most; an escaped byte is a character of one byte
_SHORT_NAME = 64  # characters of a header's name that is kept encoded: a stream has few such names


class Packed(NamedTuple):
    """One record batch's content: the records it holds, their bytes, and their first and highest time, ms."""

    records: Sequence[Outgoing]
    body: bytes
    first_time: int
    highest_time: int


def varint(value: int) -> bytes:
    """A zigzag varint, as record batches hold lengths and differences.

    >>> varint(-1), varint(300)
    (b'\\x01', b'\\xd8\\x04')
    """
    value = value * 2 if value >= 0 else -2 * value - 1
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


_TABLE = tuple(varint(value) for value in range(_TABLED))


def _varint(value: int) -> bytes:
    return _TABLE[value] if 0 <= value < _TABLED else varint(value)


def _name(name: str) -> bytes:
    """A header's name with its length before it."""
    return _short_name(name) if len(name) <= _SHORT_NAME else _with_length(name.encode(errors=ESCAPED))


@lru_cache(maxsize=256)
def _short_name(name: str) -> bytes:
    return _with_length(name.encode(errors=ESCAPED))


def _with_length(content: bytes) -> bytes:
    return _varint(len(content)) + content


def size_bound(record: Any) -> int:
    """The most bytes that a batch of this record alone has, read or to be sent. O(headers).

    >>> size_bound(Outgoing("t", 0, b"key", b"value", [("name", b"")], 0))
    131
    """
    size = len(record.key or b"") + len(record.value or b"") + _OVERHEAD
    for name, value in record.headers:
        size += _UTF8_BYTES * len(name) + len(value or b"") + 2 * _VARINT_BYTES
    return size


# Of a batch, of its record, and the lengths of key, value and headers.
_OVERHEAD: int = DefaultRecordBatchBuilder.HEADER_STRUCT.size + DefaultRecordBatchBuilder.MAX_RECORD_OVERHEAD + 15


def pack(records: Sequence[Outgoing], batch_bytes: int) -> Iterator[Packed]:
    """The records in order, as many a batch as fit into `batch_bytes`; a larger one has a batch to itself. O(bytes).

    >>> [len(packed.records) for packed in pack([Outgoing("t", 0, None, b"x" * 400, [], 0)] * 5, 1000)]
    [2, 2, 1]
    """
    room = batch_bytes - DefaultRecordBatchBuilder.HEADER_STRUCT.size
    parts: list[bytes] = []
    start = size = first = highest = 0
    for i, record in enumerate(records):
        stamp = record.timestamp if record.timestamp is not None else int(time.time() * 1000)
        key, value = record.key, record.value
        tail = [_NULL] if key is None else [_varint(len(key)), key]
        tail += [_NULL] if value is None else [_varint(len(value)), value]
        tail.append(_varint(len(record.headers)))
        for name, content in record.headers:
            tail += (_name(name), _NULL) if content is None else (_name(name), _varint(len(content)), content)
        length = sum(map(len, tail))
        if i == start:
            first = highest = stamp
        elif size + length + DefaultRecordBatchBuilder.MAX_RECORD_OVERHEAD > room:
            yield Packed(records[start:i], b"".join(parts), first, highest)
            parts, start, size, first, highest = [], i, 0, stamp, stamp
        delta, place = _varint(stamp - first), _varint(i - start)
        length += 1 + len(delta) + len(place)
        prefix = _varint(length)
        parts += (prefix, _NO_ATTRIBUTES, delta, place, *tail)
        size += len(prefix) + length
        highest = max(highest, stamp)
    if start < len(records):
        yield Packed(records[start:], b"".join(parts), first, highest)


class Ready(NamedTuple):
    """Records, and kafka-python's builder of their batch, to which nothing can be added any more."""

    records: Sequence[Outgoing]
    builder: Any


class _Compressed(DefaultRecordBatchBuilder):  # type: ignore[misc]  # kafka-python ships no types
    """Its content is compressed before the client closes it."""

    __slots__ = ("_is_compressed",)

    def compress(self) -> None:
        self._is_compressed = super()._maybe_compress()  # False: it would have become larger

    def _maybe_compress(self) -> bool:
        return bool(self._is_compressed)


def builder(packed: Packed, compression: int, batch_bytes: int) -> Any:
    """kafka-python's builder of a batch, as after appending the records one by one, but compressed."""
    batch = _Compressed(2, compression, False, -1, -1, -1, batch_bytes)
    batch._buffer.extend(packed.body)
    batch._num_records = len(packed.records)
    batch._last_offset = len(packed.records) - 1
    batch._first_timestamp, batch._max_timestamp = packed.first_time, packed.highest_time
    batch.compress()
    memory = MemoryRecordsBuilder(2, compression, batch_bytes)
    memory._builder, memory._next_offset = batch, len(packed.records)
    return memory


def alone(record: Any) -> tuple[int, int]:
    """The bytes of a batch of this record alone, plain and compressed as the producer compresses. O(bytes)."""
    outgoing = Outgoing("", 0, record.key, record.value, record.headers, 0)
    [packed] = pack([outgoing], 0)
    batch = builder(packed, DefaultRecordBatchBuilder.CODEC_LZ4, 0)
    batch.close()
    return DefaultRecordBatchBuilder.HEADER_STRUCT.size + len(packed.body), int(batch.size_in_bytes())


def compressed(producer: Any, records: Sequence[Outgoing]) -> list[Ready]:
    """The records as batches of this KafkaProducer. O(bytes)."""
    config = producer._accumulator.config
    batch_bytes, compression = config["batch_size"], config["compression_attrs"]
    return [Ready(one.records, builder(one, compression, batch_bytes)) for one in pack(records, batch_bytes)]


def hand_over(producer: Any, topic: str, partition: int, batches: Sequence[Ready]) -> Iterator["Sent"]:
    """Gives batches to a KafkaProducer in a transaction.

    Raises what `KafkaProducer.send` raises: KafkaError if the producer has failed before or is closed, ValueError for
    a partition that does not exist.
    """
    if partition not in producer.partitions_for(topic):
        raise ValueError(f"{topic} has no partition {partition}")
    accumulator, place = producer._accumulator, TopicPartition(topic, partition)
    producer._transaction_manager.maybe_add_partition_to_transaction(place)
    for ready in batches:
        batch = ProducerBatch(place, ready.builder)
        with accumulator._tp_lock(place):
            if accumulator._closed:
                raise kafka_errors.IllegalStateError("the producer is closed")
            accumulator._batches[place].append(batch)
            accumulator._incomplete.add(batch)
        producer._sender.wakeup()
        yield Sent(ready.records, batch)


class Sent(NamedTuple):
    """The records of a batch, and kafka-python's batch of them."""

    records: Sequence[Outgoing]
    batch: ProducerBatch

    @property
    def was_answered(self) -> bool:
        """Whether its outcome is its own. A batch that waits when another one fails is given up with that one's error,
        which says nothing of its records.
        """
        return self.batch.final_state in (FinalState.SUCCEEDED, FinalState.FAILED)

    def errors(self) -> list[Exception]:
        """What went wrong, an error for each record; none if they were acknowledged."""
        future = self.batch.produce_future
        if not future.is_done:
            return [kafka_errors.KafkaTimeoutError("not acknowledged in time")] * len(self.records)
        # The answer: base offset, time of appending, and how it failed, if it did.
        error_of = future.value[2]
        return [] if error_of is None else [error_of(i) for i in range(len(self.records))]

    @property
    def end(self) -> int | None:
        """The offset behind the last record, once all are acknowledged; None: the broker has not said it."""
        first: int = self.batch.produce_future.value[0]
        return first + len(self.records) if first >= 0 else None
