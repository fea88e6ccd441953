"""Read records that the serializers of a schema registry wrote: from their bytes to JSON.

A serializer puts a frame around a value: a zero, the id of the schema, the value. `Frames` opens it, `RegistryClient`
fetches the schema, and readers.py decodes Avro and Protobuf by it. JSON of a JSON Schema stays as it is and needs no
registry. An id has four bytes. Older serializers of Apicurio write eight: ids begin at 1, so four zeros are the upper
half of such an id. Schemas are kept for ever, because the schema of an id never changes.

Confluent, Apicurio (under /apis/ccompat/v7), Karapace and Redpanda serve Confluent's REST API. If the registry says
that it has no such schema, the item is bad. Any other failure says nothing about the record, so the record waits:
`RegistryAway`.
"""

import json
import logging
import ssl
import time
from base64 import b64decode
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from stream_dedup.errors import BadItem, ConfigError, RegistryAway
from stream_dedup.extras import require
from stream_dedup.loose_json import tolerant
from stream_dedup.registry.readers import AvroReader, ProtobufReader, fastavro, protobuf
from stream_dedup.settings import RegistrySettings

log = logging.getLogger(__name__)

# A registry with several members may learn of a schema after the first records with it. So an unknown id is asked for
# again, but a flood of its records asks only once a minute.
_ASK_AGAIN_SECONDS = 60.0
_MOST_UNUSABLE = 10_000  # ids that are remembered as unusable; records can invent any number
_check = tolerant(msgspec.json.Decoder(msgspec.Raw).decode)
# The worker's loop waits for the answer.
_SECONDS = 5.0
_MOST_BYTES = 8 * 2**20  # of an answer; the largest schemas in use have some hundred kilobytes
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


# -- schemas over HTTP --------------------------------------------------------------------------------------


class Registered(NamedTuple):
    """A schema as it was registered."""

    kind: str  # AVRO, JSON or PROTOBUF
    text: str
    references: Sequence[tuple[str, int]]  # each import, and the id of its schema


class RegistryClient:
    """Asks the registry of the [registry] settings. Several threads may use it; it keeps no connection.

    Raises ConfigError for a CA file that cannot be used.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        # httpx takes .1 s: who has no registry does not pay, nor does a record.
        require("httpx", "[registry] url")
        self._settings, self._url = settings, settings.url.rstrip("/")
        try:
            self._context()
        except OSError as error:
            raise ConfigError(
                f"[registry] ca_file: cannot use {settings.ca_file} as a PEM file of CAs: {error}"
            ) from None

    def schema(self, number: int, *, serialized: bool = False) -> Registered:
        """Fetch the schema with this id. A Protobuf schema comes as text, or `serialized` as a descriptor in Base64.

        Takes a request, and one for each reference. Raises BadItem if the registry has no such schema; RegistryAway.
        """
        path = f"/schemas/ids/{number}" + ("?format=serialized" if serialized else "")
        answer = self._get(path, "no such schema")
        try:
            references = [
                (reference["name"], self._id_of(reference["subject"], reference["version"]))
                for reference in answer.get("references") or ()
            ]
            return Registered(answer.get("schemaType") or "AVRO", str(answer["schema"]), references)
        except (AttributeError, KeyError, TypeError):
            raise self._unusable(f"answers {path} in another form than Confluent's API") from None

    def _id_of(self, subject: str, version: int) -> int:
        path = f"/subjects/{quote(subject, safe='')}/versions/{int(version)}"
        return int(self._get(path, f"no version {version} of {subject}, to which a schema refers")["id"])

    def _context(self) -> ssl.SSLContext:
        """Load the CA file again, so that a replaced one takes effect. This takes 20 ms, which plain http saves."""
        if self._url.startswith("https"):
            return ssl.create_default_context(cafile=self._settings.ca_file)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts none

    def _get(self, path: str, lack: str) -> Any:
        import httpx

        settings, body, deadline = self._settings, bytearray(), time.monotonic() + _SECONDS
        headers, login, password = {"Accept": _ACCEPT}, None, settings.secret("password")
        if password is not None and settings.user:
            login = httpx.BasicAuth(settings.user, password)
        elif password is not None:
            headers["Authorization"] = f"Bearer {password}"
        try:
            # Redirects are not followed: one could take the login to another host.
            with (
                httpx.Client(verify=self._context(), trust_env=False, timeout=_SECONDS, auth=login) as client,
                client.stream("GET", self._url + path, headers=headers) as answer,
            ):
                for chunk in answer.iter_bytes():
                    body += chunk
                    if len(body) > _MOST_BYTES or time.monotonic() > deadline:
                        raise self._unusable(f"takes longer than {_SECONDS:.0f} s for {path}, or sends too much")
            if answer.status_code != 200:
                self._refused(answer.status_code, path, bytes(body), lack)
            return json.loads(body)
        except httpx.LocalProtocolError:  # its text may show a header
            raise self._unusable(
                "cannot be asked: the password or token has a character that no header may have"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unusable(f"cannot be reached: {error or type(error).__name__}") from None
        except ValueError:
            raise self._unusable(f"does not answer {path} with JSON") from None

    def _refused(self, status: int, path: str, body: bytes, lack: str) -> None:
        """Raise BadItem if the registry itself says that it lacks something, otherwise RegistryAway."""
        if status in (401, 403):
            raise self._unusable(f"refuses the login ({status}): check [registry] user and password")
        if status == 404:
            try:
                # 40401: no subject, 40402: no version, 40403: no schema. A wrong address has another answer.
                is_known = json.loads(body)["error_code"] in (40401, 40402, 40403)
            except (ValueError, KeyError, TypeError):
                is_known = False
            if is_known:
                raise BadItem("schema", f"the registry has {lack}")
            raise self._unusable(
                f"has no {path} (404): check [registry] url; Apicurio's ends in /apis/ccompat/v7, others have no path"
            )
        raise self._unusable(f"answers {path} with {status}")

    def _unusable(self, problem: str) -> RegistryAway:
        return RegistryAway(f"the schema registry {self._url} {problem}; records wait for it")


# -- frames ------------------------------------------------------------------------------------------------


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
