"""Decode Avro, one datum at a time, into what becomes JSON. For records, and for container files (batch/avro_files.py).

In: a schema, and bytes. Out: plain values: logical types as dates, decimals and UUIDs, which JSON has as text; bytes as
text if they are UTF-8. fastavro decodes. It follows the bytes as deep as a schema allows, which could end the process,
and makes as many values as they say. So a type that contains itself is refused, and so is a datum of too many values.
"""

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import msgspec

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.phrases import install_command

# Types within types. Schemas of news have five; fastavro takes some hundred bytes of the stack for each.
_DEEPEST = 50
# Reads of a datum, two for a text and one for most other values. An article has some dozens, an embedding thousands; an
# object of the smallest values takes 250 bytes.
_MOST_READS = 400_000


def fastavro() -> Any:
    """Import fastavro. Raises ConfigError where it is not installed."""
    try:
        import fastavro
    except ImportError:
        raise ConfigError(f"Avro needs fastavro: {install_command('registry')}, or give the items as JSON") from None
    return fastavro


class AvroBytes(BytesIO):
    """Bytes that are read at most `reads` times."""

    reads = _MOST_READS

    def read(self, size: int | None = -1) -> bytes:
        self.reads -= 1
        if self.reads < 0:
            raise ValueError(f"a datum has more than some {_MOST_READS // 2:,} values")
        return super().read(size)


class AvroReader:
    """Reads data of one schema. `schemas`: those to which it refers, and itself, in JSON; one may use those before it.

    >>> reader = AvroReader('{"type": "record", "name": "n.Item", "fields": [{"name": "title", "type": "string"}]}')
    >>> reader.about(b""), reader.read(b"\\x06Elm")
    (('n.Item', ['title']), {'title': 'Elm'})

    Raises BadItem for a schema that is not valid, or contains itself.
    """

    def __init__(self, *schemas: str | bytes) -> None:
        avro, named = fastavro(), dict[str, Any]()
        try:
            for each in schemas:
                self._schema = avro.parse_schema(msgspec.json.decode(each), named_schemas=named)
            _depth(self._schema, named, {})
        except Exception as error:  # noqa: BLE001 - a third-party parser on a schema that is not ours
            raise BadItem("schema", f"it is not a usable Avro schema: {error}") from None
        self._read = avro.schemaless_reader
        record = self._schema if isinstance(self._schema, dict) else {}
        self._name = str(record.get("name", "Avro without a record"))
        self._fields = [str(field["name"]) for field in record.get("fields", ())]

    def about(self, _: bytes) -> tuple[str, list[str]]:
        """Return the name of the record of a datum, and its fields."""
        return self._name, self._fields

    def read(self, datum: bytes) -> Any:
        """Read a datum of exactly these bytes. O(bytes). Raises BadItem (reason `schema`)."""
        stream = AvroBytes(datum)
        value = self.next(stream)
        if stream.tell() < len(datum):
            raise BadItem("schema", f"the bytes do not fit the Avro schema {self._name}: some are left over")
        return value

    def next(self, stream: AvroBytes) -> Any:
        """Read the next datum of several. O(bytes). Raises BadItem (reason `schema`)."""
        stream.reads = _MOST_READS
        try:
            return _plain(self._read(stream, self._schema, None))
        except Exception as error:  # noqa: BLE001 - a third-party parser on hostile input
            cause = str(error) or type(error).__name__
            raise BadItem("schema", f"the bytes do not fit the Avro schema {self._name}: {cause}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value  # Base64 in JSON
    return value


def _depth(schema: Any, named: Mapping[str, Any], known: dict[str, int]) -> int:
    """Return how deep the types of a schema nest; 0: a datum takes no bytes.

    Raises ValueError for more than _DEEPEST, as in a type that contains itself, and for an array of any length that
    takes no bytes.

    >>> _depth(["null", "N"], {"N": {"type": "record", "fields": [{"type": ["null", "N"]}]}}, {})
    Traceback (most recent call last):
    ValueError: a type contains itself, or types nest more than 50 deep; publish under a schema without that, or as JSON
    """
    if isinstance(schema, str):
        if schema in named and schema not in known:
            known[schema] = _DEEPEST  # until it is known
            known[schema] = _depth(named[schema], named, known)
        return known.get(schema, int(schema != "null"))
    if isinstance(schema, list):
        kind, inner = "union", schema
    else:
        kind, inner = schema["type"], [schema[part] for part in ("items", "values") if part in schema]
        inner += [field["type"] for field in schema.get("fields", ())]
    deepest = max((_depth(each, named, known) for each in inner), default=0)
    if deepest >= _DEEPEST:
        raise ValueError(
            f"a type contains itself, or types nest more than {_DEEPEST} deep; publish under a schema without that, or "
            "as JSON"
        )
    if deepest == 0 and kind == "array":
        raise ValueError("an array has items without bytes, so any number of them")
    return 0 if deepest == 0 and kind in ("null", "record", "error") else deepest + 1
