"""Kafka's record batch format 2: the bytes of records, and how large a batch of them is.

`pack` makes the content of record batches, which the client frames, numbers and sends (producer.py). By the sizes
worker/outgoing.py decides what Kafka can take. The format is part of Kafka's protocol; nothing here depends on the
client.

The format allows more than `KafkaProducer.send`: names of headers that are not UTF-8, headers without a value, records
with neither key nor value. All of these are written as they were read.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import lz4.frame
import msgspec

ESCAPED = "surrogateescape"
"""Error handler for names of headers: each byte that is not UTF-8 becomes one character, which no text has."""
HEADER_BYTES = 61
"""Size of a batch's header."""
RECORD_OVERHEAD = 21
"""Most bytes of a record's length, attributes, timestamp delta and offset delta."""
HEADER_COST = 64
"""Bytes that a record's header counts beside its own: on the wire it may take two, in memory its objects take 180."""
_NULL = b"\x01"  # the length -1 as a varint
_NO_ATTRIBUTES = b"\x00"
# Most lengths of keys, values and headers, and most offset deltas, are below this.
_TABLE_SIZE = 2**14
_VARINT_BYTES = 5
_UTF8_BYTES = 4  # of one character, at most; an escaped byte is a character of one byte
_SHORT_NAME = 64  # characters; the encodings of shorter names are cached, as a stream has few of them
# Header, record, and the lengths of key, value and headers.
_OVERHEAD = HEADER_BYTES + RECORD_OVERHEAD + 3 * _VARINT_BYTES


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record that was read: the fields of kafka-python's ConsumerRecord that we use, by the same names."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # ms since 1970
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]  # bytes of a name that are not UTF-8 are escaped (`ESCAPED`)
    cut: int = 0  # bytes, `HEADER_COST` included, of a record too large to be read, without value and headers


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A record to produce."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int | None  # ms since 1970; None: the time of packing
    source: int = -1  # the index in the batch of the input record that it comes from; -1: none


def content_bytes(record: Any) -> int:
    """Return the bytes of a record's key, value and headers, by which memory is bounded; `HEADER_COST` included.

    >>> content_bytes(Record("news", 0, 0, 0, b"key", None, [("name", b"12"), ("empty", None)]))
    142
    """
    size = len(record.key or b"") + len(record.value or b"") + HEADER_COST * len(record.headers)
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size


class PackedBatch(NamedTuple):
    """Content of one record batch: its records, their bytes, and their first and highest timestamp (ms)."""

    records: Sequence[Outgoing]
    body: bytes
    first_timestamp: int
    max_timestamp: int


def varint(value: int) -> bytes:
    """Encode an integer as a zigzag varint, as record batches hold lengths and deltas.

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


_TABLE = tuple(varint(value) for value in range(_TABLE_SIZE))


def _varint(value: int) -> bytes:
    return _TABLE[value] if 0 <= value < _TABLE_SIZE else varint(value)


def _header_name(name: str) -> bytes:
    """Return the name of a header, after its length."""
    return _short_header_name(name) if len(name) <= _SHORT_NAME else _with_length(name.encode(errors=ESCAPED))


@lru_cache(maxsize=256)
def _short_header_name(name: str) -> bytes:
    return _with_length(name.encode(errors=ESCAPED))


def _with_length(content: bytes) -> bytes:
    return _varint(len(content)) + content


def size_bound(record: Any) -> int:
    """Return an upper bound of the bytes of a batch that holds only this record. O(headers).

    >>> size_bound(Outgoing("t", 0, b"key", b"value", [("name", b"")], 0))
    131
    """
    size = len(record.key or b"") + len(record.value or b"") + _OVERHEAD
    for name, value in record.headers:
        size += _UTF8_BYTES * len(name) + len(value or b"") + 2 * _VARINT_BYTES
    return size


def batch_sizes(record: Any) -> tuple[int, int]:
    """Return the bytes of a batch of this record alone: uncompressed, and as the producer compresses it. O(bytes)."""
    outgoing = Outgoing("", 0, record.key, record.value, record.headers, 0)
    [packed] = pack([outgoing], 0)
    size = len(packed.body)
    return HEADER_BYTES + size, HEADER_BYTES + min(size, len(compressed(packed.body)))


def compressed(content: bytes) -> bytes:
    """Compress the content of a batch with lz4. O(bytes).

    In the client's blocks of 64 KB a record of 4 KB takes 9.5 µs, in these 8.1.
    """
    # Kafka reads no blocks that depend on each other.
    return bytes(lz4.frame.compress(content, block_size=lz4.frame.BLOCKSIZE_MAX256KB, block_linked=False))


def pack(records: Sequence[Outgoing], batch_bytes: int, wall: Callable[[], float] = time.time) -> Iterator[PackedBatch]:
    """Pack records, in order, into batches of at most `batch_bytes`; a larger record gets its own batch. O(bytes).

    A record without a timestamp gets the time of `wall` (seconds since 1970).

    >>> [len(packed.records) for packed in pack([Outgoing("t", 0, None, b"x" * 400, [], 0)] * 5, 1000)]
    [2, 2, 1]
    """
    capacity = batch_bytes - HEADER_BYTES
    parts: list[bytes] = []
    start = size = first = highest = 0
    for i, record in enumerate(records):
        timestamp = record.timestamp if record.timestamp is not None else int(wall() * 1000)
        key, value = record.key, record.value
        tail = [_NULL] if key is None else [_varint(len(key)), key]
        tail += [_NULL] if value is None else [_varint(len(value)), value]
        tail.append(_varint(len(record.headers)))
        for name, content in record.headers:
            encoded = _header_name(name)
            tail += (encoded, _NULL) if content is None else (encoded, _varint(len(content)), content)
        length = sum(map(len, tail))
        if i == start:
            first = highest = timestamp
        elif size + length + RECORD_OVERHEAD > capacity:
            yield PackedBatch(records[start:i], b"".join(parts), first, highest)
            parts, start, size, first, highest = [], i, 0, timestamp, timestamp
        timestamp_delta, offset_delta = _varint(timestamp - first), _varint(i - start)
        length += len(_NO_ATTRIBUTES) + len(timestamp_delta) + len(offset_delta)
        prefix = _varint(length)
        parts += (prefix, _NO_ATTRIBUTES, timestamp_delta, offset_delta, *tail)
        size += len(prefix) + length
        highest = max(highest, timestamp)
    if start < len(records):
        yield PackedBatch(records[start:], b"".join(parts), first, highest)
