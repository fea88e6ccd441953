"""Find the fields of a JSON record: detect its shape and read the value of each field.

In: bytes, and field maps (the presets of known record formats, [item] fields). Out: the name of the shape, and a tuple
of values in the order of `FieldReader.fields`. Each record is looked at by itself, independent of earlier ones: a
worker may start anywhere, several workers may share a feed, and a feed may mix formats. One pass over the JSON decodes
plain values directly. Other members that a field map names stay raw bytes and are decoded only if the record's shape
needs them. Members that no map names are skipped.

A value is reduced to the string or number that it means: tools that convert XML to JSON turn elements with attributes
into objects ({"#text": ...}, {"_": ..., "$": ...}, {"@href": ...}) and repeated elements into lists, each tool in its
own way; JSON-LD, WordPress and feedparser have further forms.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import Any

import msgspec

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.news.dates import NO_TIME, milliseconds_of
from stream_dedup.settings import ItemSettings
from stream_dedup.surrogates import tolerant

FIELDS = ("id", "title", "text", "source", "url", "published")
"""The fields that stream_dedup reads, by its own names."""

AUTO = "auto"
PLAIN = "plain"
ENVELOPE = "envelope"
"""The shape of what holds a record: a CloudEvent, a JSON Feed document. It has no values; see envelope.py."""

PRESETS: Mapping[str, Mapping[str, str]] = {
    PLAIN: {
        "id": "id", "title": "title", "text": "text", "source": "source", "url": "url", "published": "published",
    },
    "webhose": {  # Webz.io (Webhose) news posts
        "id": "uuid", "title": "title", "text": "text", "source": "thread.site", "url": "url", "published": "published",
    },
    "schema_org": {  # https://schema.org/NewsArticle
        "id": "@id|identifier", "title": "headline|name", "text": "articleBody|text|description",
        "source": "publisher.name|publisher", "url": "url|mainEntityOfPage", "published": "datePublished|dateCreated",
    },
    "ninjs": {  # IPTC ninjs 1.x | 2.x and later
        "id": "uri", "title": "headline|headlines", "text": "body_text|body_html|bodies|description_text|descriptions",
        "source": "source|infosources.0.name|infoSources.0.name|infosource.0.name", "url": "link|links.0.href",
        "published": "versioncreated|versionCreated",
    },
    "json_feed": {  # https://www.jsonfeed.org/version/1.1/
        "id": "id|url", "title": "title", "text": "content_html|content_text|summary", "source": "source",
        "url": "url|external_url", "published": "date_published|date_modified",
    },
    "wordpress": {  # posts of its REST API; their id is unique within one site only
        "id": "guid|id", "title": "title", "text": "content|excerpt", "source": "source", "url": "link",
        "published": "date_gmt|date",
    },
    "newsapi": {  # NewsAPI, GNews, mediastack, Currents
        "id": "id|url", "title": "title", "text": "content|description", "source": "source.url|source.name|source",
        "url": "url", "published": "publishedAt|published_at|published",
    },
    "atom": {  # RFC 4287, and the entries of feedparser
        "id": "id|link", "title": "title", "text": "content|summary", "source": "source", "url": "link|links",
        "published": "published|issued|updated|modified|created",
    },
    "rss": {  # RSS 2.0 and 1.0 items, from whatever turned their XML into JSON
        "id": "guid|id|link", "title": "title",
        "text": "content:encoded|content_encoded|encoded|content|description|summary|text|yandex:full-text"
        "|itunes:summary",
        "source": "source",
        "url": "feedburner:origLink|link|url",
        "published": "pubDate|pubdate|isoDate|dc:date|published|date|dcterms:issued|dcterms:created|atom:published"
        "|atom:updated",
    },
    "gdelt": {  # article lists and contexts of the GDELT DOC and Context APIs: headlines, few with a sentence
        "id": "url", "title": "title", "text": "context|sentence", "source": "domain", "url": "url|url_mobile",
        "published": "seendate",
    },
}  # fmt: skip
"""For each preset: field -> alternative dotted paths (a|b); a number is an index into a list. If several alternatives
are filled, the fullest text counts, the first date that can be read, and of other fields the first one."""

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

Path = list[str]
Values = tuple[Any, ...]
Choice = Callable[[Sequence[Any]], Any]
Rivals = tuple[Callable[[Any], Any], Any]

# Objects and lists of a member that is decoded. A field has some dozen; the smallest take two bytes and, decoded, a
# hundred, so that a record of 4 MiB took 180 MiB.
_MOST_CONTAINERS = 200_000
_EMPTY = frozenset((b"null", b'""', b"[]", b"{}"))
# The members that tell an envelope. All CloudEvents have the first one; a document of JSON Feed has the others.
_ENVELOPES = ("specversion", "items", "version")
_DECODE = tolerant(msgspec.json.Decoder().decode)
_NAMES = tolerant(msgspec.json.Decoder(dict[str, msgspec.Raw]).decode)


def alternatives(path: str) -> list[str]:
    """Split the alternatives of a path.

    >>> alternatives("publisher.name | publisher")
    ['publisher.name', 'publisher']
    """
    return [alternative.strip() for alternative in path.split("|")]


def shape_of(names: Set[str], fields: Collection[str] = FIELDS) -> str:
    """Return the preset that finds the most `fields` under different names, the first of equals. O(presets).

    A preset qualifies only if it finds the text, or title and date: a record with "headline" and "body" must not be
    read as schema.org because of its headline, since its text would be lost silently. If no preset qualifies: `plain`.

    >>> shape_of({"guid", "title", "description", "link", "pubDate"}), shape_of({"id", "title", "text", "summary"})
    ('rss', 'plain')
    >>> shape_of({"headline", "body"})
    'plain'
    """
    best, most = PLAIN, len(_names_found(PRESETS[PLAIN], names, fields))
    for shape, paths in PRESETS.items():
        found = _names_found(paths, names, fields)
        is_article = "text" not in fields or "text" in found or ("title" in found and "published" in found)
        count = len(set(found.values()))
        if is_article and count > most:
            best, most = shape, count
    return best


def _names_found(paths: Mapping[str, str], names: Set[str], fields: Collection[str]) -> dict[str, str]:
    """Map each field that is found to the top-level name under which it is found."""
    tops = ((field, (alternative.split(".")[0] for alternative in alternatives(paths[field]))) for field in fields)
    first = ((field, next((top for top in each if top in names), None)) for field, each in tops)
    return {field: top for field, top in first if top is not None}


def paths_of(settings: ItemSettings, shape: str = AUTO) -> dict[str, list[Path]]:
    """Map each field to its alternative paths, split at the dots. [item] fields take precedence over the preset.

    `shape` is the detected shape of the record; it counts only if the preset is `auto`.

    >>> paths_of(ItemSettings(fields={"title": "head.line"}))["title"]
    [['head', 'line']]
    """
    preset = settings.preset if settings.preset != AUTO else PLAIN if shape == AUTO else shape
    fields: dict[str, str] = dict([*PRESETS[preset].items(), *settings.fields.items()])
    if settings.fingerprint is not None:
        del fields["title"], fields["text"]
        fields["fingerprint"] = settings.fingerprint
    return {
        name: [_split(name if name == "fingerprint" else f"fields.{name}", each) for each in alternatives(path)]
        for name, path in fields.items()
    }


def names_in(value: bytes) -> list[str]:
    """List the top-level names of a record in their order; an empty list if it is not a JSON object.

    >>> names_in(b'{"headline": "T", "body": {"x": 1}}')
    ['headline', 'body']
    """
    try:
        return list(_NAMES(value.removeprefix(BOM_UTF8)))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []


class FieldReader:
    """Reads the fields of JSON records with the field maps of the settings.

    >>> FieldReader(ItemSettings())(b'{"title": "T", "description": "x", "link": "/1"}')
    ('rss', ('/1', 'T', 'x', None, '/1', None))

    Raises ConfigError if a path is malformed. A call raises msgspec.MsgspecError, UnicodeDecodeError or RecursionError
    if the value is not a JSON object, and BadItem if a field has more objects and lists than any text.
    """

    def __init__(self, settings: ItemSettings) -> None:
        shapes = list(PRESETS) if settings.preset == AUTO else [settings.preset]
        maps = {shape: paths_of(settings, shape) for shape in shapes}
        self._maps, self._base = maps, shapes[0]
        base = maps[self._base]
        self.fields = tuple(base)
        # The fields that tell shapes apart: one that [item] fields maps is the same in every shape.
        deciding = tuple(name for name in FIELDS if name in self.fields and name not in settings.fields)
        tops = list(dict.fromkeys(path[0] for paths in maps.values() for each in paths.values() for path in each))
        # Who maps a field to one of these names has records of another kind.
        self._may_be_packed = not set(_ENVELOPES) & set(tops)
        tops += _ENVELOPES if self._may_be_packed else ()
        at = {top: top if top in _ENVELOPES else f"f{i}" for i, top in enumerate(tops)}
        # Fields whose path is a single name in the base map are decoded at once.
        eager = {each[0][0] for each in base.values() if len(each) == 1 and len(each[0]) == 1}
        members = [
            (at[top], Any if top in eager else msgspec.Raw, msgspec.field(default=None, name=top)) for top in tops
        ]
        self._decode = _decoder("Record", members)
        raw = [(name, msgspec.Raw, field) for name, _, field in members]
        self._decode_large = _decoder("Large", raw)
        self._tops, self._at = tops, at
        self._takers = {
            shape: [
                (name, [(at[path[0]], path[1:]) for path in paths[name]], _choice(shape, name, settings))
                for name in self.fields
            ]
            for shape, paths in maps.items()
        }
        is_plain = all(len(each) == 1 and len(each[0]) == 1 for each in base.values())
        self._plain = attrgetter(*(at[each[0][0]] for each in base.values())) if is_plain else None
        self._rivals: dict[tuple[type, ...], Rivals | None] = {}
        # A feed has a few shapes; the bound keeps memory finite if a producer sends random names.
        self._shape = lru_cache(1024)(lambda filled: shape_of({top for top in filled if top}, deciding))

    def __call__(self, value: bytes) -> tuple[str, Values]:
        """Return the record's shape and the value of each of `fields`.

        A value is a string or a number if there is one, else the JSON value as it is; None or "" if the field is empty.
        """
        root: Any
        decode = self._decode if len(value) < 2 * _MOST_CONTAINERS else self._decode_large
        try:
            root = decode(value)
        except msgspec.DecodeError:
            if value[:3] != BOM_UTF8:
                raise
            root = decode(value[3:])
        if self._may_be_packed and (root.specversion is not None or (root.items is not None and _is_feed(root))):
            return ENVELOPE, ()
        if self._plain is not None:
            values = self._plain(root)
            kinds = tuple(map(type, values))
            try:
                rivals = self._rivals[kinds]
            except KeyError:
                rivals = self._rivals[kinds] = self._rivals_of(kinds)
            # Unless a rival name is filled, no other shape finds more fields than the base.
            if "" not in values and (rivals is None or rivals[0](root) == rivals[1]):
                return self._base, values
        shape = self._shape_of(root) if len(self._maps) > 1 else self._base
        return shape, tuple([_found(root, *each) for each in self._takers[shape]])

    def _rivals_of(self, kinds: tuple[type, ...]) -> Rivals | None:
        """Return a getter of the names by which other shapes find the fields that the base misses, and the value that
        it returns if all of them are empty; None if the base finds every field.
        """
        if not set(kinds) <= {str, int, NoneType}:
            return type, None  # never equal: a value that is neither string nor number needs a closer look
        own = {path[0] for paths in self._maps[self._base].values() for path in paths}
        missing = [name for name, kind in zip(self.fields, kinds, strict=True) if kind is NoneType]
        tops = {path[0]: None for name in missing for paths in self._maps.values() for path in paths[name]}
        rivals = [self._at[top] for top in tops if top not in own]
        if not rivals:
            return None
        return attrgetter(*rivals), None if len(rivals) == 1 else (None,) * len(rivals)

    def _shape_of(self, root: Any) -> str:
        filled = [
            top if value is not None and _is_filled(value) else ""
            for top, value in zip(self._tops, msgspec.structs.astuple(root), strict=True)
        ]
        return self._shape(tuple(filled))


def _decoder(name: str, members: Sequence[tuple[str, Any, Any]]) -> Callable[[bytes], Any]:
    return tolerant(msgspec.json.Decoder(msgspec.defstruct(name, members, kw_only=True, gc=False)).decode)


def _is_feed(root: Any) -> bool:
    return root.version is not None and b"jsonfeed.org" in bytes(root.version)


def _is_filled(value: Any) -> bool:
    return bytes(value) not in _EMPTY if type(value) is msgspec.Raw else is_filled(value)


def _choice(shape: str, name: str, settings: ItemSettings) -> Choice | None:
    """Return how to choose among several filled alternatives; None: the first one, as for paths in [item] fields."""
    if name == "published":
        return first_readable
    if name != "text" or name in settings.fields:
        return None
    return fullest_uncut if shape == "newsapi" else fullest


def _found(root: Any, name: str, paths: Sequence[tuple[str, Path]], choose: Choice | None) -> Any:
    """Return the field's value, or else a value without a plain meaning, so that the error can name it."""
    texts: list[str] = []
    not_plain = None
    for member, path in paths:
        value = getattr(root, member)
        if value is None:
            continue
        value = _at(value, path)
        if name == "fingerprint":  # has no other forms: the value is right or refused
            if value is not None:
                return value
            continue
        if type(value) is not str:
            value = plain_value(name, value)
        if not is_filled(value):
            continue
        if isinstance(value, (dict, list)):
            not_plain = value if not_plain is None else not_plain
        elif choose is not None and (isinstance(value, str) or name == "published"):
            texts.append(value)
        else:
            return value
    return choose(texts) if choose is not None and texts else not_plain


def _at(value: Any, path: Path) -> Any:
    if type(value) is msgspec.Raw:
        content = bytes(value)
        if content[:1] != b'"' and content.count(b"{") + content.count(b"[") > _MOST_CONTAINERS:
            raise BadItem("type", f"a field has more than {_MOST_CONTAINERS:,} objects and lists; a text has none")
        value = _DECODE(content)
    for part in path:
        if isinstance(value, list):
            value = value[int(part)] if part.isdigit() and int(part) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value


def _split(name: str, path: str) -> Path:
    parts = path.split(".")
    if not all(parts) or parts[0].isdigit():
        raise ConfigError(f"[item] {name} = {path!r} is no dotted path such as 'head.line' or 'list.0.value'")
    return parts


def is_filled(value: Any) -> bool:
    """Whether a value is present and not empty; 0 and False count as present."""
    return bool(value) or isinstance(value, (int, float))


def plain_value(field: str, value: Any) -> Any:
    """Return the string or number that a value of this field means, or the value itself if it means none.

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
    if field in ("id", "source", "published"):  # an element that stands there twice
        plain = [value for value in (plain_value(field, each) for each in values) if is_filled(value)]
        plain = [value for value in plain if not isinstance(value, (dict, list))]
        return (first_readable(plain) if field == "published" else plain[0]) if plain else values
    if field == "title" and values and all(isinstance(value, dict) for value in values):  # ninjs: headlines by role
        return plain_value(field, next((value for value in values if value.get("role") in ("main", None)), values[0]))
    if field == "text" and all(isinstance(value, dict) for value in values):  # one text in several types
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


def first_readable(dates: Sequence[Any]) -> Any:
    """Return the first date that can be read, or else the first one.

    >>> first_readable(["soon", "2024-01-01"])
    '2024-01-01'
    """
    return next((date for date in dates if milliseconds_of(date) != NO_TIME), dates[0]) if len(dates) > 1 else dates[0]


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
