"""Bytes of a record -> Item, Tombstone or BadItem.

Which fields are read is told by news/fields.py, what stands in them by news/values.py and news/dates.py. Markup is
taken out here, so that Kafka and files agree. A record that cannot be read is a value, not an exception: one bad record
must not cost its batch.
"""

import re
from functools import cache, lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec
from publicsuffixlist import PublicSuffixList

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.news.clean import Cleaner
from stream_dedup.news.dates import NO_TIME, milliseconds_of, why_unreadable
from stream_dedup.news.fields import FieldReader, names_in
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.news.presets import AUTO, FIELDS, PLAIN, PRESETS, alternatives
from stream_dedup.settings import ItemSettings

_HEX = re.compile(r"[0-9a-fA-F]{16}")
# Enough to recognise one's own records by, and a line of a terminal.
_NAMES_SAID = 12


class DecodedRecord(msgspec.Struct, frozen=True, gc=False):
    """What was understood of a record. shape: the preset that it was read by; fields: each of ours (presets.FIELDS) ->
    what stands there, None where nothing does; time_reason: why `published` cannot be read (dates.REASONS), else None.
    """

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
        self._settings = settings
        self._is_given = settings.fingerprint is not None
        if self._is_given and self._is_text:
            raise ConfigError("[item] fingerprint needs format = 'json': a plain text has no fields")
        self._read = FieldReader(settings)

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
            headline = body = fingerprint = bits = None
            if self._is_given:
                own_id, source, url, published, bits = self._read(value)[1]
            else:
                own_id, headline, body, source, url, published = self._read(value)[1]
            name = _text_of("id", own_id) or name or place
            if self._is_given:
                fingerprint = fingerprint_of(bits)
            elif not headline and not body:
                return self._nothing_found(value, name)
            title, text = self._clean(_text_of("title", headline), _text_of("text", body))
            source = site_of(_text_of("source", source) or _text_of("url", url))
            if time is None:
                time = milliseconds_of(published)
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

    def read(self, value: bytes) -> DecodedRecord:
        """What is understood of a record of JSON, for whoever tells people of it; its markup is still there.

        Raises BadItem for what is no JSON object.

        >>> from stream_dedup.settings import ItemSettings
        >>> reading = Decoder(ItemSettings()).read(b'{"guid": "1", "title": "T", "pubDate": "yesterday"}')
        >>> reading.shape, reading.fields["id"], reading.fields["text"], reading.time_reason
        ('rss', '1', None, 'not a date')
        """
        try:
            shape, values = self._read(value)
        except UnicodeDecodeError as error:
            raise BadItem("encoding", f"not UTF-8: {error.reason}") from None
        except msgspec.ValidationError as error:
            raise BadItem("type", str(error)) from None
        except msgspec.DecodeError as error:
            raise BadItem("json", str(error)) from None
        except RecursionError:
            raise BadItem("json", "nested too deeply") from None
        found = dict(zip(self._read.fields, values, strict=True))
        fields = {name: found.get(name) if found.get(name) != "" else None for name in FIELDS}
        return DecodedRecord(shape, fields, why_unreadable(fields["published"]))

    def _nothing_found(self, value: bytes, name: str) -> BadItem:
        return BadItem("empty", nothing_found(self._settings, names_in(value)), name)


def nothing_found(settings: ItemSettings, names: list[str]) -> str:
    """What to say of a record with these names in which neither title nor text is found, and the cure.

    >>> nothing_found(ItemSettings(preset="plain"), ["kop", "tekst"])
    'none of the fields title (title), text (text) was found; the record has: kop, tekst; name them in [item] fields'
    """
    is_auto = settings.preset == AUTO
    preset = PRESETS[PLAIN if is_auto else settings.preset]
    paths = {"title": preset["title"], "text": preset["text"]}
    paths |= {name: path for name, path in settings.fields.items() if name in paths}
    looked = {field: alternatives(path) for field, path in paths.items()}
    said = ", ".join(f"{field} ({', '.join(each)})" for field, each in looked.items())
    if {path.split(".")[0] for each in looked.values() for path in each} & set(names):
        return f"the fields {said} hold neither a headline nor a text"
    has = ", ".join(names[:_NAMES_SAID]) + (", ..." if len(names) > _NAMES_SAID else "")
    return (
        f"none of the fields {said} was found{', and no known preset fits' if is_auto else ''}; the record has: "
        f"{has or 'no names'}; name them in [item] fields"
    )


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
