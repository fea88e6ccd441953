"""Read Avro container files (.avro), each record as a JSON object; registry/avro.py decodes them.

In: an open `Source`, a pipe as well. Out: rows of JSON, as in JSON Lines. One block is in memory at a time, and what it
may unpack to is bounded. Nothing behind damaged bytes can be trusted, so they stop the run.
"""

import bz2
import lzma
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO

import msgspec
import zstandard

from stream_dedup.batch.tables import Row, Source, limited
from stream_dedup.errors import BadItem, InputError
from stream_dedup.registry.avro import AvroReader

MAGIC = b"Obj\x01"
_SYNC = 16  # bytes of the mark behind each block
_ROWS = 16  # of the largest records, as bytes of a block; a writer ends a block at 16 to 64 KB, or after the record
_XZ_MEMORY = 128 * 2**20  # more than xz -9 needs


def avro_rows(source: Source) -> Iterator[Row]:
    """The records of an Avro file. Raises InputError for one that is damaged or cut short, or has an unknown codec."""
    file = _File(source)
    try:
        file.take(len(MAGIC))
        header = file.header()
        codec = header.get("avro.codec", b"null").decode("utf-8", "replace")
        read = AvroReader(msgspec.json.decode(header.get("avro.schema", b"")))
        sync = file.take(_SYNC)
        while (count := file.number(last=True)) is not None:
            data = _unpacked(codec, file.take(file.number()), _ROWS * source.most)
            block = BytesIO(data)
            if not 0 <= count <= len(data):
                raise ValueError(f"a block of {len(data):,} bytes cannot hold {count:,} records")
            for _ in range(count):
                yield limited(msgspec.json.encode(read(block)), source.most)
            if block.tell() < len(data) or file.take(_SYNC) != sync:
                raise ValueError("a block does not end where it should")
    except BadItem as bad:
        raise InputError(f"cannot read {source.name} as Avro: {bad.detail}") from None
    except InputError:  # of the source
        raise
    except Exception as error:  # noqa: BLE001 - six third-party decoders on hostile input
        raise InputError(f"cannot read {source.name} as Avro: {error}") from None


class _File:
    """The bytes of a file in order."""

    def __init__(self, source: Source) -> None:
        self._source, self._left = source, bytearray()

    def take(self, size: int | None) -> bytes:
        """Return the next bytes. Raises ValueError if there are fewer, or more than a block may have."""
        if size is None or not 0 <= size <= _ROWS * self._source.most:
            raise ValueError(f"a part of {size:,} bytes is damaged, or more than [worker] max_record_bytes allows")
        while len(self._left) < size:
            chunk = next(self._source.chunks, b"")
            if not chunk:
                raise ValueError("it is cut short")
            self._left += chunk
        taken = bytes(self._left[:size])
        del self._left[:size]
        return taken

    def number(self, *, last: bool = False) -> int | None:
        """Return the next number, a zigzag varint of 64 bits; None at the end of the file, if `last` allows that."""
        if last and not self._left:
            self._left += next(self._source.chunks, b"")
            if not self._left:
                return None
        number = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise ValueError("a number has more than 64 bits")

    def header(self) -> Mapping[str, bytes]:
        """Return the metadata of the file: a map in blocks, of which one with a negative count says its size, too."""
        found: dict[str, bytes] = {}
        while count := self.number():
            if count < 0:
                self.number()
            for _ in range(abs(count)):
                name = self.take(self.number()).decode("utf-8", "replace")
                found[name] = self.take(self.number())
        return found


def _unpacked(codec: str, block: bytes, most: int) -> bytes:
    """Unpack a block. Raises ValueError for more than `most` bytes and for an unknown codec."""
    if codec == "null":
        return block
    if codec == "deflate":
        data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(block, most + 1)
    elif codec == "zstandard":
        data = zstandard.ZstdDecompressor().stream_reader(block).read(most + 1)
    elif codec == "snappy":
        import snappy  # a part of kafka-python[snappy], as zstandard

        length = 0
        for place, byte in enumerate(block[:5]):
            length |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        data = snappy.uncompress(block[:-4]) if length <= most else bytes(most + 1)  # 4 bytes: a checksum
    elif codec == "bzip2":
        data = bz2.BZ2Decompressor().decompress(block, most + 1)
    elif codec == "xz":
        data = lzma.LZMADecompressor(memlimit=_XZ_MEMORY).decompress(block, most + 1)
    else:
        raise ValueError(f"its codec is {codec!r}; known are null, deflate, snappy, zstandard, bzip2 and xz")
    if len(data) > most:
        raise ValueError(f"a block unpacks to more than {most:,} bytes; raise [worker] max_record_bytes")
    return data
