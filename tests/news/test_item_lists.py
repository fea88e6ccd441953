"""Items are found in whatever list, table or wrapper a document holds them, and an article is never taken for one."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.errors import BadItem
from stream_dedup.loose_json import loads
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import ItemSettings
from stream_dedup.tools.inputs.lines import LineReader, item_of

LEAD = "The bridge over the Elm opened to traffic on Monday, two years late, the mayor said."
ONE, TWO = ({"id": name, "title": f"Elm {name}", "text": f"{LEAD} {name}."} for name in ("a", "b"))
BOTH = [ONE, TWO]
COLUMNS = {name: {"0": ONE[name], "1": TWO[name]} for name in ONE}
CELLS = [[*ONE.values()], [*TWO.values()]]
NODES = [{"cursor": "x", "node": each} for each in BOTH]
FEED = {"title": "Elm", "description": "News of the valley", "link": "https://elm.example/"}

DOCUMENTS: list[tuple[Any, str]] = [
    ({"status": "ok", "articles": BOTH}, "articles"),
    ({"pagination": {"total": 2}, "data": BOTH}, "data"),
    ({"data": {"items": BOTH}}, "data.items"),
    ({"response": {"docs": BOTH, "meta": {"hits": 2}}}, "response.docs"),
    ({"hits": {"total": 2, "hits": [{"_index": "n", "_source": each} for each in BOTH]}}, "hits.hits"),
    ({"data": {"posts": {"edges": NODES}}}, "data.posts.edges"),
    ({"data": [{"type": "news", "attributes": each} for each in BOTH]}, "data"),
    ({"@context": "https://schema.org", "@graph": BOTH}, "@graph"),
    ({"whatever": BOTH}, "whatever"),
    (FEED | {"items": BOTH}, "items"),
    ({"rss": {"channel": FEED | {"item": BOTH}}}, "rss.channel.item"),
    ({"a": ONE, "b": TWO}, "table"),
    (COLUMNS, "table"),
    ({name: [*column.values()] for name, column in COLUMNS.items()}, "table"),
    ({"columns": [*ONE], "index": [0, 1], "data": CELLS}, "table"),
    ({"meta": [{"name": name, "type": "String"} for name in ONE], "data": CELLS, "rows": 2}, "table"),
    ({"meta": {"view": {"name": "News", "columns": [{"name": name} for name in ONE]}}, "data": CELLS}, "table"),
    ({"range": "A1:C3", "values": [[*ONE], *CELLS]}, "table"),
]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("document", "path"), DOCUMENTS, ids=[path for _, path in DOCUMENTS])
def test_the_items_of_a_document_are_read_and_their_path_is_said(
    tmp_path: Path, document: dict[str, Any], path: str, indent: int | None
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document, indent=indent) + "\n")
    reader, decode = LineReader([str(tmp_path / "a.json")]), Decoder(ItemSettings())
    items = [item_of(decode, line) for line in reader]
    assert [item.title for item in items if isinstance(item, Item)] == ["Elm a", "Elm b"]
    assert [item.text for item in items if isinstance(item, Item)] == [ONE["text"], TWO["text"]]
    assert path in reader.notes[0]
    bad = decode(json.dumps(document).encode(), b"key", 0)
    assert isinstance(bad, BadItem), "a record of Kafka holds one item"


@pytest.mark.parametrize(
    "parts",
    [
        {"images": [{"title": "The bridge", "url": "https://elm.example/1.jpg"}]},
        {"comments": [{"text": LEAD * 3, "author": "B"}]},
        {"items": [{"title": "Read on"}]},
        {"data": {"title": "Elm", "lists": 2}},
        {"items": []},
        {"news": ["x"]},
        {"tokens": [["a", "text"], ["of", "tokens"]]},
        {"text": "Short.", "replies": [{"id": "r", "text": LEAD, "date": "2026-01-05"}]},
        {"text": "", "timeline": [{"text": LEAD, "date": "2026-01-05"}]},
        {"text": "", "url": "/1", "more": [{"title": "Elm ferry", "text": LEAD, "url": "https://elm.example/2"}]},
        {"messages": [{"role": "user", "content": "Write."}, {"role": "assistant", "content": LEAD}]},
    ],
)
def test_an_article_with_a_list_is_an_article(tmp_path: Path, parts: dict[str, Any]) -> None:
    (tmp_path / "a.json").write_text(json.dumps(ONE | parts))
    (line,) = LineReader([str(tmp_path / "a.json")])
    assert json.loads(line.value) == ONE | parts
    item = Decoder(ItemSettings())(line.value, None, 0)
    assert isinstance(item, Item)
    assert (item.title, item.text) == (ONE["title"], (ONE | parts)["text"])


@pytest.mark.parametrize(
    "document",
    [
        {"name": "Elm", "type": "channel", "messages": BOTH},
        {"day": [{"list": {"article": [ONE]}}, {"list": {"article": TWO}}, {"list": {"article": []}}]},
        {"clusters": [{"id": "c", "main": ONE, "similar": [TWO]}]},
        {"count": 2, "x": ONE, "y": TWO},
        {"statusCode": 200, "body": json.dumps(BOTH)},
        {"statusCode": 200, "body": json.dumps({"articles": BOTH})},
        {"summary": "All of today", "date": "2026-01-05", "stock": BOTH},
        {"nr": 5, "guid": "e", "title": "Morning edition", "pieces": BOTH},
        {"articles": [ONE, {"ad": 1}, {"ad": 2}, TWO]},
    ],
)
def test_no_item_is_lost_beside_what_is_none(tmp_path: Path, document: dict[str, Any]) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document))
    rows = [json.loads(line.value) for line in LineReader([str(tmp_path / "a.json")])]
    assert sorted((row for row in rows if "id" in row), key=lambda row: row["id"]) == BOTH


def test_an_empty_list_of_items_is_no_item(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"status": "ok", "articles": []}')
    assert not list(LineReader([str(tmp_path / "a.json")]))


def test_the_settings_name_another_list(tmp_path: Path) -> None:
    document = {"featured": [ONE], "rest": [TWO, TWO, TWO]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    for query, count in ((None, 4), ("featured", 1), ("featured[].{id: id, text: text}", 1)):
        assert len(list(LineReader([str(tmp_path / "a.json")], query=query))) == count
    item = Decoder(ItemSettings(query="featured"))(json.dumps(document).encode(), None, 0)
    assert isinstance(item, Item), "a list of one item is that item"
    assert item.id == "a"


def test_what_is_no_object_in_a_list_is_a_bad_item(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"articles": [ONE, None, "x", [TWO], "y"]}))
    faults = [line.fault is None for line in LineReader([str(tmp_path / "a.json")])]
    assert sorted(faults) == [False, False, False, True, True], "and hides no other"
    for document in ({"x": [{"name": "id"}, {"name": "title"}]}, {"x": [["a", "b"], ["c", "d"]]}):
        (tmp_path / "a.json").write_text(json.dumps(document))
        [line] = LineReader([str(tmp_path / "a.json")])
        assert isinstance(Decoder(ItemSettings())(line.value, None, 0), BadItem), "names alone are no headlines"


def test_any_number_of_documents_one_after_another_is_read_in_linear_time() -> None:
    """A record of two megabytes took a minute: all that follows a document was copied for each of them."""
    start = time.perf_counter()
    assert len(loads(b'{"a": NaN}' * 200_000)) == 200_000
    assert time.perf_counter() - start < 10
