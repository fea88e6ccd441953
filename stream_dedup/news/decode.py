"""Bytes of a record -> Item, Tombstone or BadItem.

JSON is decoded into a type that is made from the field map, so that only the named fields are built (msgspec
skips the rest); what a record says beyond them is nothing to us. Markup is taken out here, so that Kafka and files
agree. A record that cannot be read is a value,
not an exception: one bad record must not cost its batch.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any
from urllib.parse import urlsplit

import msgspec
from publicsuffixlist import PublicSuffixList

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.news.clean import Cleaner
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import ItemSettings

NO_TIME = -1
"""Event time of an item that states none."""

PRESETS: Mapping[str, Mapping[str, str]] = {
    "plain": {
        "id": "id", "title": "title", "text": "text", "source": "source", "url": "url", "published": "published",
    },
    "schema_org": {  # https://schema.org/NewsArticle
        "id": "@id|identifier", "title": "headline|name", "text": "articleBody", "source": "publisher.name",
        "url": "url", "published": "datePublished",
    },
    "ninjs": {  # IPTC ninjs 1.x | 2.x and later
        "id": "uri", "title": "headline|headlines.0.value", "text": "body_text|bodies.0.value",
        "source": "source|infosources.0.name", "url": "link|links.0.href", "published": "versioncreated|versionCreated",
    },
    "webhose": {  # Webz.io (Webhose) news posts
        "id": "uuid", "title": "title", "text": "text", "source": "thread.site", "url": "url", "published": "published",
    },
}  # fmt: skip
"""Our field -> alternatives (a|b: the first that is there) of dotted paths; a number is a place in a list."""

_HEX = re.compile(r"[0-9a-fA-F]{16}")
_BOM = b"\xef\xbb\xbf"


class Reading(msgspec.Struct, frozen=True):
    """What a record says, before it is judged."""

    shape: str
    fields: dict[str, Any]
    time_reason: str | None


class Decoder:
    """Reads records by one field map.

    >>> from stream_dedup.settings import ItemSettings
    >>> decode = Decoder(ItemSettings())
    >>> item = decode(b'{"id": 7, "title": "T", "text": "x", "url": "https://www.A.example/7"}', None, 0)
    >>> item.id, item.source
    ('7', 'a.example')
    >>> decode(b'{"id": ', b"k", 0)
    BadItem('json: Input data was truncated')

    Raises ConfigError for a field map that is no path, and for a markup whose extra is not installed.
    """

    def __init__(self, settings: ItemSettings) -> None:
        self._clean = Cleaner(settings)
        self._is_text = settings.format == "text"
        self._paths = paths_of(settings)
        self._is_given = settings.fingerprint is not None
        if settings.fingerprint is not None:
            if self._is_text:
                raise ConfigError("[item] fingerprint needs format = 'json': a plain text has no fields")
            del self._paths["title"], self._paths["text"]
            self._paths["fingerprint"] = [_split("fingerprint", one) for one in settings.fingerprint.split("|")]
        tree: dict[str, Any] = {}
        for paths in self._paths.values():
            for path in paths:
                _grow(tree, path)
        self._decoder = msgspec.json.Decoder(_type_of(tree))
        self._getters = {name: _getter(tree, paths) for name, paths in self._paths.items()}

    def __call__(
        self, value: bytes | None, key: bytes | None, time: int | None, partition: int = -1, offset: int = -1
    ) -> Item | Tombstone | BadItem:
        """The item of one record; `time` is the record's timestamp in ms, None: the item's own `published`.

        The id is the item's own, else the record's key, else the record's place. Never raises for what a
        record holds.
        """
        name = key.decode("utf-8", "replace") if key else ""
        if value is None:
            if not name:
                return BadItem("no-key", "a null value (tombstone) without a key says nothing")
            return Tombstone(name, NO_TIME if time is None else time, partition, offset)
        place = f"{partition}:{offset}"
        try:
            if self._is_text:
                title, text = self._clean("", value.decode())
                return Item(name or place, title, text, "", NO_TIME if time is None else time, partition, offset)
            found = self._fields(value)
            name = _text_of("id", found["id"]) or name or place
            title, text = self._clean(_text_of("title", found.get("title")), _text_of("text", found.get("text")))
            fingerprint = fingerprint_of(found["fingerprint"]) if self._is_given else None
            source = site_of(_text_of("source", found["source"]) or _text_of("url", found["url"]))
            if time is None:
                time = _milliseconds(found["published"])
        except BadItem as bad:
            bad.id = name
            return bad
        except UnicodeDecodeError as error:
            return BadItem("encoding", f"not UTF-8: {error.reason}", name)
        except msgspec.ValidationError as error:
            return BadItem("type", str(error), name)
        except msgspec.DecodeError as error:
            return BadItem("json", str(error), name)
        except RecursionError:
            return BadItem("json", "nested too deeply", name)
        return Item(name, title, text, source, time, partition, offset, fingerprint)

    def read(self, value: bytes) -> Reading:
        if self._is_text:
            return Reading("text", {"text": value.decode()}, None)
        found = self._fields(value)
        published = found["published"]
        return Reading(
            "plain", found, f"{published!r}" if published is not None and _milliseconds(published) < 0 else None
        )

    def _fields(self, value: bytes) -> dict[str, Any]:
        root = self._decoder.decode(value[3:] if value[:3] == _BOM else value)
        return {name: get(root) for name, get in self._getters.items()}


def paths_of(settings: ItemSettings) -> dict[str, list[list[str]]]:
    """Our field -> alternatives, each the parts of a dotted path; the settings' own fields win over the preset.

    >>> paths_of(ItemSettings(fields={"title": "head.line"}))["title"]
    [['head', 'line']]
    """
    fields: dict[str, str] = {
        name: path for one in (PRESETS[settings.preset], settings.fields) for name, path in one.items()
    }
    return {name: [_split(f"fields.{name}", one) for one in path.split("|")] for name, path in fields.items()}


def _split(name: str, path: str) -> list[str]:
    parts = path.strip().split(".")
    if not all(parts) or parts[0].isdigit():
        raise ConfigError(f"[item] {name} = {path!r} is no dotted path such as 'head.line' or 'list.0.value'")
    return parts


def _grow(tree: dict[str, Any], path: list[str]) -> None:
    for part in path[:-1]:
        if not isinstance(tree.setdefault(part, {}), dict):
            tree[part] = {}
        tree = tree[part]
    tree.setdefault(path[-1], None)


def _type_of(tree: dict[str, Any] | None) -> Any:
    """A struct type with just these members; a member may be of another type than asked for: see _first."""
    if tree is None:
        return Any
    if any(part.isdigit() for part in tree):
        return Any
    fields = [
        (f"f{i}", Any if child is None else _type_of(child) | None, msgspec.field(default=None, name=part))
        for i, (part, child) in enumerate(tree.items())
    ]
    return msgspec.defstruct("Fields", fields, kw_only=True, gc=False, namespace={"_places": dict(_places(tree))})


def _places(tree: dict[str, Any]) -> list[tuple[str, str]]:
    return [(part, f"f{i}") for i, part in enumerate(tree)]


def _getter(tree: dict[str, Any], paths: list[list[str]]) -> Callable[[Any], Any]:
    """What takes a field out of a decoded record; a plain name costs a tenth of a walk."""
    if len(paths) == 1 and len(paths[0]) == 1:
        return attrgetter(dict(_places(tree))[paths[0][0]])
    return lambda root: _first(root, paths)


def _first(root: Any, paths: list[list[str]]) -> Any:
    for path in paths:
        at = root
        for part in path:
            if isinstance(at, list):
                at = at[int(part)] if part.isdigit() and int(part) < len(at) else None
            elif isinstance(at, dict):
                at = at.get(part)
            elif at is not None:
                at = getattr(at, at._places[part]) if hasattr(at, "_places") else None
        if at is not None:
            return at
    return None


def _text_of(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if name == "id" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadItem("type", f"field {name} must be a string, not {type(value).__name__}")


def fingerprint_of(value: Any) -> int:
    """64 bits of what a record calls its fingerprint: a whole number, signed or not, or 16 hex digits.

    Raises BadItem for anything else. A fraction is refused even where it is whole: whoever wrote it had a float, and a
    float keeps only 53 of 64 bits.

    >>> fingerprint_of(255), fingerprint_of("00000000000000FF"), fingerprint_of(-1) == 2**64 - 1
    (255, 255, True)
    >>> fingerprint_of("ff")
    Traceback (most recent call last):
    stream_dedup.errors.BadItem: fingerprint: 'ff' is not 16 hex digits
    """
    if value is None:
        raise BadItem("fingerprint", "the record has none at the path of [item] fingerprint")
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


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


# As many hosts as a large feed has; the list's own look-up takes some 20 µs.
@lru_cache(maxsize=65536)
def site_of(source: str) -> str:
    """The site that a source belongs to: its registrable domain; a name that is no host stays a name.

    The hosts of one site (winnipeg.news.example, toronto.news.example) share menus and templates as one host
    does: counted as one source, the labelled English pairs gain .007 of precision and lose no recall.

    >>> site_of("https://Winnipeg.CTVnews.ca/a"), site_of("www.bbc.co.uk"), site_of("Elm Valley Wire")
    ('ctvnews.ca', 'bbc.co.uk', 'elm valley wire')
    """
    text = source.strip().lower()
    if "://" in text:
        try:
            text = urlsplit(text).hostname or text
        except ValueError:  # "http://[": a url that is none says as little as its absence
            return ""
    if "." not in text or " " in text:
        return text
    return _suffixes().privatesuffix(text) or text


def _milliseconds(published: Any) -> int:
    """ms since 1970 of ISO 8601, RFC 2822, or a number of seconds or milliseconds; NO_TIME if unreadable.

    >>> _milliseconds("2024-01-01T00:00:00Z"), _milliseconds(1704067200), _milliseconds("soon")
    (1704067200000, 1704067200000, -1)
    """
    if isinstance(published, (int, float)) and not isinstance(published, bool) and 0 <= published < 1e14:
        # Seconds stay below 1e11 until the year 5138; milliseconds passed it in 1973.
        return int(published * 1000) if published < 1e11 else int(published)
    if not isinstance(published, str):
        return NO_TIME
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(published)
            return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            continue
    return NO_TIME
