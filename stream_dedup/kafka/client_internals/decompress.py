"""Decompress the content of record batches, piece by piece.

In: a codec's number, as record batches hold it, and the compressed bytes. Out: the bytes in pieces, or
CorruptRecordError. The client's own functions unpack the whole, whatever its size, and each codec has errors of its
own.
"""

import zlib
from collections.abc import Callable, Iterator

from kafka import codec
from kafka import errors as kafka_errors
from kafka.record.default_records import DefaultRecordBatch

_CHUNK = 2**20


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


def _snappy(content: bytes) -> Iterator[bytes]:
    yield bytes(codec.snappy_decode(content))  # at most 21 times as long, so that the size of a fetch bounds it


_UNPACK: dict[int, Callable[[bytes], Iterator[bytes]]] = {
    DefaultRecordBatch.CODEC_GZIP: _gzip,
    DefaultRecordBatch.CODEC_SNAPPY: _snappy,
    DefaultRecordBatch.CODEC_LZ4: _lz4,
    DefaultRecordBatch.CODEC_ZSTD: _zstd,
}
