"""Read Avro container files (.avro), each record as a JSON object; registry/readers.py decodes them.

The header and the blocks of a file are Avro themselves. One block is in memory at a time, and the size to which it may
unpack is bounded; fastavro's own reader of files has no bound. Damaged bytes stop the run, because nothing behind them
can be trusted.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cramjam  # a part of kafka-python[snappy], as zstandard is of [zstd]
import msgspec
import zstandard

from stream_dedup.errors import BadItem, InputError
from stream_dedup.registry.readers import AvroBytes, AvroReader, fastavro
from stream_dedup.tools.inputs.packing import Input, Row


def _record(**fields: Any) -> Any:
    return {"type": "record", "name": "Part", "fields": [{"name": name, "type": fields[name]} for name in fields]}


def _fixed(size: int) -> Any:
    return {"type": "fixed", "name": f"Bytes{size}", "size": size}


# A mark of 16 bytes follows the header and each block.
_HEADER = _record(magic=_fixed(4), meta={"type": "map", "values": "bytes"}, mark=_fixed(16))
_BLOCK = _record(count="long", data="bytes", mark=_fixed(16))
# The largest records that a block may hold. A writer ends a block at 16 to 64 KB, or after the record.
_ROWS = 16
_XZ_MEMORY = 128 * 2**20  # more than xz -9 needs


def _snappy(block: bytes, most: int) -> bytes:
    packed = block[:-4]  # a checksum follows
    return bytes(cramjam.snappy.decompress_raw(packed) if cramjam.snappy.decompress_raw_len(packed) < most else most)


# By codec: unpacks a block. After the given number of bytes it may stop.
_UNPACK: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda block, _: block,
    "deflate": lambda block, most: zlib.decompressobj(-zlib.MAX_WBITS).decompress(block, most),
    "snappy": _snappy,
    "zstandard": lambda block, most: zstandard.ZstdDecompressor().stream_reader(block).read(most),
    "bzip2": lambda block, most: bz2.BZ2Decompressor().decompress(block, most),
    "xz": lambda block, most: lzma.LZMADecompressor(memlimit=_XZ_MEMORY).decompress(block, most),
}


class _File:
    """The bytes of a file in order, as fastavro reads them."""

    def __init__(self, chunks: Iterator[bytes], most: int) -> None:
        self._chunks, self._held, self.most = chunks, bytearray(), most

    def is_at_end(self) -> bool:
        self._held += b"" if self._held else next(self._chunks, b"")
        return not self._held

    def read(self, size: int) -> bytes:
        """Return the next bytes. Raises ValueError if there are fewer, or if a part would have more than `most`."""
        if not 0 <= size <= self.most:
            raise ValueError(f"a part of {size:,} bytes is damaged, or more than [worker] max_record_bytes allows")
        while len(self._held) < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                raise ValueError("it is cut short")
            self._held += chunk
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken


def avro_rows(input: Input) -> Iterator[Row]:
    """Yield the records of an Avro file. Raises InputError for a damaged or cut file, and an unknown codec."""
    read, file = fastavro().schemaless_reader, _File(input.chunks, _ROWS * input.most)
    try:
        header = read(file, _HEADER, None)
        codec = header["meta"].get("avro.codec", b"null").decode("utf-8", "replace")
        reader = AvroReader(header["meta"].get("avro.schema", b""))
        if codec not in _UNPACK:
            raise ValueError(f"its codec is {codec!r}; known are {', '.join(_UNPACK)}")
        while not file.is_at_end():
            block = read(file, _BLOCK, None)
            data, count = _UNPACK[codec](block["data"], file.most + 1), block["count"]
            if len(data) > file.most:
                raise ValueError(f"a block unpacks to more than {file.most:,} bytes; raise [worker] max_record_bytes")
            if not 0 <= count <= len(data):
                raise ValueError(f"a block of {len(data):,} bytes cannot hold {count:,} records")
            stream = AvroBytes(data)
            for _ in range(count):
                yield input.row(msgspec.json.encode(reader.next(stream)))
            if stream.tell() < len(data) or block["mark"] != header["mark"]:
                raise ValueError("a block does not end where it should")
    except BadItem as bad:
        raise InputError(f"cannot read {input.name} as Avro: {bad.detail}") from None
    except InputError:  # of the input
        raise
    except Exception as error:  # noqa: BLE001 - six third-party decoders on hostile input
        raise InputError(f"cannot read {input.name} as Avro: {error}") from None
