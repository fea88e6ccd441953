"""Targets for the bytes of a fetch: record batches and transaction markers, read as the consumer reads them, by
`FastPartitionRecords`.
"""

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition
from kafka.consumer.fetcher import IsolationLevel
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

from stream_dedup.kafka.fetch import FastPartitionRecords
from stream_dedup.kafka.record_batch import Outgoing, Record, pack
from stream_dedup.tools.topics.headers import place_of, was_held_back
from tests.fuzz.loop import Target
from tests.lab.model import log

NOW = 1_704_067_200_000
PLACE = TopicPartition("news", 3)
PRODUCER = 7
CODECS = range(5)
_HEADER = DefaultRecordBatch.HEADER_STRUCT.size
_CHECKED_FROM = DefaultRecordBatch.ATTRIBUTES_OFFSET
_INT64 = 2**63


def batch_bytes(codec: int, records: Sequence[tuple[int, Any, Any, Any]]) -> bytes:
    """A record batch."""
    builder = MemoryRecordsBuilder(2, codec, 2**30)
    for record in records:
        builder.append(*record)
    builder.close()
    return bytes(builder.buffer())


def marker(kind: int) -> bytes:
    """The marker that ends a transaction of PRODUCER: 0 aborts it."""
    return bytes(log.marker(kind == 1, PRODUCER, 0, NOW).content)


def sign_batch(data: bytes) -> bytes:
    """Set length, format and checksum of a record batch; what is too short for one stays as it is."""
    signed = bytearray(data)
    if len(signed) >= _HEADER:
        struct.pack_into(">i", signed, 8, len(signed) - 12)
        signed[16] = 2
        struct.pack_into(">I", signed, DefaultRecordBatch.CRC_OFFSET, calc_crc32c(memoryview(signed)[_CHECKED_FROM:]))
    return bytes(signed)


def consume(data: bytes) -> list[Any]:
    """Read the bytes of a fetch. Raises CorruptRecordError."""
    parts = FastPartitionRecords(
        0,
        PLACE,
        MemoryRecords(data),
        isolation_level=IsolationLevel.READ_COMMITTED,
        aborted_transactions=[SimpleNamespace(producer_id=PRODUCER, first_offset=0)],
    )
    found: list[Any] = []
    while parts:
        found += parts.take(1000)
    return found


def read_batch(data: bytes) -> None:
    """Sign and read a record batch."""
    _check(consume(sign_batch(data)))


def _check(records: Sequence[Record]) -> None:
    for record in records:
        assert isinstance(record.offset, int)
        assert -_INT64 <= record.timestamp < _INT64
        assert record.key is None or type(record.key) is bytes
        assert record.value is None or type(record.value) is bytes


def _written(data: bytes) -> None:
    """What is read can be written again, and reads the same."""
    name = data[:8].decode("utf-8", "surrogateescape")
    [time] = struct.unpack(">q", data[:8].ljust(8, b"\0"))
    record = Outgoing("t", 0, data[8:16] or None, data[16:] or None, [(name, data[:3] or None)], time)
    [packed] = pack([record], 2**20)
    assert packed.body


def _place(data: bytes) -> None:
    record = SimpleNamespace(headers=[("dedup-source", data), ("dedup-verdict", data)])
    place_of(record)
    was_held_back(record)


def record_targets() -> list[Target]:
    """Everything that reads or writes the bytes of records."""
    some = [(NOW + n, b"key", b'{"id": 1, "title": "T"}' * n, [("h", b"v"), ("n", None)]) for n in range(1, 4)]
    batches = [batch_bytes(codec, some) for codec in CODECS]
    fetches = [batches[0] + marker(0) + batches[3], batches[1] + batches[0]]
    lengths = [b"\xff\xff\xff\xf4", b"\x00\x00\x00\x06", b"\x7f\xff\xff\xff"]
    ends = [b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7]
    varints = [b"\x01", b"\xff\xff\xff\xff\x0f", b"\xfe" + b"\xff" * 8 + b"\x01", b"\xff" * 9 + b"\x01"]
    errors = (CorruptRecordError,)
    return [
        Target("record batch", [*batches, marker(0), marker(1)], [*varints, *ends, b"\0\x30", b"\0\x10"], read_batch,
               errors),
        Target("fetch", fetches, [*lengths, *ends, marker(0), b"\0\x30"], lambda data: _check(consume(data)), errors),
        Target("record", [b"name" * 9, *ends], ends, _written),
        Target("place", [b"news/raw/3/77"], [b"/", b"9" * 5000, b"-", b"\xff"], _place),
    ]  # fmt: skip
