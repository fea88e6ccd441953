"""Decode the bytes of one record into an Item, a Tombstone or a BadItem.

formats.py opens the record, `FieldReader` or `TextReader` finds its fields, dates.py reads their dates, and clean.py
removes their markup, so that Kafka and files agree. An unreadable record is returned as a `BadItem` and not raised: one
bad record must not fail its batch.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from publicsuffixlist import PublicSuffixList

from stream_dedup.errors import BadItem
from stream_dedup.news.clean import Cleaner, from_base64
from stream_dedup.news.dates import NO_TIME, NO_VALUES, milliseconds_of
from stream_dedup.news.fields import FieldReader, Values, names_in
from stream_dedup.news.formats import Headers, Unwrapper, unreadable
from stream_dedup.news.item import WORDLESS, Item, Tombstone
from stream_dedup.news.names import AUTO, FIELDS, PLAIN, PRESETS, alternatives, meant_by
from stream_dedup.news.plain_values import fits
from stream_dedup.settings import ItemSettings, RegistrySettings

_HEX = re.compile(r"[0-9a-fA-F]{16}")
# Enough names to recognise one's own records by, and they fit in a line of a terminal.
_MOST_LISTED_NAMES = 12
_NONE_OF = "none of the fields"
_SEND_ONE = "send the article with one of them; to withdraw an item, send a null value with its id as the key"
_BESIDE = [name for name in FIELDS if name not in ("title", "text")]
_UNREADABLE = (UnicodeDecodeError, msgspec.DecodeError, RecursionError)
_NOTHING: Mapping[str, str] = {}
_LONGEST_NO_VALUE = max(map(len, NO_VALUES))  # to look up a text in the set is to read all of it
DELETED = "deleted"
"""The shape of a record that withdraws an item, as a change of a database does."""
TEXT = "text"
"""The preset and shape of records without fields ([item] preset)."""


class TextReader:
    """Reads records without fields; see `FieldReader`."""

    fields = FIELDS

    def fields_of(self, value: bytes) -> tuple[str, Values]:
        return TEXT, tuple(value.decode() if name == "text" else None for name in FIELDS)

    def names_of(self, value: bytes) -> tuple[dict[str, str], list[str]]:
        return {}, []


class DecodedRecord(msgspec.Struct, frozen=True, gc=False):
    """The fields found in a record."""

    shape: str  # the preset that was applied
    fields: dict[str, Any]  # the raw value of each of FIELDS, None if it is missing
    value: bytes = b""  # the JSON object that was read; it differs from the record if that is XML or an envelope
    lent: frozenset[str] = frozenset()  # the fields that only the envelope has
    schema: str = ""  # the name of the record's schema in a registry
    names: dict[str, str] = {}  # field -> the name under which it was found
    left: list[str] = []  # the names of shorter texts


class Beside(NamedTuple):
    """What an item does not keep of its record."""

    url: str
    published: Any  # as it is written


class Decoder:
    """Decodes records with the field map of the [item] settings, and with the schemas of the [registry] settings.

    >>> from stream_dedup.settings import ItemSettings
    >>> decode = Decoder(ItemSettings())
    >>> item = decode(b'{"id": 7, "title": "T", "text": "x", "url": "https://www.A.example/7"}', None, 0)
    >>> item.id, item.source
    ('7', 'a.example')
    >>> decode(b'{"id": ', b"k", 0)
    BadItem('json: Input data was truncated')

    `shapes` counts the shapes of the decoded records, `text` for plain texts. The caller may replace it.

    Raises ConfigError if a path in the field map is malformed, or if an extra that the settings need is not installed.
    """

    def __init__(self, settings: ItemSettings, registry: RegistrySettings | None = None) -> None:
        self._clean = Cleaner(settings)
        self._settings = settings
        self._is_given = settings.has_fingerprints
        self._is_timed_by_record = settings.time == "record"
        self._reader = TextReader() if settings.preset == TEXT else FieldReader(settings)
        self._unwrapper = Unwrapper(registry) if settings.preset != TEXT else None
        self.shapes: Counter[str] = Counter()

    def __call__(
        self,
        value: bytes | None,
        key: bytes | None,
        time: int | None,
        partition: int = -1,
        offset: int = -1,
        headers: Headers = (),
        beside: list[Beside] | None = None,
    ) -> Item | Tombstone | BadItem:
        """Decode one record. No content of a record makes this raise.

        `time` is the record's timestamp in ms. If it is None, or with [item] time = "published", the item's own date
        counts. The id is the item's id field, else its envelope's, else the record's key, else its position. The
        `headers` of a Kafka record may hold a CloudEvent's attributes. `beside` receives what an item does not keep.
        """
        name = key.decode("utf-8", "replace") if key else ""
        time = time if self._is_timed_by_record else None
        if value is None:
            if not name:
                return BadItem("no-key", "a null value (tombstone) without a key says nothing")
            return Tombstone(name, NO_TIME if time is None else time, partition, offset)
        headline = body = fingerprint = bits = None
        record, values = value, tuple[Any, ...]()
        try:
            # Nearly all records are bare objects: for them `_find` would take .4 of 8 µs.
            shape, values = self._reader.fields_of(value) if value[:1] == b"{" and not headers else ("", ())
            if not values:
                record, shape, values, _ = self._find(value, headers)
            if shape == DELETED:
                own_id = dict(zip(self._reader.fields, values, strict=True))["id"]
                name = _text_of("id", own_id) or name
                return Tombstone(name, NO_TIME if time is None else time, partition, offset)
            self.shapes[shape] += 1
            if self._is_given:
                own_id, source, url, published, bits = values
            else:
                own_id, headline, body, source, url, published = values
            own_id = _text_of("id", own_id)
            name = (own_id if own_id not in NO_VALUES else "") or name or f"{partition}:{offset}"
            if self._is_given:
                fingerprint = fingerprint_of(bits)
            elif not headline and not body:
                record.decode()  # a name that is not UTF-8 was skipped like an unknown one, and here it is the cause
                raise BadItem("empty", WORDLESS if shape == TEXT else self._nothing_found(record, value))
            title, text = self._clean(_prose_of("title", headline), _prose_of("text", body))
            site, host = origin_of(_text_of("source", source))
            if not site:
                site, host = origin_of(_text_of("url", url), is_url=True)
            if time is None:
                time = milliseconds_of(published)
        except BadItem as bad:
            if bad.reason == "type" and values:  # of _text_of
                return BadItem("type", self._not_plain(bad.detail, values, record), name)
            bad.id = name
            return bad
        except _UNREADABLE as error:
            return unreadable(record, error, name)
        if beside is not None:
            beside.append(Beside(url if isinstance(url, str) else "", published))
        return Item(name, title, text, site, time, partition, offset, fingerprint, host)

    def _find(self, value: bytes, headers: Headers) -> tuple[bytes, str, Values, Mapping[str, str]]:
        """Return the JSON object of a record, its shape, its values, and those of them that its envelope lent."""
        lent = _NOTHING
        if self._unwrapper is not None and (value[:1] != b"{" or headers):
            value, lent, _ = self._unwrapper.open(value, headers)
        shape, values = self._reader.fields_of(value)
        if not values and self._unwrapper is not None:
            value, outer, is_deleted = self._unwrapper.unwrap(value)
            lent = {**outer, **lent}
            shape, values = self._reader.fields_of(value)
            if is_deleted:
                return value, DELETED, values, _NOTHING
            if not values:
                raise BadItem("type", "an envelope within an envelope; publish the inner one")
        if not lent:
            return value, shape, values, lent
        fields = dict(zip(self._reader.fields, values, strict=True))
        if fields["url"]:  # says more of the site than an event's source does
            fields["source"] = fields["source"] or fields["url"]
        lent = {name: text for name, text in lent.items() if fields[name] in (None, "")}
        return value, shape, tuple((fields | lent).values()), lent

    def _not_plain(self, field: str, values: Values, record: bytes) -> str:
        """Say which member of a record was read as the field, what it is, and how to name the string in it."""
        value = dict(zip(self._reader.fields, values, strict=True))[field]
        path = self._reader.names_of(record)[0].get(field, field)
        subject = path if path == field else f"{path}, read as the {field},"
        if isinstance(value, dict):
            kind, inner = f"an object of {_listed(list(value))}", _strings(field, value)
        elif isinstance(value, list):
            kind = "a list"
            inner = next((_strings(field, element) for element in value if isinstance(element, dict)), [])
        else:
            return f"{subject} must be a string, not {msgspec.json.encode(value).decode()}"
        cure = f', such as {field} = "{path}.{inner[0]}"' if inner else ""
        return f"{subject} must be a string, not {kind}; name what it holds in [item] fields{cure}"

    def _nothing_found(self, record: bytes, framed: bytes) -> str:
        schema, fields = self._unwrapper.frames.describe(framed) if self._unwrapper is not None else ("", [])
        detail = nothing_found(self._settings, fields or names_in(record))
        if schema and detail.startswith(_NONE_OF) and self._unwrapper is not None:
            self._unwrapper.frames.lacks(schema, detail)
        return f"{detail}; schema: {schema}" if schema else detail

    def read(self, value: bytes, headers: Headers = ()) -> DecodedRecord:
        """Find the fields of a record without interpreting them, for reports to people; markup stays.

        Raises BadItem if the value is not of the format.

        >>> from stream_dedup.settings import ItemSettings
        >>> record = Decoder(ItemSettings()).read(b'{"guid": "1", "title": "T", "pubDate": "yesterday"}')
        >>> record.shape, record.fields["id"], record.fields["text"], record.fields["published"]
        ('rss', '1', None, 'yesterday')
        """
        try:
            record, shape, values, lent = self._find(value, headers)
            names = self._reader.names_of(record)  # may read members that no field has
        except _UNREADABLE as error:
            raise unreadable(value, error) from None
        schema = self._unwrapper.frames.describe(value)[0] if self._unwrapper is not None else ""
        by_field = dict(zip(self._reader.fields, values, strict=True))
        fields = {name: by_field.get(name) if by_field.get(name) not in ("", *NO_VALUES) else None for name in FIELDS}
        return DecodedRecord(shape, fields, record, frozenset(lent), schema, *names)


def nothing_found(settings: ItemSettings, names: list[str]) -> str:
    """Explain why a record with these top-level names has neither title nor text, and name the cure.

    >>> nothing_found(ItemSettings(preset="plain"), ["kop", "tekst"])
    'none of the fields title (title), text (text) was found; the record has: kop, tekst; name them in [item] fields'
    >>> nothing_found(ItemSettings(), ["id", "url"]).partition(";")[0]
    'the record has id, url alone, and neither a headline nor a text'
    """
    is_auto = settings.preset == AUTO
    preset = PRESETS[PLAIN if is_auto else settings.preset]
    paths = {"title": preset["title"], "text": preset["text"]}
    paths |= {name: path for name, path in settings.fields.items() if name in paths}
    searched = {field: alternatives(path) for field, path in paths.items()}
    listed = ", ".join(f"{field} ({', '.join(searched_paths)})" for field, searched_paths in searched.items())
    if {path.split(".")[0] for searched_paths in searched.values() for path in searched_paths} & set(names):
        return f"the fields {listed} hold neither a headline nor a text; {_SEND_ONE}"
    if is_auto and names and not set(names).difference(*(meant_by(names, field) for field in _BESIDE)):
        return f"the record has {_listed(names)} alone, and neither a headline nor a text; {_SEND_ONE}"
    return (
        f"{_NONE_OF} {listed} was found{', and no known preset fits' if is_auto else ''}; the record has: "
        f"{_listed(names) or 'no names'}; name them in [item] fields"
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_MOST_LISTED_NAMES]) + (", ..." if len(names) > _MOST_LISTED_NAMES else "")


def _strings(field: str, value: dict[str, Any]) -> list[str]:
    """Return the members that may be a field, the longest first; the others are its language, type or size."""
    return sorted((name for name in value if fits(field, [value[name]])), key=lambda name: -len(str(value[name])))


def _text_of(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if name == "id" and isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1:
        return str(int(value))  # 17283.0 comes of tables with missing ids
    raise BadItem("type", name)  # `Decoder._not_plain` explains it


def _prose_of(name: str, value: Any) -> str:
    if type(value) is str and (not value.isascii() or " " in value):  # neither a missing value nor Base64
        return value
    text = _text_of(name, value)
    return "" if len(text) <= _LONGEST_NO_VALUE and text in NO_VALUES else from_base64(text)


def fingerprint_of(value: Any) -> int:
    """Read a record's own 64-bit fingerprint: an integer, signed or unsigned, or 16 hex digits.

    Raises BadItem for anything else, such as a float, which keeps only 53 of 64 bits.

    >>> fingerprint_of(255), fingerprint_of("00000000000000FF"), fingerprint_of(-1) == 2**64 - 1
    (255, 255, True)
    >>> fingerprint_of("ff")
    Traceback (most recent call last):
    stream_dedup.errors.BadItem: fingerprint: 'ff' is not 16 hex digits
    """
    if value is None:
        raise BadItem("fingerprint", "the record has none at the path of [item] fields.fingerprint")
    if isinstance(value, str):
        digits = value.strip().removeprefix("0x")
        if not _HEX.fullmatch(digits):
            raise BadItem("fingerprint", f"{value[:40]!r} is not 16 hex digits")
        return int(digits, 16)
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**64:
            raise BadItem("fingerprint", f"{value} has more than 64 bits")
        return value & (2**64 - 1)
    raise BadItem("fingerprint", f"it must be a whole number or 16 hex digits, not {type(value).__name__}")


_suffixes = cache(PublicSuffixList)
# The address within another one: in its query (Google Alerts, click counters), or behind the path of an archive or of a
# cache of AMP pages, which may leave out the scheme. All are in lower case.
_INNER = re.compile(
    r"[^?#]*\?(?:[^#]*&)?(?:url|u|q|to|out|link|target|dest|destination|redirect|redirect_to|redirect_url)="
    r"(?=https?(?::|%3a))"
    r"|(?:https?:)?//(?:web\.archive\.org/web/\w+/|(?:www\.)?google\.[a-z.]+/amp/(?:s/)?|[\w.-]+\.cdn\.ampproject\.org/\w/(?:s/)?)"
)
# Addresses that do not say whose article it is.
_OPAQUE = frozenset(
    ("news.google.com", "feedproxy.google.com", "feeds.feedburner.com", "t.co", "bit.ly", "news.url.google.com")
)
_NO_SOURCES = frozenset(value.lower() for value in NO_VALUES)
# Further characters of a source do not count. A host name has at most 253, and a URL begins with its host.
_LONGEST_SOURCE = 300


def site_of(source: str) -> str:
    """Return the site of a source: the registrable domain of a host or URL, or the name itself if it is no host.

    The hosts of one site (winnipeg.news.example, toronto.news.example) share menus and templates. Treating them as one
    source gains .007 of precision on the labelled English pairs and loses no recall. A path is no source, because each
    article has its own.

    >>> site_of("https://Winnipeg.CTVnews.ca/a"), site_of("www.bbc.co.uk/news"), site_of("Elm Valley Wire")
    ('ctvnews.ca', 'bbc.co.uk', 'elm valley wire')
    >>> site_of("https://www.google.com/url?rct=j&url=https%3A%2F%2Felm.example%2F1"), site_of("https://news.google.com/7")
    ('elm.example', '')
    >>> site_of("tag:news.example,2026-03-01:/7"), site_of("/news/7.html")
    ('news.example', '')
    """
    return origin_of(source)[0]


def origin_of(source: str, *, is_url: bool = False) -> tuple[str, str]:
    """Return the site of a source, and its host without "www." if that differs from the site.

    With `is_url` a name is no site.

    >>> origin_of("https://Winnipeg.CTVnews.ca/a"), origin_of("www.bbc.co.uk/news"), origin_of("Elm Valley Wire")
    (('ctvnews.ca', 'winnipeg.ctvnews.ca'), ('bbc.co.uk', ''), ('elm valley wire', ''))
    >>> origin_of("news/7.html", is_url=True)
    ('', '')
    """
    return _origin_of(source.strip()[:_LONGEST_SOURCE].lower(), is_url)


# A large feed has about this many hosts; a lookup in the public suffix list takes about 20 µs.
@lru_cache(maxsize=65536)
def _origin_of(text: str, is_url: bool) -> tuple[str, str]:
    if text in _NO_SOURCES:
        return "", ""
    if inner := _INNER.match(text):
        text = unquote(text[inner.end() :])
        text = text if "://" in text else f"https://{text}"
    host = text.partition("/")[0].partition("?")[0]
    if "://" in text or text.startswith("//"):
        try:
            host = urlsplit(text).hostname or ""
        except ValueError:  # "http://[", say: a malformed URL counts as a missing one
            return "", ""
    elif text.startswith("tag:"):  # RFC 4151: some feeds have such an id in place of a link
        host = text[len("tag:") :].partition(",")[0]
    elif " " in host or not (host.startswith("www.") or _suffixes().privatesuffix(host, accept_unknown=False)):
        if is_url or text[:1] in ("/", ".", "?", "#"):
            return "", ""
        host = host if "." in host and " " not in host else text
    if "." not in host or " " in host or host[-1].isdigit():  # a name, or the address of a host
        return host, ""
    if host in _OPAQUE:
        return "", ""
    site, host = _suffixes().privatesuffix(host) or host, host.removeprefix("www.")
    return site, host if host != site else ""
