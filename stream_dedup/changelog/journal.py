"""The changelog as a file, a journal; and the state of a Deduplicator in such a file: `save` and `restore`.

An entry has two parts: a record (JSON of the caller about what was done) and a block (the changes to the index,
block.py). `Deduplicator.save` writes a whole journal, and `filter --state` appends to one (tools/batch/journal.py).

Layout, little-endian: 8 bytes "SDJRNL01", then the entries. An entry:

    0   4  magic "SDE1"
    4   4  length of the record
    8   8  length of the block
    16  16 xxh3-128 of record and block
    32  8  xxh3-64 of bytes 0..31
    40     record, block

A process that is killed during an append leaves a torn tail, which never counted. A bad entry with an intact one after
it is damage to entries that did count, and is refused. Therefore the head has its own checksum: a corrupt length must
not look like a torn tail.

A restored Deduplicator gives every later item the same verdict as the saved one. The entries of its file, by their
records:

    a Preamble   the version, the scheme, and the settings that verdicts depend on
    passages     the table of recurring passages (dedup/boilerplate.py), as a zstd frame instead of a block
    rows         a block with some of the rows, oldest first
    end          the last block, which has the clocks too

Such a file is written under another name, and renamed when it is on disk. So a killed process leaves the former file.
It contains no code (no pickle).
"""

import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, get_args

import msgspec
import numpy as np
import xxhash
import zstandard

from stream_dedup.changelog.block import decode, encode, split_delta, unpack_frame
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import ConfigError, CorruptBlock, InputError, SchemeMismatch
from stream_dedup.files import replace_file
from stream_dedup.settings import REMOVED, TABLES, Settings, load_settings

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


# -- the state of a Deduplicator -------------------------------------------------------------------------

VERSION = 1
"""Of the layout of a saved state."""
JUDGING = ("item", "window", "fingerprint", "decision", "policy", "sources", "index")
"""The settings tables that verdicts depend on."""
# 2 MB of default signatures and keys: so much that a block's overhead vanishes, and little beside the whole state.
_ROWS = 4096
_FILES = [
    (table, name) for table in JUDGING for name, field in TABLES[table].items() if Path in (get_args(field.annotation))
]
"""The settings of these tables that name files."""
_PASSAGES, _ROWS_PART, _END = b"passages", b"rows", b"end"
# Limits blocks of large rows, which store whole bodies.
_BLOCK_BYTES = 2**24


class Preamble(msgspec.Struct, frozen=True):
    """The first record of a saved state."""

    version: int
    scheme: str
    settings: dict[str, dict[str, Any]]  # the tables of JUDGING
    expired: int = 0  # a count of script.py
    nameless: int = 0  # a count of script.py


def save(dedup: Decider, path: Path, expired: int = 0, nameless: int = 0) -> int:
    """Write the state; returns the file's bytes. Raises InputError if the file cannot be written.

    O(bytes); `Deduplicator.save` in script.py has figures.
    """
    try:
        return write_entries(path, _entries(dedup, expired, nameless))
    except OSError as error:
        raise InputError(f"cannot save to {path}: {error.strerror or error}") from None


def settings_of(path: Path, overrides: Mapping[str, dict[str, Any]]) -> Settings:
    """Return the settings of the saved Deduplicator, changed by `overrides`; others come from `load_settings()`.

    Raises ConfigError if they name a file: its author could have any other file read.
    """
    preamble = _preamble(path, next(_records(path), None))
    if named := [f"[{table}] {name}" for table, name in _FILES if preamble.settings.get(table, {}).get(name)]:
        raise ConfigError(
            f"{path} was saved with {', '.join(named)}, and a file of state may not choose what else is read; load it "
            "with the settings that it was saved with: Deduplicator.load(PATH, load_settings(FILE))"
        )
    tables: dict[str, dict[str, Any]] = {}
    for table in (*preamble.settings, *overrides):
        saved = preamble.settings.get(table, {})
        kept = {name: value for name, value in saved.items() if not _is_constant(table, name, value)}
        tables[table] = kept | overrides.get(table, {})
    return load_settings(None, **tables)


def restore(dedup: Decider, path: Path) -> Preamble:
    """Read a file into a new Decider; returns its preamble.

    Raises InputError, CorruptBlock, and SchemeMismatch if it was saved under other [fingerprint] settings.
    """
    entries = _records(path)
    preamble = _preamble(path, next(entries, None))
    if preamble.scheme != f"{dedup.scheme_id:016x}":
        raise SchemeMismatch(_other_scheme(path, preamble, dedup))
    is_closed = False
    for entry in entries:
        if is_closed:
            raise _damaged(path, "it goes on after its end")
        is_closed = entry.record == _END
        try:
            if entry.record == _PASSAGES:
                table = dedup.boilerplate.entries
                content = unpack_frame(entry.block, table.nbytes, table.nbytes)
                table[:] = np.frombuffer(content, table.dtype).reshape(table.shape)
            else:
                dedup.restore(decode(entry.block, dedup.scheme_id, dedup.scheme.signature_dtype))
        except CorruptBlock as error:
            raise _damaged(path, str(error)) from None
    if not is_closed:
        raise _damaged(path, "its end is missing")
    dedup.catch_up()
    return preamble


def _entries(dedup: Decider, expired: int, nameless: int) -> Iterator[tuple[bytes, bytes]]:
    preamble = Preamble(VERSION, f"{dedup.scheme_id:016x}", _judging(dedup.settings), expired, nameless)
    yield msgspec.json.encode(preamble), b""
    yield _PASSAGES, zstandard.ZstdCompressor().compress(dedup.boilerplate.entries.tobytes())
    for delta in dedup.export(_ROWS):
        for part in split_delta(delta, _BLOCK_BYTES):
            yield _ROWS_PART if len(part) else _END, encode(part, dedup.scheme_id)


def _judging(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the tables in the form of a settings file, without the salt, which is secret."""
    tables: dict[str, dict[str, Any]] = settings.model_dump(
        include=set(JUDGING) - (set() if settings.sources.rules else {"sources"}),
        exclude={"fingerprint": {"salt", "salt_file"}},
    )
    return {name: {key: _plain(value) for key, value in table.items()} for name, table in tables.items()}


def _plain(value: object) -> object:
    return f"{value // timedelta(milliseconds=1)}ms" if isinstance(value, timedelta) else value


def _is_constant(table: str, name: str, value: object) -> bool:
    """Whether this was a setting, and had the value that it has for all now."""
    return (removed := REMOVED.get((table, name))) is not None and value == removed.constant


def _records(path: Path) -> Iterator[Entry]:
    try:
        yield from read_entries(path)
    except OSError as error:
        raise InputError(f"cannot load {path}: {error.strerror or error}") from None


def _preamble(path: Path, first: Entry | None) -> Preamble:
    try:
        preamble = msgspec.json.decode(first.record if first is not None else b"", type=Preamble)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptBlock(f"{path} was not written by Deduplicator.save: {error}") from None
    if preamble.version != VERSION:
        raise CorruptBlock(f"{path} has layout version {preamble.version}; this program reads {VERSION}")
    if foreign := set(preamble.settings) - set(JUDGING):
        raise _damaged(path, f"it has settings that decide nothing: {', '.join(sorted(foreign))}")
    return preamble


def _other_scheme(path: Path, preamble: Preamble, dedup: Decider) -> str:
    current, saved = _judging(dedup.settings)["fingerprint"], preamble.settings.get("fingerprint", {})
    differing = [
        f"[fingerprint] {name} = {saved[name]!r} then, {current[name]!r} now"
        for name in current
        if name in saved and saved[name] != current[name]
    ]
    differing += [
        f"[fingerprint] {name} = {value!r} then, a setting that is gone"
        for name, value in saved.items()
        if ("fingerprint", name) in REMOVED and not _is_constant("fingerprint", name, value)
    ]
    return (
        f"{path} was saved under other fingerprints (scheme {preamble.scheme}, here {dedup.scheme_id:016x}): "
        f"{'; '.join(differing) or 'another [fingerprint] salt, or another release of the program'}. Load it with the "
        "settings it was saved with (load(path) alone takes all but the salt), or judge the items of the last window "
        "again under the new ones"
    )


def _damaged(path: Path, problem: str) -> CorruptBlock:
    return CorruptBlock(
        f"{path} is damaged: {problem}; restore it from a copy, or begin with an empty Deduplicator, which remembers "
        "nothing"
    )
