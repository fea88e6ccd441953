"""Decompress the content of record batches, up to a limit.

In: a codec's number, as record batches hold it, and the compressed bytes. Out: the bytes, or CorruptRecordError. The
client's own functions have no limit, and each codec has errors of its own.
"""

import zlib
from collections.abc import Callable

import xxhash
from kafka import codec
from kafka import errors as kafka_errors
from kafka.record.default_records import DefaultRecordBatch

MAX_UNPACKED = 2**28
"""Most bytes of an unpacked batch: eight of the largest records ([worker] max_record_bytes), each in one tenth of its
bytes. A megabyte of zstd can claim 32 GB, which would kill the worker again and again."""
OLD_LZ4 = -1
"""LZ4 in record format 0: our number for it, since there it has the number of LZ4 and another checksum."""
_CHUNK = 2**18
_LZ4_RATIO = 255  # at most: a byte of a length stands for 255 bytes
# Of an LZ4 frame: its magic number, then the flags. One of them says that the content's size follows the header.
_FLAGS_AT = 4
_LZ4_HEADER = 7
_HAS_SIZE = 0x08
_SIZE_BYTES = 8


def decompress(kind: int, content: bytes) -> bytes:
    """Decompress `content`; return it as it is if `kind` is no compression.

    Raises CorruptRecordError for damaged content, an unknown codec, and more than `MAX_UNPACKED` bytes.
    """
    if kind == DefaultRecordBatch.CODEC_NONE:
        return content
    if kind not in _UNPACK:
        raise kafka_errors.CorruptRecordError(f"A batch is compressed with the unknown codec {kind}")
    try:
        unpacked = _UNPACK[kind](content)
    except Exception as error:  # each codec has errors of its own
        raise kafka_errors.CorruptRecordError(f"A compressed batch cannot be unpacked: {error!r}") from error
    if len(unpacked) > MAX_UNPACKED:
        raise kafka_errors.CorruptRecordError(
            f"A batch of {len(content)} bytes unpacks to more than {MAX_UNPACKED}, the most that is accepted"
        )
    return unpacked


def _gzip(content: bytes) -> bytes:
    """Unpack; cut off soon after `MAX_UNPACKED`, as do the other functions."""
    parts, room = [], MAX_UNPACKED + 1
    while content and room > 0:
        member = zlib.decompressobj(zlib.MAX_WBITS + 16)
        parts.append(member.decompress(content, room))
        room -= len(parts[-1])
        if not member.eof and room > 0:
            raise EOFError("the batch is cut short")
        content = member.unused_data.lstrip(b"\0")
    return b"".join(parts)


def _zstd(content: bytes) -> bytes:
    parts, room = [], MAX_UNPACKED + 1
    with codec.zstd.ZstdDecompressor().stream_reader(content, read_across_frames=True) as reader:
        while room > 0 and (part := reader.read(_CHUNK)):
            parts.append(part)
            room -= len(part)
    return b"".join(parts)


def _lz4(content: bytes) -> bytes:
    if len(content) * _LZ4_RATIO <= MAX_UNPACKED:
        return bytes(codec.lz4_decode(content))
    reader, parts, room = codec.lz4.LZ4FrameDecompressor(), [], MAX_UNPACKED + 1
    while not reader.eof and room > 0:
        part = reader.decompress(content, _CHUNK)
        if not part and reader.needs_input:
            raise EOFError("the batch is cut short")
        content = b""
        parts.append(part)
        room -= len(part)
    return b"".join(parts)


def _old_lz4(content: bytes) -> bytes:
    """Unpack a frame whose header has the checksum of Kafka before 0.10, which is none of LZ4's."""
    size = _LZ4_HEADER + _SIZE_BYTES * bool(content[_FLAGS_AT] & _HAS_SIZE)
    checksum = xxhash.xxh32(content[_FLAGS_AT : size - 1]).digest()[-2:-1]
    return _lz4(content[: size - 1] + checksum + content[size:])


def _snappy(content: bytes) -> bytes:
    return bytes(codec.snappy_decode(content))  # at most 21 times as long, so that the size of a fetch bounds it


_UNPACK: dict[int, Callable[[bytes], bytes]] = {
    DefaultRecordBatch.CODEC_GZIP: _gzip,
    DefaultRecordBatch.CODEC_SNAPPY: _snappy,
    DefaultRecordBatch.CODEC_LZ4: _lz4,
    DefaultRecordBatch.CODEC_ZSTD: _zstd,
    OLD_LZ4: _old_lz4,
}
