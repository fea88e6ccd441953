"""The changelog as a file: an append-only journal, and the lock that keeps a second process out.

In: entries of two parts, a record (what was done; JSON of the caller) and a block (the resulting changes to the index;
block.py). Out: the same entries, in order, when the journal is opened again. An entry counts once `append` returns: it
is on disk then, and the data that it describes must be on disk before.

Layout, little-endian: 8 bytes "SDJRNL01", then the entries. An entry:

    0   4  magic "SDE1"
    4   4  length of the record
    8   8  length of the block
    16  16 xxh3-128 of record and block
    32  8  xxh3-64 of bytes 0..31
    40     record, block

`write_entries` writes a whole file of this layout at once, and `read_entries` reads one, which must be complete.

A process that is killed while it appends leaves a torn tail, which never counted; the next opening cuts it off. A bad
entry with an intact one after it is damage to entries that did count, and is refused. Therefore the head has its own
checksum: a corrupt length must not look like a torn tail.
"""

import fcntl
import mmap
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import xxhash

from stream_dedup.errors import CorruptBlock, InputError

MAGIC = b"SDJRNL01"
_ENTRY = b"SDE1"
_CURE = "restore the file from a copy, or begin without it (nothing is remembered then)"
_HEAD = struct.Struct("<4sIQ16s")
_HEAD_BYTES = _HEAD.size + 8
_COPY_BYTES = 2**20  # a journal may be larger than memory


class Entry(NamedTuple):
    """One entry, and its start and end in the file, in bytes."""

    start: int
    end: int
    record: bytes
    block: bytes


class Journal:
    """One journal file, open for appending. The caller must hold a lock on its directory (`open_locked`).

    `replay` is called with each entry that the file already has, in order, before the constructor returns.
    Raises CorruptBlock, with file and byte offset, where an entry was damaged.
    """

    def __init__(self, path: Path, replay: Callable[[Entry], None]) -> None:
        self._path = path
        if not path.exists():
            self._replace([])
        self._file: BinaryIO = path.open("r+b")
        try:
            self.size = self._read(replay)  # bytes
        except BaseException:
            self._file.close()
            raise

    def append(self, record: bytes, block: bytes = b"") -> None:
        """Append an entry; it is on disk when this returns. O(bytes). Raises InputError if it cannot be written."""
        entry = _packed(record, block)
        try:
            self._file.write(entry)
            self._sync()
        except OSError as error:
            with suppress(OSError):  # closing tries to write what is buffered, and closes nevertheless
                self._file.close()
            raise InputError(
                f"cannot write {self._path}: {error.strerror or error}. Make room, then run the same command again: "
                "it continues where it stopped"
            ) from None
        self.size += len(entry)

    def keep(self, spans: Sequence[tuple[int, int]]) -> None:
        """Reduce the file to these (start, end), in this order, atomically. O(bytes kept)."""
        self._replace(spans)
        self._file.close()
        self._file = self._path.open("r+b")
        self.size = self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        self._file.close()

    # -- reading -----------------------------------------------------------------------------------------

    def _read(self, replay: Callable[[Entry], None]) -> int:
        """Replay the entries and cut off a torn tail; returns the length of the rest."""
        size = os.fstat(self._file.fileno()).st_size
        if self._file.read(len(MAGIC)) != MAGIC:
            raise CorruptBlock(
                f"{self._path} is not a journal of this program: it does not start with {MAGIC.decode()}"
            )
        at = len(MAGIC)
        while at < size:
            entry = self._entry(at, size)
            if entry is None:
                self._file.seek(at)
                self._file.truncate()
                self._sync()
                return at
            replay(entry)
            at = entry.end
        return at

    def _entry(self, at: int, size: int) -> Entry | None:
        """The entry that starts here; None for a torn tail."""
        head = self._file.read(_HEAD_BYTES)
        if not _is_head(head):
            if self._has_entry_after(at):
                raise self._damage(at, "head")
            return None
        _, record_bytes, block_bytes, digest = _HEAD.unpack_from(head)
        start, end = at + _HEAD_BYTES, at + _HEAD_BYTES + record_bytes + block_bytes
        if end > size:
            return None
        content = self._file.read(end - start)
        if xxhash.xxh3_128_digest(content) == digest:
            return Entry(at, end, content[:record_bytes], content[record_bytes:])
        if end < size:  # a later append began only after this entry was on disk
            raise self._damage(at, "content")
        return None

    def _has_entry_after(self, at: int) -> bool:
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            while (at := whole.find(_ENTRY, at + 1)) >= 0:
                if _is_head(whole[at : at + _HEAD_BYTES]):
                    return True
        return False

    def _damage(self, at: int, part: str) -> CorruptBlock:
        return CorruptBlock(
            f"{self._path}, byte {at}: the {part} of an entry does not match its checksum: it was changed after it was "
            "written; restore the file from a copy, or start with a new state directory (it remembers nothing)"
        )

    # -- writing -----------------------------------------------------------------------------------------

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def _replace(self, spans: Sequence[tuple[int, int]]) -> None:
        """Replace the file atomically by these spans of it."""
        new = self._path.with_name(self._path.name + ".new")
        with new.open("wb") as target:
            target.write(MAGIC)
            if spans:
                with self._path.open("rb") as source:
                    for start, end in spans:
                        source.seek(start)
                        _copy(source, target, end - start)
            target.flush()
            os.fsync(target.fileno())
        new.replace(self._path)
        sync_directory(self._path.parent)


def write_entries(path: Path, entries: Iterable[tuple[bytes, bytes]]) -> int:
    """Write a file of these entries (record, block) atomically; returns its bytes. Raises OSError."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as target:
            target.write(MAGIC)
            for record, block in entries:
                target.write(_packed(record, block))
            target.flush()
            os.fsync(target.fileno())
            size = target.tell()
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    sync_directory(path.parent)
    return size


def read_entries(path: Path) -> Iterator[Entry]:
    """Read a file of `write_entries`, entry by entry. Raises OSError, and CorruptBlock for a damaged file."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(len(MAGIC)) != MAGIC:
            raise CorruptBlock(f"{path} was not written by `save` or `filter --state`; {_CURE}")
        at = len(MAGIC)
        while at < size:
            head = file.read(_HEAD_BYTES)
            if not _is_head(head):
                raise CorruptBlock(f"{path}, byte {at}: the head of an entry does not match its checksum; {_CURE}")
            _, record_bytes, block_bytes, digest = _HEAD.unpack_from(head)
            end = at + _HEAD_BYTES + record_bytes + block_bytes
            if end > size:
                raise CorruptBlock(f"{path} was cut: it ends at byte {size}, in an entry that ends at {end}; {_CURE}")
            content = file.read(record_bytes + block_bytes)
            if xxhash.xxh3_128_digest(content) != digest:
                raise CorruptBlock(f"{path}, byte {at}: the content of an entry does not match its checksum; {_CURE}")
            yield Entry(at, end, content[:record_bytes], content[record_bytes:])
            at = end


def open_locked(path: Path) -> BinaryIO:
    """Open a file for reading and writing, locked until it is closed; create it if it is missing.

    The kernel releases the lock when the process ends, so a killed process leaves none.
    Raises InputError if another process holds it.
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous owner may have renamed the file after we opened it; then this lock is on another file.
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        file.close()
        raise
    file.close()
    raise InputError(f"another process is at work on {path}; wait until it ends, or name another path")


def sync_directory(directory: Path) -> None:
    """Make creations and renames in the directory survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _packed(record: bytes, block: bytes) -> bytes:
    head = _HEAD.pack(_ENTRY, len(record), len(block), xxhash.xxh3_128_digest(record + block))
    return head + xxhash.xxh3_64_digest(head) + record + block


def _is_head(head: bytes) -> bool:
    return (
        len(head) == _HEAD_BYTES
        and head[:4] == _ENTRY
        and head[_HEAD.size :] == xxhash.xxh3_64_digest(head[: _HEAD.size])
    )


def _copy(source: BinaryIO, target: BinaryIO, length: int) -> None:
    while length:
        chunk = source.read(min(length, _COPY_BYTES))
        if not chunk:
            raise EOFError("the journal shrank while it was read")
        target.write(chunk)
        length -= len(chunk)
