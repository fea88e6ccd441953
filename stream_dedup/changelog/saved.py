"""The memory of a Deduplicator as one file: what `Deduplicator.save` writes and `load` reads.

In: a Deduplicator, or a file. Out: the file, or a Deduplicator that gives every later item the verdict that the saved
one would have given. The file is laid out as a journal (files.py): each entry has a checksum, and its rows stand in
the blocks of the changelog (block.py). The entries, by their records:

    Opening    the version, the scheme, and the settings that verdicts depend on
    Rows       a block with some of the rows, oldest first
    Passages   the table of passages that recur (dedup/boilerplate.py), as far as it is in use
    Closing    how many rows there were; a block with the clocks

It is written under another name and takes its place when it is on the disk, so a killed process leaves the former file.
Nothing in it can run code (no pickle).
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zstandard

from stream_dedup.changelog import block
from stream_dedup.changelog.files import read_entries, write_entries
from stream_dedup.changelog.fold import parts
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import CorruptBlock, InputError, SchemeMismatch
from stream_dedup.settings import Settings, load_settings

VERSION = 1
JUDGING = ("window", "fingerprint", "decision", "policy", "index")
"""The tables of settings that a verdict depends on, once there are items."""
# 2 MB of default records and keys: enough that a block's own costs vanish, little enough not to matter beside the rest.
_ROWS = 4096
# Long bodies that are kept whole can make such rows large.
_BLOCK_BYTES = 2**24


class Opening(msgspec.Struct, frozen=True, tag="memory"):
    """The first record. settings: the tables of JUDGING."""

    version: int
    scheme: str
    settings: dict[str, dict[str, Any]]


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    """Of an entry whose block has rows."""


class Passages(msgspec.Struct, frozen=True, tag="passages"):
    """The buckets of the table that are in use: how many the table has, their numbers and content, packed by zstd."""

    table: int
    buckets: bytes
    entries: bytes


class Closing(msgspec.Struct, frozen=True, tag="end"):
    """The last record."""

    rows: int


def save(dedup: Deduplicator, path: Path) -> int:
    """Writes all that is remembered; the file's bytes. Raises InputError if it cannot be written.

    O(bytes); `Deduplicator.save` in script.py has figures.
    """
    try:
        return write_entries(path, _entries(dedup))
    except OSError as error:
        raise InputError(f"cannot save to {path}: {error.strerror or error}") from None


def settings_of(path: Path) -> Settings:
    """The settings of the Deduplicator that was saved; those outside of JUDGING are as `load_settings()` has them."""
    opening = _opening(path, next(_records(path), None))
    return load_settings(None, **opening.settings)


def restore(dedup: Deduplicator, path: Path) -> None:
    """Reads a file into a Deduplicator that is new.

    Raises InputError, CorruptBlock, and SchemeMismatch if it was saved under other [fingerprint] settings.
    """
    records = _records(path)
    opening = _opening(path, next(records, None))
    if opening.scheme != f"{dedup.scheme_id:016x}":
        raise SchemeMismatch(_other_scheme(path, opening, dedup))
    rows, at_end = 0, False
    for record, of in records:
        if at_end:
            raise _damaged(path, "there is more behind its end")
        if isinstance(record, Passages):
            _put_back(dedup, path, record)
            continue
        try:
            delta = block.decode(of, dedup.scheme_id, dedup.scheme.signature_dtype)
        except CorruptBlock as error:
            raise _damaged(path, str(error)) from None
        dedup.restore(delta)
        rows += len(delta)
        if isinstance(record, Closing):
            at_end = True
            if rows != record.rows:
                raise _damaged(path, f"it has {rows} rows of {record.rows}")
    if not at_end:
        raise _damaged(path, "its end is missing")
    dedup.wait_for_merges()


def _entries(dedup: Deduplicator) -> Iterator[tuple[bytes, bytes]]:
    encode = msgspec.json.encode
    yield encode(Opening(VERSION, f"{dedup.scheme_id:016x}", _judging(dedup.settings))), b""
    buckets, entries = dedup.boilerplate.image()
    pack = zstandard.ZstdCompressor().compress
    passages = Passages(dedup.boilerplate.buckets, pack(buckets.astype("<i8").tobytes()), pack(entries.tobytes()))
    yield encode(passages), b""
    rows, waiting = 0, None
    for delta in dedup.memory(_ROWS):
        if waiting is not None:
            for part in parts(waiting, _BLOCK_BYTES):
                yield encode(Rows()), block.encode(part, dedup.scheme_id)
        waiting = delta
        rows += len(delta)
    if waiting is not None:
        yield encode(Closing(rows)), block.encode(waiting, dedup.scheme_id)


def _judging(settings: Settings) -> dict[str, dict[str, Any]]:
    """The tables as a settings file could have them."""
    tables: dict[str, dict[str, Any]] = settings.model_dump(include=set(JUDGING))
    return {name: {key: _plain(value) for key, value in table.items()} for name, table in tables.items()}


def _plain(value: object) -> object:
    if isinstance(value, timedelta):
        return f"{value // timedelta(milliseconds=1)}ms"
    return str(value) if isinstance(value, Path) else value


def _records(path: Path) -> Iterator[tuple[Any, bytes]]:
    decode = msgspec.json.Decoder(Opening | Rows | Passages | Closing).decode
    try:
        for entry in read_entries(path):
            try:
                record = decode(entry.record)
            except msgspec.MsgspecError as error:
                raise _damaged(path, f"byte {entry.start}: {error}") from None
            yield record, entry.block
    except OSError as error:
        raise InputError(f"cannot load {path}: {error.strerror or error}") from None


def _opening(path: Path, first: tuple[Any, bytes] | None) -> Opening:
    if first is None or not isinstance(first[0], Opening):
        raise CorruptBlock(f"{path} was not written by Deduplicator.save")
    if first[0].version != VERSION:
        raise CorruptBlock(f"{path} has layout version {first[0].version}; this program reads {VERSION}")
    return first[0]


def _other_scheme(path: Path, opening: Opening, dedup: Deduplicator) -> str:
    before = opening.settings["fingerprint"]
    now = _judging(dedup.settings)["fingerprint"]
    differing = [f"{name} = {before[name]!r} then, {now[name]!r} now" for name in now if before.get(name) != now[name]]
    said = f"{path} was saved under other fingerprints (scheme {opening.scheme}, here {dedup.scheme_id:016x})"
    if differing:
        return (
            f"{said}: [fingerprint] {'; '.join(differing)}. Load it with the settings it was saved with "
            "(load(path) alone takes them), or judge the items of the last window again under the new ones"
        )
    return f"{said}: another release of the program made it. Judge the items of the last window again"


def _put_back(dedup: Deduplicator, path: Path, record: Passages) -> None:
    unpack = zstandard.ZstdDecompressor().decompress
    try:
        buckets = np.frombuffer(unpack(record.buckets), "<i8")
        entries = np.frombuffer(unpack(record.entries), "<u4")
    except (zstandard.ZstdError, ValueError) as error:
        raise _damaged(path, f"its passages: {error}") from None
    table = dedup.boilerplate
    fits = record.table == table.buckets and len(entries) == len(buckets) * table.bucket_words
    if not fits or not ((buckets >= 0) & (buckets < table.buckets)).all():
        raise _damaged(path, "its table of passages has another size")
    table.put_back((buckets, entries.reshape(len(buckets), table.bucket_words)))


def _damaged(path: Path, what: str) -> CorruptBlock:
    return CorruptBlock(
        f"{path} is damaged: {what}; bring it back from a copy, or begin with an empty Deduplicator, which remembers "
        "nothing"
    )
