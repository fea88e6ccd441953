"""All lists of a document are read, an article in nodes is one item, a query reads the rest, and a map changes a field.

The shapes are those of newspaper scrapers, news APIs, content systems and editors, with made-up news in them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.news.item_lists import Query
from stream_dedup.settings import ItemSettings
from stream_dedup.tools.inputs.lines import LineReader, item_of

PARTS = ("The bridge over the Elm opened on Monday.", "It came two years late.", "Ferries stay ashore.")
TEXT = "\n\n".join(PARTS)
A, B, C = (
    {"id": name, "title": f"Elm {name} opens", "text": f"{PARTS[0]} {name}.", "url": f"https://elm.example/{name}"}
    for name in "abc"
)


def read(tmp_path: Path, document: Any, **item: Any) -> tuple[list[Item | BadItem], list[str]]:
    (tmp_path / "a.json").write_text(json.dumps(document, indent=1))
    settings = ItemSettings(**item)
    reader, decode = LineReader([str(tmp_path / "a.json")], query=settings.query), Decoder(settings)
    return [item for line in reader if not hasattr(item := item_of(decode, line), "tombstone")], reader.notes  # type: ignore[misc]


def decoded(record: dict[str, Any], **item: Any) -> Item:
    found = Decoder(ItemSettings(**item))(json.dumps(record).encode(), None, None)
    assert isinstance(found, Item), found
    return found


@pytest.mark.parametrize(
    ("document", "note"),
    [
        ({"papers": {"elm": {"articles": [A]}, "oak": {"articles": [B, C]}}}, "papers.oak.articles (2)"),
        ({"papers": {"elm": {"name": "Elm", "articles": [A]}, "oak": {"name": "Oak", "articles": [B, C]}}}, "(2)"),
        ({"elm": [A], "oak": [B, C]}, "oak (2), elm (1)"),
        ({"featured": [A], "latest": [B, C]}, "latest (2), featured (1)"),
        ({"title": "Elm Wire", "featured": [A], "latest": [B, C]}, "latest (2), featured (1)"),
        ([{"page": 1, "articles": [A]}, {"page": 2, "articles": [B, C]}], "[].articles (3)"),
        ({"groups": [{"type": "hero", "items": [A]}, {"type": "more", "items": [B, C]}]}, "groups[].items (3)"),
        ({"sections": [{"title": "Towns", "stories": [A]}, {"title": "Sea", "stories": [B, C]}]}, "stories (3)"),
        ({"rss": [{"channel": [{"title": ["Elm"], "item": [{n: [v] for n, v in x.items()} for x in (A, B, C)]}]}]},
         "item (3)"),
        ({"days": {"2026-01-05": [A], "2026-01-06": [B, C]}}, 'days."2026-01-06" (2)'),
        ({"features": [{"name": "text", "type": {"dtype": "s"}}], "rows": [{"row": x} for x in (A, B, C)]}, "rows (3)"),
        ({"page": {"lead": A, "more": [B, C]}}, "page.lead (1)"),
        ({"lead": A, "articles": [B, C]}, "articles (2), lead (1)"),
        ({"sources": [{"id": "x", "name": "Elm", "description": "News.", "url": "/"}], "news": [A, B, C]},
         "not read: sources (1)"),
        ({"authors": [{"name": "Ann", "url": "/ann"}], "list": [A, B, C]}, "not read: authors (1)"),
        ({"legend": [{"name": "red", "description": "Towns"}] * 4, "list": [A, B, C]}, "not read: legend (4)"),
        ({"@graph": [{"@type": "WebPage", "name": "Elm"}, *({"@type": "NewsArticle"} | x for x in (A, B, C))]},
         "not read: \"@graph\" (1)"),
    ],
)  # fmt: skip
def test_all_lists_of_a_document_are_read_and_what_is_left_is_named(tmp_path: Path, document: Any, note: str) -> None:
    items, notes = read(tmp_path, document)
    assert sorted(item.id for item in items) == ["a", "b", "c"]
    assert note in notes[0]


def nodes(*, text: str = "text", inner: str = "children", **more: Any) -> list[dict[str, Any]]:
    return [{"type": "paragraph", inner: [{"type": "text", text: part, **more}]} for part in PARTS]


BODIES: list[tuple[str, dict[str, Any]]] = [
    ("Contentful", {"body": {"en-US": {"nodeType": "document", "content": nodes(text="value", inner="content")}}}),
    ("Arc", {"content_elements": [{"_id": "x", "type": "text", "content": part} for part in PARTS]}),
    ("Lexical", {"lexical": json.dumps({"root": {"children": nodes(format=0)}})}),
    ("ProseMirror", {"content": {"type": "doc", "content": nodes(inner="content")}}),
    ("Portable Text", {"body": [{"_type": "block", "children": [{"_type": "span", "text": p}]} for p in PARTS]}),
    ("Editor.js", {"content": json.dumps({"time": 1, "blocks": [{"type": "p", "data": {"text": p}} for p in PARTS]})}),
    ("Guardian", {"blocks": {"body": [{"id": "b", "bodyHtml": p, "bodyTextSummary": p[:9]} for p in PARTS]}}),
    ("Notion", {"blocks": [
        {"type": "callout", "callout": {"rich_text": [{"plain_text": p, "text": {"content": p}}]}} for p in PARTS]}),
    ("Apple News", {"components": [{"role": "body", "text": part} for part in PARTS]}),
    ("Kontent", {"elements": {"body": {"type": "rich_text", "value": TEXT}}}),
    ("Mobiledoc", {"mobiledoc": {"version": "1", "sections": [[1, "p", [[0, [], 0, part]]] for part in PARTS]}}),
    ("converted XML", {"body": {"p": [*PARTS]}}),
    ("typed values", {"text": {"string": TEXT}}),
    ("live blog", {"@type": "LiveBlogPosting", "liveBlogUpdate": [
        {"@type": "BlogPosting", "articleBody": part, "datePublished": f"2026-01-05T1{n}:00:00Z"}
        for n, part in reversed([*enumerate(PARTS)])]}),
]  # fmt: skip


@pytest.mark.parametrize("body", [body for _, body in BODIES], ids=[name for name, _ in BODIES])
def test_an_article_in_nodes_is_one_item_with_the_texts_in_order(tmp_path: Path, body: dict[str, Any]) -> None:
    record = {"id": "a", "headline": "Elm bridge opens", "url": "/a"} | body
    assert decoded(record).text == TEXT
    assert decoded(record).title == "Elm bridge opens"
    assert [item.id for item in read(tmp_path, record)[0]] == ["a"], "a file with it holds one item"


def test_the_article_of_a_graph_is_the_item_and_spans_are_one_paragraph() -> None:
    page = {"@type": "WebPage", "name": "Elm Wire", "url": "https://elm.example/", "description": "News of the valley"}
    found = decoded({"@graph": [page, {"@type": "Person", "name": "Ann"}, {"@type": "NewsArticle"} | A]})
    assert found.title == A["title"]
    spans = [{"text": "The bri"}, {"text": "dge", "bold": True}, {"text": " opened."}]
    assert decoded({"title": "Elm", "content": [{"type": "p", "children": spans}]}).text == "The bridge opened."


def test_what_a_person_wrote_in_braces_stays_a_text() -> None:
    for text in ('{"message": "Access denied"}', "[Video]", "{broken", "[]"):
        assert decoded({"title": "Elm", "text": text}).text == text


def test_a_query_finds_the_items_and_their_fields(tmp_path: Path) -> None:
    rows = [{"k": {"kop": x["title"]}, "p": [{"t": part} for part in PARTS], "nr": x["id"]} for x in (A, B)]
    query = "x.y[].{id: nr, title: k.kop, text: p[].t}"
    items, _ = read(tmp_path, {"x": {"y": rows}, "other": [C]}, query=query)
    assert [(item.id, item.title, item.text) for item in items if isinstance(item, Item)] == [
        ("a", A["title"], TEXT), ("b", B["title"], TEXT)]  # fmt: skip
    assert decoded({"x": {"y": rows[:1]}}, query=query).id == "a", "a record may hold one item"
    assert decoded(rows[1], query=query).id == "b", "or be one"
    several = Decoder(ItemSettings(query=query))(json.dumps({"x": {"y": rows}}).encode(), b"k", 0)
    assert isinstance(several, BadItem)
    assert "2 items" in several.detail
    assert decoded({"id": "z", "title": "T", "items": [A, B]}, query="@").id == "z", "it can say that nothing is a list"
    with pytest.raises(ConfigError, match="no JMESPath"):
        Query("a[")


def test_a_query_that_fails_on_an_item_costs_that_item(tmp_path: Path) -> None:
    rows = [{"t": "Elm bridge", "b": ["On Monday."]}, {"t": "Elm ferry"}]
    items, _ = read(tmp_path, {"x": rows}, query="x[].{title: t, text: join(' ', b)}")
    assert [isinstance(item, Item) for item in items] == [True, False]
    assert "[item] query: In function join()" in str(items[1])


WRAPPED = {"data": {**A, "published_at": "2026-01-05T10:00:00Z", "lead": {"kop": "Elm opens"}}}


@pytest.mark.parametrize("record", [A, WRAPPED, {"article": WRAPPED["data"]}, {"row": A}], ids=["flat", "a", "b", "c"])
def test_mapping_a_field_changes_that_field_alone(record: dict[str, Any]) -> None:
    plain, top = decoded(record), next((f"{name}." for name in record if name in ("data", "article", "row")), "")
    mapped = decoded(record, fields={"title": f"{top}text", "text": f"{top}title"})
    assert (mapped.title, mapped.text) == (plain.text, plain.title)
    assert (mapped.id, mapped.source, mapped.time) == (plain.id, plain.source, plain.time)
    assert plain.id == "a"
    assert decoded(WRAPPED, fields={"title": "data.lead.kop"}).title == "Elm opens"


@pytest.mark.parametrize(
    "answer",
    [{"status": "error", "code": "limit"}, {"code": 429}, {"error": "limit"}, {"success": False}, {"ok": False}],
)
def test_the_answer_of_a_service_that_failed_is_no_news(answer: dict[str, Any]) -> None:
    message = {"message": "You made too many requests. Wait a while."}
    bad = Decoder(ItemSettings())(json.dumps(answer | message).encode(), b"k", 0)
    assert isinstance(bad, BadItem)
    assert bad.reason == "answer"
    assert decoded(message | {"id": 1, "title": "T"} | answer).title == "T", "with a headline it is news"
    assert decoded(message | {"status": "published"}).text == message["message"]
