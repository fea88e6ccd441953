"""`auto` reads each common record format like its preset, whatever records came before."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.errors import BadItem
from stream_dedup.news.decode import TEXT, Decoder
from stream_dedup.news.fields import names_in
from stream_dedup.news.item import Item
from stream_dedup.news.names import AUTO, FIELDS, PRESETS, alternatives
from stream_dedup.settings import ItemSettings
from tests.news.test_decode import bad_of

AUTOMATIC = Decoder(ItemSettings())
LEAD = "The bridge over the Elm opened on Monday, two years late."
BODY = f"{LEAD} It cost twelve million, and the ferry stays until June."
HTML = f"<p>{BODY}</p>"
MONDAY = 1704067200000
RFC = "Mon, 01 Jan 2024 00:00:00 GMT"
ISO = "2024-01-01T00:00:00Z"
URL = "https://www.elm.example/bridge"

# name, shape, record, id: a made-up record of each tool or service in its own form; all are the same article.
RECORDS: list[tuple[str, str, dict[str, Any], str]] = [
    ("plain", "plain", {"id": "7", "title": "T", "text": BODY, "source": "elm.example", "published": ISO}, "7"),
    ("plain with more", "plain", {"id": "7", "title": "T", "text": BODY, "url": URL, "published": ISO, "summary": LEAD,
     "description": HTML}, "7"),
    ("plain without an id", "plain", {"title": "T", "text": BODY, "url": URL, "published": ISO}, "2:9"),
    ("rss as feed readers give it", "rss", {"guid": URL, "title": "T", "description": LEAD, "content:encoded": HTML,
     "link": URL, "pubDate": RFC}, URL),
    ("rss, description alone", "rss", {"title": "T", "description": HTML, "link": URL, "pubDate": RFC}, URL),
    ("rss by xmltodict", "rss", {"guid": {"@isPermaLink": "false", "#text": "7"}, "title": "T", "description": HTML,
     "link": URL, "pubDate": RFC, "source": {"@url": "https://elm.example/feed", "#text": "Elm Wire"}}, "7"),
    ("rss by xml2js", "rss", {"guid": [{"_": "7", "$": {"isPermaLink": "false"}}], "title": ["T"],
     "description": [LEAD], "content:encoded": [HTML], "link": [URL], "pubDate": [RFC], "source": [{"_": "Elm Wire",
     "$": {"url": "https://elm.example/feed"}}]}, "7"),
    ("rss by fast-xml-parser", "rss", {"guid": {"#text": "7", "@_isPermaLink": "false"}, "title": "T",
     "description": HTML, "link": URL, "pubDate": RFC}, "7"),
    ("rss by rss-parser", "rss", {"guid": "7", "title": "T", "content": HTML, "contentSnippet": BODY, "link": URL,
     "pubDate": RFC, "isoDate": ISO, "creator": "A. Writer"}, "7"),
    ("rss with a text", "rss", {"guid": "7", "title": "T", "text": BODY, "link": URL, "pubDate": RFC}, "7"),
    ("rss through a proxy", "rss", {"guid": "7", "title": "T", "description": BODY,
     "link": "https://feedproxy.example/~r/7", "feedburner:origLink": URL, "pubDate": RFC}, "7"),
    ("atom by xmltodict", "atom", {"id": "tag:elm.example,2024:7", "title": {"@type": "html", "#text": "T"},
     "summary": LEAD, "content": {"@type": "html", "#text": HTML}, "link": [{"@rel": "self",
     "@href": "https://feeds.example/7"}, {"@rel": "alternate", "@href": URL}], "updated": "2024-01-02T00:00:00Z",
     "published": ISO}, "tag:elm.example,2024:7"),
    ("atom, a summary and nothing else", "atom", {"id": "7", "title": "T", "summary": BODY, "link": {"@href": URL},
     "updated": ISO}, "7"),
    ("atom by xml2js", "atom", {"id": ["7"], "title": [{"_": "T", "$": {"type": "text"}}], "content": [{"_": HTML,
     "$": {"type": "html"}}], "link": [{"$": {"rel": "alternate", "href": URL}}], "updated": [ISO]}, "7"),
    ("feedparser", "atom", {"id": "7", "guidislink": False, "title": "T", "title_detail": {"type": "text/plain",
     "value": "T"}, "summary": LEAD, "content": [{"type": "text/html", "language": None, "value": HTML}], "link": URL,
     "links": [{"rel": "alternate", "type": "text/html", "href": URL}], "published": RFC, "published_parsed": [2024, 1,
     1, 0, 0, 0, 0, 1, 0]}, "7"),
    ("json feed", "json_feed", {"id": "7", "url": URL, "title": "T", "summary": LEAD, "content_html": HTML,
     "date_published": ISO}, "7"),
    ("json feed, text", "json_feed", {"id": "7", "url": URL, "title": "T", "content_text": BODY,
     "date_published": ISO}, "7"),
    ("wordpress", "wordpress", {"id": 7, "date": "2024-01-01T05:00:00", "date_gmt": "2024-01-01T00:00:00",
     "guid": {"rendered": "https://elm.example/?p=7"}, "link": URL, "title": {"rendered": "T"},
     "content": {"rendered": HTML, "protected": False}, "excerpt": {"rendered": f"<p>{LEAD}</p>"}},
     "https://elm.example/?p=7"),
    ("schema.org", "schema_org", {"@context": "https://schema.org", "@type": "NewsArticle", "@id": "7",
     "headline": "T", "description": LEAD, "articleBody": BODY, "publisher": {"@type": "Organization",
     "name": "elm.example"}, "datePublished": ISO}, "7"),
    ("schema.org, a publisher by name", "schema_org", {"identifier": {"@type": "PropertyValue", "value": "7"},
     "name": "T", "articleBody": BODY, "publisher": "elm.example", "datePublished": ISO}, "7"),
    ("ninjs 1", "ninjs", {"uri": "7", "headline": "T", "body_html": HTML, "source": "elm.example",
     "versioncreated": ISO}, "7"),
    ("ninjs 2", "ninjs", {"uri": "7", "headlines": [{"role": "main", "value": "T"}],
     "bodies": [{"contenttype": "text/html", "value": HTML}], "infosources": [{"name": "elm.example"}],
     "versionCreated": ISO}, "7"),
    ("ninjs 3, by roles", "ninjs", {"uri": "7", "headlines": [{"role": "short", "value": "S"}, {"role": "main",
     "value": "T"}], "bodies": [{"role": "lead", "contentType": "text/plain", "value": LEAD}, {"role": "richtext",
     "contentType": "application/xhtml+xml", "value": HTML}], "infoSources": [{"name": "elm.example"}],
     "versionCreated": ISO}, "7"),
    ("webhose", "webhose", {"uuid": "7", "url": URL, "title": "T", "text": BODY, "published": ISO,
     "thread": {"site": "elm.example"}}, "7"),
    ("newsapi, cut at 200 characters", "newsapi", {"source": {"id": None, "name": "elm.example"}, "author": None,
     "title": "T", "description": LEAD, "url": URL, "urlToImage": None, "publishedAt": ISO,
     "content": f"{BODY}… [+2365 chars]"}, URL),
    ("newsapi, the description says more", "newsapi", {"source": {"name": "elm.example"}, "title": "T",
     "description": BODY, "url": URL, "publishedAt": ISO, "content": f"{LEAD} [+99 chars]"}, URL),
    ("gnews", "newsapi", {"title": "T", "description": LEAD, "content": BODY, "url": URL, "publishedAt": ISO,
     "source": {"name": "Elm Wire", "url": "https://elm.example"}}, URL),
    ("mediastack", "newsapi", {"title": "T", "description": BODY, "url": URL, "source": "elm.example",
     "published_at": ISO}, URL),
    ("gdelt context", "gdelt", {"url": URL, "title": "T", "seendate": "20240101T000000Z", "domain": "elm.example",
     "sentence": LEAD, "context": BODY, "language": "English"}, URL),
]  # fmt: skip
IDS = [name for name, *_ in RECORDS]


def item_of(record: dict[str, Any], decode: Decoder = AUTOMATIC) -> Item:
    item = decode(json.dumps(record).encode(), None, None, 2, 9)
    assert isinstance(item, Item), item
    return item


@pytest.mark.parametrize(("name", "shape", "record", "id"), RECORDS, ids=IDS)
def test_a_shape_is_found_and_read_as_by_its_preset(name: str, shape: str, record: dict[str, Any], id: str) -> None:
    """Neither the order of the names nor empty ones say anything."""
    assert AUTOMATIC.read(json.dumps(record).encode()).shape == shape
    assert item_of(record) == Item(id, "T", BODY, "elm.example", MONDAY, 2, 9)
    assert item_of(record, Decoder(ItemSettings.model_validate({"preset": shape}))) == item_of(record)
    others = {one: None for paths in PRESETS.values() for path in paths.values() for one in path.split("|")}
    assert item_of(dict(reversed(record.items()))) == item_of(record)
    assert item_of(others | record) == item_of(record)
    assert item_of(dict.fromkeys(others, "") | record) == item_of(record)


# What is the article in records of other names: the longest text that is one.
PAGE = f"<!DOCTYPE html><html><body>{'<a href=/x>A menu item</a>' * 40}<p>{BODY}</p></body></html>"
TEXTS: list[tuple[str, dict[str, Any]]] = [
    ("text", {"description": LEAD, "publishedAt": ISO, "content": f"{LEAD} [+99 chars]", "text": BODY}),
    ("maintext", {"description": LEAD, "date_publish": ISO, "maintext": BODY, "text": None}),
    ("raw_text", {"excerpt": LEAD, "date": ISO, "raw_text": BODY, "comments": BODY * 3}),
    ("yandex:full-text", {"description": LEAD, "pubDate": RFC, "yandex:full-text": BODY}),
    ("full_text", {"description": LEAD, "pubDate": RFC, "full_text": BODY}),
    ("body", {"description": LEAD, "published_at": ISO, "body": BODY}),
    ("Text", {"Date": ISO, "Text": BODY}),
    ("text", {"published": ISO, "text": BODY, "html": PAGE}),
    ("html", {"published": ISO, "description": "More.", "html": f"<html><body><p>{BODY}</p>"}),
    ("text", {"published": ISO, "text": BODY, "content": "<a href='https://elm.example'>Another story</a>" * 9}),
    ("text", {"published": ISO, "text": BODY, "image_description": BODY * 2}),
    ("paragraphs", {"date": ISO, "paragraphs": [LEAD, BODY.removeprefix(LEAD)]}),
    ("content", {"published": ISO, "content": {"content": BODY, "direction": "ltr"}}),
    ("content", {"published": ISO, "content": {"blocks": [{"type": "paragraph", "data": {"text": BODY}}]}}),
    ("content.text", {"published": ISO, "content.text": BODY}),
    ("fields.bodyText", {"webPublicationDate": ISO, "fields": {"trailText": LEAD, "bodyText": BODY}}),
    ("Inhalt", {"Datum": ISO, "Inhalt": BODY}),
    ("contenu", {"date de publication": ISO, "contenu": BODY}),
    ("contenido", {"fecha": ISO, "contenido": BODY}),
    ("testo", {"data": ISO, "testo": BODY}),
]


@pytest.mark.parametrize("title", ["title", "headline", "Titel", "titre", "título", "titolo"])
@pytest.mark.parametrize(("name", "record"), TEXTS, ids=[name for name, _ in TEXTS])
def test_the_longest_text_is_the_article_whatever_the_names(name: str, record: dict[str, Any], title: str) -> None:
    record = record | {title: "T", "url": URL, "id": 7.0}
    for ordered in (record, dict(reversed(record.items()))):
        item = item_of(ordered)
        assert " ".join(item.text.split()) == BODY
        assert (item.id, item.title, item.source, item.time) == ("7", "T", "elm.example", MONDAY)
        assert AUTOMATIC.read(json.dumps(ordered).encode()).names["text"] == name


@pytest.mark.parametrize("score", ["NaN", "-Infinity"])
def test_what_python_and_javascript_write_is_read(score: str) -> None:
    value = '{"id": "7", "title": "It\\\'s open", "text": "' + BODY + '", "score": ' + score + ",}"
    item = AUTOMATIC(value.encode(), None, 5)
    assert isinstance(item, Item)
    assert (item.title, item.text) == ("It's open", BODY)


def test_the_article_list_of_gdelt_has_headlines_alone() -> None:
    record = {"url": URL, "url_mobile": "", "title": "T", "seendate": "20240101T000000Z", "socialimage": "",
              "domain": "elm.example", "language": "English", "sourcecountry": "Elmland"}  # fmt: skip
    assert AUTOMATIC.read(json.dumps(record).encode()).shape == "gdelt"
    assert item_of(record) == Item(URL, "T", "", "elm.example", MONDAY, 2, 9)


@given(st.lists(st.sampled_from(RECORDS), min_size=1, max_size=12))
def test_how_a_record_is_read_depends_on_no_other(records: list[tuple[str, str, dict[str, Any], str]]) -> None:
    decode = Decoder(ItemSettings())
    for _, _, record, name in records:
        assert item_of(record, decode) == Item(name, "T", BODY, "elm.example", MONDAY, 2, 9)


def test_every_preset_can_be_set_and_maps_every_field() -> None:
    assert list(get_args(ItemSettings.model_fields["preset"].annotation)) == [AUTO, *PRESETS, TEXT]
    assert all(tuple(paths) == FIELDS for paths in PRESETS.values())


def test_the_page_has_the_table_of_names() -> None:
    page = (Path(__file__).parents[2] / "docs" / "feeds.md").read_text("utf-8")
    for shape, paths in PRESETS.items():
        cells = [", ".join(f"`{one}`" for one in alternatives(paths[field])) for field in FIELDS]
        assert f"| `{shape}` | {' | '.join(cells)} |" in page


# -- the settings' own names ---------------------------------------------------------------------------------


def test_a_field_of_the_settings_wins_and_the_record_decides_on_the_others() -> None:
    decode = Decoder(ItemSettings.model_validate({"fields": {"title": "kop", "text": "tekst.platte|tekst"}}))
    record = {"kop": "T", "tekst": {"platte": BODY}, "title": "no", "link": URL, "guid": "7", "pubDate": RFC}
    assert item_of(record, decode) == Item("7", "T", BODY, "elm.example", MONDAY, 2, 9)
    assert decode.read(json.dumps(record).encode()).shape == "rss"
    plain = {"id": "7", "kop": "T", "tekst": BODY, "url": URL, "published": ISO}
    assert item_of(plain, decode) == Item("7", "T", BODY, "elm.example", MONDAY, 2, 9)


def test_alternatives_of_the_settings_are_in_order_of_preference_and_an_empty_one_is_passed_over() -> None:
    decode = Decoder(ItemSettings.model_validate({"fields": {"text": "short|long"}}))
    assert item_of({"title": "T", "short": "s", "long": BODY}, decode).text == "s"
    assert item_of({"title": "T", "short": "", "long": BODY}, decode).text == BODY


# -- nothing found, and strange things found -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "record", "detail"),
    [
        (
            {},
            {f"n{i}": 1 for i in range(40)},
            "none of the fields title (title), text (text) was found, and no known preset fits; the record has: n0, "
            "n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, ...; name them in [item] fields",
        ),
        (
            {"preset": "plain", "fields": {"title": "kop", "text": "tekst"}},
            {"id": "7", "title": "T", "text": "x"},
            "none of the fields title (kop), text (tekst) was found; the record has: id, title, text; name them in "
            "[item] fields",
        ),
        (
            {},
            {"title": "", "text": None},
            "the fields title (title), text (text) hold neither a headline nor a text; send the article with one of "
            "them; to withdraw an item, send a null value with its id as the key",
        ),
        (
            {},
            {"id": "7", "pubDate": "2026-03-01"},
            "the record has id, pubDate alone, and neither a headline nor a text; send the article with one of them; "
            "to withdraw an item, send a null value with its id as the key",
        ),
    ],
)
def test_a_record_in_which_nothing_is_found_says_what_it_has_and_the_cure(
    settings: dict[str, Any], record: dict[str, Any], detail: str
) -> None:
    bad = bad_of(json.dumps(record).encode(), Decoder(ItemSettings.model_validate(settings)))
    assert (bad.reason, bad.id, bad.detail) == ("empty", record.get("id", "key"), detail)


@pytest.mark.parametrize("value", [b"", b"[1]", b"null", b"7", b"\xff", b"{", b'{"x": ' + b"[" * 100_000])
def test_what_is_no_object_has_no_names_and_cannot_be_read(value: bytes) -> None:
    assert names_in(value) == []
    with pytest.raises(BadItem):
        AUTOMATIC.read(value)


def test_a_reading_says_what_stands_where() -> None:
    reading = AUTOMATIC.read(b'\xef\xbb\xbf{"guid": {"#text": "7"}, "title": "T", "link": "", "pubDate": "yesterday"}')
    assert reading.shape == "rss"
    assert reading.fields == dict.fromkeys(FIELDS) | {"id": "7", "title": "T", "published": "yesterday"}
