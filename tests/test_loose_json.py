"""A text that was cut within an emoji is read with U+FFFD where the half is, and published as it came."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stream_dedup import Deduplicator
from stream_dedup.errors import BadItem
from stream_dedup.loose_json import tolerant, without_lone
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.registry import Frames
from stream_dedup.settings import ItemSettings, RegistrySettings, load_settings
from stream_dedup.tools.evaluate.sampling import _as_line
from stream_dedup.tools.feeds.feed_entries import read_document
from tests.tools.batch.conftest import invoke

PLAIN = Decoder(ItemSettings())
# What msgspec says of them differs by what follows, and by whether a member is read or skipped.
LONE = [r"\ud83d", r"\udc00", r"\uD83D\u0041", r"\udc00\ud83d", r"\ud83d\ud83d", r"\ud83d\n", r"\ud83d\\"]


def read(text: str) -> str:
    """As Python's own parser reads it."""
    return str(json.loads(f'"{text}"').encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


@pytest.mark.parametrize("lone", LONE)
@pytest.mark.parametrize(
    "record",
    [
        '{"id": "7", "title": "The ferry %s stops", "text": "It stops on Monday."}',
        '{"id": "7", "title": "The ferry %s stops", "text": "It stops on Monday.", "other": "%s"}',
        '{"guid": "7", "title": {"#text": "The ferry %s stops"}, "description": "It stops on Monday.", "link": ""}',
        '{"id": "7", "title": "The ferry %s stops", "text": "It stops on Monday.", "%s": [1, {"%s": null}]}',
        '{"specversion": "1.0", "id": "7", "data": {"title": "The ferry %s stops", "text": "It stops on Monday."}}',
        '\ufeff{"id": "7", "title": "The ferry %s stops", "text": "It stops on Monday."}',
    ],
)
def test_a_record_with_a_lone_surrogate_is_read(record: str, lone: str) -> None:
    item = PLAIN(record.replace("%s", lone).encode(), None, 0)
    assert isinstance(item, Item), item
    assert (item.id, item.title.split(), item.text) == (
        "7", f"The ferry {read(lone)} stops".split(), "It stops on Monday.",
    )  # fmt: skip


def test_the_json_text_within_an_event_is_read() -> None:
    data = json.dumps(r'{"title": "The ferry \ud83d stops"}')
    item = PLAIN(f'{{"specversion": "1.0", "id": "7", "data": {data}}}'.encode(), None, 0)
    assert isinstance(item, Item)
    assert item.title == "The ferry \N{REPLACEMENT CHARACTER} stops"


def test_pairs_and_escaped_backslashes_stay() -> None:
    text = rb'["\ud83d\ude00 \uD83D\uDE00", "\\ud83d \\\\udc00", "C:\\u", "\u00e9"]'
    assert without_lone(text) == text
    assert without_lone(rb'"\\\ud83d"') == rb'"\\\ufffd"'


@pytest.mark.parametrize(
    "malformed", [rb'{"title": "\ud83d"', rb'{"title": "\ud83g"}', rb'{"title": "\ud8"}', b"\\", b""]
)
def test_what_is_malformed_otherwise_stays_bad(malformed: bytes) -> None:
    bad = PLAIN(malformed, b"key", 0)
    assert isinstance(bad, BadItem)
    assert bad.reason == "json"
    with pytest.raises(msgspec.DecodeError):
        tolerant(msgspec.json.decode)(malformed)


LINES = [
    rb'{"id": "1", "title": "The ferry \ud83d stops", "text": "It stops on Monday, \udc00 says the harbour."}',
    rb'{"id": "2", "title": "The ferry \ud83d stops", "text": "It stops on Monday, \udc00 says the harbour."}',
    rb'{"id": "3", "title": "The tram \ud83d\ude00 runs", "text": "Again \ue000 since noon, \ufffd says the city."}',
]


@pytest.mark.parametrize("data", [b"\n".join(LINES), b"[\n" + b",\n".join(LINES) + b"\n]"])
def test_lines_and_documents_give_the_bytes_as_they_came(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "in.json").write_bytes(data)
    assert invoke("filter", str(tmp_path / "in.json"), "--output", str(tmp_path / "out.jsonl")).exit_code == 0
    out = (tmp_path / "out.jsonl").read_bytes()
    assert out.replace(b'":"', b'": "').replace(b'","', b'", "').splitlines() == [LINES[0], LINES[2]]


def test_a_script_may_give_what_its_json_parser_gave() -> None:
    rows: list[dict[str, Any]] = [json.loads(line) for line in LINES]
    rows[2]["tags"] = ["\udc00", ("\ud83d",), 7]
    with Deduplicator() as dedup:
        assert list(dedup.filter(rows)) == [rows[0], rows[2]]


def test_a_json_feed_a_framed_value_and_a_sample_are_read() -> None:
    feed = (
        rb'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", "title": "The ferry \ud83d stops"}]}'
    )
    [entry] = read_document(feed, "https://a.example/feed").entries
    assert entry.value["title"] == "The ferry \N{REPLACEMENT CHARACTER} stops"
    frames = Frames(RegistrySettings(url="http://127.0.0.1:1"))
    assert frames.to_json(b"\0\0\0\0\7" + LINES[0]) == LINES[0]
    item = PLAIN(LINES[0], None, 0)
    assert isinstance(item, Item)

    class Record:
        value, headers = LINES[0], ()

    assert json.loads(_as_line(Record, item, load_settings()))["title"] == "The ferry \N{REPLACEMENT CHARACTER} stops"
