"""The bytes of a record become an item, or a BadItem with the reason; they never raise."""

import bz2
import gzip
import json
import lzma
import zlib
from base64 import b64encode, encodebytes
from collections.abc import Callable
from typing import Any

import lz4.frame
import pytest
import zstandard

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import ItemSettings, load_settings

PLAIN = Decoder(ItemSettings())


def item_of(record: object, decode: Decoder = PLAIN, key: bytes | None = None) -> Item:
    item = decode(json.dumps(record).encode(), key, 5, 2, 9)
    assert isinstance(item, Item), item
    return item


def bad_of(value: bytes | None, decode: Decoder = PLAIN, key: bytes | None = b"key") -> BadItem:
    bad = decode(value, key, 1)
    assert isinstance(bad, BadItem), bad
    return bad


def test_a_plain_record_becomes_an_item_with_its_place_and_time() -> None:
    item = item_of({"id": "a1", "title": "T", "text": "x", "source": "WWW.News.example", "other": [1, {"deep": 2}]})
    assert item == Item("a1", "T", "x", "news.example", 5, 2, 9)


def test_a_field_map_that_is_no_path_is_refused_with_its_name() -> None:
    with pytest.raises(ConfigError, match=r"fields\.title = 'head\.\.line'"):
        Decoder(ItemSettings.model_validate({"fields": {"title": "head..line"}}))


def test_without_an_id_the_key_is_the_id_and_without_a_key_the_place() -> None:
    assert item_of({"title": "T"}, key=b"k7").id == "k7"
    assert item_of({"title": "T"}).id == "2:9"


def test_a_null_value_is_a_tombstone_of_its_key() -> None:
    assert PLAIN(None, b"k", 1, 0, 3) == Tombstone("k", 1, 0, 3)
    assert bad_of(None, key=None).reason == "no-key"


def test_a_text_record_is_all_text() -> None:
    decode = Decoder(ItemSettings(preset="text"))
    assert decode("früh".encode(), b"k", 1) == Item("k", "", "früh", "", 1)
    bad = bad_of(b"\xff", decode)
    assert (bad.reason, bad.id) == ("encoding", "key")


UNREADABLE = {
    "json": [b"", b'{"id": "a", "title": "cut', b'{"x": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}"],
    "xml": [b'\xff\xfe{"id": "a"}'],
    "encoding": [b'{"id": "a", "title": "\xff"}', b'{"t\xeftle": "T"}'],
    "type": [
        b'[{"id": "a"}]', b"null", b'{"title": ["a", "b"]}', b'{"title": 5}', b'{"title": {"#text": ["a", "b"]}}',
        b'{"id": true}',
    ],
}  # fmt: skip


@pytest.mark.parametrize(("value", "reason"), [(one, reason) for reason, each in UNREADABLE.items() for one in each])
def test_what_cannot_be_read_has_a_reason(value: bytes, reason: str) -> None:
    bad = bad_of(value)
    assert (bad.reason, bad.id) == (reason, "key")


@pytest.mark.parametrize(
    ("record", "detail"),
    [
        (
            {"headline": "T", "content": {"lang": "en", "plain": "It is open."}, "published": "2026-03-01"},
            'content, read as the text, must be a string, not an object of lang, plain; name what it holds in [item] '
            'fields, such as text = "content.plain"',
        ),
        ({"title": {"x": 1}}, "title must be a string, not an object of x; name what it holds in [item] fields"),
        (
            {"title": "T", "text": [{"plan": "Open now.", "x": "y"}] * 2},
            'text must be a string, not a list; name what it holds in [item] fields, such as text = "text.plan"',
        ),
        ({"title": True, "text": "x"}, "title must be a string, not true"),
        ({"id": 1.5, "title": "T"}, "id must be a string, not 1.5"),
    ],
)  # fmt: skip
def test_a_value_that_is_no_string_is_named_with_its_place_and_cure(record: dict[str, Any], detail: str) -> None:
    bad = bad_of(json.dumps({"id": "a"} | record).encode())
    assert (bad.detail, bad.id) == (detail, "key" if "id" in record else "a"), "it keeps the id that could be read"


@pytest.mark.parametrize("preset", ["auto", "text"])
@pytest.mark.parametrize(
    ("pack", "name"),
    [(gzip.compress, "gzip"), (zstandard.compress, "zstd"), (lz4.frame.compress, "lz4"), (bz2.compress, "bzip2"),
     (lzma.compress, "xz"), (zlib.compress, "zlib")],
)  # fmt: skip
def test_a_value_that_its_producer_compressed_is_named(pack: Callable[[bytes], bytes], name: str, preset: str) -> None:
    bad = bad_of(pack(b'{"id": "a", "title": "T"}'), Decoder(ItemSettings.model_validate({"preset": preset})))
    assert (bad.reason, bad.id) == ("compressed", "key")
    assert bad.detail.startswith(f"the value is {name}-compressed; publish it plain")


# -- a fingerprint that the item brings along ----------------------------------------------------------------

GIVEN = Decoder(ItemSettings(fields={"fingerprint": "image.phash|phash"}))


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (0, 0),
        (2**64 - 1, 2**64 - 1),
        (-1, 2**64 - 1),  # a signed 64-bit number of another language
        (-(2**63), 2**63),
        ("c3d1a99a1e3c5a66", 0xC3D1A99A1E3C5A66),
        (" 0xC3D1A99A1E3C5A66 ", 0xC3D1A99A1E3C5A66),
    ],
)
def test_a_given_fingerprint_is_a_number_or_hex(value: object, bits: int) -> None:
    item = item_of({"id": "1", "image": {"phash": value}, "url": "https://a.example/1"}, GIVEN)
    assert item == Item("1", "", "", "a.example", 5, 2, 9, fingerprint=bits)
    assert item_of({"phash": value}, GIVEN, key=b"k").fingerprint == bits


NO_FINGERPRINTS: dict[str, list[Any]] = {
    "the record has none at the path of [item] fields.fingerprint": [None, ""],
    "has more than 64 bits": [2**64, -(2**63) - 1],
    "is not 16 hex digits": ["c3d1", "c3d1a99a1e3c5a66ff", "１２３４５６７８９０１２３４５６"],
    "it must be a whole number or 16 hex digits, not": [1.0, True, [1]],
}


@pytest.mark.parametrize(("value", "detail"), [(one, name) for name, each in NO_FINGERPRINTS.items() for one in each])
def test_anything_else_is_bad_and_says_why(value: object, detail: str) -> None:
    bad = bad_of(json.dumps({"id": "7", "phash": value}).encode(), GIVEN)
    assert (bad.reason, bad.id) == ("fingerprint", "7")
    assert detail in bad.detail


def test_headline_and_text_are_not_read_beside_it() -> None:
    item = item_of({"id": "1", "title": "A caption", "text": ["not even a text"], "phash": 1}, GIVEN)
    assert (item.title, item.text) == ("", "")
    assert item_of({"id": "1", "title": "T", "text": "x", "phash": "not read"}).fingerprint is None


def test_a_plain_text_has_no_fingerprint() -> None:
    with pytest.raises(ConfigError, match="with preset = 'text' a record has no fields"):
        load_settings(item={"preset": "text", "fields": {"fingerprint": "phash"}}, fingerprint={"family": "given"})
    with pytest.raises(ConfigError, match=r"fields\.fingerprint"):
        Decoder(ItemSettings(fields={"fingerprint": "a..b"}))


def test_a_field_of_many_objects_is_refused_before_they_are_made() -> None:
    """4 MiB of them took 180 MiB; a field that is not read may have any number."""
    many = b"[" + b"{}," * 200_000 + b"{}]"
    bad = bad_of(b'{"id": "a1", "title": "T", "text": ' + many + b"}")
    assert (bad.reason, "more than 200,000 objects and lists" in str(bad)) == ("type", True)
    item = PLAIN(b'{"id": "a1", "title": "T", "text": "[x] {y}", "other": ' + many + b"}", None, 5)
    assert item == Item("a1", "T", "[x] {y}", "", 5)


@pytest.mark.parametrize("record", [{"guid": "1", "title": "T", "description": "x", "link": "/1"}, {"title": "T"}])
def test_a_large_record_is_read_as_a_small_one(record: dict[str, str]) -> None:
    """Its members are decoded one by one."""
    small, large = item_of(record), item_of(record | {"other": "[" * 500_000})
    assert small == large
    words = "[word] " * 100_000 + "."
    assert item_of(record | {"text": words}).text == words


ELM = "https://elm.example/7"
SOURCES: dict[str, list[dict[str, str]]] = {
    "": [{"url": url} for url in ("/news/7.html", "news/7", "7.html?a=b.com", "../7", "https://[broken")]
    + [{"url": "https://news.google.com/rss/articles/CBMi7"}, {"source": "nan"}, {"source": "None"}],
    "elm.valley": [
        {"url": "https://www.google.com/url?rct=j&sa=t&url=https://www.elm.valley/7&ct=ga"},
        {"url": "https://l.facebook.com/l.php?u=https%3A%2F%2Felm.valley%2F7&h=1"},
        {"url": "https://www.google.com/amp/s/www.elm.valley/amp/7"},
        {"url": "https://www-elm-valley.cdn.ampproject.org/c/s/www.elm.valley/amp/7"},
        {"url": "https://web.archive.org/web/20240101000000/https://elm.valley/7"},
        {"url": "https://elm.valley/7?ref=https://oak.example"},
    ],
    "elm wire": [{"source": "{'id': None, 'name': 'Elm Wire'}"}, {"source": '{"id": null, "name": "Elm Wire"}'}],
    "elm.example": [{"source": "elm.example/news"}, {"source": "/wire", "url": ELM}, {"url": "//www.elm.example/7"}],
    "elm.co.uk": [{"url": "elm.co.uk/news/7?x"}, {"url": "https://u:p@m.Elm.co.uk:8080/7"}, {"url": "www.elm.co.uk/7"}],
    "10.0.0.7": [{"url": "http://10.0.0.7:8080/rss"}],
    "afp/dpa": [{"source": "AFP/dpa"}],
    "u.s. wire / ap": [{"source": "U.S. Wire / AP"}],
}


@pytest.mark.parametrize(("fields", "source"), [(one, source) for source, each in SOURCES.items() for one in each])
def test_a_source_is_a_host_or_a_name_and_never_a_path(fields: dict[str, str], source: str) -> None:
    assert item_of({"title": "T", "id": "7", **fields}).source == source


DAY = 1704067200000


@pytest.mark.parametrize(
    "fields",
    [
        {"pubDate": "Someday", "dc:date": "2024-01-01"},
        {"pubDate": ["Someday", "Mon, 01 Jan 2024 00:00:00 GMT"]},
        {"pubDate": "Someday", "isoDate": DAY},
        {"atom:updated": "2024-01-01T00:00:00Z"},
        {"dcterms:created": "2024-01-01"},
        {"pubDate": "", "published": {"#text": "2024-01-01"}},
    ],
)
def test_of_several_dates_the_first_that_can_be_read_counts(fields: dict[str, Any]) -> None:
    record = {"guid": "7", "title": "T", "description": "x", "link": "https://elm.example/7", **fields}
    item = PLAIN(json.dumps(record).encode(), None, None)
    assert isinstance(item, Item)
    assert item.time == DAY


ELEVEN = DAY + 11 * 3_600_000


@pytest.mark.parametrize(
    "fields",
    [
        {"published": {"seconds": ELEVEN // 1000, "nanos": 0}},
        {"published": {"_seconds": ELEVEN // 1000, "_nanoseconds": 0}},
        {"published": {"__type": "Date", "iso": "2024-01-01T11:00:00.000Z"}},
        {"published": {"$date": {"$numberLong": str(ELEVEN)}}},
        {"published": {"date": "2024-01-01 12:00:00.000000", "timezone_type": 3, "timezone": "Europe/Berlin"}},
        {"published": {"year": 2024, "month": 1, "day": 1, "hours": 11}},
        {"published": [2024, 1, 1, 11, 0]},
        {"publication_date": DAY, "publication_datetime": ELEVEN},
        {"date": "2024-01-01", "time": "11:00"},
        {"date": "2024-01-01T11:00:00", "updated": "2024-01-01T12:00:00"},
    ],
)
def test_an_object_is_a_date_and_a_day_has_the_time_that_stands_beside_it(fields: dict[str, Any]) -> None:
    item = PLAIN(json.dumps({"id": "7", "title": "T", **fields}).encode(), None, None)
    assert isinstance(item, Item)
    assert item.time == ELEVEN


WORDS = "The bridge over the Elm opened on Monday."


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (b64encode(WORDS.encode()).decode(), WORDS),
        (encodebytes(3 * WORDS.encode()).decode(), 3 * WORDS),
        (b64encode("Ильмский мост открыт".encode()).decode(), "Ильмский мост открыт"),
        ("Internationalization", "Internationalization"),
        ("nan", ""),
        (f'["{WORDS}", "It cost twelve million."]', f"{WORDS} It cost twelve million."),
        (json.dumps({"time": 7, "blocks": [{"type": "paragraph", "data": {"text": WORDS}}]}), WORDS),
        ("[Updated] It opened [twice]", "[Updated] It opened [twice]"),
        ("{'is': 'no', 'text': }", "{'is': 'no', 'text': }"),
    ],
)
def test_a_text_in_base64_or_json_is_decoded_where_that_is_certain(text: str, read: str) -> None:
    assert " ".join(item_of({"id": "7", "title": "T", "text": text}).text.split()) == read


def test_base64_of_something_else_is_refused() -> None:
    bad = PLAIN(json.dumps({"id": "7", "title": "T", "text": b64encode(bytes(range(256))).decode()}).encode(), None, 0)
    assert isinstance(bad, BadItem)
    assert bad.reason == "encoding"


def test_a_member_that_is_no_text_does_not_raise_when_people_ask_for_the_fields() -> None:
    """A list of links is read only where somebody asks for all names; its bytes are not UTF-8."""
    content = b'[{"type": "text/html", "valu\xc1e": "T"}]'
    value = b'{"id": "7", "title": "T", "headline": "T", "content": %s, "summary": "S"}' % content
    decode = Decoder(ItemSettings())
    assert isinstance(decode(value, None, 0), Item | BadItem)
    with pytest.raises(BadItem, match="UTF-8"):
        decode.read(value)


API, AUDIO = "https://api.example/7", {"@rel": "enclosure", "@href": "https://cdn.example/7.mp3"}


@pytest.mark.parametrize(
    ("link", "source"),
    [
        ([{"@rel": "self", "@href": API}, {"@rel": "edit", "@href": API}], ""),
        (AUDIO, ""),
        ([AUDIO, {"@href": "https://elm.example/7"}], "elm.example"),
    ],
)
def test_a_link_to_something_else_is_no_url(link: Any, source: str) -> None:
    assert (
        item_of({"id": "urn:7", "title": "T", "content": "x", "updated": "2024-01-01", "link": link}).source == source
    )


def test_an_element_that_stands_there_twice_costs_no_item() -> None:
    item = item_of({"guid": ["7", "8"], "title": "T", "description": "x", "source": ["", "Elm", "Oak"]})
    assert (item.id, item.source) == ("7", "elm")
