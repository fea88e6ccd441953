"""Targets for what a worker or a command stores and reads again: blocks, headers, journals, saved states, notes.

Formats with a checksum are mutated below it and signed again: a program that can write a record can sign it. The
checksums guard against accidents only.
"""

import struct
from functools import cache
from typing import Any

import msgspec
import zstandard

from stream_dedup.changelog import block, journal
from stream_dedup.changelog.headers import (
    MigrationCheckpoint,
    RestoreResult,
    SequenceRange,
    TaskSummary,
    offsets_header,
)
from stream_dedup.changelog.journal import MAGIC, packed, read_entries, write_entries
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import ConfigError, CorruptBlock, InputError, SchemeMismatch
from stream_dedup.kafka.assignor import _CLAIM, _claimed_generation
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from stream_dedup.tools.batch.filter_state import Begin, Commit, FilterState, Finish, RecordedInput
from stream_dedup.tools.batch.journal import Journal
from stream_dedup.worker.resume import Note
from tests.fuzz.loop import JSON, Target, scratch, scratch_file
from tests.fuzz.records import NOW


def _new(**fingerprint: Any) -> Decider:
    return Decider(load_settings(fingerprint=fingerprint))


_ITEMS = [Item(f"id {n}", f"Bridge {n} opens", f"The bridge {n} over the Elm opened.", "a", NOW) for n in range(3)]
_KINDS: list[dict[str, Any]] = [{}, {"verify": "exact"}]
"""Settings under which blocks hold different things."""


@cache
def _state(kind: int = 0) -> tuple[int, Any, bytes]:
    """Scheme id, dtype and the block of a small batch."""
    with _new(**_KINDS[kind]) as dedup:
        batch = dedup.judge(_ITEMS)
        dedup.apply(batch)
        return dedup.scheme_id, dedup.scheme.signature_dtype, block.encode(batch.delta, dedup.scheme_id)


_HEAD = block.HEADER_BYTES - 16


def sign_block(head: bytes, content: bytes) -> bytes:
    """A block with this head (before its checksum) and content, and the right checksum."""
    frame = zstandard.ZstdCompressor(level=1).compress(content)
    return head + block.block_digest(head, frame) + frame


def plain_block(kind: int = 0) -> bytes:
    """The head and the unpacked content of the block of `_state`."""
    _, _, encoded = _state(kind)
    return encoded[:_HEAD] + zstandard.ZstdDecompressor().decompress(encoded[block.HEADER_BYTES :])


def _signed_block(data: bytes, kind: int = 0) -> Any:
    scheme, dtype, _ = _state(kind)
    head, content = data[:_HEAD].ljust(_HEAD, b"\0"), data[_HEAD:]
    if data[:1] != b"\0":  # mostly with the right length, or few get further
        head = head[:-8] + struct.pack("<Q", len(content))
    delta = block.decode(sign_block(head, content), scheme, dtype)
    n = len(delta.signatures)
    assert len(delta.ids) == n == len(delta.keys)
    assert all(isinstance(name, str) for name in delta.ids)
    return delta


def _restored(data: bytes) -> None:
    """What a restore has accepted can be judged against, whatever it says."""
    kind = data[:1] != b"S"
    content = b"S" + data[1:]
    delta = _signed_block(content, kind)
    with _new(**_KINDS[kind]) as dedup:
        dedup.restore(delta)
        batch = dedup.judge(_ITEMS)
        assert len(batch.verdicts) == len(_ITEMS)
        dedup.apply(batch)
        dedup.catch_up()


def _block(data: bytes) -> None:
    scheme, dtype, _ = _state()
    block.decode(data, scheme, dtype)


def _journal_bytes() -> bytes:
    path = scratch() / "seed"
    write_entries(path, [(b'{"type":"begin"}', b"block"), (b"", b""), (b"x" * 40, b"y" * 50)])
    return path.read_bytes()


def _journal(data: bytes) -> None:
    path = scratch_file("journal", data)
    journal = Journal(path, lambda entry: None)
    journal.close()
    assert path.stat().st_size == journal.size <= max(len(data), 8)


def _entries(data: bytes) -> None:
    for _ in read_entries(scratch_file("entries", data)):
        pass


def _headers(data: bytes) -> None:
    parts = data.split(b"\0")
    names = ("offsets", "standing", "migration")
    result = RestoreResult()
    result.add_block(list(zip(names, parts, strict=False)))
    assert all(isinstance(offset, int) for offset in result.offsets.values())


def _note(data: bytes) -> None:
    note = Note.parse(data.decode("utf-8", "replace"))
    assert note is None or isinstance(note.at, int)


def _claim(data: bytes) -> None:
    assert isinstance(_claimed_generation(data), int)


def _entries_of(data: bytes, blocks: list[bytes]) -> bytes:
    """A file of entries: the records are the lines, and each has the block of its place."""
    lines = data.split(b"\n")
    return MAGIC + b"".join(packed(line, some) for line, some in zip(lines, blocks, strict=False))


@cache
def _saved_state() -> tuple[bytes, list[bytes]]:
    """The records of a saved Decider, as lines, and the blocks."""
    path = scratch() / "saved-seed"
    with _new() as dedup:
        dedup.apply(dedup.judge(_ITEMS))
        journal.save(dedup, path)
    entries = list(read_entries(path))
    return b"\n".join(entry.record for entry in entries), [entry.block for entry in entries]


def _saved(data: bytes) -> None:
    path = scratch_file("saved", _entries_of(data, _saved_state()[1]))
    settings = journal.settings_of(path, {})
    assert settings.window.length_ms > 0
    with _new() as dedup:
        journal.restore(dedup, path)


def _filter_lines() -> bytes:
    begin = Begin([RecordedInput("a.jsonl", "/a.jsonl", 9, 9)], "out", "dup", "7", NOW)
    return b"\n".join(map(msgspec.json.encode, (begin, Commit(0, 3, "9", 4), Finish())))


def _filter(data: bytes) -> None:
    directory = scratch() / "state"
    directory.mkdir(exist_ok=True)
    (directory / "journal").write_bytes(_entries_of(data, [b"", _state()[2], b"", b""]))
    with _new() as dedup:
        state = FilterState(directory, dedup)
        try:
            state.resume_point(Begin([RecordedInput("a.jsonl", "/a.jsonl", 9, 9)], "out", "dup", "7", NOW))
        finally:
            state.close()


def stored_targets() -> list[Target]:
    """Everything that reads what this project has stored."""
    note = [Note("465bf025", "11ecd0ea", NOW, "news.unique").text().encode()]
    summary = TaskSummary("news.raw", "465bf025", 7).header()[1]
    migration = MigrationCheckpoint([("news.unique", 0, 7)], False).header()[1]
    headers = [b"\0".join([offsets_header({0: 7, 1: 9})[1], summary, migration])]
    damaged = (CorruptBlock, SchemeMismatch)
    exact = b"T" + plain_block(1)[1:]
    return [
        Target("block", [_state()[2]], [block.MAGIC], _block, damaged),
        Target("block, signed", [plain_block()], [block.MAGIC, b"\xed\xa0\x80", b"\xff"], _signed_block, damaged),
        Target("block, restored", [plain_block(), exact], [block.MAGIC], _restored, damaged, 0.02),
        Target("journal", [_journal_bytes()], [b"SDE1", b"SDJRNL01"], _journal, (CorruptBlock,), 0.02),
        Target("entries", [_journal_bytes()], [b"SDE1", b"SDJRNL01"], _entries, (CorruptBlock,), 0.1),
        Target("saved state", [_saved_state()[0]], [*JSON, b"\n", b'"fingerprint":{}', b'"path":{}'], _saved,
               (*damaged, InputError, ConfigError), 0.01),
        Target("state of filter", [_filter_lines()], [*JSON, b"\n"], _filter, (*damaged, InputError), 0.01),
        Target("headers", headers, [*JSON, b"\0"], _headers, (CorruptBlock,)),
        Target("sequence", [b"7-9"], [b"-", b"9" * 5000, "²".encode()], SequenceRange.parse, (CorruptBlock,)),
        Target("note", note, [*JSON, b"Infinity", b"[" * 3000, b"9" * 4000], _note),
        Target("claim", [_CLAIM.pack(1, 7, True)], [], _claim),
    ]  # fmt: skip
