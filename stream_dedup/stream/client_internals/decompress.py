"""Decompress the content of record batches, piece by piece.

In: a codec's number, as record batches hold it, and the compressed bytes. Out: the bytes in pieces, or
CorruptRecordError. The client's own functions unpack the whole, whatever its size, and each codec has errors of its
own.
"""

import zlib
from collections.abc import Callable, Iterator

import xxhash
from kafka import codec
from kafka import errors as kafka_errors
from kafka.record.default_records import DefaultRecordBatch

MAX_UNPACKED = 2**28
"""Most bytes that `decompress` returns. A megabyte of zstd can claim 32 GB, which would kill the worker again and
again."""
OLD_LZ4 = -1
"""LZ4 in record format 0: our number for it, since there it has the number of LZ4 and another checksum."""
_CHUNK = 2**20
# Of an LZ4 frame: its magic number, then the flags. One of them says that the content's size follows the header.
_FLAGS_AT = 4
_LZ4_HEADER = 7
_HAS_SIZE = 0x08
_SIZE_BYTES = 8


def decompress(kind: int, content: bytes) -> bytes:
    """Decompress `content` as a whole. Raises CorruptRecordError as `pieces`, and beyond `MAX_UNPACKED` bytes."""
    parts, room = [], MAX_UNPACKED
    for part in pieces(kind, content):
        parts.append(part)
        room -= len(part)
        if room < 0:
            raise kafka_errors.CorruptRecordError(
                f"A batch of {len(content)} bytes unpacks to more than {MAX_UNPACKED}, the most that is accepted"
            )
    return parts[0] if len(parts) == 1 else b"".join(parts)


def pieces(kind: int, content: bytes) -> Iterator[bytes]:
    """Yield the decompressed content in pieces of a megabyte or so; snappy and no compression as a whole.

    Raises CorruptRecordError for damaged content and an unknown codec.
    """
    if kind == DefaultRecordBatch.CODEC_NONE:
        yield content
        return
    if kind not in _UNPACK:
        raise kafka_errors.CorruptRecordError(f"A batch is compressed with the unknown codec {kind}")
    try:
        yield from _UNPACK[kind](content)
    except Exception as error:  # each codec has errors of its own
        raise kafka_errors.CorruptRecordError(f"A compressed batch cannot be unpacked: {error!r}") from error


def _gzip(content: bytes) -> Iterator[bytes]:
    while content:
        member = zlib.decompressobj(zlib.MAX_WBITS + 16)
        while not member.eof:
            part = member.decompress(content, _CHUNK)
            if not part and not member.eof and not member.unconsumed_tail:
                raise EOFError("the batch is cut short")
            yield part
            content = member.unconsumed_tail
        content = member.unused_data.lstrip(b"\0")


def _zstd(content: bytes) -> Iterator[bytes]:
    with codec.zstd.ZstdDecompressor().stream_reader(content, read_across_frames=True) as reader:
        while part := reader.read(_CHUNK):
            yield part


def _lz4(content: bytes) -> Iterator[bytes]:
    reader = codec.lz4.LZ4FrameDecompressor()
    while not reader.eof:
        part = reader.decompress(content, _CHUNK)
        if not part and reader.needs_input:
            raise EOFError("the batch is cut short")
        content = b""
        yield part


def _old_lz4(content: bytes) -> Iterator[bytes]:
    """Unpack a frame whose header has the checksum of Kafka before 0.10, which is none of LZ4's."""
    size = _LZ4_HEADER + _SIZE_BYTES * bool(content[_FLAGS_AT] & _HAS_SIZE)
    checksum = xxhash.xxh32(content[_FLAGS_AT : size - 1]).digest()[-2:-1]
    return _lz4(content[: size - 1] + checksum + content[size:])


def _snappy(content: bytes) -> Iterator[bytes]:
    yield bytes(codec.snappy_decode(content))  # at most 21 times as long, so that the size of a fetch bounds it


_UNPACK: dict[int, Callable[[bytes], Iterator[bytes]]] = {
    DefaultRecordBatch.CODEC_GZIP: _gzip,
    DefaultRecordBatch.CODEC_SNAPPY: _snappy,
    DefaultRecordBatch.CODEC_LZ4: _lz4,
    DefaultRecordBatch.CODEC_ZSTD: _zstd,
    OLD_LZ4: _old_lz4,
}
