"""Propose fields of the records, or a query, for what no item has. Each proposal was tried on the first records.

A proposal that gives no text, a number, a date or a word of a template would make things worse, so it is not made.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from stream_dedup.errors import ConfigError
from stream_dedup.news.item_lists import Query, below, items_in
from stream_dedup.news.names import PARTS
from stream_dedup.news.plain_values import fits, plain_value, text_of

SHOWN_PATHS = 12
"""Fields of the records that are shown."""
PROSE = 40
"""Mean characters of a field that may be a text."""
_DEEPEST = 8
# Names that a field probably has in records of unknown shape. The text is the longest field with another name.
_LIKELY = {
    "id": re.compile(r"(^|[._-])(\w*id|uri|key)$", re.I),
    "title": re.compile(r"title|headline|heading|subject", re.I),
    "source": re.compile(r"source|site|publisher|domain|host", re.I),
    "url": re.compile(r"url|link|href", re.I),
    "published": re.compile(r"date|time|publish|created|indexed", re.I),
}


class Proposals:
    """The fields of the records, and how to name them in the settings.

    `paths`: dotted path -> mean characters, the longest first. `values`: the values that the first records give for a
    field if the settings map it to a path. `document`: the first record. `has_query`: whether a query gives the fields.
    """

    def __init__(
        self, paths: Mapping[str, float], values: Callable[[str, str], Sequence[Any]], document: Any, has_query: bool
    ) -> None:
        self.paths, self._values, self._document, self._has_query = paths, values, document, has_query

    def works(self, field: str, path: str) -> bool:
        """Return whether the records have the field at a path."""
        return fits(field, self._values(field, path))

    def cure(self, *missing: str) -> str:
        """List the fields of the records, and those that work as a setting; an address may be a source or an id."""
        if not self.paths:
            return "."
        missing = ("source", "url") if missing == ("source",) else missing
        paths = [path for path in self.paths if not PARTS.search(path.rpartition(".")[0])]
        likely = {name: sorted(filter(pattern.search, paths), key=len) for name, pattern in _LIKELY.items()}
        guesses = {name: self._first(name, likely[name]) for name in missing if name in likely}
        if "id" in missing and not guesses["id"]:
            guesses["id"] = self._first("id", likely["url"])
        # The longest fields whose names say nothing, as in a table without a header.
        known = {path for matches in likely.values() for path in matches}
        rest = [path for path in paths if path not in known]
        if "text" in missing:
            long = [path for path in rest if self.paths[path] >= PROSE or "title" in missing]
            guesses["text"] = self._first("text", long)
        if "text" in missing and "title" in missing and not guesses["title"]:
            guesses["title"] = self._first("title", [path for path in rest if path != guesses["text"]])
        present = f"{', '.join([*self.paths][:SHOWN_PATHS])}{', …' if len(self.paths) > SHOWN_PATHS else ''}"
        if self._has_query:
            return f". The records have {present}: if one of them is the field, let [item] query give it."
        if {"title", "text"} <= {*missing} and (query := query_for(self._document)):
            return f". The records have {present}. A query reads them: set [item] query = '{query}'."
        if "text" in missing and "title" in missing and not any(guesses.values()):
            return f". The records have {present}, and none of it reads as one: let the producer send one."
        return f". The records have {present}: if one of them is the field, name it{such_as(guesses)}."

    def _first(self, field: str, paths: Sequence[str]) -> str | None:
        return next((path for path in paths[:SHOWN_PATHS] if self.works(field, path)), None)


def such_as(guesses: Mapping[str, str | None]) -> str:
    """Show how the settings name fields."""
    examples = ", ".join(f'{name} = "{path}"' for name, path in guesses.items() if path)
    return f" under [item.fields] in the settings (--config FILE){f', such as {examples}' if examples else ''}"


def query_for(document: Any) -> str | None:
    """Return a query that reads the list with most text in a document of unknown shape; None if none has any.

    >>> query_for({"a": [{"b": {"kop": "Elm bridge opens", "tekst": "The bridge opened on Monday, two years late."}}]})
    'a[].{text: b.tekst, title: b.kop}'
    """
    texts = [text for text in document.values() if isinstance(text, str)] if isinstance(document, dict) else []
    if any(" " in text for text in texts):  # an article with its paragraphs
        return None
    read, left = items_in(document)
    for path, rows, *_ in sorted([*read, *left], key=lambda listing: -len(str(listing.items)))[:SHOWN_PATHS]:
        values: dict[str, list[Any]] = {}
        for row in rows[:SHOWN_PATHS]:
            for name, value in _leaves(row, "", _DEEPEST):
                if not PARTS.search(name.rpartition(".")[0]):
                    values.setdefault(name, []).append(value)
        fields = dict[str, str]()
        longest = sorted(values, key=lambda name: -len(str(values[name])))
        for field in ("text", "title", "id", "url", "published"):
            likely = longest if field == "text" else filter(_LIKELY[field].search, sorted(values, key=len))
            plain_of = text_of if field == "text" else partial(plain_value, field)
            for name in [*likely, *(longest if field == "title" else [])]:
                if name not in fields.values() and fits(field, [plain_of(value) for value in values[name]]):
                    fields[field] = name
                    break
        query = f"{path}[].{{{', '.join(f'{field}: {name}' for field, name in fields.items())}}}"
        if "text" not in fields or "'" in query:
            continue
        try:
            reader = Query(query)
        except ConfigError:  # it cannot be tried without the package that reads it, which is said where it is used
            return query
        rows = (reader.items(document) or [])[:SHOWN_PATHS]
        if fits("text", [text_of(reader.item(row).get("text")) for row in rows if isinstance(row, dict)]):
            return query
    return None


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the paths and values of strings and numbers; those in a list of objects come as one list."""
    if isinstance(value, dict) and depth:
        for name, inner in value.items():
            yield from _leaves(inner, below(path, name), depth - 1)
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        found: dict[str, list[Any]] = {}
        for entry in value:
            for name, inner in _leaves(entry, f"{path}[]", depth - 1) if isinstance(entry, dict) else ():
                found.setdefault(name, []).append(inner)
        yield from found.items()
    else:
        yield path, value
