"""Open the frame that serializers of schema registries put around a value: a zero, the id of the schema, the value.

The result is a JSON object. Avro and Protobuf are decoded by their schema. JSON of a JSON Schema stays as it is and
needs no registry. An id has four bytes. Older serializers of Apicurio write eight: ids begin at 1, so four zeros are
the upper half of such an id. Schemas are kept for ever, because the schema of an id never changes.
"""

import logging
import time
from base64 import b64decode
from functools import cache

import msgspec

from stream_dedup.errors import BadItem
from stream_dedup.registry.readers import AvroReader, ProtobufReader, fastavro, protobuf
from stream_dedup.registry.schemas import Registered, RegistryClient
from stream_dedup.settings import RegistrySettings
from stream_dedup.surrogates import tolerant

log = logging.getLogger(__name__)

# A registry with several members may learn of a schema after the first records with it. So an unknown id is asked for
# again, but a flood of its records asks only once a minute.
_ASK_AGAIN_SECONDS = 60.0
_MOST_UNUSABLE = 10_000  # ids that are remembered as unusable; records can invent any number
_check = tolerant(msgspec.json.Decoder(msgspec.Raw).decode)


@cache
def frames_of(settings: RegistrySettings) -> "Frames":
    """Return the one `Frames` for these settings, so that all decoders of a process share its schemas."""
    return Frames(settings)


class Frames:
    """Opens framed values.

    >>> Frames(RegistrySettings()).to_json(b'\\0\\0\\0\\0\\7{"title": "T"}')
    b'{"title": "T"}'

    Raises ConfigError if `url` is set and the extra `registry` is not installed.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._client = RegistryClient(settings) if settings.url else None
        if self._client:
            fastavro(), protobuf()
        self._readers: dict[int, AvroReader | ProtobufReader | None] = {}  # None: JSON
        self._unusable: dict[int, tuple[float, str]] = {}  # since when (monotonic seconds), and why
        self._reported: set[str] = set()  # names of schemas without the fields of an item

    def to_json(self, value: bytes) -> bytes:
        """Return the JSON object of a value. O(bytes), and a request or some for a new id.

        A value that is too short for a frame is returned as it is. Raises BadItem (reason `schema`), and RegistryAway
        if a schema cannot be fetched now.
        """
        number, payload = _parts(value)
        if not payload:
            return value
        if self._is_json(payload):
            return payload
        reader = self._reader(number)
        if reader is None:
            raise BadItem("schema", f"schema {number} is a JSON Schema, and the value is no JSON object")
        try:
            return msgspec.json.encode(reader.read(payload))
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
            raise BadItem("schema", f"a value of schema {number} has no form in JSON: {error}") from None

    def describe(self, value: bytes) -> tuple[str, list[str]]:
        """Return the name and the fields of the schema of a value that was opened before; empty if it has none.

        >>> Frames(RegistrySettings()).describe(b'\\0\\0\\0\\0\\7{"title": "T"}')
        ('JSON Schema (id 7)', [])
        """
        number, payload = _parts(value)
        if value[:1] != b"\0" or not payload:
            return "", []
        reader = None if self._is_json(payload) else self._readers.get(number)
        name, fields = ("JSON Schema", []) if reader is None else reader.about(payload)
        return f"{name} (id {number})", fields

    def lacks(self, name: str, detail: str) -> None:
        """Log once that a schema has none of the fields that an item needs."""
        if name not in self._reported:
            self._reported.add(name)
            log.warning("the schema %s fits no item: %s", name, detail)

    def _is_json(self, payload: bytes) -> bool:
        """Return whether a value is a JSON object. Avro may begin with a brace, too, but is no JSON to its end."""
        if payload[:1] != b"{" or self._client is None:
            return payload[:1] == b"{"
        try:
            _check(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        return True

    def _reader(self, number: int) -> AvroReader | ProtobufReader | None:
        if number in self._readers:
            return self._readers[number]
        if self._client is None:
            raise BadItem(
                "schema", f"it is Avro or Protobuf of a schema registry (schema id {number}): set [registry] url"
            )
        since, detail = self._unusable.get(number, (0.0, ""))
        if detail and time.monotonic() - since < _ASK_AGAIN_SECONDS:
            raise BadItem("schema", detail)
        try:
            self._readers[number] = reader = _fetch(self._client, number)
        except BadItem as error:
            detail = f"schema {number}: {error.detail}"
            if number not in self._unusable:
                log.warning("no item can be read by %s", detail)
            if len(self._unusable) >= _MOST_UNUSABLE:
                self._unusable.clear()
            self._unusable[number] = time.monotonic(), detail
            raise BadItem("schema", detail) from None
        self._unusable.pop(number, None)
        return reader


def _parts(value: bytes) -> tuple[int, bytes]:
    """Split a framed value into the id of its schema, and the rest.

    >>> _parts(b"\\0\\0\\0\\0\\7..."), _parts(b"\\0\\0\\0\\0\\0\\0\\0\\0\\7...")
    ((7, b'...'), (7, b'...'))
    """
    start = 5 if any(value[1:5]) else 9
    return int.from_bytes(value[1:start], "big"), value[start:]


def _fetch(client: RegistryClient, number: int) -> AvroReader | ProtobufReader | None:
    """Fetch a schema with those it refers to; None for a JSON Schema. Raises BadItem if it cannot be used."""
    schema = client.schema(number)
    if schema.kind == "JSON":
        return None
    if schema.kind == "AVRO":
        return AvroReader(*_texts(client, "", schema, {}).values())
    if schema.kind != "PROTOBUF":
        raise BadItem("schema", f"it is of the kind {schema.kind!r}; known are AVRO, JSON and PROTOBUF")
    texts = _texts(client, "value.proto", client.schema(number, serialized=True), {})
    return ProtobufReader({name: _descriptor(text) for name, text in texts.items()})


def _texts(client: RegistryClient, name: str, schema: Registered, texts: dict[str, str]) -> dict[str, str]:
    """Add the text of a schema under its name, after the texts of those that it refers to."""
    for inner, number in schema.references:
        if inner not in texts:
            _texts(client, inner, client.schema(number, serialized=schema.kind == "PROTOBUF"), texts)
    texts[name] = schema.text
    return texts


def _descriptor(text: str) -> bytes:
    """Return the bytes of a descriptor.

    Confluent's registry sends them in Base64. Apicurio 3 sends them as if they were text, which destroys each byte
    above 127, and the sizes of longer messages have such bytes.
    """
    try:
        return b64decode(text, validate=True)
    except ValueError:
        if text.startswith("\n") and "\N{REPLACEMENT CHARACTER}" not in text:  # its first field is the name of the file
            return text.encode()
    raise BadItem(
        "schema",
        "the registry does not give the descriptor of this Protobuf schema (?format=serialized), or damages it as "
        "Apicurio's does; use Confluent's registry, or publish JSON or Avro",
    )
