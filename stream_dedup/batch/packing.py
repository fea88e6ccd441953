"""Compress and decompress: gzip and zstd.

In: chunks of a file, whose first bytes show how it is packed, whatever its name says; or bytes to pack. Out: the
unpacked chunks; or gzip members and zstd frames, which can be joined, cut between, and read by `gzip -d` and `zstd -d`.
A file that is cut short is an error, never a shorter file; python-zstandard's own stream reader would not notice.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import zstandard

from stream_dedup.errors import InputError
from stream_dedup.news.formats import BZIP2, GZIP, XZ, ZIP, ZSTD
from stream_dedup.settings.memory import available

# Large enough that the calls cost little beside the chunk, small enough that many chunks fit in a cache.
CHUNK = 2**18
# Bytes that are unpacked at a time. They become 32 MiB at most, since a block of 128 KiB of zstd may take four bytes.
# Larger pieces are not faster.
_PIECE = 2**10
_GZIP = zlib.MAX_WBITS + 16  # with the head and the checksum of gzip
# Skippable frames, as pzstd and seekable zstd write them: 0x184D2A50 to 0x184D2A5F, little-endian.
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
# The first bytes of what cannot be read: what it is, and what to do.
_UNREADABLE = {
    BZIP2: ("packed with bzip2", "unpack it in a pipe: bzip2 -dc FILE | stream-dedup ... -"),
    XZ: ("packed with xz", "unpack it in a pipe: xz -dc FILE | stream-dedup ... -"),
    ZIP: (
        "a zip archive or a spreadsheet",
        "unpack it (unzip -p FILE | stream-dedup ... -) or save it as CSV (UTF-8)",
    ),
}


class Packing(StrEnum):
    """The kinds of packing that are read and written; the value is the suffix."""

    GZIP = ".gz"
    ZSTD = ".zst"


def packing_of(path: str | Path) -> Packing | None:
    """The packing that a name stands for; None: none.

    >>> packing_of("a.jsonl.gz"), packing_of("a.jsonl")
    (<Packing.GZIP: '.gz'>, None)
    """
    suffix = Path(path).suffix.lower()
    return Packing(suffix) if suffix in list(Packing) else None


def recognise(path: str, head: bytes) -> Packing | None:
    """The packing that the first bytes show. Raises InputError if the name differs or nothing here can unpack it."""
    for magic, (what, cure) in _UNREADABLE.items():
        if head.startswith(magic):
            raise InputError(f"{path} is {what}, which cannot be read; {cure}")
    if head.startswith(GZIP):
        return Packing.GZIP
    if head.startswith(ZSTD) or (head[1:4] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5):
        return Packing.ZSTD
    if (named := packing_of(path)) and head:
        raise InputError(
            f"{path} is not packed as its name says: it does not begin like a {named} file. If it is plain, give it a "
            f"name without {named}; if it was damaged, fetch it again"
        )
    return None


def unpacked(chunks: Iterable[bytes], packing: Packing | None) -> Iterator[bytes]:
    """The unpacked chunks. Raises EOFError where the file is cut short, OSError, zlib.error, zstandard.ZstdError."""
    if packing is None:
        yield from chunks
        return
    new, frame = _unpacker(packing), None
    for chunk in chunks:
        for start in range(0, len(chunk), _PIECE):
            piece = chunk[start : start + _PIECE]
            # `cat a.zst b.zst` makes several frames; `gzip -d` skips zeros between members, too.
            while piece := piece if frame else piece.lstrip(b"\0"):
                frame = frame or new()
                data = frame.decompress(piece)  # a thousand times as much as the piece, at most
                yield from (data[at : at + CHUNK] for at in range(0, len(data), CHUNK))
                if not frame.eof:
                    break
                piece, frame = frame.unused_data, None
    if frame is not None:
        raise EOFError


def _unpacker(packing: Packing) -> Callable[[], Any]:
    if packing is Packing.GZIP:
        return lambda: zlib.decompressobj(_GZIP)
    # Files of `zstd --long=31` have a window of 2 GiB, which the unpacker fills.
    return zstandard.ZstdDecompressor(max_window_size=min(2**31, available() // 4)).decompressobj


def packer(packing: Packing) -> Any:
    """A packer of one member or frame: call `compress` any number of times, then `flush` once.

    It has the default level of the tools; equal input gives equal bytes.
    """
    if packing is Packing.GZIP:
        return zlib.compressobj(6, wbits=_GZIP)
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()
