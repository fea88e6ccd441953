"""The changelog as a file: an append-only journal.

An entry has two parts: a record (JSON of the caller about what was done) and a block (the changes to the index,
block.py). When the journal is opened again, it returns the same entries in order. An entry counts once `append`
returns: then it is on disk. The data that it describes must be on disk before.

Layout, little-endian: 8 bytes "SDJRNL01", then the entries. An entry:

    0   4  magic "SDE1"
    4   4  length of the record
    8   8  length of the block
    16  16 xxh3-128 of record and block
    32  8  xxh3-64 of bytes 0..31
    40     record, block

`write_entries` writes a whole file of this layout at once, and `read_entries` reads one, which must be complete.

A process that is killed during an append leaves a torn tail, which never counted. The next opening cuts it off. A bad
entry with an intact one after it is damage to entries that did count, and is refused. Therefore the head has its own
checksum: a corrupt length must not look like a torn tail.
"""

import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import xxhash

from stream_dedup.errors import CorruptBlock, InputError
from stream_dedup.files import replace_file

MAGIC = b"SDJRNL01"
_ENTRY = b"SDE1"
_CURE = "restore the file from a copy, or begin without it (nothing is remembered then)"
_HEAD = struct.Struct("<4sIQ16s")
_HEAD_BYTES = _HEAD.size + 8
_COPY_BYTES = 2**20  # a journal may be larger than memory


class Entry(NamedTuple):
    """One entry, with its start and end in the file, in bytes."""

    start: int
    end: int
    record: bytes
    block: bytes


class Journal:
    """One journal file, open for appending. The caller must hold a lock on its directory (`open_locked`).

    The constructor calls `replay` with each entry that the file has, in order. Raises CorruptBlock, with file and byte
    offset, for a damaged entry.
    """

    def __init__(self, path: Path, replay: Callable[[Entry], None]) -> None:
        self._path = path
        if not path.exists():
            replace_file(path, [MAGIC])
        self._file: BinaryIO = path.open("r+b")
        try:
            self.size = len(MAGIC)  # bytes
            for entry in _intact_entries(self._file, path):
                replay(entry)
                self.size = entry.end
            self._file.seek(self.size)
            self._file.truncate()  # the torn tail
            self._sync()
        except BaseException:
            self._file.close()
            raise

    def append(self, record: bytes, block: bytes = b"") -> None:
        """Append an entry; it is on disk when this returns. O(bytes). Raises InputError if it cannot be written."""
        entry = packed(record, block)
        try:
            self._file.write(entry)
            self._sync()
        except OSError as error:
            with suppress(OSError):  # closing tries to write the buffer, and closes even if it cannot
                self._file.close()
            raise InputError(
                f"cannot write {self._path}: {error.strerror or error}. Make room, then run the same command again: "
                "it continues where it stopped"
            ) from None
        self.size += len(entry)

    def keep(self, spans: Sequence[tuple[int, int]]) -> None:
        """Reduce the file to these (start, end), in this order, atomically. O(bytes kept)."""

        def content(source: BinaryIO) -> Iterator[bytes]:
            yield MAGIC
            for start, end in spans:
                source.seek(start)
                for offset in range(start, end, _COPY_BYTES):
                    yield source.read(min(_COPY_BYTES, end - offset))

        with self._path.open("rb") as source:
            self.size = replace_file(self._path, content(source))
        self._file.close()
        self._file = self._path.open("r+b")
        self._file.seek(self.size)

    def close(self) -> None:
        self._file.close()

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


def write_entries(path: Path, entries: Iterable[tuple[bytes, bytes]]) -> int:
    """Write a file of these entries (record, block) atomically; returns its bytes. Raises OSError."""
    return replace_file(path, chain([MAGIC], (packed(record, block) for record, block in entries)))


def read_entries(path: Path) -> Iterator[Entry]:
    """Read a file of `write_entries`, entry by entry. Raises OSError, and CorruptBlock for a damaged file."""
    with path.open("rb") as file:
        end = len(MAGIC)
        for entry in _intact_entries(file, path):
            yield entry
            end = entry.end
        if end < os.fstat(file.fileno()).st_size:
            raise _damage(path, end, "last entry")


def packed(record: bytes, block: bytes) -> bytes:
    """Return the bytes of an entry."""
    head = _HEAD.pack(_ENTRY, len(record), len(block), xxhash.xxh3_128_digest(record + block))
    return head + xxhash.xxh3_64_digest(head) + record + block


def _intact_entries(file: BinaryIO, path: Path) -> Iterator[Entry]:
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
