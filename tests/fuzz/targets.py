"""Every decoder of outside bytes, each as a `Target`: inputs to begin from, and the errors that it may end in.

This module has those of items and input files; the others are in records.py, stored.py, outside.py and feeds.py.
"""

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import msgspec

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import BadItem, InputError, RegistryAway, UsageError
from stream_dedup.news import dates
from stream_dedup.news.clean import Cleaner
from stream_dedup.news.decode import Decoder, site_of
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.news.names import PRESETS
from stream_dedup.registry import frames_of
from stream_dedup.registry.readers import AvroReader, ProtobufReader
from stream_dedup.settings import ItemSettings, RegistrySettings, load_settings
from stream_dedup.tools.batch.output_files import packer
from stream_dedup.tools.inputs.lines import LineReader
from stream_dedup.tools.inputs.packing import Input, Packing
from stream_dedup.tools.inputs.tables import csv_rows
from stream_dedup.tools.survey.survey import Survey, why_unreadable
from tests.fuzz.feeds import feed_targets
from tests.fuzz.loop import JSON, Target, scratch_file
from tests.fuzz.outside import outside_targets
from tests.fuzz.records import NOW, record_targets
from tests.fuzz.stored import stored_targets
from tests.news.test_presets import RECORDS
from tests.registry.server import AVRO, article_class, avro, frame, protobuf_file

_MARKUP = [
    b"<", b">", b"</", b"/>", b"<p>", b"</p>", b"<b", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<script>", b"</script>",
    b"<title>", b"<svg>", b"<table>", b"<a href=", b"<p hidden>", b"style='display:none'", b"<!doctype ", b"&", b"&#",
    b"&#x", b"&#0;", b"&#xD800;", b"&#1114112;", b"&amp;", b"&lt;p&gt;", b";", b"[", b"](", b"](http://", b")", b"![",
    b"(/", b"<html>", b"<frameset>", b"<template>", b"<math>", b"<plaintext>", b"hidden", b'"', b"'", b" ",
    b"\n", b"\x00", "\u200b".encode(), "\u0301".encode(), "漢".encode(), b" - ", b" | ", b"...",
]  # fmt: skip
_DATES = [
    b"2024-01-01", b"T00:00:00", b"Z", b"+00:00", b"+9999", b"-2400", b"20240101", b"000000", b"1704067200", b"Mon, ",
    b"Jan", b" am", b" pm", b"12:", b"GMT", b"/", b".", b"e9", b"e400", b"9" * 30, b"0000", b"9999-12-31", b"24:00",
    b"Europe/Berlin", b"ET", b"-05", b" - ", b"/Date(", b")/", b"[UTC]", b"janv.", b" de ", "年".encode(),
    "月".encode(), "يناير".encode(), "오후".encode(), "٢".encode(), b"mar", b" m=+1",
]  # fmt: skip


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


def _framed() -> Callable[[bytes], object]:
    """Values of a registry that is away, of which the first three schemas were fetched before."""
    registry = RegistrySettings(url="http://127.0.0.1:9")
    nested = {"name": "n", "type": {"type": "array", "items": ["null", {"type": "map", "values": "string"}]}}
    union = {"type": "record", "name": "N", "fields": [{"name": "title", "type": "string"}, nested]}
    avro_readers = {number: AvroReader(json.dumps(schema)) for number, schema in ((1, AVRO), (3, union))}
    frames_of(registry)._readers = {
        **avro_readers, 2: ProtobufReader({"a": protobuf_file().SerializeToString()}), 4: None
    }  # fmt: skip
    decode = Decoder(ItemSettings(), registry)

    def call(data: bytes) -> None:
        assert isinstance(decode(data, b"k", 1, 0, 1), (Item, BadItem))
        with contextlib.suppress(BadItem):
            decode.read(data)

    return call


def _framed_seeds() -> list[bytes]:
    item = {"id": "1", "title": "Elm", "text": "It opened.", "url": None, "published": 1}
    message = article_class()(id="1", title="Elm", text="It opened.")
    return [
        frame(1, avro(AVRO, item)), b"\0" * 4 + frame(1, avro(AVRO, item)),
        frame(2, b"\x02\x02" + message.SerializeToString()),
        frame(3, b"\x02a\x04\x02\x02\x02a\x02b\0\0\0"), frame(4, b'{"title": "Elm"}'),
    ]  # fmt: skip


def _avro_file() -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, AVRO, [{"id": "1", "title": "Elm", "text": "x", "published": 1}] * 3, codec="deflate")
    return out.getvalue()


def _cleaner(markup: Any) -> Callable[[bytes], object]:
    clean = Cleaner(ItemSettings(markup=markup))
    return lambda data: clean(data[:40].decode("utf-8", "replace"), data.decode("utf-8", "surrogateescape"))


def _date(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    value = dates.milliseconds_of(text)
    assert value == dates.NO_TIME or 0 <= value < 2**62
    assert why_unreadable(text) in (None, *dates.REASONS)


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
    for row in csv_rows(Input("a.csv", "csv", False, io.BytesIO(), iter([data]), 2**25)):
        if row.value and row.fault is None:
            json.loads(row.value)


def _lines(name: str) -> Callable[[bytes], object]:
    def call(data: bytes) -> None:
        for _ in LineReader([str(scratch_file(name, data))]):
            pass

    return call


def _packed(kind: Packing) -> bytes:
    packing = packer(kind)
    return packing.compress(b'{"id": "1", "title": "T"}\n' * 9) + packing.flush()


def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    table = pyarrow.table({"id": ["1", "2"], "title": ["T", None], "n": [1, 2**62], "l": [["a"], []]})
    parquet.write_table(table, out)
    return out.getvalue()


# -- the whole way -------------------------------------------------------------------------------------


def _survey(data: bytes) -> None:
    """Records of any time are surveyed and summarised, as in the worker and by `check`."""
    settings = load_settings()
    decode = Decoder(settings.item)
    for is_record in (True, False):
        survey = Survey(decode.read, settings, latest=NOW, is_record=is_record)
        time = int.from_bytes(data[:8], "big", signed=True) if is_record else None
        for number in range(2):
            survey.add(decode(data, None, time, 0, number), data, 0, number)
        survey.summary()


class Verdicts:
    """Judge records of any time, and an item of their neighbourhood before and after them."""

    def __init__(self) -> None:
        self._dedup: Decider | None = None
        self._decode = Decoder(ItemSettings())
        self._calls = 0

    def __call__(self, data: bytes) -> None:
        if self._dedup is None or self._calls % _CALLS == 0:
            if self._dedup is not None:
                self._dedup.close()
            self._dedup = Decider(load_settings())
        self._calls += 1
        time = int.from_bytes(data[:8], "big", signed=True)
        found = self._decode(data[8:], data[:3], time, 0, self._calls)
        batch = self._dedup.judge([_BEFORE, found, found, _AFTER])
        assert batch.verdicts[-1].kind is Kind.DUPLICATE
        for verdict in batch.verdicts:
            msgspec.json.encode(verdict.as_json())
        self._dedup.apply(batch)


_CALLS = 500
_BEFORE = Item("before", "Oak falls in a storm on Tuesday", "The oak fell on a road near the mill.", "a", NOW, 0, 1)
_AFTER = Item("after", "Oak falls in a storm on Tuesday", "The oak fell on a road near the mill.", "b", NOW, 0, 2)


def targets() -> list[Target]:
    """Every decoder."""
    records = [json.dumps(record, ensure_ascii=False).encode() for _, _, record, _ in RECORDS]
    records.append(b'{"title": {"#text": "T"}, "text": ["x"], "id": 18446744073709551615, "published": 1704067200}')
    feeds = [
        b'<?xml version="1.0" encoding="ISO-8859-1"?><rss xmlns:media="http://search.yahoo.com/mrss/"><channel><item>'
        b"<title>A &amp; B</title><description><![CDATA[<p>x &nbsp; y</p>]]></description><guid>7</guid>"
        b"<media:group><media:description>z</media:description></media:group></item></channel></rss>",
        b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><title type="html">T</title>'
        b'<content type="xhtml"><div>x &lt; <b>y</b></div></content><link href="/1"/></entry></feed>',
        b"<nitf><head><docdata><doc-id id-string='1'/></docdata></head><body><body.head><hedline><hl1>T</hl1></hedline>"
        b"</body.head><body.content><p>x</p></body.content></body></nitf>",
        "<rss><item><title>Ä</title></item></rss>".encode("utf-16"),
    ]
    xml = [b"<?xml ", b'encoding="', b"UTF-16", b"gb18030", b"<!DOCTYPE x [", b"<!ENTITY a 'b'>", b"&a;", b"<item>",
           b"</item>", b"<entry>", b"</rss>", b"<rss>", b"<!ENTITY nbsp 'x'>", b"xml:base='http://[/'",
           b"<link href='/7'/>", b"<link>//a</link>", b"<guid>http://a/7</guid>", b"<source url='b'>",
           "Паром".encode("cp1251"), b"<\0", b"xmlns:a='b'", b"xmlns='b'", b"<a:b>", *_MARKUP]  # fmt: skip
    events = [
        b'{"specversion": "1.0", "id": "7", "source": "/wire", "time": "2024-01-01T00:00:00Z", "data": {"title": "T"}}',
        b'{"specversion": "1.0", "id": "7", "data_base64": "eyJ0aXRsZSI6ICJUIn0="}',
        b'{"specversion": "1.0", "data": "<item><title>T</title></item>"}',
        b'{"version": "https://jsonfeed.org/version/1.1", "home_page_url": "/", "items": [{"id": "7", "title": "T"}]}',
    ]
    texts = [
        b"<p>The <b>bridge</b> &amp; the [river](https://a.example/b)<br>x</p><!-- c --><script>x()</script>",
        b'Plain text - with | marks &#8220;quoted&#x201d; ![i](/j) [a [b] c](http://e.example/f_(g) "h")',
        b"<html hidden><body style='display:none'><div hidden><p hidden>ad<b hidden>x</b></p></div>y</body></html>",
        b"<html><head><title>T</title></head><body><article><p>" + b"word " * 40 + b"</p></article></body></html>",
    ]
    moments = [b"2024-01-01T00:00:00Z", b"Mon, 01 Jan 2024 10:00:00 GMT", b"20240101T120000Z", b"1704067200", b"1/2/24",
               b"2024/1/2 3:04 PM EST", b"January 2nd, 2024 at 5:06 am +0100", b"20240101000000"]  # fmt: skip
    csv = [b'id,title,text\n1,"two\nlines",x\n2,"he said ""no""",\n,,\n', b"id;title\n1;2;3\n"]
    page = ("auto", "html", "page")
    out = [
        Target(f"decode {preset}", records, JSON + _MARKUP, _decoder(preset=preset)) for preset in ("auto", *PRESETS)
    ]
    out += [
        Target("decode xml", feeds[:3], xml, _decoder(), share=0.3),
        Target("decode events", events, [*JSON, b'"specversion":', b'"data":', b'"items":'], _decoder()),
        Target("documents", [b"\n".join(feeds[:3]), feeds[3], b"[" + b",\n".join(events) + b"]", *events],
               [*xml, b"[{", b"\n"], _lines("a.json"), (InputError,), 0.1),
        Target("decode text", texts, _MARKUP, _decoder(preset="text")),
        Target("decode given", [b'{"id": 1, "f": "00000000000000ff"}', b'{"f": 7}'], JSON,
               _decoder(fields={"fingerprint": "f"})),
        *(Target(f"clean {markup}", texts, _MARKUP, _cleaner(markup), share=0.02 if markup == "page" else 1)
          for markup in page),
        Target("dates", moments, _DATES, _date, share=2),
        Target("sources",
               [b"https://www.bbc.co.uk/a?b#c", b"a.b.example"], [b"://", b".", b"[", b"]", b"@", b":", b"/"],
               lambda data: site_of(data.decode("utf-8", "replace"))),
        Target("Item.of", [b'{"id": 7, "title": "T", "text": "", "source": "a.example", "time": 1704067200000}'],
               [*JSON, b'"time":'], _given, (UsageError,)),
        Target("csv", csv, [b",", b'"', b"\n", b"\r", b"\0", b";", b"\t", b"\xff", b"\xef\xbb\xbf"], _csv,
               (InputError,)),
        Target("lines", [b'{"id": 1}\n{"id": 2}\n'], [b"\n", b"\r", b"[{", b"id,title", *JSON], _lines("a.jsonl"),
               (InputError,), 0.1),
        Target("gzip", [_packed(Packing.GZIP) * 2], [b"\x1f\x8b"], _lines("a.jsonl.gz"), (InputError,), 0.1),
        Target("zstd", [_packed(Packing.ZSTD) * 2], [b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"],
               _lines("a.jsonl.zst"), (InputError,), 0.1),
        Target("parquet", [_parquet()], [b"PAR1"], _lines("a.parquet"), (InputError,), 0.01),
        Target("framed", _framed_seeds(),
               [*(b"\0\0\0\0" + bytes([i]) for i in range(4)), b"\x02" * 64, b"\x80" * 9, b"{"],
               _framed(), (RegistryAway,), 0.1),
        Target("avro", [_avro_file()], [b"Obj\1", b"\x80" * 9, b"null", b"snappy", b"xz"], _lines("a.avro"),
               (InputError,), 0.1),
        Target("survey", records, JSON + _MARKUP, _survey, (), 0.1),
        Target("verdicts", [NOW.to_bytes(8, "big") + record for record in records],
               [*JSON, *_MARKUP, b"\x7f" + b"\xff" * 7, b"\x80" + b"\0" * 7], Verdicts(), (), 0.02),
    ]  # fmt: skip
    return out + feed_targets(xml, feeds[:2], _MARKUP) + stored_targets() + record_targets() + outside_targets()
