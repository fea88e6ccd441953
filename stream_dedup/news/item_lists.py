"""Find the items in a JSON document that holds many: by the query of the settings, or else in lists at any path, in a
dict of items, or in columns.

All lists of articles are read. Their entries have a headline, or a text with an id, an address or a date; a list of
authors, of fields or of a legend has none of these. If no list is so sure, the longest one counts whose entries look
like items. The nodes of a text are no entries.

Feeds have a title and a description, and articles have lists of images. So an object that looks like an item is an
envelope only if its list has a name of such lists, or if it has no text and no date, and its entries have longer texts.

A query ([item] query) is in JMESPath (https://jmespath.org, the language of the AWS command line). It names the items,
and may give their fields: `data.items[].{id: url, text: body[].p}`. Its part up to the last projection lists the items,
which go out as they stand; the rest is the view of one of them. So a query fits the document, each item of it, and a
record that holds a single one.
"""

import json
import re
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import msgspec

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.extras import require
from stream_dedup.news.names import LISTS, NODES, PARTS, STRINGS, WRAPPERS, is_text_name, meant_by, plain_name
from stream_dedup.news.plain_values import opened, plain_value

_DEEPEST = 8  # objects and lists around a list of items; converted XML has a list at each step
# What systems call the kind of a node, and how kinds are named.
_KINDS = (
    "type", "nodeType", "_type", "kind", "role", "component", "__component", "__typename", "blockName", "acf_fc_layout",
    "object",
)  # fmt: skip
_NODE = re.compile(
    "para|text|head|block|image|list|quote|html|embed|span|body|title|section|video|divider|rule|table|row|unstyled|"
    r"\A(p|h\d|hr|br|ul|ol|li|doc|document|link)\Z",
    re.IGNORECASE,
)
_ARTICLE = re.compile("(Article|Posting|Report|Review|NewsItem)\\Z")  # types of schema.org
_SAMPLED = 20  # entries that show what a list is
_PROSE = 40  # shorter texts are messages, such as "Success"


class Rank(IntEnum):
    """How sure it is that a list of objects has items; see `_rank_of`."""

    OTHER = 0
    LIKELY = 1
    SURE = 2


class Listing(NamedTuple):
    """The elements of a list of items, the path of the list as in JMESPath, and the address of its site, or ""."""

    path: str
    items: list[Any]
    site: str = ""
    rank: Rank = Rank.SURE

    def lines(self) -> list[bytes]:
        """Return each item as a JSON object. The site is the source of those without an address and a source."""
        lines = []
        for item in self.items:
            if self.site and isinstance(item, dict) and not meant_by(item, "url") and not meant_by(item, "source"):
                item = {"source": self.site} | item
            lines.append(msgspec.json.encode(item))
        return lines

    def __str__(self) -> str:
        return f"{self.path or '@'} ({len(self.items):,})"


class Found(NamedTuple):
    """The lists of items of a document, none for an item, and the other lists of objects."""

    read: list[Listing]
    left: list[Listing]


def items_in(document: Any) -> Found:
    """Return the lists of items of an envelope, and the lists that are left.

    >>> [str(each) for each in items_in({"top": [{"title": "Elm bridge opens"}], "more": [{"title": "T"}]}).read]
    ['top (1)', 'more (1)']
    >>> items_in({"title": "Elm bridge opens", "images": [{"title": "The bridge"}]}).read
    []
    """
    lists = _merged(_lists(document, "", _DEEPEST))
    is_feed = isinstance(document, dict) and "jsonfeed.org" in str(document.get("version"))
    if not lists and isinstance(document, dict) and (is_feed or not is_item(document)):
        lists = [Listing(name, []) for name in LISTS & document.keys() if document[name] == []]
    rank = max((listing.rank for listing in lists), default=Rank.OTHER)
    read = [listing for listing in lists if rank and listing.rank is rank]
    return Found(read, [listing for listing in lists if not any(listing is chosen for chosen in read)])


def is_item(record: dict[str, Any]) -> bool:
    """Return whether a record has a title or a text."""
    record = flat(record)
    return _has(record, "title") or _has(record, "text")


def flat(record: dict[str, Any], wrappers: frozenset[str] = WRAPPERS, depth: int = 3) -> dict[str, Any]:
    """Return the record with the members of its wrappers as its own, under names with a dot.

    `depth` bounds wrappers in wrappers, since the names of each are made anew.
    """
    if not depth:
        return record
    for name in [name for name in wrappers & record.keys() if isinstance(record[name], dict)]:
        inner = {f"{name}.{member}": value for member, value in flat(record[name], wrappers, depth - 1).items()}
        if name == "sys" or meant_by(inner, "title") or meant_by(inner, "text"):
            record = {member: value for member, value in record.items() if member != name} | inner
    return record


def _has(record: dict[str, Any], field: str, *other: str) -> bool:
    values = (
        plain_value(field, record[name])
        for name in meant_by(record, field)
        if name not in other and not _is_article(record[name])
    )
    return any(value and isinstance(value, str) for value in values)


def _longest(record: Any) -> int:
    record = flat(record) if isinstance(record, dict) else {}
    texts = (record[name] for name in record if is_text_name(name))
    return max((len(str(text)) for text in texts if text and not _is_article(text)), default=0)


def _is_article(value: Any) -> bool:
    """Return whether a member is an article of its own, such as the lead of a page, and no text."""
    return isinstance(value, dict) and len(value) > 1 and _has(value, "title", "name") and _has(value, "text")


def _lists(value: Any, path: str, depth: int, site: str = "") -> list[Listing]:
    """Return the lists of objects below a value, except those of an item."""
    if isinstance(value, list):
        rows = _rows({"": value})
        return [Listing(path, rows, rank=_rank(rows))] if rows else _in_list(value, path, depth, site)
    if isinstance(value, dict) and not meant_by(value, "title"):
        held = {name: opened(value[name]) for name in STRINGS & value.keys() if isinstance(value[name], str)}
        value = value | held if held else value
    if not isinstance(value, dict) or not depth or not any(isinstance(child, (dict, list)) for child in value.values()):
        return []
    rows = _rows(value)
    if rows and (rank := _rank(rows)) and not (isinstance(next(iter(value.values())), dict) and is_item(value)):
        is_table = not any(_are_sure(_lists(row, "", depth - 1)) for row in rows)
        if is_table:
            return [Listing(path, rows, rank=rank)]
    home = value.get("home_page_url") or value.get("link")
    lists, inside = list[Listing](), list[str]()
    for name, inner in value.items():
        where = below(path, name)
        is_entry = name in ("item", "entry") and path[-2:] != "[]"
        if is_entry and isinstance(inner, dict) and is_item(inner):  # converted XML with a single one
            inner = [inner]
        if PARTS.search(name.lower()):
            lists += [Listing(where, inner, rank=Rank.OTHER)] if _are_objects(inner) else []
        else:
            found = _lists(inner, where, depth - 1, home if isinstance(home, str) else "")
            inside += [name] if _are_sure(found) else []
            lists += found
    # A name and a list of items make a channel, and no item.
    own = {name: inner for name, inner in value.items() if name not in ("name", *inside)}
    is_own = bool(lists) and is_item(own if _are_sure(lists) else value)
    if is_own:
        return [listing if _is_apart(value, listing) else listing._replace(rank=Rank.OTHER) for listing in lists]
    singles = [
        Listing(below(path, name), [inner])
        for name, inner in value.items()
        if name not in WRAPPERS and _is_article(inner)
    ]
    return lists + singles if _are_sure(lists) or len(singles) > 1 else lists


def _singles(value: Any, path: str, depth: int) -> Iterator[Listing]:
    """Yield the articles that stand alone below an object."""
    for name, inner in value.items() if isinstance(value, dict) and depth else ():
        if _is_article(inner):
            yield Listing(below(path, name), [inner])
        elif not PARTS.search(name.lower()):
            yield from _singles(inner, below(path, name), depth - 1)


def _is_apart(record: dict[str, Any], listing: Listing) -> bool:
    """Return whether a list in what looks like an item has other items, and not its parts."""
    length, most = _longest(record), max(map(_longest, listing.items), default=0)
    name = listing.path.rpartition(".")[2].removesuffix("[]").strip('"')
    if name in LISTS:
        return length <= most
    is_news = listing.rank is Rank.SURE and any(_has(item, "title") for item in listing.items if isinstance(item, dict))
    if is_text_name(name) or plain_name(name) in NODES or not is_news or not length < _PROSE <= most:
        return False
    is_placed = meant_by(record, "published") or (meant_by(record, "id") and meant_by(record, "url"))
    return not is_placed or not _has(record, "title", "name")


def _in_list(values: list[Any], path: str, depth: int, site: str) -> list[Listing]:
    """Return a list, and the lists in those of its elements that hold further ones."""
    first = values[:_SAMPLED]
    if 2 * sum(isinstance(entry, dict) and _is_node(entry) for entry in first) > len(first):
        return []
    lists, entries = list[Listing](), list[Any]()
    for entry in values:
        inner = _lists(entry, f"{path}[]", depth - 1, site) if depth and isinstance(entry, (dict, list)) else []
        if _are_sure(inner):
            lists += inner
        else:
            entries.append(entry)
    if _are_sure(lists):  # groups of a single article
        alone = {
            index: found for index, entry in enumerate(entries) if (found := [*_singles(entry, f"{path}[]", depth)])
        }
        lists += [listing for found in alone.values() for listing in found]
        entries = [entry for index, entry in enumerate(entries) if index not in alone]
    if any(_is_typed(entry) for entry in entries):  # JSON-LD: the page, its images and persons are none
        lists += [Listing(path, [entry for entry in entries if not _is_typed(entry)], rank=Rank.OTHER)]
        entries = [entry for entry in entries if _is_typed(entry)]
    if _are_objects(entries) or (entries and lists):
        lists += [Listing(path, entries, site, _rank(entries))]
    return [listing for listing in lists if listing.items]


def _are_objects(values: Any) -> bool:
    return isinstance(values, list) and any(isinstance(entry, dict) for entry in values)


def _are_sure(lists: list[Listing]) -> bool:
    return any(listing.rank is Rank.SURE for listing in lists)


def _merged(lists: list[Listing]) -> list[Listing]:
    """Join the lists of one path and site, which are those of groups."""
    joined = dict[tuple[str, str, Rank], Listing]()
    for listing in lists:
        joined.setdefault((listing.path, listing.site, listing.rank), listing._replace(items=[])).items.extend(
            listing.items
        )
    return list(joined.values())


def _rank(rows: list[Any]) -> Rank:
    """Return the rank that half of the first rows reach."""
    ranks = sorted((_rank_of(row) for row in rows[:_SAMPLED] if isinstance(row, dict)), reverse=True)
    return ranks[(len(ranks) - 1) // 2] if ranks else Rank.OTHER


def _rank_of(record: dict[str, Any]) -> Rank:
    """An article has a text or a headline, and an address or a date, or both; a name alone is that of anything."""
    record = flat(record)
    title, text = _has(record, "title", "name"), _has(record, "text")
    named, dated = title or _has(record, "title"), bool(meant_by(record, "published"))
    placed = dated or bool(meant_by(record, "url"))
    if (title and (text or placed)) or (named and dated):
        return Rank.SURE
    if text and not named and (placed or meant_by(record, "id")):
        return Rank.SURE
    return Rank.LIKELY if title or text else Rank.OTHER


def _is_node(record: dict[str, Any]) -> bool:
    """Return whether an object is a node of a text: it has a kind, and neither headline nor address nor date."""
    record = flat(record)
    kinds = (record.get(name) for name in _KINDS)
    return any(isinstance(kind, str) and _NODE.search(kind) for kind in kinds) and not any(
        meant_by(record, field) for field in ("title", "url", "published")
    )


def _is_typed(record: Any) -> bool:
    return isinstance(record, dict) and bool(_ARTICLE.search(str(record.get("@type"))))


def _rows(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table or the items of a dict by their ids.

    A table is written by columns, or as lists of cells beside the names of its columns.
    """
    columns = list(value.values())
    if len(columns) > 1 and all(isinstance(column, dict) and column for column in columns):
        if all(key.isdigit() for key in columns[0]):
            return [{name: column.get(key) for name, column in value.items()} for key in columns[0]]
        shared = columns[0].keys() & columns[1].keys()
        if not meant_by(shared, "title") and not meant_by(shared, "text"):  # the parts of one item
            return []
        is_counted = list(value) == [str(number) for number in range(len(value))]  # a count is no id
        return [row if is_counted or meant_by(row, "id") else {"id": name} | row for name, row in value.items()]
    if len(columns) > 1 and all(isinstance(column, list) and len(column) == len(columns[0]) > 1 for column in columns):
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    tables = [
        rows for rows in columns if isinstance(rows, list) and rows and all(isinstance(row, list) for row in rows)
    ]
    own = {name: inner for name, inner in value.items() if not isinstance(inner, list)}
    for rows in () if _has(own, "title", "name") or _has(own, "text") else tables:
        for names in _headers(value, _DEEPEST):
            if len(names) == len(rows[-1]) and (meant_by(names, "title") or meant_by(names, "text")):
                return [dict(zip(names, row, strict=False)) for row in rows if row != names]
    return []


def _headers(value: Any, depth: int) -> Iterator[list[Any]]:
    """Yield what may name the columns of a table: lists of strings, or of objects with a name."""
    if isinstance(value, list):
        names = [entry.get("name") if isinstance(entry, dict) else entry for entry in value]
        if all(isinstance(name, str) for name in names):
            yield names
        elif isinstance(names[0], list):  # the first row
            yield from _headers(names[0], 0)
    elif isinstance(value, dict) and depth:
        for inner in value.values():
            yield from _headers(inner, depth - 1)


# -- by a query -----------------------------------------------------------------------------------------

_PROJECTIONS = ("projection", "filter_projection", "value_projection")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_IDENTITY = {"type": "identity", "children": []}


class Query:
    """A query of the settings. Raises ConfigError if it is malformed, or without the package that reads it.

    >>> query = Query("news[].{title: head.line}")
    >>> query.items({"news": [{"head": {"line": "Elm bridge opens"}}]})
    [{'head': {'line': 'Elm bridge opens'}}]
    >>> query.item({"head": {"line": "Elm bridge opens"}}), query.item({"news": [{"head": {"line": "T"}}]})
    ({'title': 'Elm bridge opens'}, {'title': 'T'})
    """

    def __init__(self, expression: str) -> None:
        jmespath = require("jmespath", "[item] query", "name the fields in [item.fields]")
        self._error = jmespath.exceptions.JMESPathError
        try:
            self._whole = self._items = jmespath.compile(expression)
        except self._error as error:
            raise ConfigError(f"[item] query = {expression!r} is no JMESPath: {' '.join(str(error).split())}") from None
        self._view: Any = None
        tree = self._whole.parsed
        if tree["type"] in _PROJECTIONS and tree["children"][1]["type"] not in (*_PROJECTIONS, "identity"):
            first, view, *rest = tree["children"]
            self._items = jmespath.parser.ParsedResult(expression, tree | {"children": [first, _IDENTITY, *rest]})
            self._view = jmespath.parser.ParsedResult(expression, view)

    def items(self, document: Any) -> list[Any] | None:
        """Return the items of a document, lists in the list opened; None if the query gives no list."""
        try:
            found = self._items.search(document)
        except self._error:  # the view of one item may fail, and says why there
            return None
        if not found or not isinstance(found, list):
            return None
        return [item for entry in found for item in (entry if isinstance(entry, list) else [entry])]

    def item(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the view of a record's item. Raises BadItem if it has several, or if a function of the query fails."""
        try:
            found = self._whole.search(record)
            if not found and self._view is not None:
                found = self._view.search(record)
        except self._error as error:
            raise BadItem("type", f"[item] query: {error}") from None
        while isinstance(found, list) and len(found) == 1:
            found = found[0]
        if isinstance(found, list) and found:
            raise BadItem("entries", f"the query gives {len(found):,} items, and a record holds one")
        return found if isinstance(found, dict) else record


query_of = cache(Query)


def below(path: str, name: str) -> str:
    """Return the path of a member, as a query has it.

    >>> below("", "items"), below("items[]", "rdf:about")
    ('items', 'items[]."rdf:about"')
    """
    return f"{path}.{name if _NAME.fullmatch(name) else json.dumps(name)}".removeprefix(".")
