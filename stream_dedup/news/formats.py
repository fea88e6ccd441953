"""The formats of records, in one table: how a value begins, and what makes a JSON object of it.

A value becomes the bytes of one JSON object, which fields.py reads, and what its envelope says of the item. A JSON
object costs nothing here: fields.py looks at its members anyway, and sends back what is an envelope (names.ENVELOPE).
A record holds one item and is republished byte for byte, so a value with several items is a bad item.

To add a format:

- records that begin with other bytes: a row of FORMATS. Files that begin so may need a reader (tools/inputs/lines.py).
- JSON records with other names: a row of PRESETS (names.py), its name in `preset` (settings/judging.py), and its row of
  docs/feeds.md; tests/news/test_presets.py says which of them is missing. Detection, `check`, messages and metrics
  follow from the row.
- XML with other elements: a row of _IPTC, or a name in _FEEDS (xml.py).
- records without fields: a reader in decode.py, its name in `preset` (settings/judging.py).
"""

from base64 import b64decode
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.json import encode

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.extras import require
from stream_dedup.loose_json import decode_object, tolerant
from stream_dedup.news.clean import from_base64
from stream_dedup.news.item_lists import is_item, items_in
from stream_dedup.news.names import STRINGS, meant_by
from stream_dedup.news.plain_values import opened
from stream_dedup.registry import Frames, frames_of
from stream_dedup.settings import RegistrySettings

Headers = Sequence[tuple[str, bytes | None]]

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
BZIP2 = b"BZh"
XZ = b"\xfd7zXZ\x00"
ZIP = b"PK\x03\x04"
"""The first bytes of compressed data. Files are recognised by the same bytes (tools/inputs/packing.py)."""
COMPRESSED: Mapping[bytes, str] = {
    GZIP: "gzip-compressed",
    ZSTD: "zstd-compressed",
    b"\x04\x22\x4d\x18": "lz4-compressed",
    b"\x82SNAPPY\x00": "snappy-compressed",
    b"\xff\x06\x00\x00sNaPpY": "snappy-compressed",
    BZIP2: "bzip2-compressed",
    XZ: "xz-compressed",
    ZIP: "a zip archive",
    # The usual levels of zlib. None of them can begin JSON: the second byte is a control character or not UTF-8.
    **dict.fromkeys((b"\x78\x01", b"\x78\x9c", b"\x78\xda"), "zlib-compressed"),
}
"""Formats that are refused: first bytes -> name."""
_UNPACK = (
    "publish it plain, and let the producer compress whole batches instead (compression.type), which all readers unpack"
)


class Format(NamedTuple):
    """A format of records.

    `begins`: the first byte of a value, after a byte order mark and white space, or its first two bytes. `to_json`: the
    items of a value as JSON objects.
    """

    name: str
    begins: Sequence[bytes]
    to_json: Callable[[bytes, Frames], Iterable[bytes]]


def _xml_to_json(value: bytes, _: Frames) -> Iterable[bytes]:
    """Import the reader of XML with the first record that needs it: it is of the extra `files`."""
    try:
        require("lxml", "XML", "publish JSON")
    except ConfigError as error:
        raise BadItem("xml", str(error)) from None
    from stream_dedup.news.xml import entries

    return map(encode, entries(value))


FORMATS = (
    Format("JSON", (b"{",), lambda value, _: [value]),
    Format("XML", (b"<", b"\0<", BOM_UTF16_LE, BOM_UTF16_BE), _xml_to_json),
    Format("frame of a schema registry", (b"\0",), lambda value, frames: [frames.to_json(value)]),
)
"""Formats that are read. A value of no other format is read as JSON, and the error says why it is none."""
_BY_BEGIN = {begin: kind for kind in FORMATS for begin in kind.begins}
_LEAD = BOM_UTF8 + b" \t\r\n"
# The attribute of a CloudEvent that stands in for a field, and the prefix of its header in binary mode.
_ATTRIBUTES = {"id": "id", "source": "source", "published": "time"}
_PREFIX = "ce_"


class Unwrapped(NamedTuple):
    """A JSON object, and the fields that its envelope lends where the object lacks them, or that it is deleted."""

    value: bytes
    lent: Mapping[str, str] = {}
    is_deleted: bool = False


class _CloudEvent(msgspec.Struct):
    id: Any = None
    source: Any = None
    time: Any = None
    specversion: Any = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    data_base64: str | None = None


_DECODE = tolerant(msgspec.json.Decoder(_CloudEvent).decode)
_STRING = tolerant(msgspec.json.Decoder(str).decode)


class Unwrapper:
    """Opens values of all FORMATS, and envelopes in JSON.

    >>> unwrapper = Unwrapper()
    >>> unwrapper.open(b"<rss><item><title>Elm bridge opens</title></item></rss>", [("ce_id", b"7")])
    Unwrapped(value=b'{"title":"Elm bridge opens"}', lent={'id': '7'}, is_deleted=False)
    >>> unwrapper.unwrap(b'{"specversion": "1.0", "id": "7", "source": "/wire", "data": {"title": "T"}}')
    Unwrapped(value=b'{"title": "T"}', lent={'id': '7', 'source': '/wire'}, is_deleted=False)
    """

    def __init__(self, registry: RegistrySettings | None = None) -> None:
        self.frames = frames_of(registry or RegistrySettings())

    def open(self, value: bytes, headers: Headers = ()) -> Unwrapped:
        """Open a value by its first bytes; the headers may hold the attributes of a CloudEvent. O(bytes).

        A value of no known format is returned as it is. Raises BadItem if it does not hold exactly one item, and
        RegistryAway if a schema cannot be fetched now.
        """
        texts = {name: text for name, text in headers if text}
        attributes = {field: texts.get(_PREFIX + name) for field, name in _ATTRIBUTES.items()}
        lent = {field: text.decode("utf-8", "replace") for field, text in attributes.items() if text}
        known = _BY_BEGIN.get(value[:2]) or _BY_BEGIN.get(value.lstrip(_LEAD)[:1])
        return Unwrapped(only(known.to_json(value, self.frames), known.name) if known else value, lent)

    def unwrap(self, value: bytes) -> Unwrapped:
        """Return the opened data of a CloudEvent or message, the changed row, or the only item of a list. O(bytes).

        Raises BadItem if there is not exactly one object, and msgspec.MsgspecError if the envelope is malformed.
        """
        value = value.lstrip(_LEAD)
        event = _DECODE(value)
        if event.specversion is None:
            record = decode_object(value)
            if held := content_of(record):
                return Unwrapped(encode(held.item), is_deleted=held.is_deleted)
            return Unwrapped(only([line for listing in items_in(record).read for line in listing.lines()], "JSON"))
        content = self.open(_data_of(event)).value
        if content.lstrip(_LEAD)[:1] != b"{":
            raise BadItem("type", "the data of this CloudEvent is neither a JSON object nor XML")
        attributes = {field: getattr(event, name) for field, name in _ATTRIBUTES.items()}
        return Unwrapped(content, {field: text for field, text in attributes.items() if text and isinstance(text, str)})


def _data_of(event: _CloudEvent) -> bytes:
    if event.data_base64 is not None:
        try:
            return b64decode(event.data_base64, validate=True)
        except ValueError as error:  # also characters that are not ASCII
            raise BadItem("type", f"data_base64 of this CloudEvent is not Base64: {error}") from None
    data = bytes(event.data)
    if data == b"null":
        raise BadItem("empty", "this CloudEvent has no data")
    return _STRING(data).encode("utf-8", "replace") if data.startswith(b'"') else data


# -- the envelopes of queues and of changes of a database -------------------------------------------------

# SNS, SQS, Pub/Sub, Kinesis, EventBridge, what kcat and Kafka's REST proxy print, and Debezium: their content is one
# item, as an object, JSON or Base64. Nothing but it describes the article: ids and times are those of the message.
# Members that hold the content as an object, or in one of its members.
_HOLDERS = ("message", "kinesis", "Sns", "detail")


class Content(NamedTuple):
    """The item of an envelope. `is_deleted`: the envelope says that the item was deleted."""

    item: dict[str, Any]
    is_deleted: bool = False


def content_of(record: dict[str, Any]) -> Content | None:
    """Return the content of an envelope; None if the record is none. O(bytes).

    >>> content_of({"MessageId": "7", "Message": '{"title": "Elm bridge opens"}'})
    Content(item={'title': 'Elm bridge opens'}, is_deleted=False)
    >>> content_of({"before": {"id": 7}, "after": None, "op": "d", "source": {"db": "cms"}})
    Content(item={'id': 7}, is_deleted=True)
    """
    inner = record.get("payload")
    change = inner if isinstance(inner, dict) and "schema" in record else record
    if "op" in change and "after" in change:  # Debezium, with and without its schema; MongoDB's rows are strings
        for name in ("after", "before"):
            row = change.get(name)
            row = opened(row) if isinstance(row, str) else row
            if isinstance(row, dict):
                return Content(row, is_deleted=name == "before")
    if meant_by(record, "title"):
        return None
    for text in [value for name, value in record.items() if name in STRINGS and isinstance(value, str)]:
        held = opened(from_base64(text))
        if isinstance(held, dict) and (content := content_of(held) or (Content(held) if is_item(held) else None)):
            return content
    for name in _HOLDERS:
        if isinstance(held := record.get(name), dict):
            return content_of(held) or (Content(held) if is_item(held) else None)
    return None


def only(items: Iterable[bytes], format_name: str) -> bytes:
    """Return the only item of a record. Raises BadItem if there are none or several.

    >>> only([b"{}", b"{}"], "XML")
    Traceback (most recent call last):
    stream_dedup.errors.BadItem: entries: the XML has 2 entries, and a record holds one item; publish one entry a \
record, as `stream-dedup feeds` does
    """
    values = list(items)
    if len(values) == 1:
        return values[0]
    count = f"{len(values):,} entries" if values else "no entry"
    raise BadItem(
        "entries",
        f"the {format_name} has {count}, and a record holds one item; publish one entry a record, as `stream-dedup "
        "feeds` does",
    )


def unreadable(value: bytes, error: Exception, name: str = "") -> BadItem:
    """Say why a value cannot be decoded: compressed by its producer, not UTF-8, not an object, or malformed."""
    compressed = next((kind for begin, kind in COMPRESSED.items() if value.startswith(begin)), None)
    if compressed is not None:
        return BadItem("compressed", f"the value is {compressed}; {_UNPACK}", name)
    if isinstance(error, UnicodeDecodeError):
        return BadItem("encoding", f"not {error.encoding.upper()}: {error.reason}", name)
    if isinstance(error, RecursionError):
        return BadItem("json", "nested too deeply", name)
    return BadItem("type" if isinstance(error, msgspec.ValidationError) else "json", str(error), name)
