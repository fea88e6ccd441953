"""Open what an item comes in: XML, a CloudEvent, a list in JSON, the frame of a schema registry.

In: the value of a record, and its headers. Out: `Opened`: the bytes of one JSON object, for FieldReader, and what the
envelope says of the item. The first byte of a value tells how to open it. A JSON object is not opened: FieldReader
looks at its members anyway, and sends back what is an envelope (fields.ENVELOPE). So plain JSON pays nothing.

A record holds one item and is republished byte for byte, so a value with several is a bad item.
"""

from base64 import b64decode
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stream_dedup.errors import BadItem
from stream_dedup.news.lists import items_in
from stream_dedup.news.xml import entries
from stream_dedup.registry.frames import frames_of
from stream_dedup.settings import RegistrySettings
from stream_dedup.surrogates import tolerant

Headers = Sequence[tuple[str, bytes | None]]

# By field of an item: the attribute of a CloudEvent that stands in for it.
_ATTRIBUTES = {"id": "id", "source": "source", "published": "time"}
_PREFIX = "ce_"  # of the headers that hold them in binary mode
_LEAD = BOM_UTF8 + b" \t\r\n"  # what may come before the first byte that counts


class Opened(NamedTuple):
    """A JSON object, and by field what its envelope says, which counts where the object says nothing."""

    value: bytes
    around: Mapping[str, str]


class _Envelope(msgspec.Struct):
    """The members of a CloudEvent."""

    id: Any = None
    source: Any = None
    time: Any = None
    specversion: Any = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    data_base64: str | None = None


_DECODE = tolerant(msgspec.json.Decoder(_Envelope).decode)
_OBJECT = tolerant(msgspec.json.Decoder(dict[str, Any]).decode)
_STRING = tolerant(msgspec.json.Decoder(str).decode)


class Opener:
    """Opens values.

    >>> open = Opener()
    >>> open(b"<rss><item><title>Elm bridge opens</title></item></rss>", [("ce_id", b"7")])
    Opened(value=b'{"title":"Elm bridge opens"}', around={'id': '7'})
    >>> open.unwrap(b'{"specversion": "1.0", "id": "7", "source": "/wire", "data": {"title": "T"}}')
    Opened(value=b'{"title": "T"}', around={'id': '7', 'source': '/wire'})
    """

    def __init__(self, registry: RegistrySettings | None = None, path: str | None = None) -> None:
        self._path = path
        self.frames = frames_of(registry or RegistrySettings())
        # A further format is a function from a value to the bytes of a JSON object, and a row.
        self._by_first_bytes: dict[bytes, Callable[[bytes], bytes]] = {b"\0": self.frames}
        self._by_first_bytes |= dict.fromkeys((b"<", b"\0<", BOM_UTF16_LE, BOM_UTF16_BE), _of_xml)

    def __call__(self, value: bytes, headers: Headers = ()) -> Opened:
        """Open a value by its first bytes, with the attributes of a CloudEvent in binary mode. O(bytes).

        A value that has no row is returned as it is. Raises BadItem if it does not hold exactly one item, and
        RegistryAway if a schema cannot be fetched now.
        """
        given = {name.removeprefix(_PREFIX): text for name, text in headers if text and name.startswith(_PREFIX)}
        around = {field: given[name].decode("utf-8", "replace") for field, name in _ATTRIBUTES.items() if name in given}
        opener = self._by_first_bytes.get(value[:2]) or self._by_first_bytes.get(value.lstrip(_LEAD)[:1])
        return Opened(value if opener is None else opener(value), around)

    def unwrap(self, value: bytes) -> Opened:
        """The data of a CloudEvent in structured mode, opened as well, or the only item of a list. O(bytes).

        Raises BadItem if there is not exactly one object, and msgspec.MsgspecError if the envelope is malformed.
        """
        value = value.lstrip(_LEAD)
        envelope = _DECODE(value)
        if envelope.specversion is None:
            listing = items_in(_OBJECT(value), self._path)
            return Opened(only(listing.lines() if listing else [], "JSON"), {})
        content = self(_data_of(envelope)).value
        if content.lstrip(_LEAD)[:1] != b"{":
            raise BadItem("type", "the data of this CloudEvent is neither a JSON object nor XML")
        return Opened(content, _texts({field: getattr(envelope, name) for field, name in _ATTRIBUTES.items()}))


def only(found: Sequence[bytes], kind: str) -> bytes:
    """The only one of the entries of a record. Raises BadItem if there are none or several.

    >>> only([b"{}", b"{}"], "XML")
    Traceback (most recent call last):
    stream_dedup.errors.BadItem: entries: the XML has 2 entries, and a record holds one item; publish one entry a \
record, as `stream-dedup feeds` does
    """
    if len(found) == 1:
        return found[0]
    count = f"{len(found):,} entries" if found else "no entry"
    raise BadItem(
        "entries",
        f"the {kind} has {count}, and a record holds one item; publish one entry a record, as `stream-dedup feeds` "
        "does",
    )


def _of_xml(value: bytes) -> bytes:
    return only([msgspec.json.encode(entry) for entry in entries(value)], "XML")


def _data_of(envelope: _Envelope) -> bytes:
    if envelope.data_base64 is not None:
        try:
            return b64decode(envelope.data_base64, validate=True)
        except ValueError as error:  # also characters that are not ASCII
            raise BadItem("type", f"data_base64 of this CloudEvent is not Base64: {error}") from None
    data = bytes(envelope.data)
    if data == b"null":
        raise BadItem("empty", "this CloudEvent has no data")
    return _STRING(data).encode("utf-8", "replace") if data.startswith(b'"') else data


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in values.items() if isinstance(value, str) and value}
