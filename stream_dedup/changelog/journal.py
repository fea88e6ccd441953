"""The changelog as a file: a journal.

An entry has two parts: a record (JSON of the caller about what was done) and a block (the changes to the index,
block.py). `Deduplicator.save` writes a whole journal, and `filter --state` appends to one (tools/batch/journal.py).

Layout, little-endian: 8 bytes "SDJRNL01", then the entries. An entry:

    0   4  magic "SDE1"
    4   4  length of the record
    8   8  length of the block
    16  16 xxh3-128 of record and block
    32  8  xxh3-64 of bytes 0..31
    40     record, block

`write_entries` writes a whole file of this layout at once, and `read_entries` reads one, which must be complete.

A process that is killed during an append leaves a torn tail, which never counted. A bad entry with an intact one after
it is damage to entries that did count, and is refused. Therefore the head has its own checksum: a corrupt length must
not look like a torn tail.
"""

import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import xxhash

from stream_dedup.errors import CorruptBlock
from stream_dedup.files import replace_file

MAGIC = b"SDJRNL01"
_ENTRY = b"SDE1"
_CURE = "restore the file from a copy, or begin without it (nothing is remembered then)"
_HEAD = struct.Struct("<4sIQ16s")
_HEAD_BYTES = _HEAD.size + 8


class Entry(NamedTuple):
    """One entry, with its start and end in the file, in bytes."""

    start: int
    end: int
    record: bytes
    block: bytes


def write_entries(path: Path, entries: Iterable[tuple[bytes, bytes]]) -> int:
    """Write a file of these entries (record, block) atomically; returns its bytes. Raises OSError."""
    return replace_file(path, chain([MAGIC], (packed(record, block) for record, block in entries)))


def read_entries(path: Path) -> Iterator[Entry]:
    """Read a file of `write_entries`, entry by entry. Raises OSError, and CorruptBlock for a damaged file."""
    with path.open("rb") as file:
        end = len(MAGIC)
        for entry in intact_entries(file, path):
            yield entry
            end = entry.end
        if end < os.fstat(file.fileno()).st_size:
            raise _damage(path, end, "last entry")


def packed(record: bytes, block: bytes) -> bytes:
    """Return the bytes of an entry."""
    head = _HEAD.pack(_ENTRY, len(record), len(block), xxhash.xxh3_128_digest(record + block))
    return head + xxhash.xxh3_64_digest(head) + record + block


def intact_entries(file: BinaryIO, path: Path) -> Iterator[Entry]:
    """Yield the entries up to the end of the file or its torn tail. Raises CorruptBlock for other damage."""
    size = os.fstat(file.fileno()).st_size
    if file.read(len(MAGIC)) != MAGIC:
        raise CorruptBlock(f"{path} was not written by `save` or `filter --state`; {_CURE}")
    offset = len(MAGIC)
    while offset < size:
        head = file.read(_HEAD_BYTES)
        if not _is_head(head):
            if _has_entry_after(file, offset):
                raise _damage(path, offset, "head of an entry")
            return
        _, record_bytes, block_bytes, digest = _HEAD.unpack_from(head)
        end = offset + _HEAD_BYTES + record_bytes + block_bytes
        if end > size:
            return
        content = file.read(record_bytes + block_bytes)
        if xxhash.xxh3_128_digest(content) != digest:
            if end < size:  # a later append began only after this entry was on disk
                raise _damage(path, offset, "content of an entry")
            return
        yield Entry(offset, end, content[:record_bytes], content[record_bytes:])
        offset = end


def _has_entry_after(file: BinaryIO, offset: int) -> bool:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        while (offset := whole.find(_ENTRY, offset + 1)) >= 0:
            if _is_head(whole[offset : offset + _HEAD_BYTES]):
                return True
    return False


def _is_head(head: bytes) -> bool:
    return head[:4] == _ENTRY and head[_HEAD.size :] == xxhash.xxh3_64_digest(head[: _HEAD.size])


def _damage(path: Path, offset: int, part: str) -> CorruptBlock:
    return CorruptBlock(
        f"{path}, byte {offset}: the {part} does not match its checksum: it was changed or cut after it was written; "
        f"{_CURE}"
    )
