"""The decoders of outside bytes, each as a `Target`: inputs to begin from, and the errors that it may end in.

Formats with a checksum are mutated below it and signed again, because whoever can write a record can sign it; the
checksums guard against accidents only.
"""

import contextlib
import io
import json
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import xxhash
import zstandard
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

from stream_dedup.batch import packing
from stream_dedup.batch.lines import InputLines
from stream_dedup.batch.rows import FileFormat, csv_rows
from stream_dedup.changelog import block
from stream_dedup.changelog.entries import SequenceRange
from stream_dedup.changelog.files import Journal, read_entries, write_entries
from stream_dedup.changelog.headers import MigrationCheckpoint, RestoreResult, TaskSummary, offsets_header
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem, ConfigError, CorruptBlock, InputError, SchemeMismatch, UsageError
from stream_dedup.fingerprint import weights
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news import dates
from stream_dedup.news.clean import Cleaner
from stream_dedup.news.decode import Decoder, site_of
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.news.presets import PRESETS
from stream_dedup.settings import ItemSettings, load_settings
from stream_dedup.split.fingerprints import decode_fingerprints, encode_fingerprints
from stream_dedup.split.frame import HEADER_BYTES, InputRange
from stream_dedup.split.verdicts import decode_verdicts, encode_verdicts
from stream_dedup.stream.assignor import _CLAIM, _claimed_generation
from stream_dedup.stream.client_internals.fast_fetch import unpack
from stream_dedup.stream.record_batch import pack
from stream_dedup.stream.records import place_of, was_held_back
from stream_dedup.stream.resume import Note
from stream_dedup.stream.transaction import Outgoing


@dataclass(frozen=True)
class Target:
    """A decoder. `call` raises nothing but `errors`; `speed`: its share of the inputs of a run."""

    name: str
    seeds: Sequence[bytes]
    tokens: Sequence[bytes]
    call: Callable[[bytes], object]
    errors: tuple[type[BaseException], ...] = ()
    share: float = 1.0


_JSON = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b'""', b"null", b"true", b"-", b"0", b"1e999", b"-1e-999", b"NaN",
    b"9" * 25, b"9" * 400, b"18446744073709551616", b'"id":', b'"title":', b'"text":', b'"url":', b'"published":',
    b'"source":', b'"content":', b'"description":', b'"\\ud800"', b"\\ud800", b"\\u0000", b"\\", b"\xed\xa0\x80",
    b"\xff", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"{}", b"[]", b'{"#text":"x"}', b'["x"]', b"[+9 chars]", b" ",
]  # fmt: skip
_MARKUP = [
    b"<", b">", b"</", b"/>", b"<p>", b"</p>", b"<b", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<script>", b"</script>",
    b"<title>", b"<svg>", b"<table>", b"<a href=", b"<p hidden>", b"style='display:none'", b"<!doctype ", b"&", b"&#",
    b"&#x", b"&#0;", b"&#xD800;", b"&#1114112;", b"&amp;", b"&lt;p&gt;", b";", b"[", b"](", b"](http://", b")", b"![",
    b"(/", b'"', b" ", b"\n", b"\x00", "\u200b".encode(), "\u0301".encode(), "漢".encode(), b" - ", b" | ", b"...",
]  # fmt: skip
_DATES = [
    b"2024-01-01", b"T00:00:00", b"Z", b"+00:00", b"+9999", b"-2400", b"20240101", b"000000", b"1704067200", b"Mon, ",
    b"Jan", b" am", b" pm", b"12:", b"GMT", b"/", b".", b"e9", b"e400", b"9" * 30, b"0000", b"9999-12-31", b"24:00",
]  # fmt: skip

NOW = 1_704_067_200_000


def _records() -> list[bytes]:
    """A record of each preset, with values of every form that is known."""
    values: dict[str, Any] = {
        "id": "7",
        "title": "Mayor opens new bridge over the Elm - The Harbor Post",
        "text": "<p>The <b>bridge</b> &amp; the [river](https://a.example/b) [+12 chars]</p>",
        "source": "https://www.news.example/a",
        "url": [{"@rel": "self", "@href": "/feed"}, {"@rel": "alternate", "@href": "/1"}],
        "published": "Mon, 01 Jan 2024 10:00:00 GMT",
    }
    out = []
    for paths in PRESETS.values():
        record: dict[str, Any] = {}
        for field, path in paths.items():
            for each in path.split("|"):
                place, parts = record, each.strip().split(".")
                for part in parts[:-1]:
                    inner = place.setdefault(part, {})
                    place = inner if isinstance(inner, dict) else {}
                place.setdefault(parts[-1], values[field])
        out.append(json.dumps(record).encode())
    out.append(b'{"title": {"#text": "T"}, "text": ["x"], "id": 18446744073709551615, "published": 1704067200}')
    return out


def _decoder(**settings: Any) -> Callable[[bytes], object]:
    decode = Decoder(ItemSettings(**settings))

    def call(data: bytes) -> None:
        found = decode(data, data[:9], None, 1, 2)
        assert isinstance(found, (Item, Tombstone, BadItem))
        if isinstance(found, Item):
            assert isinstance(found.id + found.title + found.text + found.source, str)
            assert -1 <= found.time < 2**62
        with contextlib.suppress(BadItem):
            decode.read(data)

    return call


def _cleaner(markup: Any) -> Callable[[bytes], object]:
    clean = Cleaner(ItemSettings(markup=markup))
    return lambda data: clean(data[:40].decode("utf-8", "replace"), data.decode("utf-8", "surrogateescape"))


def _date(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    value = dates.milliseconds_of(text)
    assert value == dates.NO_TIME or 0 <= value < 2**62
    assert dates.why_unreadable(text) in (None, *dates.REASONS)


def _given(data: bytes) -> None:
    fields: Any
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        fields = {"id": data, "title": data.decode("utf-8", "replace"), "time": len(data) * 10**9}
    if isinstance(fields, dict):
        Item.of(fields)


# -- files ---------------------------------------------------------------------------------------------


def _csv(data: bytes) -> None:
    for row in csv_rows("a.csv", iter(data.split(b"\n")), FileFormat.CSV):
        if row.value:
            json.loads(row.value)


@cache
def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="stream-dedup-fuzz-"))


def _file(name: str, data: bytes) -> Path:
    path = _scratch() / name
    path.write_bytes(data)
    return path


def _lines(name: str) -> Callable[[bytes], object]:
    def call(data: bytes) -> None:
        with InputLines(_file(name, data)) as lines:
            for _ in lines:
                pass

    return call


def _packed(kind: packing.Packing) -> bytes:
    packer = packing.packer(kind)
    return packer.compress(b'{"id": "1", "title": "T"}\n' * 9) + packer.flush()


def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    table = pyarrow.table({"id": ["1", "2"], "title": ["T", None], "n": [1, 2**62], "l": [["a"], []]})
    parquet.write_table(table, out)
    return out.getvalue()


# -- what a worker stores ------------------------------------------------------------------------------


@cache
def _state() -> tuple[int, Any, bytes]:
    """Scheme id, dtype and the block of a small batch."""
    with Deduplicator(load_settings()) as dedup:
        items = [
            Item(f"id {n}", f"Bridge {n} opens", f"The bridge {n} over the Elm opened.", "a", NOW) for n in range(3)
        ]
        batch = dedup.judge(items)
        dedup.apply(batch)
        return dedup.scheme_id, dedup.scheme.signature_dtype, block.encode(batch.delta, dedup.scheme_id)


def sign_block(head: bytes, content: bytes) -> bytes:
    """A block with this head (40 bytes) and content, and the right checksum."""
    frame = zstandard.ZstdCompressor(level=1).compress(content)
    state = xxhash.xxh3_128(head)
    state.update(frame)
    return head + state.digest() + bytes(8) + frame


def plain_block() -> bytes:
    """The head and the unpacked content of the block of `_state`."""
    _, _, encoded = _state()
    return encoded[:40] + zstandard.ZstdDecompressor().decompress(encoded[64:])


def _signed_block(data: bytes) -> None:
    scheme, dtype, _ = _state()
    head, content = data[:40].ljust(40, b"\0"), data[40:]
    if data[:1] != b"\0":  # mostly with the right length, or few get further
        head = head[:32] + struct.pack("<Q", len(content))
    delta = block.decode(sign_block(head, content), scheme, dtype)
    n = len(delta.signatures)
    assert len(delta.ids) == n == len(delta.keys)
    assert all(isinstance(name, str) for name in delta.ids)


def _block(data: bytes) -> None:
    scheme, dtype, _ = _state()
    block.decode(data, scheme, dtype)


@cache
def _split_blocks() -> tuple[bytes, bytes]:
    """A block of fingerprints and one of verdicts."""
    text = "The bridge over the Elm opened after two years of work. The mayor and two thousand people were there. " * 3
    items = [
        Item("id 1", "Bridge opens", text, "a.example", NOW), Tombstone("id 1", NOW), BadItem("json", "x", "id 2"),
        Item("id 3", "Bridge opens again", text, "b.example", NOW), Item("id 3", "Bridge opens again", text, "b", NOW),
    ]  # fmt: skip
    where = InputRange("news.raw", "465bf025", 0, 7, 99)
    with Deduplicator(load_settings()) as dedup:
        prepared = dedup.prepare(items)
        [prints] = encode_fingerprints(prepared, range(7, 12), where, dedup.scheme, 2**20)
        return prints, encode_verdicts(dedup.judge(prepared).verdicts, range(7, 12), where, dedup.scheme_id)


def _plain_split_block(kind: int) -> bytes:
    """The unpacked content of a block of split mode."""
    return zstandard.ZstdDecompressor().decompress(_split_blocks()[kind][HEADER_BYTES:])


def _signed_split_block(kind: int, content: bytes) -> bytes:
    """A block with this content, and the right length and checksum."""
    head = _split_blocks()[kind][:16] + struct.pack("<Q", len(content))
    frame = zstandard.ZstdCompressor(level=1).compress(content)
    state = xxhash.xxh3_128(head)
    state.update(frame)
    return head + state.digest() + frame


@cache
def _scheme() -> Scheme:
    return Scheme(load_settings().fingerprint)


def _fingerprints(data: bytes) -> None:
    block = decode_fingerprints(data, _scheme())
    prints = block.prepared.prints
    assert len(block.offsets) == len(block.prepared) >= len(prints.keys) == len(block.prepared.subjects)
    assert (prints.prose.stops <= len(prints.prose.shingles)).all()


def _verdicts(data: bytes) -> None:
    block = decode_verdicts(data, _state()[0])
    assert len(block.offsets) == len(block.verdicts)


def _journal_bytes() -> bytes:
    path = _scratch() / "seed"
    write_entries(path, [(b'{"type":"begin"}', b"block"), (b"", b""), (b"x" * 40, b"y" * 50)])
    return path.read_bytes()


def _journal(data: bytes) -> None:
    path = _file("journal", data)
    journal = Journal(path, lambda entry: None)
    journal.close()
    assert path.stat().st_size == journal.size <= max(len(data), 8)


def _entries(data: bytes) -> None:
    for _ in read_entries(_file("entries", data)):
        pass


def _headers(data: bytes) -> None:
    parts = data.split(b"\0")
    names = ("offsets", "standing", "migration")
    result = RestoreResult()
    result.add_headers(list(zip(names, parts, strict=False)))
    assert all(isinstance(offset, int) for offset in result.offsets.values())


def _note(data: bytes) -> None:
    note = Note.parse(data.decode("utf-8", "replace"))
    assert note is None or isinstance(note.at, int)


def _claim(data: bytes) -> None:
    assert isinstance(_claimed_generation(data), int)


def _weights(data: bytes) -> None:
    head, content = data[:32].ljust(32, b"\0"), data[32:]
    state = xxhash.xxh3_128(head)
    state.update(content)
    weights.read(_file("weights", head + state.digest() + content), 7)


def _toml(data: bytes) -> None:
    load_settings(_file("settings.toml", data))


# -- record batches ------------------------------------------------------------------------------------


def batch_bytes(codec: int, records: Sequence[tuple[int, Any, Any, Any]]) -> bytes:
    """A record batch of format 2."""
    builder = MemoryRecordsBuilder(2, codec, 2**30)
    for record in records:
        builder.append(*record)
    builder.close()
    return bytes(builder.buffer())


def _records_of(data: bytes) -> Iterator[Any]:
    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        yield from unpack(batch, "news", 3)


def read_batch(data: bytes) -> None:
    """Sign and read a record batch."""
    signed = bytearray(data)
    if len(signed) >= DefaultRecordBatch.HEADER_STRUCT.size:
        struct.pack_into(">i", signed, 8, len(signed) - 12)
        signed[16] = 2
        at = DefaultRecordBatch.ATTRIBUTES_OFFSET
        struct.pack_into(">I", signed, DefaultRecordBatch.CRC_OFFSET, calc_crc32c(memoryview(signed)[at:]))
        for record in _records_of(bytes(signed)):
            assert isinstance(record.offset, int)


_SOME = [(NOW + n, b"key", b'{"id": 1, "title": "T"}' * n, [("h", b"v"), ("n", None)]) for n in range(1, 4)]


def _written(data: bytes) -> None:
    """What is read can be written again, and reads the same."""
    name = data[:8].decode("utf-8", "surrogateescape")
    record = Outgoing("t", 0, data[8:16] or None, data[16:] or None, [(name, data[:3] or None)], len(data))
    [packed] = pack([record], 2**20)
    assert packed.body


def _place(data: bytes) -> None:
    record = SimpleNamespace(headers=[("dedup-source", data), ("dedup-verdict", data)])
    place_of(record)
    was_held_back(record)


def targets() -> list[Target]:
    """Every decoder."""
    records = _records()
    texts = [
        b"<p>The <b>bridge</b> &amp; the [river](https://a.example/b)<br>x</p><!-- c --><script>x()</script>",
        b'Plain text - with | marks &#8220;quoted&#x201d; ![i](/j) [a [b] c](http://e.example/f_(g) "h")',
        b"<html hidden><body style='display:none'><div hidden><p hidden>ad<b hidden>x</b></p></div>y</body></html>",
        b"<html><head><title>T</title></head><body><article><p>" + b"word " * 40 + b"</p></article></body></html>",
    ]
    moments = [b"2024-01-01T00:00:00Z", b"Mon, 01 Jan 2024 10:00:00 GMT", b"20240101T120000Z", b"1704067200", b"1/2/24",
               b"2024/1/2 3:04 PM EST", b"January 2nd, 2024 at 5:06 am +0100", b"20240101000000"]  # fmt: skip
    csv = [b'id,title,text\n1,"two\nlines",x\n2,"he said ""no""",\n,,\n', b"id;title\n1;2;3\n"]
    note = [Note("465bf025", "11ecd0ea", NOW).text().encode()]
    standing = TaskSummary("news.raw", "465bf025", 7).header()[1]
    migration = MigrationCheckpoint({("news.unique", 0): 7}, False).header()[1]
    headers = [b"\0".join([offsets_header({0: 7, 1: 9})[1], standing, migration])]
    table = weights.build(7, [np.array([5, 5, 9], np.uint64), np.array([5], np.uint64)]).to_bytes()
    plain = [table[:32] + table[48:]]
    toml = [b"[kafka]\nbootstrap_servers = 'h:1'\n[window]\nlength = '7d'\n[item]\nfields = {title = 'a.b'}\n"]
    batches = [batch_bytes(codec, _SOME) for codec in range(5)]
    empty_claim = _CLAIM.pack(1, 7, True)
    page = ("auto", "html", "page")
    out = [
        Target(f"decode {preset}", records, _JSON + _MARKUP, _decoder(preset=preset)) for preset in ("auto", *PRESETS)
    ]
    out += [
        Target("decode text", texts, _MARKUP, _decoder(format="text")),
        Target("decode given", [b'{"id": 1, "f": "00000000000000ff"}', b'{"f": 7}'], _JSON, _decoder(fingerprint="f")),
        *(Target(f"clean {markup}", texts, _MARKUP, _cleaner(markup), share=0.02 if markup == "page" else 1)
          for markup in page),
        Target("dates", moments, _DATES, _date, share=2),
        Target("sources",
               [b"https://www.bbc.co.uk/a?b#c", b"a.b.example"], [b"://", b".", b"[", b"]", b"@", b":", b"/"],
               lambda data: site_of(data.decode("utf-8", "replace"))),
        Target("Item.of", [b'{"id": 7, "title": "T", "text": "", "source": "a.example", "time": 1704067200000}'],
               [*_JSON, b'"time":'], _given, (UsageError,)),
        Target("csv", csv, [b",", b'"', b"\n", b"\r", b"\0", b";", b"\t", b"\xff", b"\xef\xbb\xbf"], _csv,
               (InputError,)),
        Target("lines", [b'{"id": 1}\n{"id": 2}\n'], [b"\n", b"\r", b"[{", b"id,title", *_JSON], _lines("a.jsonl"),
               (InputError,), 0.1),
        Target("gzip", [_packed(packing.Packing.GZIP) * 2], [b"\x1f\x8b"], _lines("a.jsonl.gz"), (InputError,), 0.1),
        Target("zstd", [_packed(packing.Packing.ZSTD) * 2], [b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"],
               _lines("a.jsonl.zst"), (InputError,), 0.1),
        Target("parquet", [_parquet()], [b"PAR1"], _lines("a.parquet"), (InputError,), 0.01),
        Target("block", [_state()[2]], [b"SDB1"], _block, (CorruptBlock, SchemeMismatch)),
        Target("block, signed", [plain_block()], [b"SDB1", b"\xed\xa0\x80", b"\xff"], _signed_block,
               (CorruptBlock, SchemeMismatch)),
        Target("journal", [_journal_bytes()], [b"SDE1", b"SDJRNL01"], _journal, (CorruptBlock,), 0.02),
        Target("entries", [_journal_bytes()], [b"SDE1", b"SDJRNL01"], _entries, (CorruptBlock,), 0.1),
        Target("headers", headers, [*_JSON, b"\0"], _headers, (CorruptBlock,)),
        Target("sequence", [b"7-9"], [b"-", b"9" * 5000, "²".encode()], SequenceRange.parse, (CorruptBlock,)),
        Target("note", note, [*_JSON, b"Infinity", b"[" * 3000], _note),
        Target("claim", [empty_claim], [], _claim),
        Target("place", [b"news/raw/3/77"], [b"/", b"9" * 5000, b"-", b"\xff"], _place),
        Target("weights", plain, [b"SDW1"], _weights, (ConfigError,), 0.1),
        Target("settings", toml, [b"[", b"]", b"=", b"'", b"[fingerprint]\nseed = 1\n", b"[window]\n", b"{a=1}",
               b"1979-05-27", b"inf", b"9" * 40, b"'9" + b"9" * 30 + b"d'"], _toml, (ConfigError,), 0.02),
        Target("record batch", batches, [b"\x01", b"\xff\xff\xff\xff\x0f"], read_batch, (CorruptRecordError,)),
        Target("record", [b"name" * 9], [], _written),
        Target("fingerprints", [_split_blocks()[0]], [b"SDF1"], _fingerprints, (CorruptBlock, SchemeMismatch)),
        Target("fingerprints, signed", [_plain_split_block(0)], [b"\xed\xa0\x80", b"\xff" * 4, b"\x0f", b"\0" * 8],
               lambda data: _fingerprints(_signed_split_block(0, data)), (CorruptBlock,)),
        Target("verdicts", [_split_blocks()[1]], [b"SDV1"], _verdicts, (CorruptBlock, SchemeMismatch)),
        Target("verdicts, signed", [_plain_split_block(1)],
               [b"\xed\xa0\x80", b"\xdd\xff\xff\xff\xff", b"\xc4", b"\xc0"],
               lambda data: _verdicts(_signed_split_block(1, data)), (CorruptBlock,)),
    ]  # fmt: skip
    return out
