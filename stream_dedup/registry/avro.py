"""Decode Avro, one datum at a time, into what becomes JSON. For records, and for container files (batch/avro.py).

In: a schema, and bytes. Out: plain values: logical types as dates, decimals and UUIDs, which JSON has as text; bytes as
text if they are UTF-8. fastavro decodes. It follows a recursive schema as deep as the bytes say, in C without a limit,
which would end the process: such a schema is read by its Python code, ten times as slow, which ends in an error.
"""

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.phrases import install_command


def fastavro() -> Any:
    """Import fastavro. Raises ConfigError where it is not installed."""
    try:
        import fastavro
        import fastavro._read_py
    except ImportError:
        raise ConfigError(f"Avro needs fastavro: {install_command('registry')}, or give the items as JSON") from None
    return fastavro


class AvroReader:
    """Reads data of one schema. `schema`, `referenced`: schemas as JSON values; one may use those before it.

    >>> from io import BytesIO
    >>> read = AvroReader({"type": "record", "name": "n.Item", "fields": [{"name": "title", "type": "string"}]})
    >>> read.name, read.fields, read(BytesIO(b"\\x06Elm"))
    ('n.Item', ['title'], {'title': 'Elm'})

    Raises BadItem for a schema that is not valid.
    """

    def __init__(self, schema: Any, referenced: Sequence[Any] = ()) -> None:
        avro, named = fastavro(), dict[str, Any]()
        try:
            for each in referenced:
                avro.parse_schema(each, named_schemas=named)
            self._schema = avro.parse_schema(schema, named_schemas=named)
            is_recursive = _is_recursive(self._schema, named)
        except Exception as error:  # noqa: BLE001 - a third-party parser on a schema that is not ours
            raise BadItem("schema", f"it is not a valid Avro schema: {error}") from None
        self._read = (avro._read_py if is_recursive else avro).schemaless_reader
        record = self._schema if isinstance(self._schema, dict) else {}
        self.name = str(record.get("name", "Avro without a record"))
        self.fields = [str(field["name"]) for field in record.get("fields", ())]

    def __call__(self, stream: BinaryIO) -> Any:
        """Read the next datum. O(bytes). Raises BadItem (reason `schema`)."""
        try:
            return _plain(self._read(stream, self._schema, None))
        except Exception as error:  # noqa: BLE001 - a third-party parser on hostile input
            cause = str(error) or type(error).__name__
            raise BadItem("schema", f"the bytes do not fit the Avro schema {self.name}: {cause}") from None


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


def _is_recursive(schema: Any, named: Mapping[str, Any], around: frozenset[str] = frozenset()) -> bool:
    """Whether a type of the schema contains itself.

    >>> node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    >>> _is_recursive(node, {"Node": node}), _is_recursive({"type": "array", "items": "string"}, {})
    (True, False)
    """
    if isinstance(schema, list):
        return any(_is_recursive(each, named, around) for each in schema)
    if isinstance(schema, str):
        return schema in around or (schema in named and _is_recursive(named[schema], named, around))
    inner = [schema[part] for part in ("items", "values") if part in schema]
    if "fields" in schema:
        around |= {schema["name"]}
        inner += [field["type"] for field in schema["fields"]]
    elif not isinstance(schema["type"], str) or schema["type"] not in ("array", "map", "enum", "fixed"):
        inner.append(schema["type"])
    return any(_is_recursive(each, named, around) for each in inner)
