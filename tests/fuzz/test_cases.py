"""Hostile inputs by name: each ends in an item, a bad item or one documented error, whatever its size."""

import dataclasses
import gzip
import io
import json
import struct
from typing import Any

import lz4.frame
import numpy as np
import pytest
import zstandard
from kafka import errors as kafka_errors
from kafka.record.memory_records import MemoryRecords

from stream_dedup.batch.lines import InputLines
from stream_dedup.batch.rows import FileFormat, csv_rows
from stream_dedup.changelog import block
from stream_dedup.changelog.entries import SequenceRange
from stream_dedup.changelog.headers import RestoreResult
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem, CorruptBlock, InputError, UsageError
from stream_dedup.news import decode as decoding
from stream_dedup.news.decode import Decoder, site_of
from stream_dedup.news.html import text_of_html
from stream_dedup.news.item import Item
from stream_dedup.news.values import fullest_uncut
from stream_dedup.script import Deduplicator as ScriptDeduplicator
from stream_dedup.settings import ItemSettings, load_settings
from stream_dedup.stream.client_internals import fast_fetch
from stream_dedup.stream.client_internals.fast_fetch import unpack
from stream_dedup.stream.records import place_of
from stream_dedup.stream.resume import Note
from tests.fuzz.targets import NOW, batch_bytes, plain_block, read_batch, sign_block

INT64 = 2**63
MEGABYTE = 10**6
decode = Decoder(ItemSettings())


def judged(*items: Any) -> list[str]:
    """The verdicts, one batch an item; all of them are remembered."""
    with Deduplicator(load_settings()) as dedup:
        kinds = []
        for item in items:
            batch = dedup.judge([item])
            dedup.apply(batch)
            kinds += [str(verdict.kind) for verdict in batch.verdicts]
        return kinds


def read(**fields: Any) -> Any:
    return decode(json.dumps(fields).encode(), None, NOW, 0, 7)


# -- JSON ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"text":['])
def test_deep_json_is_a_bad_item(opening: bytes) -> None:
    for value in (opening * MEGABYTE, b'{"title": "T", "text": ' + opening * MEGABYTE):
        bad = decode(value, b"k", NOW)
        assert isinstance(bad, BadItem)
        assert bad.reason in ("json", "type")


@pytest.mark.parametrize(
    "number", [b"9" * 400, b"9" * 5000, b"-" + b"9" * 25, b"1e400", b"1." + b"9" * MEGABYTE, b"NaN"]
)
@pytest.mark.parametrize("field", [b"id", b"published", b"text", b"other"])
def test_a_huge_number_harms_its_record_only(field: bytes, number: bytes) -> None:
    found = decode(b'{"title": "T", "%s": %s}' % (field, number), b"k", None)
    assert isinstance(found, Item | BadItem)
    if isinstance(found, Item):
        assert found.time == -1


def test_of_duplicate_keys_the_last_counts() -> None:
    found = decode(b'{"id": "1", "title": "A", "title": "B", "id": "2"}', None, NOW)
    assert (found.id, found.title) == ("2", "B")  # type: ignore[union-attr]


def test_a_lone_surrogate_stays_in_an_id_and_is_judged() -> None:
    item = decode(b'{"id": "\\ud800", "title": "Elm \\udfff bridge opens on Monday"}', None, NOW)
    assert isinstance(item, BadItem) or judged(item, item) == ["unique", "duplicate"]
    item = Item("\ud800", "Elm \udfff bridge opens on Monday", "\ud800 text", "\udfff.example", NOW)
    assert judged(item, item) == ["unique", "duplicate"]


def test_an_id_of_a_megabyte_is_judged() -> None:
    item = read(id="x" * MEGABYTE, title="Elm bridge opens on Monday")
    assert judged(item, item) == ["unique", "duplicate"]


def test_a_hundred_thousand_members_are_skipped() -> None:
    found = read(title="T", **{f"m{n}": n for n in range(100_000)})
    assert found.title == "T"
    bad = read(**{f"m{n}": n for n in range(100_000)})
    assert len(bad.detail) < 2000


# -- the end of a text, a source ------------------------------------------------------------------------


@pytest.mark.parametrize("text", [" ", "\n", " …", " ...", "[+", "[+1", "[+1 chars] ", "\u2003"])
def test_the_note_of_newsapi_is_found_in_linear_time(text: str) -> None:
    """With one regular expression from the white space on, 1,200 spaces took half a second, 12,000 ten minutes."""
    assert fullest_uncut([text * 200_000 + "x"]) == text * 200_000 + "x"
    item = Decoder(ItemSettings(preset="newsapi"))(
        json.dumps({"title": "T", "content": text * 200_000}).encode(), None, 0
    )
    assert isinstance(item, Item)


def test_a_note_is_cut_with_the_space_around_it() -> None:
    for text in ("x …[+9 chars]", "x ... [+99 chars] \n", "x\n[+9 chars]", "x…\u2003[+9 chars]"):
        assert fullest_uncut([text]) == "x"
    assert fullest_uncut(["x [+9 chars] y"]) == "x [+9 chars] y"


def test_long_sources_are_cut_and_do_not_fill_the_cache() -> None:
    """The cache holds 65,536 sources: of a megabyte each they took all memory."""
    assert site_of("https://www.bbc.co.uk/" + "x" * MEGABYTE) == "bbc.co.uk"
    assert len(site_of("a." * MEGABYTE)) <= 300
    assert len(site_of("x " * MEGABYTE)) <= 300
    before = decoding._site_of.cache_info().currsize
    assert site_of("z " * MEGABYTE) == site_of("z " * 2 * MEGABYTE)
    assert decoding._site_of.cache_info().currsize == before + 1


# -- HTML ----------------------------------------------------------------------------------------------

BOMBS = {
    "elements": "<div>" * 200_000 + "bridge",
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(100_000)) + ">bridge</p>",
    "attributes without a space": "<p " + "".join(f'a{n}=">"' for n in range(100_000)) + ">bridge</p>",
    "attributes behind a script": '<script><p x="</script><p '
    + " ".join(f"a{n}" for n in range(100_000))
    + ">bridge</p>",
    "a quote in a value": '<p a=b=" ' + " ".join(f"a{n}" for n in range(100_000)) + ">bridge</p>",
    "a quote in a value after a space": '<p a= b=" ' + " ".join(f"a{n}" for n in range(100_000)) + ">bridge</p>",
    "a quote in the name of the tag": '<p=" ' + " ".join(f"a{n}" for n in range(100_000)) + ">bridge</p>",
    "a quote in a name": '<p =" ' + " ".join(f"a{n}" for n in range(100_000)) + ">bridge</p>",
    "a quote after a slash": '<p/=" ' + " ".join(f"a{n}" for n in range(100_000)) + ">bridge</p>",
    "a quote behind a value": "<p a='b'=\" " + " ".join(f"a{n}" for n in range(100_000)) + ">bridge</p>",
    "a long attribute": "<p title='" + "x " * 500_000 + "'>bridge</p>",
    "comments": "<p>bridge</p>" + "<!--" * 200_000,
    "closing tags": "<p>bridge</p>" + "</p>" * 200_000,
    "tables": "<p>bridge</p>" + "<table><tr><td>" * 60_000,
    "formatting": "<p>bridge</p>" + "<b><i><p>" * 3_000,
    "entities": "<p>bridge</p>" + "&amp;" * 200_000,
    "half entities": "<p>bridge</p>" + "&#" * 300_000,
    "scripts": "<p>bridge</p>" + "<script>" * 100_000,
    "titles": "<p>bridge</p>" + "<title>" * 100_000,
    "closing scripts": "<p>bridge</p><script>" + "</script " * 100_000,
    "hidden": "<p>bridge</p>" + "display" + " " * 900_000 + "<p hidden>x</p>",
    "a null": "<p>bridge\0</p>",
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


@pytest.mark.parametrize("time", [-INT64, -INT64 + 1, -(2**62), -1, 0, 2**62 - 1, 2**62, INT64 - 1])
def test_a_timestamp_at_the_end_of_int64_harms_no_other_item(time: int) -> None:
    odd = decode(b'{"id": "1", "title": "Elm bridge opens on Monday"}', None, time, 0, 1)
    kinds = judged(
        read(id="2", title="Oak falls in a storm on Tuesday"),
        odd,
        odd,
        read(id="3", title="Oak falls in a storm on Tuesday"),
    )
    assert kinds == ["unique", "unique", "duplicate", "duplicate"]


def test_times_beyond_int64_wrap_as_in_java() -> None:
    data = bytearray(batch_bytes(0, [(NOW, b"k", b"v", [])] * 2))
    struct.pack_into(">qq", data, 27, INT64 - 1, INT64 - 1)  # first and highest timestamp
    at = data.index(b"\x00\x00\x00\x02k")  # attributes, timestamp delta 0, offset delta 0, length of the key
    data[at + 1] = 2  # timestamp delta 1
    from tests.stream.test_fast_fetch import sign

    sign(data)
    batch = MemoryRecords(bytes(data)).next_batch()
    assert [record.timestamp for record in unpack(batch, "t", 0)] == [-INT64, INT64 - 1]


@pytest.mark.parametrize(
    ("field", "value"), [("partition", 2**31), ("partition", -(2**40)), ("offset", 2**62), ("offset", 2**70)]
)
def test_a_position_that_no_signature_holds_is_a_usage_error(field: str, value: int) -> None:
    """It was an OverflowError of NumPy, from inside of `judge`."""
    with ScriptDeduplicator() as dedup, pytest.raises(UsageError, match=f"{field} must be below"):
        dedup.judge([Item.of(id="1", title="Elm bridge", **{field: value})])


def test_thousands_of_headers_are_read() -> None:
    headers = [(f"h{n}", b"v" * 9) for n in range(20_000)]
    batch = MemoryRecords(batch_bytes(4, [(NOW, b"k", b"v", headers)])).next_batch()
    [record] = unpack(batch, "t", 0)
    assert list(record.headers) == headers


@pytest.mark.parametrize(
    "value", [b"", b"news", b"a/b/c", b"news/raw/\xff/1", b"/-1/2", b"/9999999999/1", b"/1/" + b"9" * 5000]
)
def test_a_foreign_place_counts_as_none(value: bytes) -> None:
    """A header of another program under our name ended `migrate` in a ValueError."""

    class Foreign:
        headers = (("dedup-source", value),)

    assert place_of(Foreign) == (-1, -1)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 4000,
        '{"input": ' * 900,
        '{"input": "", "changelog": "", "at": Infinity}',
        '{"input": "a", "changelog": "b", "at": ' + "9" * 4000 + "}",
    ],
)
def test_a_foreign_note_counts_as_none(text: str) -> None:
    """Whoever may commit offsets of the group could end every member with a RecursionError or OverflowError."""
    assert Note.parse(text) is None


# -- bombs ---------------------------------------------------------------------------------------------


def bomb(codec: int, size: int) -> bytes:
    """A record batch that unpacks to `size` zeros."""
    zeros = bytes(size)
    packed = {1: gzip.compress, 3: lz4.frame.compress, 4: zstandard.ZstdCompressor(level=1).compress}[codec](zeros)
    return batch_bytes(codec, [(NOW, b"k", b"v" * 99, [])])[:61] + packed


@pytest.mark.parametrize("codec", [1, 3, 4], ids=["gzip", "lz4", "zstd"])
def test_a_batch_that_unpacks_to_too_much_is_refused(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_fetch, "MAX_UNPACKED", 2**20)
    with pytest.raises(kafka_errors.CorruptRecordError, match="unpacks to more than 1048576"):
        read_batch(bomb(codec, 2**24))
    with pytest.raises(kafka_errors.CorruptRecordError, match=r"invalid record structure|unconsumed"):
        read_batch(bomb(codec, 2**20))


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 5, 7])
def test_a_batch_that_cannot_be_unpacked_is_a_corrupt_record(codec: int) -> None:
    """It was an error of the codec, which the worker does not explain: gzip's BadGzipFile, lz4's RuntimeError, ..."""
    data = bytearray(batch_bytes(min(codec, 4), [(NOW, b"k", b"v" * 99, [])]))
    data[22] = codec  # attributes
    data[61:] = bytes(data[61:])[:-9][::-1]
    with pytest.raises(kafka_errors.CorruptRecordError):
        read_batch(bytes(data))


@pytest.mark.parametrize("codec", [1, 3, 4], ids=["gzip", "lz4", "zstd"])
def test_large_batches_are_unpacked_in_parts(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_fetch, "MAX_UNPACKED", 2**22)
    value = np.random.default_rng(1).bytes(2**20)
    [record] = unpack(MemoryRecords(batch_bytes(codec, [(NOW, b"k", value, [])])).next_batch(), "t", 0)
    assert record.value == value


def test_a_block_that_claims_a_huge_frame_is_refused() -> None:
    """The frame's own size counted, so that a block of a kilobyte could take all memory."""
    scheme, content = 7, bytes(2**24)
    head = plain_block()[:32] + struct.pack("<Q", 64)
    head = head[:8] + struct.pack("<Q", scheme) + head[16:]
    with pytest.raises(CorruptBlock, match="another length"):
        block.decode(sign_block(head, content), scheme, np.dtype([("row_id", "<u8")]))


def test_a_block_of_other_tables_is_refused() -> None:
    with Deduplicator(load_settings()) as dedup:
        delta = dedup.judge([read(id="1", title="Elm bridge opens")]).delta
        with pytest.raises(CorruptBlock, match="keys of 3 tables"):
            dedup.restore(dataclasses.replace(delta, keys=delta.keys[:, :3]))
        assert len(dedup) == 0
        dedup.restore(delta)
        assert len(dedup) == 1


@pytest.mark.parametrize("name", ["offsets", "standing", "migration"])
@pytest.mark.parametrize(
    "value", [None, b"", b"[", b"[" * 10_000, b'{"a": 1}', b"[1, 2, 3]", b'{"next": [[1]]}', b"\xff", b'{"0": 1e99}']
)
def test_a_foreign_header_of_a_changelog_record_is_corrupt(name: str, value: bytes | None) -> None:
    """It was an error of json, or one of the types in it, without the place."""
    with pytest.raises(CorruptBlock, match=name):
        RestoreResult().add_headers([(name, value)])  # type: ignore[list-item]


def test_a_sequence_of_many_digits_is_corrupt() -> None:
    with pytest.raises(CorruptBlock):
        SequenceRange.parse(b"1-" + b"9" * 5000)


def test_unpacking_a_file_holds_one_chunk(tmp_path: Any) -> None:
    """A bomb of 64 MB of line feeds, packed in 64 KB, is read chunk by chunk."""
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * 2**26))
    with InputLines(path) as lines:
        assert sum(1 for _ in zip(range(1000), lines, strict=False)) == 1000


def test_an_open_quote_takes_the_rest_of_a_table_and_is_refused() -> None:
    with pytest.raises(InputError, match="not valid CSV"):
        list(csv_rows("a.csv", iter([b"id,title", b'1,"' + b"x" * MEGABYTE]), FileFormat.CSV))


def test_dates_that_python_does_not_hold_stop_a_parquet_file_with_a_line(tmp_path: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for kind, value in (("us", INT64 - 1), ("us", -INT64), ("ns", INT64 - 1), ("s", INT64 // 10**9)):
        out = io.BytesIO()
        table = pyarrow.table({"id": ["1"], "published": pyarrow.array([value], pyarrow.timestamp(kind))})
        parquet.write_table(table, out)
        path = tmp_path / "a.parquet"
        path.write_bytes(out.getvalue())
        is_held = kind != "us"  # they are in the year 2262; the others hundreds of thousands of years away
        with InputLines(path) as lines:
            if is_held:
                assert len(list(lines)) == 1
            else:
                with pytest.raises(InputError, match=r"cannot read .*a\.parquet as Parquet"):
                    list(lines)
