"""Reduce the JSON value of a field to the string or number that it means.

In: any JSON value. Out: a string or a number, or the unchanged value if it means neither (the caller reports that).
Why: tools that convert XML to JSON turn elements with attributes into objects ({"#text": ...}, {"_": ..., "$": ...},
{"@href": ...}) and repeated elements into lists, each tool in its own way; JSON-LD, WordPress and feedparser have
further forms.
"""

import re
from collections.abc import Sequence
from typing import Any

BOM = b"\xef\xbb\xbf"
"""The UTF-8 byte order mark, which some programs write before JSON or CSV; it carries no information."""
_TEXT = ("#text", "_", "$t", "__text", "#cdata-section", "#cdata", "__cdata", "$", "rendered", "@value", "value")
_LINK = ("@href", "href", "@_href", "@url", "url", "@_url", "$", "@id", *_TEXT)
_KEYS = {
    "id": (*_TEXT, "$oid", "@id", "@href", "href"),
    "url": _LINK,
    # A link is preferred to a name: "Reuters" and "reuters.com" would be two sources.
    "source": (*(key for key in _LINK if key not in _TEXT or key == "$"), "link", *_TEXT, "name", "title"),
    "published": ("$date", "$numberLong", *_TEXT),
}
_RELATION = ("@rel", "rel", "@_rel")
_TAG = re.compile(r"<[^<>]*+>")
# NewsAPI cuts a text at 200 characters and appends the number of missing ones, which differs between copies.
_CUT = re.compile(r"\[\+\d{1,9} chars\]\Z")
_LONGEST_CUT = len("[+123456789 chars]")


def is_filled(value: Any) -> bool:
    """Whether a value is present and not empty; 0 and False count as present."""
    return bool(value) or isinstance(value, (int, float))


def plain_value(field: str, value: Any) -> Any:
    """Return the string or number that a value of this field means, or the value itself if it means none.

    >>> plain_value("title", {"@type": "html", "#text": "T"}), plain_value("title", ["T"])
    ('T', 'T')
    >>> plain_value("url", [{"@rel": "self", "@href": "/feed"}, {"@rel": "alternate", "@href": "/1"}])
    '/1'
    """
    if isinstance(value, dict):
        for key in _KEYS.get(field, _TEXT):
            if is_filled(value.get(key)):
                inner = plain_value(field, value[key])
                if not isinstance(inner, (dict, list)):
                    return inner
        return value
    if isinstance(value, list):
        return _one_of(field, value)
    return value


def _one_of(field: str, values: list[Any]) -> Any:
    if field == "url":
        alternate = [link for link in values if _relation(link) in ("", "alternate")]
        return plain_value(field, alternate[0]) if alternate else values
    if len(values) == 1:
        return plain_value(field, values[0])
    if field == "text" and all(isinstance(value, dict) for value in values):  # feedparser: one text in several types
        found = [value for value in (plain_value(field, each) for each in values) if isinstance(value, str)]
        return fullest(found) if found else values
    return values


def _relation(link: Any) -> str:
    if isinstance(link, dict):
        for at in (link, link.get("$")):
            if isinstance(at, dict):
                for key in _RELATION:
                    if isinstance(at.get(key), str):
                        return str(at[key])
    return ""


def fullest(texts: Sequence[str]) -> str:
    """Return the text with the most visible characters (tags do not count), the first of equals.

    >>> fullest(['<a href="https://a.example/a/long/address"><img></a>', "A summary."])
    'A summary.'
    """
    return max(texts, key=_seen) if len(texts) > 1 else texts[0]


def fullest_uncut(texts: Sequence[str]) -> str:
    """Return the fullest text without NewsAPI's note on how much was cut off.

    >>> fullest_uncut(["The bridge over the … [+2365 chars]", "The bridge."])
    'The bridge over the'
    """
    return fullest([_without_note(text) for text in texts])


def _without_note(text: str) -> str:
    # Only the end is searched. An expression that begins with white space takes cubic time: minutes for 10 KB of it.
    end = text.rstrip()
    note = _CUT.search(end, max(0, len(end) - _LONGEST_CUT))
    if note is None:
        return text
    end = end[: note.start()].rstrip()
    return end.removesuffix("…").removesuffix("..." if not end.endswith("…") else "").rstrip()


def _seen(text: str) -> int:
    return len(_TAG.sub("", text)) if "<" in text else len(text)
