"""Hostile inputs that are larger or rarer than a mutant: each ends in an item or in one documented error."""

import dataclasses
import gzip
import json
import os
import struct
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import lz4.frame
import numpy as np
import pytest
import zstandard
from kafka import errors as kafka_errors
from kafka.record.memory_records import MemoryRecords

from stream_dedup.changelog import block, journal
from stream_dedup.changelog.headers import RestoreResult, SequenceRange
from stream_dedup.changelog.journal import read_entries, write_entries
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import ConfigError, CorruptBlock, InputError, UsageError
from stream_dedup.kafka.fetch import unpack
from stream_dedup.kafka.record_batch import Outgoing, Record, pack
from stream_dedup.news import decode as decoding
from stream_dedup.news.clean import text_of_html
from stream_dedup.news.decode import Decoder, site_of
from stream_dedup.news.item import Item
from stream_dedup.news.plain_values import article
from stream_dedup.script import Deduplicator as ScriptDeduplicator
from stream_dedup.settings import ItemSettings, load_settings
from stream_dedup.tools.cli.shared import parse_count, parse_size
from stream_dedup.tools.evaluate.labels import read_labels
from stream_dedup.tools.inputs.lines import read_lines
from stream_dedup.tools.topics.headers import place_of
from tests.fuzz.records import NOW, batch_bytes, consume, marker, read_batch, sign_batch
from tests.fuzz.stored import plain_block, sign_block

INT64 = 2**63
MEGABYTE = 10**6
decode = Decoder(ItemSettings())


def read(**fields: Any) -> Any:
    return decode(json.dumps(fields).encode(), None, NOW, 0, 7)


# -- JSON ----------------------------------------------------------------------------------------------


def test_a_hundred_thousand_members_are_skipped() -> None:
    found = read(title="T", **{f"m{n}": n for n in range(100_000)})
    assert found.title == "T"
    bad = read(**{f"m{n}": n for n in range(100_000)})
    assert len(bad.detail) < 2000


# -- the end of a text, a source ------------------------------------------------------------------------


@pytest.mark.parametrize("text", [" ", "\n", " …", " ...", "[+", "[+1", "[+1 chars] ", "\u2003"])
def test_the_note_of_newsapi_is_found_in_linear_time(text: str) -> None:
    """With one regular expression from the white space on, 1,200 spaces took half a second, 12,000 ten minutes."""
    assert article([text * 200_000 + "x"]) == text * 200_000 + "x"
    item = Decoder(ItemSettings(preset="newsapi"))(
        json.dumps({"title": "T", "content": text * 200_000}).encode(), None, 0
    )
    assert isinstance(item, Item)


def test_a_note_is_cut_with_the_space_around_it() -> None:
    for text in ("x …[+9 chars]", "x ... [+99 chars] \n", "x\n[+9 chars]", "x…\u2003[+9 chars]"):
        assert article([text]) == "x"
    assert article(["x [+9 chars] y"]) == "x [+9 chars] y"


def test_long_sources_are_cut_and_do_not_fill_the_cache() -> None:
    """The cache holds 65,536 sources: of a megabyte each they took all memory."""
    assert site_of("https://www.bbc.co.uk/" + "x" * MEGABYTE) == "bbc.co.uk"
    assert len(site_of("a." * MEGABYTE)) <= 300
    assert len(site_of("x " * MEGABYTE)) <= 300
    before = decoding._origin_of.cache_info().currsize
    assert site_of("z " * MEGABYTE) == site_of("z " * 2 * MEGABYTE)
    assert decoding._origin_of.cache_info().currsize == before + 1


# -- HTML ----------------------------------------------------------------------------------------------

NAMES = " ".join(f"a{n}" for n in range(100_000)) + ">bridge</p>"
BEFORE_NAMES = {
    "attributes behind a script": '<script><p x="</script><p ',
    "a quote in a value": '<p a=b=" ',
    "a quote in a value after a space": '<p a= b=" ',
    "a quote in the name of the tag": '<p=" ',
    "a quote in a name": '<p =" ',
    "a quote after a slash": '<p/=" ',
    "a quote behind a value": "<p a='b'=\" ",
}
AFTER_THE_TEXT = {
    "comments": "<!--" * 200_000,
    "closing tags": "</p>" * 200_000,
    "tables": "<table><tr><td>" * 60_000,
    "formatting": "<b><i><p>" * 3_000,
    "entities": "&amp;" * 200_000,
    "half entities": "&#" * 300_000,
    "scripts": "<script>" * 100_000,
    "titles": "<title>" * 100_000,
    "closing scripts": "<script>" + "</script " * 100_000,
    "hidden": "display" + " " * 900_000 + "<p hidden>x</p>",
}
BOMBS = {
    "elements": "<div>" * 200_000 + "bridge",
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(100_000)) + ">bridge</p>",
    "attributes without a space": "<p " + "".join(f'a{n}=">"' for n in range(100_000)) + ">bridge</p>",
    "a long attribute": "<p title='" + "x " * 500_000 + "'>bridge</p>",
    "a null": "<p>bridge\0</p>",
    **{name: opening + NAMES for name, opening in BEFORE_NAMES.items()},
    **{name: f"<p>bridge</p>{bomb}" for name, bomb in AFTER_THE_TEXT.items()},
}


@pytest.mark.parametrize("name", BOMBS)
def test_an_html_bomb_is_read(name: str) -> None:
    assert "bridge" in text_of_html(BOMBS[name])
    assert isinstance(read(id="1", title=BOMBS[name][:100_000], text=BOMBS[name]), Item)


@pytest.mark.parametrize("tag", ["html", "body", "head", "html><html"])
def test_a_hidden_page_is_read(tag: str) -> None:
    """`<html hidden>` raised SelectolaxError, which ended the worker at each start."""
    for hidden in ("hidden", "style='display:none'"):
        assert "bridge" in text_of_html(f"<{tag} {hidden}><body><p>bridge</p><p hidden>ad</p></body></html>")


def test_hidden_parts_within_hidden_parts_are_removed_once() -> None:
    html = "<div hidden><p hidden><b hidden>ad</b></p></div><p>bridge</p>" * 50
    for _ in range(200):
        assert set(text_of_html(html).split()) == {"bridge"}


def test_hidden_text_and_long_values_are_no_bombs() -> None:
    """A long value in quotes, such as an image in the address, and many words in a text leave the tree in use."""
    image = f'<img src="data:image/png;base64,{"A" * 50_000}">'
    text = "<p>" + "It's the bridge. " * 3_000 + "</p>"
    assert "ad" not in text_of_html(image + text + "<p hidden>ad</p>").split()


# -- times, positions, headers --------------------------------------------------------------------------


def test_times_beyond_int64_wrap_as_in_java() -> None:
    data = bytearray(batch_bytes(0, [(NOW, b"k", b"v", [])] * 2))
    struct.pack_into(">qq", data, 27, INT64 - 1, INT64 - 1)  # first and highest timestamp
    at = data.index(b"\x00\x00\x00\x02k")  # attributes, timestamp delta 0, offset delta 0, length of the key
    data[at + 1] = 2  # timestamp delta 1
    batch = MemoryRecords(sign_batch(bytes(data))).next_batch()
    assert [record.timestamp for record in unpack(batch, "t", 0)] == [-INT64, INT64 - 1]


# -- what is refused -----------------------------------------------------------------------------------

Case = tuple[Callable[[Path], object], type[Exception], str]


def zeros(codec: int, size: int) -> bytes:
    """A record batch that unpacks to `size` zeros."""
    pack_by = {1: gzip.compress, 3: lz4.frame.compress, 4: zstandard.ZstdCompressor(level=1).compress}
    return batch_bytes(codec, [(NOW, b"k", b"v" * 99, [])])[:61] + pack_by[codec](bytes(size))


def one_batch(codec: int = 0) -> bytearray:
    return bytearray(batch_bytes(codec, [(NOW, b"k", b"v" * 99, [])]))


def garbled(codec: int) -> bytes:
    """A batch that cannot be unpacked."""
    data = one_batch(min(codec, 4))
    data[22] = codec  # attributes
    data[61:] = bytes(data[61:])[:-9][::-1]
    return bytes(data)


def cut_to(size: int) -> bytes:
    data = one_batch()[:size]
    struct.pack_into(">i", data, 8, size - 12)
    return bytes(data)


def marker_with(key: bytes | None) -> bytes:
    data = bytearray(marker(0))
    # A record of attributes, two deltas, a key, an empty value, no headers.
    packed = b"\0\0\0" + (b"\x01" if key is None else bytes([2 * len(key)]) + key) + b"\0\0"
    data[61:] = bytes([2 * len(packed)]) + packed
    return sign_batch(bytes(data))


def huge_frame() -> object:
    """A block whose frame claims another length than its head: a kilobyte could take all memory."""
    head = plain_block()[:40] + struct.pack("<Q", 64)
    signed = sign_block(head[:8] + struct.pack("<Q", 7) + head[16:], bytes(2**24))
    return block.decode(signed, 7, np.dtype([("row_id", "<u8")]))


def in_environment(name: str, value: str) -> object:
    with patch.dict(os.environ, {name: value}):
        return load_settings()


def in_file(path: Path, content: bytes, read: Callable[[Path], object]) -> object:
    path.write_bytes(content)
    return read(path)


def judge_at(field: str, value: int) -> None:
    with ScriptDeduplicator() as dedup:
        dedup.judge([Item.of(id="1", title="Elm bridge", **{field: value})])


CORRUPT = kafka_errors.CorruptRecordError
HEADERS: tuple[bytes | None, ...] = (
    None, b"", b"[", b"[" * 10_000, b'{"a": 1}', b"[1, 2, 3]", b'{"next": [[1]]}', b"\xff", b'{"0": 1e99}',
)  # fmt: skip
DEEP = ("[" * 100_000, '{"a":' * 100_000, "9" * 5000)
TOML = ("[" * 5000, "{a=" * 5000, "9" * 5000, "0x" + "f" * 9000)
LABEL = b'{"earlier": 1, "later": 2, "label": "copy", %s}'
# What an unchecked decoder would raise instead: errors of codecs and of json, struct.error, RecursionError,
# OverflowError, ValueError about digits; none of them names the place, and a worker or command ended in it.
REFUSED: list[Case] = [
    *((lambda _, c=codec, n=size: read_batch(zeros(c, n)), CORRUPT, "invalid record structure|unconsumed")
      for codec in (1, 3, 4) for size in (2**20, 2**28)),
    *((lambda _, c=codec: read_batch(garbled(c)), CORRUPT, "") for codec in (1, 2, 3, 4, 5, 7)),
    *((lambda _, n=size: consume(cut_to(n)), CORRUPT, "shorter than its header") for size in (26, 40, 60)),
    *((lambda _, k=key: consume(marker_with(k)), CORRUPT, "marker") for key in (None, b"", b"\0\0\0")),
    (lambda _: huge_frame(), CorruptBlock, "another length"),
    *((lambda _, h=(name, value): RestoreResult().add_block([h]), CorruptBlock, name)
      for name in ("offsets", "standing", "migration") for value in HEADERS),
    (lambda _: SequenceRange.parse(b"1-" + b"9" * 5000), CorruptBlock, ""),
    (lambda tmp: in_file(tmp / "a.csv", b'id,title\n1,"' + b"x" * MEGABYTE, lambda path: list(read_lines(path))),
     InputError, "not valid CSV"),
    *((lambda _, n=name, v=value: in_environment(n, v), ConfigError, name)
      for name in ("STREAM_DEDUP_ITEM", "STREAM_DEDUP_ITEM__FIELDS") for value in DEEP),
    *((lambda tmp, v=value: in_file(tmp / "a.toml", f"[worker]\nbatch_items = {v}\n".encode(), load_settings),
       ConfigError, r"a\.toml") for value in TOML),
    *((lambda tmp, m=more: in_file(tmp / "labels.jsonl", LABEL % m, read_labels), InputError, "line 1")
      for more in (b'"x": ' + b"[" * 5000, b'"lang": "\xff"')),
    *((lambda _, p=parse, t=text: p(t), click.BadParameter, r"\A[^\0]{0,199}\Z")
      for parse in (parse_count, parse_size) for text in ("9" * 400, "9" * 5000, "1e99", "9" * 400 + "T", "1e16")),
    *((lambda _, f=field, v=value: judge_at(f, v), UsageError, f"{field} must be a whole number below")
      for field, value in (("partition", 2**31), ("partition", -(2**40)), ("offset", 2**62), ("offset", 2**70))),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "said"), REFUSED)
def test_what_cannot_be_read_ends_in_one_documented_error(
    call: Callable[[Path], object], error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said or None):
        call(tmp_path)


# -- bombs ---------------------------------------------------------------------------------------------


def test_a_block_of_other_tables_is_refused() -> None:
    with Decider(load_settings()) as dedup:
        delta = dedup.judge([read(id="1", title="Elm bridge opens")]).delta
        with pytest.raises(CorruptBlock, match="3 keys a row"):
            dedup.restore(dataclasses.replace(delta, keys=delta.keys[:, :3]))
        assert len(dedup) == 0
        dedup.restore(delta)
        assert len(dedup) == 1


def test_dates_that_python_does_not_hold_stop_a_parquet_file_with_a_line(tmp_path: Any) -> None:
    import pyarrow
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    # Those of "us" are hundreds of thousands of years away, the others in the year 2262.
    for kind, value in (("ns", INT64 - 1), ("s", INT64 // 10**9), ("us", INT64 - 1), ("us", -INT64)):
        table = pyarrow.table({"id": ["1"], "published": pyarrow.array([value], pyarrow.timestamp(kind))})
        parquet.write_table(table, path)
        with pytest.raises(InputError, match=r"cannot read .*a\.parquet as Parquet") if kind == "us" else nullcontext():
            assert len(list(read_lines(path))) == 1


# -- floods and sizes on the whole way -----------------------------------------------------------------


def test_a_hundred_thousand_headers_are_read_and_written() -> None:
    headers = [(f"h{n}", b"v") for n in range(100_000)]
    record = Record("news", 0, 7, NOW, b"k", b'{"title": "Elm bridge opens on Monday"}', headers)
    outgoing = Outgoing("t", 0, record.key, record.value, record.headers, record.timestamp)
    [packed] = pack([outgoing], 2**20)
    [read_again] = consume(batch_bytes(0, [(NOW, record.key, record.value, headers)]))
    assert list(read_again.headers) == headers
    assert packed.body.count(b"\x02v") == 100_000
    assert place_of(record) == (-1, -1)


# -- saved states --------------------------------------------------------------------------------------


def saved_entries(path: Path) -> list[tuple[bytes, bytes]]:
    """The entries of a saved Decider."""
    with Decider(load_settings()) as dedup:
        dedup.apply(dedup.judge([read(id="1", title="Elm bridge opens on Monday")]))
        journal.save(dedup, path)
    return [(entry.record, entry.block) for entry in read_entries(path)]


def test_passages_that_unpack_to_more_than_their_table_are_refused(tmp_path: Path) -> None:
    """A frame of 4 KB took the 128 MB that it claimed, and could have taken all memory."""
    opening, (name, _), *rest = saved_entries(tmp_path / "saved")
    bomb = zstandard.ZstdCompressor().compress(bytes(2**27))
    write_entries(tmp_path / "saved", [opening, (name, bomb), *rest])
    with Decider(load_settings()) as dedup, pytest.raises(CorruptBlock, match="claims another length"):
        journal.restore(dedup, tmp_path / "saved")


def test_a_block_with_a_time_that_marks_forgotten_rows_is_refused() -> None:
    """It was a ValueError, after some of the rows were added. A time that is in doubt counts as none."""
    with Decider(load_settings()) as dedup:
        delta = dedup.judge([read(id="1", title="Elm bridge opens")]).delta
    for time in (-INT64, -(6 * 2**60) - 1):
        signatures, arrivals = delta.signatures.copy(), delta.arrivals.copy()
        signatures["time"], arrivals["doubted"] = time, False
        with Decider(load_settings()) as other:
            with pytest.raises(CorruptBlock, match=f"the time {time} ms"):
                other.restore(dataclasses.replace(delta, signatures=signatures, arrivals=arrivals))
            assert len(other) == 0
            arrivals["doubted"] = True
            other.restore(dataclasses.replace(delta, signatures=signatures, arrivals=arrivals))
            assert len(other) == 1
