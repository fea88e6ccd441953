"""Find the items in a JSON document that holds many: in a list at any path, in a dict of items, or in columns.

A list counts if most of its elements look like items. Feeds have a title and a description, and articles have lists of
images. So an object that looks like an item is an envelope only if its list has a name of such lists, and longer texts.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from stream_dedup.news.names import LISTS, WRAPPERS, is_text_name, meant_by
from stream_dedup.news.plain_values import plain_value
from stream_dedup.surrogates import without_lone

PARTS = re.compile("image|photo|media|video|author|comment|link|attach|enclos|tag|categor|keyword|related|entit|bodies")
_DEEPEST = 4
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
_NO_JSON = re.compile(r'"(?:[^"\\]|\\.)*+"|,(?=\s*[\]}])', re.DOTALL)
_NO_SPACE = re.compile(r"\S")
_BAD_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Listing(NamedTuple):
    """The elements of a list of items, the dotted path of the list, and the address of its site, or ""."""

    path: str
    items: list[Any]
    site: str = ""

    def lines(self) -> list[bytes]:
        """Return each item as a JSON object. The site is the source of those without an address and a source."""
        lines = []
        for each in self.items:
            if self.site and isinstance(each, dict) and not meant_by(each, "url") and not meant_by(each, "source"):
                each = {"source": self.site} | each
            lines.append(msgspec.json.encode(each))
        return lines


def items_in(document: dict[str, Any], path: str | None = None) -> Listing | None:
    """Return the items of an envelope, or None for an item. `path`: where the list is, if the user says it.

    >>> items_in({"status": "ok", "articles": [{"title": "Elm bridge opens"}]})
    Listing(path='articles', items=[{'title': 'Elm bridge opens'}], site='')
    >>> items_in({"title": "Elm bridge opens", "images": [{"title": "The bridge"}]})
    """
    if path is not None:
        value: Any = document
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return Listing(path, value) if isinstance(value, list) else None
    is_own, rows = is_item(document), _rows(document)
    if rows and _are_items(rows) and not (is_own and isinstance(next(iter(document.values())), dict)):
        return Listing("", rows)
    is_feed = "jsonfeed.org" in str(document.get("version"))
    listings = [each for each in _lists(document, "", _DEEPEST) if not is_own or each.path.rpartition(".")[2] in LISTS]
    best = max((each for each in listings if each.items or is_feed), key=lambda each: len(each.items), default=None)
    is_longer = best is not None and is_own and best.items and _longest(document) > max(map(_longest, best.items))
    return None if is_longer else best


def is_item(record: dict[str, Any]) -> bool:
    """Whether a record has a title or a text."""
    record = flat(record)
    return any(
        text and isinstance(text, str)
        for field in ("title", "text")
        for text in (plain_value(field, record[name]) for name in meant_by(record, field))
    )


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with the members of its wrappers as its own, under names with a dot."""
    for name in [name for name in WRAPPERS & record.keys() if isinstance(record[name], dict)]:
        inner = {f"{name}.{each}": value for each, value in record[name].items()}
        if meant_by(inner, "title") or meant_by(inner, "text"):
            record = {each: value for each, value in record.items() if each != name} | inner
    return record


def _longest(record: Any) -> int:
    record = flat(record) if isinstance(record, dict) else {}
    return max((len(str(record[name])) for name in record if is_text_name(name) and record[name]), default=0)


def _lists(value: dict[str, Any], path: str, depth: int) -> Iterator[Listing]:
    """Yield the lists of items in an object, and the empty lists that have the name of one."""
    site = value.get("home_page_url") or value.get("link")
    for name, inner in value.items():
        where = f"{path}.{name}".removeprefix(".")
        if isinstance(inner, dict) and name in ("item", "entry") and is_item(inner):  # converted XML with a single one
            inner = [inner]
        if isinstance(inner, list):
            if not PARTS.search(name.lower()) and (_are_items(inner) or (not inner and name in LISTS)):
                yield Listing(where, inner, site if isinstance(site, str) else "")
        elif isinstance(inner, dict) and depth:
            rows = _rows(inner)
            yield from [Listing(where, rows)] if _are_items(rows) else _lists(inner, where, depth - 1)


def _are_items(rows: list[Any]) -> bool:
    """Whether most of the first rows look like items."""
    return 2 * sum(isinstance(row, dict) and is_item(row) for row in rows[:20]) > len(rows[:20])


def _rows(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table, which pandas writes by columns or by rows, or the items of a dict by their ids."""
    columns = list(value.values())
    if len(columns) > 1 and all(isinstance(each, dict) and each for each in columns):
        if all(key.isdigit() for key in columns[0]):
            return [{name: column.get(key) for name, column in value.items()} for key in columns[0]]
        is_counted = list(value) == [str(number) for number in range(len(value))]  # a count is no id
        return [row if is_counted or meant_by(row, "id") else {"id": name} | row for name, row in value.items()]
    if len(columns) > 1 and all(isinstance(each, list) and len(each) == len(columns[0]) > 1 for each in columns):
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    names, rows = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
        return [dict(zip(map(str, names), row, strict=False)) for row in rows]
    return []


def loads(text: bytes) -> list[Any]:
    r"""Decode one JSON document after another, as JavaScript and Python write them.

    They may have NaN, a comma before a closing bracket, needless escapes and control characters. Raises ValueError,
    RecursionError.

    >>> loads(rb'[{"title": "It\'s open", "text": NaN},] {}')
    [[{'title': "It's open", 'text': None}], {}]
    """
    documents, at, plain = [], 0, _NO_JSON.sub(_repaired, without_lone(text).decode()).strip()
    while at < len(plain):
        value, end = _DECODER.raw_decode(plain, at)
        documents.append(value)
        following = _NO_SPACE.search(plain, end)
        at = following.start() if following else len(plain)
    return documents


def _repaired(match: re.Match[str]) -> str:
    text = match[0]
    return "" if text == "," else _BAD_ESCAPE.sub(lambda one: one[0] if one[1] in '"\\/bfnrtu' else one[1], text)
