"""Values that a producer has compressed or encoded itself: the reason names what they are; plain ones stay plain."""

import base64
import bz2
import gzip
import json
import lzma
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.errors import BadItem
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.news.packed import packing_of, packing_of_text
from stream_dedup.settings import ItemSettings

JSON = json.dumps({"id": "a", "title": "T", "text": "The bridge over the Elm is open to all again."}).encode()
PACKED = {
    "gzip-compressed": gzip.compress(JSON),
    "zstd-compressed": zstandard.compress(JSON),
    "lz4-compressed": lz4.frame.compress(JSON),
    "bzip2-compressed": bz2.compress(JSON),
    "xz-compressed": lzma.compress(JSON),
    "zlib-compressed": zlib.compress(JSON),
    "base64 of JSON": base64.b64encode(JSON),
    "base64 of gzip-compressed data": base64.urlsafe_b64encode(gzip.compress(JSON)),
    "base64 of zstd-compressed data": base64.encodebytes(zstandard.compress(JSON * 5)),
}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("quoted", [False, True])
def test_a_packed_value_is_named(packing: str, quoted: bool) -> None:
    value = PACKED[packing]
    if quoted and packing.startswith("base64"):
        value = json.dumps(value.decode()).encode()
    bad = Decoder(ItemSettings())(value, b"k", 1)
    assert isinstance(bad, BadItem)
    assert (bad.reason, bad.id) == ("compressed", "k")
    assert bad.detail.startswith(f"the value is {packing}; publish it plain")
    with pytest.raises(BadItem, match="compressed: the value is"):
        Decoder(ItemSettings()).read(value)


@pytest.mark.parametrize("packing", ["gzip-compressed", "zstd-compressed", "base64 of gzip-compressed data"])
def test_a_packed_plain_text_is_named(packing: str) -> None:
    bad = Decoder(ItemSettings(format="text"))(PACKED[packing], b"k", 1)
    assert isinstance(bad, BadItem)
    assert bad.detail.startswith(f"the value is {packing};")


@pytest.mark.parametrize(
    ("text", "packing"),
    [
        (base64.b64encode(gzip.compress(JSON)).decode(), "base64 of gzip-compressed data"),
        (
            base64.encodebytes(b"<p>The bridge over the Elm is open to all again, says the mayor.</p>").decode(),
            "base64",
        ),
        (
            base64.b64encode("Die Brücke über die Elm ist wieder für alle geöffnet, sagt man.".encode()).decode(),
            "base64",
        ),
    ],
)
def test_a_packed_text_of_a_field_is_named(text: str, packing: str) -> None:
    value = json.dumps({"id": "a", "title": "A headline", "text": text}).encode()
    bad = Decoder(ItemSettings())(value, None, 1)
    assert isinstance(bad, BadItem)
    assert (bad.reason, bad.id) == ("compressed", "a")
    assert bad.detail.startswith(f"field text is {packing}; publish it plain")


@pytest.mark.parametrize(
    "text",
    [
        "埃尔姆桥周一开通" * 20,
        "https://a.example/" + "x" * 100,
        "0123456789abcdef" * 8,
        "word" * 40,
        "BZh",
        "x\x9c",
        "H4sI",
        "Donaudampfschifffahrtsgesellschaftskapitaenswitwenrentenauszahlungsstelle macht zu.",
    ],
)
def test_unusual_but_plain_texts_stay_items(text: str) -> None:
    item = Decoder(ItemSettings())(json.dumps({"id": "a", "title": "T", "text": text}).encode(), None, 1)
    assert isinstance(item, Item)


def test_a_plain_line_of_text_stays_an_item() -> None:
    assert isinstance(Decoder(ItemSettings(format="text"))(b"PKI is a word, BZh another.", b"k", 1), Item)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_never_raise(value: bytes) -> None:
    packing_of(value)
    packing_of(base64.b64encode(value))
    packing_of_text(value.decode("latin-1"))
    assert isinstance(Decoder(ItemSettings())(value, b"k", 1), BadItem | Item)


def test_the_header_of_a_schema_registry_is_explained() -> None:
    bad = Decoder(ItemSettings())(b"\x00\x00\x00\x00\x2aavro", b"k", 1)
    assert isinstance(bad, BadItem)
    assert bad.reason == "json"
    assert "schema registry's Avro or Protobuf" in bad.detail
