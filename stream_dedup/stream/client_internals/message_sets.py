"""Read messages: Kafka's record formats 0 and 1, which brokers before 0.11 stored and some logs still hold.

In: the bytes of one message. Out: its record, or, of a compressed message, the records of the messages in it. The
client's own reader hangs on a message of a negative length, unpacks without a limit, reads a value that is cut short as
a shorter one, and ends in errors of struct, of the codecs and of assertions.

    0  8  offset; in a compressed message of format 1 the inner ones count from any number, and the outer one has the
          offset of the last
    8  4  length of what follows
    12 4  CRC-32 of what follows
    16 1  format
    17 1  attributes: the codec, and whether the outer timestamp counts for all inner messages
    18 8  timestamp, in format 1 only
       4  length of the key, the key; then the same for the value. -1 is null
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from kafka import errors as kafka_errors

from stream_dedup.stream.client_internals.decompress import OLD_LZ4, decompress
from stream_dedup.stream.record_batch import Record

_HEADER = struct.Struct(">qiIbb")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_BEFORE_LENGTH = 12  # the offset and the length itself
_CHECKED_FROM = 16
_CODEC_MASK = 0x07
_LZ4, _ZSTD = 3, 4
_APPEND_TIME = 0x08
_NO_TIME = -1  # Kafka's own number for it
_NEWEST = 1


class _Message(NamedTuple):
    """`end`: where the next message begins."""

    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    end: int


def read_messages(data: memoryview, topic: str, partition: int) -> Iterator[Record]:
    """The records of a message. O(bytes).

    Raises CorruptRecordError at the first damaged message, after yielding those before it.
    """
    outer = _message(data, 0)
    codec = outer.attributes & _CODEC_MASK
    if not codec:
        yield Record(topic, partition, outer.offset, outer.timestamp, outer.key, outer.value, ())
        return
    if outer.value is None:
        raise kafka_errors.CorruptRecordError("A compressed message is null")
    if codec == _ZSTD:
        raise kafka_errors.CorruptRecordError(f"A message of format {outer.magic} is compressed with zstd")
    if codec == _LZ4 and outer.magic == 0:
        codec = OLD_LZ4
    content = memoryview(decompress(codec, outer.value))
    if not content:  # the client would fetch it again and again, since no record moves it on
        raise kafka_errors.CorruptRecordError("A compressed message holds no messages")
    before = outer.offset - _last_offset(content) if outer.magic else 0
    at = 0
    while at < len(content):
        inner = _message(content, at)
        if inner.attributes & _CODEC_MASK or inner.magic != outer.magic:
            raise kafka_errors.CorruptRecordError(
                f"A compressed message of format {outer.magic} holds one of format {inner.magic} with attributes "
                f"{inner.attributes}"
            )
        timestamp = outer.timestamp if outer.attributes & _APPEND_TIME else inner.timestamp
        # Brokers of format 1 that did not renumber left whole offsets in the messages.
        offset = inner.offset + max(before, 0)
        yield Record(topic, partition, offset, timestamp, inner.key, inner.value, ())
        at = inner.end


def _message(data: memoryview, at: int) -> _Message:
    try:
        offset, length, checksum, magic, attributes = _HEADER.unpack_from(data, at)
        end = at + _BEFORE_LENGTH + length
        if not at + _HEADER.size <= end <= len(data):
            raise ValueError(f"a message of {length} bytes at byte {at} of {len(data)}")
        if not 0 <= magic <= _NEWEST:
            raise ValueError(f"a message of format {magic}")
        if zlib.crc32(data[at + _CHECKED_FROM : end]) != checksum:
            raise ValueError(f"the message at offset {offset} does not match its checksum")
        at += _HEADER.size
        timestamp = _NO_TIME
        if magic:
            [timestamp] = _TIME.unpack_from(data, at)
            at += _TIME.size
        key, at = _bytes(data, at, end)
        value, at = _bytes(data, at, end)
    except (struct.error, ValueError) as error:
        raise kafka_errors.CorruptRecordError(f"Found invalid message structure: {error}") from error
    return _Message(offset, magic, attributes, timestamp, key, value, end)


def _last_offset(content: memoryview) -> int:
    """The number of the last message; its content is checked when it is read."""
    at = offset = 0
    while at < len(content):
        try:
            offset, length, *_ = _HEADER.unpack_from(content, at)
        except struct.error as error:
            raise kafka_errors.CorruptRecordError(f"Found invalid message structure: {error}") from error
        if length < _HEADER.size - _BEFORE_LENGTH:
            raise kafka_errors.CorruptRecordError(f"Found invalid message structure: a message of {length} bytes")
        at += _BEFORE_LENGTH + length
    return int(offset)


def _bytes(data: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    """(bytes after their length, None for null; position after them)."""
    [length] = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    if length == -1:
        return None, at
    if length < 0 or at + length > end:
        raise ValueError(f"a key or value of {length} bytes ends behind its message")
    return data[at : at + length].tobytes(), at + length
