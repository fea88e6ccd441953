"""Find items by a query in JMESPath (https://jmespath.org, the language of the AWS command line): [item] query.

A query names the items of a document, and may give their fields: `data.items[].{id: url, text: body[].p}`. Its part up
to the last projection lists the items, which go out as they stand; the rest is the view of one of them. So a query fits
the document, each item of it, and a record that holds a single one.
"""

import json
import re
from functools import cache
from typing import Any

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.extras import require

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
