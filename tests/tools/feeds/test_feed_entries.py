"""Entries of documents: stable ids, what counts as a change, and that the presets read what is emitted."""

import gzip
import json
from typing import Any

import msgspec
import pytest

from stream_dedup.errors import BadItem
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import ItemSettings
from stream_dedup.tools.feeds.feed_entries import Entry, read_document
from tests.tools.feeds.server import entry, rss

FEED = "https://ann:pw@wire.example/feed?token=s3cret"
SHOWN = "https://wire.example/feed?token=***"
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>%s</id><title>Ferry</title>
<link rel="alternate" href="https://news.example/1"/><updated>2026-03-02T06:00:00Z</updated>
<content type="html">&lt;p&gt;It stops.&lt;/p&gt;</content></entry></feed>"""
ATOM_SITE = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://site.example/"/>
<link rel="self" href="https://hub.example/feed"/><entry><id>1</id><title>Ferry</title><summary>It stops.</summary>
%s</entry></feed>"""
RDF = b"""<rdf:RDF xmlns="http://purl.org/rss/1.0/" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<item rdf:about="https://news.example/1"><title>Ferry</title><link>https://news.example/1</link>
<description>It stops.</description></item></rdf:RDF>"""


def json_feed(**item: Any) -> bytes:
    return json.dumps({"version": "https://jsonfeed.org/version/1.1", "home_page_url": "https://home.example/",
                       "items": [{"title": "Ferry", "content_html": "<p>It stops.</p>", **item}]}).encode()  # fmt: skip


DECODE = Decoder(ItemSettings())


def line_of(one: Entry) -> bytes:
    return msgspec.json.encode(one.value)


def read(body: bytes) -> list[Entry]:
    return list(read_document(body, FEED).entries)


@pytest.mark.parametrize(
    ("body", "shape", "expected"),
    [
        (rss(entry(7, pubDate="Mon, 02 Mar 2026 06:00:00 GMT")), "rss", f"{SHOWN}#7"),
        (rss(entry(7, guid="https://www.wire.example/?p=7")), "rss", "https://www.wire.example/?p=7"),
        (rss(entry(7, guid="https://news.example/?p=7")), "rss", f"{SHOWN}#https://news.example/?p=7"),
        (rss(entry(7, guid="")), "rss", f"{SHOWN}#https://news.example/7"),
        (rss(entry(7, guid="x" * 5000)), "rss", f"{SHOWN}#"),
        (RDF, "rss", f"{SHOWN}#https://news.example/1"),
        (ATOM % b"tag:wire.example,2026:1", "atom", "tag:wire.example,2026:1"),
        (ATOM % b"tag:news.example,2026:1", "atom", f"{SHOWN}#tag:news.example,2026:1"),
        (ATOM % b"1", "atom", f"{SHOWN}#1"),
        (json_feed(id="1", url="https://news.example/1", date_published="2026-03-02"), "json_feed", f"{SHOWN}#1"),
        (json_feed(id=1, url="https://news.example/1"), "json_feed", f"{SHOWN}#1"),
        (json_feed(id="urn:uuid:1", url="https://news.example/1"), "json_feed", f"{SHOWN}#urn:uuid:1"),
    ],
)
def test_presets_read_the_stable_id_and_everything_else(body: bytes, shape: str, expected: str) -> None:
    [one] = read(body)
    record = DECODE.read(line_of(one))
    assert record.shape == shape
    assert one.id == record.fields["id"]
    assert one.id == expected or (expected.endswith("#") and one.id.startswith(expected) and len(one.id) < 100)
    assert record.fields["title"] in ("Ferry", "Story 7")
    assert "stops" in record.fields["text"]
    assert record.fields["url"].startswith("https://news.example/")
    assert (record.fields["published"] is not None) == (b"2026-03-02" in body or b"pubDate" in body)
    assert one.value["feed"] == SHOWN
    assert b"s3cret" not in line_of(one)
    assert b"pw" not in line_of(one)


@pytest.mark.parametrize(
    ("body", "source"),
    [
        (rss(entry(1, link="")), "wire.example"),
        (rss(entry(1, link=""), channel="<link>https://channel.example/</link>"), "channel.example"),
        (rss(entry(1, link=""), channel="<link>/</link>"), "wire.example"),
        (rss(entry(1, link="/1")), "wire.example"),
        (rss(entry(1, link="/1"), channel="<link>https://channel.example/</link>"), "channel.example"),
        (ATOM_SITE % b'<link rel="enclosure" href="https://cdn.example/1.mp3"/>', "site.example"),
        (ATOM_SITE % b'<link href="/1"/>', "site.example"),
        (json_feed(id="1", url="/1"), "home.example"),
        (json_feed(id="1").replace(b"https://home.example/", b"/"), "wire.example"),
        (json_feed(id="1"), "home.example"),
        (rss(entry(1)), "news.example"),
    ],
)
def test_an_entry_without_a_link_has_a_source(body: bytes, source: str) -> None:
    [one] = read(body)
    assert DECODE(line_of(one), None, None).source == source  # type: ignore[union-attr]


def test_an_entry_without_id_and_link_is_known_by_its_title() -> None:
    ids = [read(rss({"title": title, "description": text}))[0].id for title, text in ("ab", "ac", "bb")]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0].startswith(f"{SHOWN}#")


@pytest.mark.parametrize(
    ("changed", "is_change"),
    [
        ({"title": "Another"}, True),
        ({"description": "The ferry goes."}, True),
        ({"link": "https://news.example/2"}, True),
        ({"pubDate": "Mon, 02 Mar 2026 06:00:00 GMT"}, True),
        ({"description": "<p class='x'>The ferry\n stops.</p>"}, False),
        ({"category": "sea"}, False),
    ],
)
def test_a_change_is_what_a_reader_sees(changed: dict[str, str], is_change: bool) -> None:
    [one], [other] = read(rss(entry(1))), read(rss(entry(1) | changed))
    assert one.id == other.id
    assert (one.digest != other.digest) == is_change


@pytest.mark.parametrize(
    ("others", "by"),
    [
        ({"link": ("https://a.example/1", "https://a.example/2", "https://a.example/3")}, "link"),
        ({"title": ("Bridge opens", "Ferry stops", "Quay floods")}, "title"),
        ({"description": ("It opens.", "It stops.", "It floods.")}, "text"),
    ],
)
def test_entries_that_share_an_id_are_told_apart_whatever_their_order(others: dict[str, Any], by: str) -> None:
    [field] = others
    entries = [entry(1, guid="https://wire.example/") | {field: value} for value in others[field]]
    document = read_document(rss(*entries, entries[0], entry(2)), FEED)
    assert [bad.detail for bad in document.problems] == [
        "3 entries have the id https://wire.example/: their links or texts tell them apart"
    ]
    ids = {str(one.value[field]): one.id for one in document.entries}
    assert len(document.entries) == 4
    assert len({*ids.values()}) == len(ids)
    assert all(DECODE.read(line_of(one)).fields["id"] == one.id for one in document.entries)
    later = read_document(rss(*reversed(entries[:2])), FEED)
    assert {str(one.value[field]): one.id for one in later.entries}.items() <= ids.items()


def test_no_feed_speaks_for_another() -> None:
    ids = ["https://bank.example/1", "tag:bank.example,2026:1", "urn:uuid:1", "HTTPS://BANK.example/1"]
    ids += ["https://bank.example@wire.example.evil.example/", "https://[", "tag:wire.example@bank.example,2026:1"]
    ids += ["https://bank.example/feed#1", "//bank.example/1", "https://wire.example.bank.example/"]
    for name in ids:
        [one] = read(rss(entry(1, guid=name)))
        assert one.id == f"{SHOWN}#{name}"


def test_entries_come_with_the_oldest_first() -> None:
    days = [5, 0, 4, 0, 9, 1]
    dates = {day: f"Mon, 0{day} Mar 2026 06:00:00 GMT" if day else "" for day in days}
    found = read(rss(*(entry(number, pubDate=dates[day]) for number, day in enumerate(days))))
    assert [int(one.value["title"][-1]) for one in found] == [5, 2, 1, 0, 4, 3]
    assert [int(found.value["title"][-1]) for found in read(rss(*map(entry, range(3))))] == [2, 1, 0]


def test_an_entry_that_says_nothing_is_left_out() -> None:
    document = read_document(rss({"link": "https://news.example/1"}, entry(2)), FEED)
    assert len(document.entries) == 1
    assert [bad.reason for bad in document.problems] == ["entry-empty"]


def test_a_charset_in_the_header_counts_before_a_declaration() -> None:
    text = '<?xml version="1.0" encoding="koi8-r"?><rss><channel><item><title>Паром</title></item></channel></rss>'
    assert read_document(text.encode("cp1251"), FEED, "windows-1251").entries[0].value["title"] == "Паром"


def test_a_body_that_is_packed_without_a_word_is_unpacked_within_its_limit() -> None:
    packed = gzip.compress(rss(entry(7)))
    assert [entry.value["title"] for entry in read(packed)] == ["Story 7"]
    for damaged in (packed[:-9], gzip.compress(bytes(11 * 2**20)), packed[:20] + b"x" * 20):
        with pytest.raises(BadItem, match="damaged or larger than 10 MiB"):
            read(damaged)


def test_a_page_that_names_no_feed_is_reported_as_a_page() -> None:
    with pytest.raises(BadItem, match="<html> is neither a feed"):
        read(b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><body>Feeds</body></html>")
