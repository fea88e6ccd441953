"""Open the frame in which serializers of schema registries put a value: a zero, the id of the schema, the value.

In: the bytes of a record. Out: a JSON object: that of a JSON Schema unchanged, which needs no registry; Avro
and Protobuf decoded by their schema. An id is four bytes, or eight as older serializers of Apicurio write them: ids
begin at 1, so four zeros are the upper half of such a one. Schemas are kept for ever, since ids never change.
"""

import logging
import time
from base64 import b64decode
from functools import cache

import msgspec

from stream_dedup.errors import BadItem
from stream_dedup.registry.avro import AvroReader, fastavro
from stream_dedup.registry.client import Registered, RegistryClient
from stream_dedup.registry.protobuf import ProtobufReader, protobuf
from stream_dedup.settings import RegistrySettings
from stream_dedup.surrogates import tolerant

log = logging.getLogger(__name__)

# A registry with several members may learn of a schema after its records. Nothing is asked for more often than this, so
# a flood of records with an unknown id asks once a minute.
_ASK_AGAIN_SECONDS = 60.0
_MOST_UNUSABLE = 10_000  # ids, which records can invent
_CHECK = tolerant(msgspec.json.Decoder(msgspec.Raw).decode)


@cache
def frames_of(settings: RegistrySettings) -> "Frames":
    """The one opener of frames of these settings: all decoders of a process share its schemas."""
    return Frames(settings)


class Frames:
    """Opens framed values.

    >>> Frames(RegistrySettings())(b'\\0\\0\\0\\0\\7{"title": "T"}')
    b'{"title": "T"}'

    Raises ConfigError if `url` is set and the extra `registry` is not installed.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._client = RegistryClient(settings) if settings.url else None
        if self._client:
            fastavro(), protobuf()
        self._readers: dict[int, AvroReader | ProtobufReader | None] = {}  # None: JSON
        self._unusable: dict[int, tuple[float, str]] = {}  # since when, monotonic seconds, and why
        self._lacking: set[str] = set()  # names of schemas that were said to lack fields

    def __call__(self, value: bytes) -> bytes:
        """Return the JSON object of a value. O(bytes), and at a new id one request or some.

        A value that is too short for a frame is returned as it is. Raises BadItem (reason `schema`), and RegistryAway
        if a schema cannot be fetched now.
        """
        number, start = _header(value)
        if len(value) <= start:
            return value
        payload = value[start:]
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
        """Return the name of the schema of a value that was opened before, and its fields. Empty: it has none.

        >>> Frames(RegistrySettings()).describe(b'\\0\\0\\0\\0\\7{"title": "T"}')
        ('JSON Schema (id 7)', [])
        """
        number, start = _header(value)
        if value[:1] != b"\0" or len(value) <= start:
            return "", []
        payload = value[start:]
        reader = None if self._is_json(payload) else self._readers.get(number)
        name, fields = ("JSON Schema", []) if reader is None else reader.about(payload)
        return f"{name} (id {number})", fields

    def lacks(self, name: str, detail: str) -> None:
        """Say once that a schema has none of the fields that an item needs."""
        if name not in self._lacking:
            self._lacking.add(name)
            log.warning("the schema %s fits no item: %s", name, detail)

    def _is_json(self, payload: bytes) -> bool:
        """Whether a value is a JSON object. Avro may begin with the same byte, but is not valid JSON to its end."""
        if payload[:1] != b"{":
            return False
        if self._client is None:
            return True
        try:
            _CHECK(payload)
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


def _header(value: bytes) -> tuple[int, int]:
    """The id of the schema, and where the value begins.

    >>> _header(b"\\0\\0\\0\\0\\7..."), _header(b"\\0\\0\\0\\0\\0\\0\\0\\0\\7...")
    ((7, 5), (7, 9))
    """
    start = 5 if any(value[1:5]) else 9
    return int.from_bytes(value[1:start], "big"), start


def _fetch(client: RegistryClient, number: int) -> AvroReader | ProtobufReader | None:
    """Fetch a schema with all to which it refers. Raises BadItem if it cannot be used."""
    schema = client.schema(number)
    if schema.kind == "JSON":
        return None
    if schema.kind == "AVRO":
        return AvroReader(*_texts(client, "", schema, {}).values())
    if schema.kind != "PROTOBUF":
        raise BadItem("schema", f"it is of the kind {schema.kind!r}; known are AVRO, JSON and PROTOBUF")
    texts = _texts(client, "value.proto", client.schema(number, serialized=True), {})
    return ProtobufReader({name: _descriptor(text) for name, text in texts.items()})


def _texts(client: RegistryClient, name: str, schema: Registered, found: dict[str, str]) -> dict[str, str]:
    """Add a schema by its name, after those to which it refers."""
    for inner, number in schema.references:
        if inner not in found:
            _texts(client, inner, client.schema(number, serialized=schema.kind == "PROTOBUF"), found)
    found[name] = schema.text
    return found


def _descriptor(text: str) -> bytes:
    """The bytes of a descriptor: Confluent's registry sends them in Base64.

    Apicurio 3 sends them as if they were text, which loses each byte above 127, as the sizes of longer messages have.
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
