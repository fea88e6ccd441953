"""Reduce a value of a JSON record, which may be an object or a list, to the one string or number that it means.

Tools that convert XML to JSON turn elements with attributes into objects ({"#text": ...}, {"_": ..., "$": ...},
{"@href": ...}) and repeated elements into lists, each tool in its own way. JSON-LD, WordPress, feedparser, feed readers
and editors have further forms. Among several texts of an item the article is the one with the most prose.
"""

import re
from collections.abc import Sequence
from typing import Any

from stream_dedup.news.dates import NO_TIME, milliseconds_of

_TEXT = ("#text", "_", "$t", "__text", "#cdata-section", "#cdata", "__cdata", "$", "rendered", "@value", "value")
_LINK = ("@href", "href", "@_href", "@url", "url", "@_url", "$", "@id", *_TEXT)
_KEYS = {
    "id": (*_TEXT, "$oid", "@id", "@href", "href"),
    "title": (*_TEXT, "main", "title", "text"),
    "text": (*_TEXT, "content", "html", "text", "body", "children", "blocks", "paragraphs", "data", "insert", "ops"),
    "url": _LINK,
    # A link precedes a name: "Reuters" and "reuters.com" would be two sources.
    "source": (
        *(key for key in _LINK if key not in _TEXT or key == "$"), "link", "htmlUrl", "uri", "domain", *_TEXT, "name",
        "title",
    ),
    "published": ("$date", "$numberLong", *_TEXT),
}  # fmt: skip
# Other objects of one member hold the value under its type ({"string": "T"}), those of languages the same in each.
LANGUAGE = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?\Z")
_NO_VALUE = frozenset(("type", "id", "role", "lang", "language", "status"))
_RELATION = ("@rel", "rel", "@_rel")
_TYPES = frozenset(("contenttype", "contentType", "role"))
# NewsAPI cuts a text at 200 characters and appends the number of missing ones, which differs between copies.
_CUT = re.compile(r"\[\+\d{1,9} chars\]\Z")
_LONGEST_CUT = len("[+123456789 chars]")
# Not prose: links with their words, tags, addresses. A whole page counts for a third of its length, because much of it
# is menus: it wins against a teaser only.
_NO_PROSE = re.compile(r"<a\b[^<>]*+>[^<]*+|<(?:script|style)\b[^<>]*+>[^<]*+|<[^<>]*+>|\[[^\[\]]*+\]\(|https?://\S++")
_PAGE = re.compile(r"\s*+<(?:!doctype\s|html[\s>]|head[\s>]|body[\s>])", re.IGNORECASE)
_PAGE_SHARE = 3


def is_filled(value: Any) -> bool:
    """Whether a value is present and not empty; 0 and False count as present."""
    return bool(value) or isinstance(value, (int, float))


def plain_value(field: str, value: Any) -> Any:
    """Return the string or number that a field's value means, or the value itself if it means neither.

    >>> plain_value("text", [{"contenttype": "text/html", "value": ""}])
    ''
    >>> plain_value("title", {"@type": "html", "#text": "T"}), plain_value("title", ["T"])
    ('T', 'T')
    >>> plain_value("url", [{"@rel": "self", "@href": "/feed"}, {"@rel": "alternate", "@href": "/1"}])
    '/1'
    """
    if isinstance(value, dict):
        if field == "url" and _relation(value) not in ("", "alternate"):
            return ""
        keys = [key for key in _KEYS.get(field, _TEXT) if key in value]
        filled = [value[key] for key in keys if is_filled(value[key])]
        if not keys and (len(value) == 1 or all(map(LANGUAGE.match, value))):
            filled = [each for name, each in value.items() if each and name not in _NO_VALUE][:1]
            filled = [each for each in filled if field in ("id", "published") or not isinstance(each, (int, float))]
        inner = (plain_value(field, each) for each in filled)
        return next(
            (each for each in inner if not isinstance(each, (dict, list))), "" if keys and not filled else value
        )
    if isinstance(value, list):
        return _one_of(field, value)
    return value


def _one_of(field: str, values: list[Any]) -> Any:
    if field == "url":
        values = [link for link in values if _relation(link) in ("", "alternate")]
        return plain_value(field, values[0]) if values else ""
    if len(values) == 1:
        return plain_value(field, values[0])
    if field in ("id", "source", "published"):  # an element that occurs twice
        plain = [value for value in (plain_value(field, each) for each in values) if is_filled(value)]
        plain = [value for value in plain if not isinstance(value, (dict, list))]
        return (first_readable(plain) if field == "published" else plain[0]) if plain else values
    if field == "title" and values and all(isinstance(value, dict) for value in values):  # ninjs: headlines by role
        return plain_value(field, next((value for value in values if value.get("role") in ("main", None)), values[0]))
    if field == "text":
        texts = [text for text in (plain_value(field, each) for each in values) if text and isinstance(text, str)]
        if any(map(is_typed, values)) and texts:  # one text in several types
            return article(texts)
        return "\n\n".join(texts) if texts or not values else values  # its paragraphs
    return values


def is_typed(value: Any) -> bool:
    """Whether an object is one of several forms of a text, and says which."""
    return isinstance(value, dict) and (
        not _TYPES.isdisjoint(value) or "/" in str(value.get("type", value.get("@type", "")))
    )


def _relation(link: Any) -> str:
    objects = [each for each in (link, link.get("$")) if isinstance(each, dict)] if isinstance(link, dict) else []
    relations = (each.get(key) for each in objects for key in _RELATION)
    return next((relation for relation in relations if isinstance(relation, str)), "")


def first_readable(dates: Sequence[Any]) -> Any:
    """Return the first readable date, or else the first one.

    >>> first_readable(["soon", "2024-01-01"])
    '2024-01-01'
    """
    return next((date for date in dates if milliseconds_of(date) != NO_TIME), dates[0]) if len(dates) > 1 else dates[0]


def article(texts: Sequence[str]) -> str:
    """Return the text with the most prose, without NewsAPI's note on how much was cut off; ties go to the first.

    >>> article(['<a href="https://a.example/a/long/address">A list of links</a>', "A summary."])
    'A summary.'
    >>> article(["The bridge over the … [+2365 chars]", "The bridge."])
    'The bridge over the'
    """
    texts = [_without_note(text) for text in texts]
    return max(texts, key=_prose) if len(texts) > 1 else texts[0]


def _prose(text: str) -> int:
    """Count the characters of prose in a text."""
    if "<" in text:
        count = len(" ".join(_NO_PROSE.sub("", text).split()))
        return count // _PAGE_SHARE if _PAGE.match(text) else count
    return len(_NO_PROSE.sub("", text)) if "://" in text else len(text)


def _without_note(text: str) -> str:
    # Only the end is searched: an expression that begins with white space takes cubic time, minutes for 10 KB of it.
    end = text.rstrip()
    note = _CUT.search(end, max(0, len(end) - _LONGEST_CUT))
    if note is None:
        return text
    end = end[: note.start()].rstrip()
    return end.removesuffix("…").removesuffix("..." if not end.endswith("…") else "").rstrip()
