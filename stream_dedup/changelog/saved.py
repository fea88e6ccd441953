"""Save the state of a Deduplicator to a file, and restore it: `Deduplicator.save` and `load`.

In: a Deduplicator, or a file. Out: the file, or a Deduplicator that gives every later item the verdict of the saved
one. The file has the layout of a journal (files.py), so each entry has a checksum, and rows are stored in changelog
blocks (block.py). The entries, by their records:

    Opening    the version, the scheme, and the settings that verdicts depend on
    Rows       a block with some of the rows, oldest first
    Passages   the buckets in use of the table of recurring passages (dedup/boilerplate.py)
    Closing    the number of rows; a block with the clocks

The file is written under another name and renamed when it is on disk, so a killed process leaves the former file. It
contains no code (no pickle).
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import zstandard

from stream_dedup.changelog import block
from stream_dedup.changelog.entries import split_delta
from stream_dedup.changelog.files import read_entries, write_entries
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import CorruptBlock, InputError, SchemeMismatch
from stream_dedup.settings import Settings, load_settings

VERSION = 1
JUDGING = ("window", "fingerprint", "decision", "policy", "index")
"""The settings tables that verdicts depend on."""
# 2 MB of default signatures and keys: large enough that a block's overhead vanishes, small beside the whole state.
_ROWS = 4096
# Limits blocks whose rows are large because whole bodies are stored.
_BLOCK_BYTES = 2**24


class Opening(msgspec.Struct, frozen=True, tag="memory"):
    """The first record. `settings`: the tables of JUDGING."""

    version: int
    scheme: str
    settings: dict[str, dict[str, Any]]


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    """The record of an entry whose block has rows."""


class Passages(msgspec.Struct, frozen=True, tag="passages"):
    """The buckets in use. `table`: the number of buckets; `buckets`, `entries`: their numbers and content, by zstd."""

    table: int
    buckets: bytes
    entries: bytes


class Closing(msgspec.Struct, frozen=True, tag="end"):
    """The last record."""

    rows: int


def save(dedup: Deduplicator, path: Path) -> int:
    """Write the state; returns the file's bytes. Raises InputError if the file cannot be written.

    O(bytes); `Deduplicator.save` in script.py has figures.
    """
    try:
        return write_entries(path, _entries(dedup))
    except OSError as error:
        raise InputError(f"cannot save to {path}: {error.strerror or error}") from None


def settings_of(path: Path) -> Settings:
    """The settings of the saved Deduplicator; tables outside JUDGING are those of `load_settings()`."""
    opening = _opening(path, next(_records(path), None))
    return load_settings(None, **opening.settings)


def restore(dedup: Deduplicator, path: Path) -> None:
    """Read a file into a new Deduplicator.

    Raises InputError, CorruptBlock, and SchemeMismatch if it was saved under other [fingerprint] settings.
    """
    records = _records(path)
    opening = _opening(path, next(records, None))
    if opening.scheme != f"{dedup.scheme_id:016x}":
        raise SchemeMismatch(_other_scheme(path, opening, dedup))
    rows, is_closed = 0, False
    for record, content in records:
        if is_closed:
            raise _damaged(path, "it goes on after its end")
        if isinstance(record, Passages):
            _restore_passages(dedup, path, record)
            continue
        try:
            delta = block.decode(content, dedup.scheme_id, dedup.scheme.signature_dtype)
        except CorruptBlock as error:
            raise _damaged(path, str(error)) from None
        dedup.restore(delta)
        rows += len(delta)
        if isinstance(record, Closing):
            is_closed = True
            if rows != record.rows:
                raise _damaged(path, f"it has {rows} rows of {record.rows}")
    if not is_closed:
        raise _damaged(path, "its end is missing")
    dedup.wait_for_merges()


def _entries(dedup: Deduplicator) -> Iterator[tuple[bytes, bytes]]:
    encode = msgspec.json.encode
    yield encode(Opening(VERSION, f"{dedup.scheme_id:016x}", _judging(dedup.settings))), b""
    buckets, entries = dedup.boilerplate.snapshot()
    pack = zstandard.ZstdCompressor().compress
    passages = Passages(dedup.boilerplate.buckets, pack(buckets.astype("<i8").tobytes()), pack(entries.tobytes()))
    yield encode(passages), b""
    rows, last = 0, None
    for delta in dedup.export(_ROWS):
        if last is not None:
            for part in split_delta(last, _BLOCK_BYTES):
                yield encode(Rows()), block.encode(part, dedup.scheme_id)
        last = delta
        rows += len(delta)
    if last is not None:
        yield encode(Closing(rows)), block.encode(last, dedup.scheme_id)


def _judging(settings: Settings) -> dict[str, dict[str, Any]]:
    """The tables in the form of a settings file, without the salt, which is secret."""
    tables: dict[str, dict[str, Any]] = settings.model_dump(
        include=set(JUDGING), exclude={"fingerprint": {"salt", "salt_file"}}
    )
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
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise _damaged(path, f"byte {entry.start}: {error}") from None
            yield record, entry.block
    except OSError as error:
        raise InputError(f"cannot load {path}: {error.strerror or error}") from None


def _opening(path: Path, first: tuple[Any, bytes] | None) -> Opening:
    if first is None or not isinstance(first[0], Opening):
        raise CorruptBlock(f"{path} was not written by Deduplicator.save")
    if first[0].version != VERSION:
        raise CorruptBlock(f"{path} has layout version {first[0].version}; this program reads {VERSION}")
    if foreign := set(first[0].settings) - set(JUDGING):
        raise _damaged(path, f"it has settings that decide nothing: {', '.join(sorted(foreign))}")
    return first[0]


def _other_scheme(path: Path, opening: Opening, dedup: Deduplicator) -> str:
    current = _judging(dedup.settings)["fingerprint"]
    saved = opening.settings.get("fingerprint", {})
    differing = [
        f"{name} = {saved[name]!r} then, {current[name]!r} now"
        for name in current
        if name in saved and saved[name] != current[name]
    ]
    message = f"{path} was saved under other fingerprints (scheme {opening.scheme}, here {dedup.scheme_id:016x})"
    if differing:
        return (
            f"{message}: [fingerprint] {'; '.join(differing)}. Load it with the settings it was saved with "
            "(load(path) alone takes them), or judge the items of the last window again under the new ones"
        )
    return (
        f"{message}: another [fingerprint] salt, or another release of the program, made it. Set the former salt, or "
        "judge the items of the last window again"
    )


def _restore_passages(dedup: Deduplicator, path: Path, record: Passages) -> None:
    table = dedup.boilerplate
    try:
        buckets = np.frombuffer(_unpacked(record.buckets, 8 * table.buckets), "<i8")
        entries = np.frombuffer(_unpacked(record.entries, 4 * table.buckets * table.bucket_words), "<u4")
    except (zstandard.ZstdError, ValueError) as error:
        raise _damaged(path, f"its passages: {error}") from None
    fits = record.table == table.buckets and len(entries) == len(buckets) * table.bucket_words
    if not fits or not ((buckets >= 0) & (buckets < table.buckets)).all():
        raise _damaged(path, "its table of passages has another size")
    table.put_back((buckets, entries.reshape(len(buckets), table.bucket_words)))


def _unpacked(frame: bytes, most: int) -> bytes:
    """Unpack at most this many bytes: the frame states its own size, and memory is reserved for it at once."""
    size = zstandard.frame_content_size(frame)
    if not 0 <= size <= most:
        raise ValueError(f"{size} bytes, and at most {most} fit")
    return zstandard.ZstdDecompressor().decompress(frame)


def _damaged(path: Path, problem: str) -> CorruptBlock:
    return CorruptBlock(
        f"{path} is damaged: {problem}; restore it from a copy, or begin with an empty Deduplicator, which remembers "
        "nothing"
    )
