"""Reduce a value of a JSON record, an object, a list or a tree of nodes, to the one string or number that it means.

Tools that convert XML to JSON turn elements with attributes into objects ({"#text": ...}, {"_": ..., "$": ...},
{"@href": ...}) and repeated elements into lists, each tool in its own way. JSON-LD, WordPress, feedparser, feed readers
and editors have further forms. Among several texts of an item the article is the one with the most prose.

Editors and content systems store a text as nodes: paragraphs, headings, spans, blocks. Each names them in its own way.
What they share is enough: a node has its text under the name of a text, or further nodes in lists and objects. A node
with two texts has one of them in two forms. The entries of a live blog are joined by their dates, the newest last.
"""

import re
from ast import literal_eval
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import msgspec

from stream_dedup.loose_json import decode_json
from stream_dedup.news.dates import NO_TIME, milliseconds_of
from stream_dedup.news.names import PARTS, is_text_name, meant_by, plain_name

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
    # Mongo, Firestore and Protobuf, Java, Parse, Google's and Microsoft's APIs.
    "published": (
        "$date", "$numberLong", "seconds", "_seconds", "epochSecond", "sec", "low", "$timestamp", "t", "millis",
        "iso", "timestampValue", "dateTime", "DateTime", *_TEXT, "date",
    ),
}  # fmt: skip
# Other objects of one member hold the value under its type ({"string": "T"}), those of languages the same in each.
_LANGUAGE = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?\Z")
_NO_VALUE = frozenset(("type", "id", "role", "lang", "language", "status"))
# The members of a date that stands in parts, or the places in a list of them.
_PARTS = (
    ("year",), ("monthValue", "month"), ("dayOfMonth", "day"), ("hour", "hours"), ("minute", "minutes"),
    ("second", "seconds"),
)  # fmt: skip
_LITERAL = re.compile(r"[\[{]\s*['\"{]")
# Objects and lists in a string, and characters of a Python literal: some MB each.
_MOST_OPENED, _LONGEST_LITERAL = 10_000, 100_000
_DAY_MS = 86_400_000
_KIND_OF_TIME = re.compile("(?:date|time|at|on|utc|gmt|iso)+$")  # the ends of names that mean the same moment
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
    """Return whether a value is present and not empty; 0 and False count as present."""
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
        if field == "published" and (date := _date_of_parts(value)):
            return date
        if field == "url" and _relation(value) not in ("", "alternate"):
            return ""
        keys = [key for key in _KEYS.get(field, _TEXT) if key in value]
        filled = [value[key] for key in keys if is_filled(value[key])]
        if not keys and (len(value) == 1 or all(map(_LANGUAGE.match, value))):
            filled = [member for name, member in value.items() if member and name not in _NO_VALUE][:1]
            filled = [
                member for member in filled if field in ("id", "published") or not isinstance(member, (int, float))
            ]
        inner = (plain_value(field, member) for member in filled)
        return next(
            (plain for plain in inner if not isinstance(plain, (dict, list))), "" if keys and not filled else value
        )
    if isinstance(value, list):
        return _one_of(field, value)
    if isinstance(value, str) and (held := opened(value)) is not value:
        if field == "text" and isinstance(held, dict) and held.keys().isdisjoint(_KEYS["text"]):
            return value  # an answer of a server, say: what a person wrote in braces stays
        inner = plain_value(field, held)
        return inner if is_filled(inner) and not isinstance(inner, (dict, list)) else value
    return value


def opened(text: str) -> Any:
    """Return the object, or the list of strings or objects, that a string holds as JSON or Python; else the string.

    >>> opened("{'id': None, 'name': 'Elm Wire'}"), opened('["One.", "Two."]'), opened("[sic]")
    ({'id': None, 'name': 'Elm Wire'}, ['One.', 'Two.'], '[sic]')
    """
    inner = text.strip()
    if inner[:1] + inner[-1:] not in ("{}", "[]") or inner.count("{") + inner.count("[") > _MOST_OPENED:
        return text
    held: Any = None
    try:
        held = decode_json(inner.encode("utf-8", "replace"))
    except (msgspec.MsgspecError, RecursionError):
        if len(inner) <= _LONGEST_LITERAL and _LITERAL.match(inner):
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                held = literal_eval(inner)
    is_list = isinstance(held, list) and held and all(isinstance(element, (str, dict)) for element in held)
    return held if is_list or isinstance(held, dict) else text


def _one_of(field: str, values: list[Any]) -> Any:
    if field == "url":
        values = [link for link in values if _relation(link) in ("", "alternate")]
        return plain_value(field, values[0]) if values else ""
    if len(values) == 1:
        return plain_value(field, values[0])
    if field == "published" and (
        date := _date_of_parts(dict(zip((names[0] for names in _PARTS), values, strict=False)))
    ):
        return date
    if field in ("id", "source", "published"):  # an element that occurs twice
        plain = [value for value in (plain_value(field, element) for element in values) if is_filled(value)]
        plain = [value for value in plain if not isinstance(value, (dict, list))]
        dates = (date for date in plain if field == "published" and milliseconds_of(date) != NO_TIME)
        return next(dates, plain[0]) if plain else values
    if field == "title" and values and all(isinstance(value, dict) for value in values):  # ninjs: headlines by role
        return plain_value(field, next((value for value in values if value.get("role") in ("main", None)), values[0]))
    if field == "text":
        texts = [text for text in (plain_value(field, element) for element in values) if text and isinstance(text, str)]
        if any(map(_is_typed, values)) and texts:  # one text in several types
            return article(texts)
        return "\n\n".join(texts) if texts or not values else values  # its paragraphs
    return values


def _date_of_parts(value: dict[str, Any]) -> str:
    """Return a date beside its zone, as PHP writes it, or one whose parts are numbers; "" if it is neither.

    >>> _date_of_parts({"date": "2026-01-05 10:00:00.000000", "timezone_type": 3, "timezone": "UTC"})
    '2026-01-05 10:00:00.000000 UTC'
    >>> _date_of_parts({"year": 2026, "month": 1, "day": 5, "hours": 10})
    '2026-01-05T10:00:00'
    """
    date, zone = value.get("date", value.get("dateTime")), value.get("timezone", value.get("timeZone"))
    if isinstance(date, str) and isinstance(zone, str):
        return f"{date} {zone}"
    parts = [next((value[name] for name in names if type(value.get(name)) is int), None) for names in _PARTS]
    if None in parts[:3] or not 1900 < (parts[0] or 0) < 10_000:
        return ""
    return "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}".format(*(part or 0 for part in parts))


def _is_typed(value: Any) -> bool:
    """Return whether an object is one of several forms of a text, and says which."""
    return isinstance(value, dict) and (
        not _TYPES.isdisjoint(value) or "/" in str(value.get("type", value.get("@type", "")))
    )


def _relation(link: Any) -> str:
    objects = [part for part in (link, link.get("$")) if isinstance(part, dict)] if isinstance(link, dict) else []
    relations = (part.get(key) for part in objects for key in _RELATION)
    return next((relation for relation in relations if isinstance(relation, str)), "")


def is_moment(value: Any) -> bool:
    """Return whether a value is a readable date with a time of the day, beside which no other date counts."""
    return type(value) is str and ":" in value and milliseconds_of(value) != NO_TIME


def with_time(dates: Sequence[tuple[Any, str]]) -> tuple[Any, str]:
    """Return the first readable date and its name, or else the first. A mere day gives way to the time of its name.

    >>> with_time([("2024-01-01", "pub_date"), ("2024-01-02T09:00", "updated"), ("2024-01-01T10:00", "pub_datetime")])
    ('2024-01-01T10:00', 'pub_datetime')
    >>> with_time([("2024-01-01", "date"), ("10:00", "time")])
    ('2024-01-01 10:00', 'date')
    """
    date, name = next((pair for pair in dates if milliseconds_of(pair[0]) != NO_TIME), dates[0])
    day = milliseconds_of(date)
    if day < 0 or day % _DAY_MS or ":" in str(date):
        return date, name
    for time, time_name in dates:
        if _KIND_OF_TIME.sub("", plain_name(time_name)) == _KIND_OF_TIME.sub("", plain_name(name)):
            for moment, moment_name in (time, time_name), (f"{date} {time}", name):
                if day < milliseconds_of(moment) < day + _DAY_MS:
                    return moment, moment_name
    return date, name


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


_SHORTEST, _LONGEST_NAME = 4, 300  # mean characters of a headline, and of a name
_1980 = 315_532_800_000  # counts and small numbers are dates of the seventies
_PLACEHOLDER = re.compile(r"\{\{|\{%|\$\{|%\(|(?:undefined|null|none|nan|true|false|n/?a)\Z", re.IGNORECASE)


def fits(field: str, values: Sequence[Any]) -> bool:
    """Return whether values of the first records may be those of a field.

    >>> fits("title", ["Elm bridge opens", "Goats stop a train"]), fits("title", ["2026-01-05", "2026-01-06"])
    (True, False)
    """
    plain = [value for value in values if is_filled(value) and not isinstance(value, (dict, list, bool))]
    words = [str(value).strip() for value in plain]
    if not plain or 2 * len(plain) < len(values) or any(map(_PLACEHOLDER.match, words)):
        return False
    mean = sum(map(len, words)) / len(words)
    if field == "published":
        return sum(milliseconds_of(value) > _1980 for value in plain) * 2 > len(plain)
    if field == "id":
        return len({*words}) == len(words) and mean < _LONGEST_NAME
    if field == "url":
        return all(word.startswith(("http", "/", "www.")) for word in words)
    if not all(isinstance(value, str) for value in plain) or any(milliseconds_of(value) >= 0 for value in plain):
        return False
    if field == "source":
        return mean < _LONGEST_NAME
    is_prose = all(" " in word or not word.isascii() for word in words) and not any("://" in word[:9] for word in words)
    is_apart = len({*words}) > 1 or len(words) == 1
    return is_prose and is_apart and mean >= _SHORTEST and (field == "text" or mean < _LONGEST_NAME)


# -- texts in nodes -------------------------------------------------------------------------------------

# Texts by names of HTML, of Quill (insert) and of records of typed values.
_LEAF = re.compile(
    r"(p|li|ul|ol|h[1-6]|hl\d|div|span|para|block|blockquote|items|lines|insert|markdown|value|texts?)\Z"
)
_MARKS = frozenset(("marks", "format", "annotations", "attributes", "bold", "italic", "code", "styles"))
_NO_TEXT = re.compile("marks|attr|style|config|setting|references|entitymap|annotation|\\Ameta")
_NO_LANGUAGE = frozenset(("li", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "br", "id", "op", "ok"))
_DEEPEST = 24  # lists in lists in a text: five levels of nodes


def rich_text(value: Any) -> str:
    """Return the texts of the nodes in their order, a paragraph each; "" if there are none.

    >>> rich_text({"blocks": [{"type": "p", "data": {"text": "The Elm."}}, {"type": "list", "items": ["Elm", "Oak"]}]})
    'The Elm.\\n\\nElm\\n\\nOak'
    >>> rich_text({"en": [{"children": [{"text": "The "}, {"text": "bridge.", "bold": True}]}], "fi": "Silta."})
    'The bridge.'
    """
    return "\n\n".join(text for part in _texts(value, _DEEPEST) if (text := part.strip()))


def text_of(value: Any) -> Any:
    """Return the text of a value: plain, in nodes, or in nodes as JSON in a string; else the value itself."""
    if isinstance(value, str):
        if value[-1:] in "}]" and value[:1] in "{[":
            with suppress(msgspec.DecodeError, RecursionError):
                nodes = msgspec.json.decode(value)
                inner = nodes.values() if isinstance(nodes, dict) else nodes
                if any(isinstance(child, (dict, list)) for child in inner):
                    return rich_text(nodes) or value
        return value
    plain = plain_value("text", value)
    if isinstance(value, list) and any(map(_is_typed, value)):
        return plain
    rich = rich_text(value)
    return rich if rich and (not isinstance(plain, str) or _letters(rich) >= _letters(plain)) else plain


def _letters(text: str) -> int:
    return len(text.replace("\n", ""))


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, list):
        yield from _of_list(value, depth - 1)
    elif depth and isinstance(value, dict):
        yield from _of_node(value, depth - 1)


def _of_list(nodes: list[Any], depth: int) -> Iterator[str]:
    is_spans = len(nodes) > 1 and all(isinstance(node, dict) and len(_own(node)) == 1 for node in nodes)
    if is_spans and any(not _MARKS.isdisjoint(node) for node in nodes):
        yield "".join(_own(node)[0] for node in nodes)
        return
    # Mobiledoc has lists of the name of an element, numbers and nodes.
    is_mixed = any(not isinstance(node, str) for node in nodes)
    for node in _by_date(nodes):
        if not (is_mixed and isinstance(node, str) and " " not in node):
            yield from _texts(node, depth)


def _of_node(node: dict[str, Any], depth: int) -> Iterator[str]:
    if all(_LANGUAGE.match(name) and name not in _NO_LANGUAGE for name in node):
        yield from _texts(next(filter(None, node.values()), ""), depth)
        return
    texts, found = _own(node), False
    if texts:
        yield article(texts)
    for name, inner in node.items():
        plain = name.lower()
        is_other = (texts and plain != "children") or PARTS.search(plain) or _NO_TEXT.search(plain)
        if is_other or not isinstance(inner, (dict, list)):
            continue
        is_words = isinstance(inner, list) and all(isinstance(entry, str) for entry in inner)
        for text in _texts(inner, depth) if _is_text(name) or not is_words else ():
            found = True
            yield text
    if not texts and not found:  # an entry of a live blog may be a headline
        titles = (plain_value("title", node[name]) for name in meant_by(node, "title") if name != "name")
        yield from [title for title in titles if isinstance(title, str)][:1]


def _own(node: dict[str, Any]) -> list[str]:
    return [text for name, text in node.items() if text and isinstance(text, str) and _is_text(name)]


def _is_text(name: str) -> bool:
    return bool(_LEAF.match(name.lower())) or is_text_name(name)


def _by_date(nodes: list[Any]) -> list[Any]:
    """Sort entries by their dates, if all have one and they differ."""
    times = [_time(node) if isinstance(node, dict) else -1 for node in nodes]
    if len(set(times)) < 2 or min(times) < 0:
        return nodes
    return [node for _, node in sorted(zip(times, nodes, strict=True), key=itemgetter(0))]


def _time(node: dict[str, Any]) -> int:
    dates = (node[name] for name in meant_by(node, "published"))
    return max((milliseconds_of(date) for date in dates if date and isinstance(date, str)), default=-1)
