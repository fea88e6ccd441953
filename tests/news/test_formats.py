"""What an item comes in is opened: the item is what it holds, and the envelope lends what the item lacks."""

import json
import re
from base64 import b64encode
from typing import Any

import pytest

from stream_dedup.errors import BadItem
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import ItemSettings, load_settings
from stream_dedup.tools.survey.survey import Survey

DECODE = Decoder(ItemSettings())
ATTRIBUTES = {"specversion": "1.0", "type": "news", "id": "e1", "source": "https://wire.example/a"}
ATTRIBUTES |= {"time": "2024-01-01"}
MONDAY = 1704067200000
ARTICLE = {"headline": "T", "body_text": "Body", "uri": "7", "source": "elm.example", "versioncreated": "2024-01-02"}
BARE = {"title": "T", "text": "Body"}
XML = "<item><title>T</title><description>Body</description></item>"


def event(**more: Any) -> bytes:
    return json.dumps(ATTRIBUTES | more).encode()


@pytest.mark.parametrize(
    "value",
    [
        event(data=BARE),
        event(data=json.dumps(BARE)),
        event(data_base64=b64encode(json.dumps(BARE).encode()).decode()),
        event(data=XML),
        event(data_base64=b64encode(XML.encode("utf-16")).decode()),
        b"\xef\xbb\xbf " + event(data=BARE),
    ],
)
def test_a_cloud_event_lends_what_its_data_lack(value: bytes) -> None:
    assert DECODE(value, b"key", None) == Item("e1", "T", "Body", "wire.example", MONDAY)


def test_what_the_data_have_counts_and_an_address_is_a_source() -> None:
    inner = DECODE(json.dumps(ARTICLE).encode(), b"key", None)
    assert isinstance(inner, Item)
    assert inner.id == "7"
    assert DECODE(event(data=ARTICLE), b"key", None) == inner
    item = DECODE(event(data=BARE | {"url": "https://elm.example/1"}), None, None)
    assert isinstance(item, Item)
    assert item.source == "elm.example"


def test_headers_of_the_binary_mode_lend_too() -> None:
    headers = [("ce_id", b"e1"), ("ce_source", b"https://wire.example/a"), ("ce_time", b"2024-01-01"), ("x", None)]
    for value in (json.dumps(BARE).encode(), XML.encode()):
        assert DECODE(value, b"key", None, headers=headers) == Item("e1", "T", "Body", "wire.example", MONDAY)
    item = DECODE(json.dumps(BARE).encode(), b"key", None, headers=[("x", b"ce_id")])
    assert isinstance(item, Item)
    assert item.id == "key"


@pytest.mark.parametrize(
    ("value", "reason", "detail"),
    [
        (event(), "empty", "no data"),
        (event(data=None), "empty", "no data"),
        (event(data=[BARE]), "type", "neither a JSON object nor XML"),
        (event(data="plain words"), "type", "neither a JSON object nor XML"),
        (event(data_base64="!"), "type", "not Base64"),
        (event(data=json.loads(event(data=BARE))), "type", "within an envelope"),
        (event(data={"kop": "T"}), "empty", "the record has: kop"),
        (event(data="<rss>" + XML + XML + "</rss>"), "entries", "2 entries.*stream-dedup feeds"),
        (b"<rss><channel/></rss>", "entries", "no entry"),
        (b"<rss>" + 3 * XML.encode() + b"</rss>", "entries", "3 entries"),
        (b'{"version": "https://jsonfeed.org/version/1", "title": "F", "items": []}', "entries", "no entry"),
        (b"<rss/><!-- none -->", "entries", "no entry"),
        (2 * XML.encode(), "entries", "2 entries"),
        (b"<rss>", "xml", "cut short"),
        (json.dumps(BARE).encode("utf-16"), "xml", "JSON must be in UTF-8"),
    ],
)
def test_what_does_not_hold_one_item_is_bad_with_its_reason(value: bytes, reason: str, detail: str) -> None:
    bad = DECODE(value, b"key", None)
    assert isinstance(bad, BadItem), bad
    assert bad.reason == reason
    assert re.search(detail, bad.detail)


def test_a_json_feed_of_one_item_is_that_item_from_the_site_of_the_feed() -> None:
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": "Elm News", "home_page_url": "https://elm.example/"}
    item = DECODE(json.dumps(feed | {"items": [{"id": "7", "content_text": "Body"}]}).encode(), None, None)
    assert item == Item("7", "", "Body", "elm.example", -1)
    # Others have members of these names: they are no feed.
    assert isinstance(DECODE(b'{"title": "T", "items": ["x"], "version": "2"}', None, None), Item)


def test_a_field_that_is_mapped_to_a_member_of_envelopes_is_read() -> None:
    item = Decoder(ItemSettings(fields={"text": "items.0.text"}))(
        b'{"title": "T", "items": [{"text": "Body"}]}', None, 0
    )
    assert isinstance(item, Item)
    assert item.text == "Body"


def surveyed(values: list[bytes]) -> dict[str, str]:
    survey = Survey(DECODE.read, load_settings())
    for number, value in enumerate(values):
        survey.add(DECODE(value, None, None, 0, number), value, 0, number)
    return {warning.kind: warning.text for warning in survey.summary().warnings}


def test_check_warns_of_what_all_envelopes_say_alike() -> None:
    lent = surveyed([event(id=str(n), data=BARE | {"title": f"T{n}"}) for n in range(12)])
    assert {"envelope-id", "envelope-source", "envelope-published"} <= set(lent)
    own = surveyed([event(data=ARTICLE | {"uri": str(n)}) for n in range(12)])
    assert not any(kind.startswith("envelope") for kind in own)


def test_fields_that_check_proposes_for_events_give_the_verdicts_of_their_data() -> None:
    data = [{"kop": f"T{n}", "inhoud": f"Body {n}", "nr": str(n)} for n in range(12)]
    warnings = surveyed([event(data=one) for one in data])
    assert set(warnings) == {"all-bad", "no-fields"}
    assert 'text = "inhoud"' in warnings["no-fields"]
    assert "data." not in warnings["no-fields"]
    decode = Decoder(ItemSettings(fields={"title": "kop", "text": "inhoud", "id": "nr"}))
    twins = [decode(json.dumps(one | {"source": "wire.example", "published": "2024-01-01"}).encode(), None, None)
             for one in data]  # fmt: skip
    assert [decode(event(data=one), None, None) for one in data] == twins
