"""Packed bytes, both ways: gzip and zstd.

In: a file and its first bytes, which say how it is packed whatever its name says; or bytes to be packed. Out: chunks of
what was packed, or members (gzip) and frames (zstd) that can be joined, cut between, and read by `gzip -d` and
`zstd -d`. What is cut short is an error, never a shorter file: python-zstandard's own stream reader would say nothing.
"""

import gzip
import zlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import zstandard

from stream_dedup.errors import InputError

# Large enough that a chunk costs far more than the calls around it, small enough for many to fit in a cache.
CHUNK = 2**18


class Packing(StrEnum):
    """What we read and write; the value is the suffix."""

    GZIP = ".gz"
    ZSTD = ".zst"


class Readable(Protocol):
    """What is read from: a file, or one whose first bytes were read before."""

    def read(self, size: int, /) -> bytes: ...


class Packer(Protocol):
    """Packs one member or frame: any number of `compress`, one `flush`."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# Frames that a reader skips, as pzstd and seekable zstd write them: 0x184D2A50 to 0x184D2A5F, little-endian.
_ZSTD_SKIPPED = b"\x2a\x4d\x18"
SPREADSHEETS = (".xlsx", ".xls", ".ods")
UNKNOWN = (".bz2", ".xz", ".zip", ".lz4", ".7z", *SPREADSHEETS)
"""Suffixes of what cannot be written."""
_OTHERS = {b"BZh": ("bzip2", "bzip2 -dc"), b"\xfd7zXZ": ("xz", "xz -dc"), b"PK\x03\x04": ("zip", "unzip -p")}


def packing_of(path: str | Path) -> Packing | None:
    """What a name says.

    >>> packing_of("a.jsonl.gz"), packing_of("a.jsonl")
    (<Packing.GZIP: '.gz'>, None)
    """
    suffix = Path(path).suffix.lower()
    return Packing(suffix) if suffix in list(Packing) else None


def recognise(path: str, head: bytes) -> Packing | None:
    """What a file's first bytes say; raises InputError where its name says otherwise, or nothing here can unpack it."""
    if Path(path).suffix.lower() in SPREADSHEETS and head:
        raise InputError(f"{path} is a spreadsheet, which is not read here; save it as CSV (UTF-8)")
    for magic, (name, command) in _OTHERS.items():
        if head.startswith(magic):
            raise InputError(
                f"{path} is packed with {name}, which is not read here; unpack it on the way: "
                f"{command} FILE | stream-dedup ... -"
            )
    found = None
    if head.startswith(_GZIP):
        found = Packing.GZIP
    elif head.startswith(_ZSTD) or (head[1:4] == _ZSTD_SKIPPED and head[0] >> 4 == 5):
        found = Packing.ZSTD
    named = packing_of(path)
    if named and not found and head:
        raise InputError(
            f"{path} is not packed as its name says: it does not begin like a {named} file. If it is plain, give it a "
            f"name without {named}; if it was damaged, fetch it again"
        )
    return found


def unpacked(file: Readable, packing: Packing | None) -> Iterator[bytes]:
    """The file's chunks; raises EOFError where packed data are cut short, OSError, zlib.error, zstandard.ZstdError."""
    if packing is Packing.GZIP:
        with gzip.GzipFile(fileobj=file) as members:  # type: ignore[call-overload] # `read` is all that it calls
            while chunk := members.read(CHUNK):
                yield chunk
    elif packing is Packing.ZSTD:
        yield from _unpacked_zstd(file)
    else:
        while chunk := file.read(CHUNK):
            yield chunk


def packer(packing: Packing) -> Packer:
    """One member or frame to come, at the level that the tools take by default; the same bytes each time it is made."""
    if packing is Packing.GZIP:
        return zlib.compressobj(6, wbits=zlib.MAX_WBITS + 16)
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()


def _unpacked_zstd(file: Readable) -> Iterator[bytes]:
    # Files of `zstd --long=31` need the largest window there is.
    unpacker = zstandard.ZstdDecompressor(max_window_size=2**31)
    frame = None
    while chunk := file.read(CHUNK):
        while chunk:  # one frame after the other, as `cat a.zst b.zst` makes them
            frame = frame or unpacker.decompressobj()
            yield frame.decompress(chunk)
            if not frame.eof:
                break
            chunk, frame = frame.unused_data, None
    if frame is not None:
        raise EOFError
