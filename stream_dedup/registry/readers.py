"""Decode Avro and Protobuf, one value at a time, into values that JSON can hold. Avro files use the Avro half, too.

Logical types of Avro become dates, decimals and UUIDs, which are text in JSON. Bytes become text if they are UTF-8.
Protobuf keeps the field names of the schema and takes Protobuf's own JSON form: times as text, 64-bit numbers as
digits, enums by name.

fastavro follows the bytes as deep as a schema allows, which could end the process, and makes as many values as the
bytes say. So a schema whose types contain themselves is refused, and so is a datum with too many values.
"""

from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from typing import Any, NamedTuple

import msgspec

from stream_dedup.errors import BadItem
from stream_dedup.extras import require

# Levels of nested types. News schemas have five; fastavro takes some hundred bytes of stack for each.
_DEEPEST = 50
# Reads per datum: two for a text, one for most other values. An article needs some dozens, an embedding thousands. An
# object of the smallest values takes 250 bytes.
_MOST_READS = 400_000
# What decoding Protobuf needs, and the types that schemas may import without a reference.
_PARTS = (
    "descriptor_pb2", "descriptor_pool", "json_format", "message", "message_factory",
    "any_pb2", "duration_pb2", "empty_pb2", "field_mask_pb2", "struct_pb2", "timestamp_pb2", "wrappers_pb2",
)  # fmt: skip
# Confluent's registry has this file without a subject. It only declares options of fields, so an empty file will do.
_META = "confluent/meta.proto"
_LONGEST_POSITIONS = 64  # bytes; each level of nested messages takes two at most


def fastavro() -> Any:
    """Import fastavro. Raises ConfigError if it is not installed."""
    return require("fastavro", "Avro", "give the items as JSON")


def protobuf() -> Any:
    """Import google.protobuf with the types that schemas may import. Raises ConfigError if it is not installed."""
    library = require("google.protobuf", "Protobuf", "publish JSON")
    for part in _PARTS:
        import_module(f"google.protobuf.{part}")
    return library


# -- Avro --------------------------------------------------------------------------------------------------


class AvroBytes(BytesIO):
    """Bytes that allow a bounded number of reads for each datum."""

    reads = _MOST_READS

    def read(self, size: int | None = -1) -> bytes:
        self.reads -= 1
        if self.reads < 0:
            raise ValueError(f"a datum has more than some {_MOST_READS // 2:,} values")
        return super().read(size)


class AvroReader:
    """Reads data of the last one of these schemas, which are JSON; a schema may refer to those before it.

    >>> reader = AvroReader('{"type": "record", "name": "n.Item", "fields": [{"name": "title", "type": "string"}]}')
    >>> reader.about(b""), reader.read(b"\\x06Elm")
    (('n.Item', ['title']), {'title': 'Elm'})

    Raises BadItem for a schema that is not valid, or that contains itself.
    """

    def __init__(self, *schemas: str | bytes) -> None:
        avro, named = fastavro(), dict[str, Any]()
        try:
            for schema in schemas:
                self._schema = avro.parse_schema(msgspec.json.decode(schema), named_schemas=named)
            _depth(self._schema, named, {})
        except Exception as error:  # noqa: BLE001 - a third-party parser on a schema that is not ours
            raise BadItem("schema", f"it is not a usable Avro schema: {error}") from None
        self._read = avro.schemaless_reader
        record = self._schema if isinstance(self._schema, dict) else {}
        self._name = str(record.get("name", "Avro without a record"))
        self._fields = [str(field["name"]) for field in record.get("fields", ())]

    def about(self, _: bytes) -> tuple[str, list[str]]:
        """Return the name of the record type, and its fields."""
        return self._name, self._fields

    def read(self, datum: bytes) -> Any:
        """Read a datum that has exactly these bytes. O(bytes). Raises BadItem (reason `schema`)."""
        stream = AvroBytes(datum)
        value = self.next(stream)
        if stream.tell() < len(datum):
            raise BadItem("schema", f"the bytes do not fit the Avro schema {self._name}: some are left over")
        return value

    def next(self, stream: AvroBytes) -> Any:
        """Read the next of several data. O(bytes). Raises BadItem (reason `schema`)."""
        stream.reads = _MOST_READS
        try:
            return _plain(self._read(stream, self._schema, None))
        except Exception as error:  # noqa: BLE001 - a third-party parser on hostile input
            cause = str(error) or type(error).__name__
            raise BadItem("schema", f"the bytes do not fit the Avro schema {self._name}: {cause}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member) for member in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value  # Base64 in JSON
    return value


def _depth(schema: Any, named: Mapping[str, Any], depths: dict[str, int]) -> int:
    """Return how deep the types of a schema nest; 0 if its data take no bytes.

    Raises ValueError for more than _DEEPEST levels, as in a type that contains itself. An array whose items take no
    bytes could have any length, so it is refused, too.

    >>> _depth(["null", "N"], {"N": {"type": "record", "fields": [{"type": ["null", "N"]}]}}, {})
    Traceback (most recent call last):
    ValueError: a type contains itself, or types nest more than 50 deep; publish under a schema without that, or as JSON
    """
    if isinstance(schema, str):
        if schema in named and schema not in depths:
            depths[schema] = _DEEPEST  # until it is known
            depths[schema] = _depth(named[schema], named, depths)
        return depths.get(schema, int(schema != "null"))
    if isinstance(schema, list):
        kind, inner = "union", schema
    else:
        kind, inner = schema["type"], [schema[part] for part in ("items", "values") if part in schema]
        inner += [field["type"] for field in schema.get("fields", ())]
    deepest = max((_depth(part, named, depths) for part in inner), default=0)
    if deepest >= _DEEPEST:
        raise ValueError(
            f"a type contains itself, or types nest more than {_DEEPEST} deep; publish under a schema without that, or "
            "as JSON"
        )
    if deepest == 0 and kind == "array":
        raise ValueError("an array has items without bytes, so it could have any number of them")
    return 0 if deepest == 0 and kind in ("null", "record", "error") else deepest + 1


# -- Protobuf ----------------------------------------------------------------------------------------------


class _Message(NamedTuple):
    name: str  # with its package
    fields: list[str]
    parse: Any


class ProtobufReader:
    """Reads the messages of the last one of these FileDescriptorProtos.

    `files` has each under the name by which others import it, and after the files that it imports itself. Raises
    BadItem for a file that cannot be used.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._library = protobuf()
        self._messages: dict[tuple[int, ...], _Message] = {}
        self._pool, known = self._library.descriptor_pool.DescriptorPool(), self._library.descriptor_pool.Default()
        try:
            for name, file in ({_META: b""} | dict(files)).items():
                self._file = self._library.descriptor_pb2.FileDescriptorProto.FromString(file)
                self._file.name = name
                for dependency in self._file.dependency:
                    if dependency != _META and dependency not in files:
                        self._pool.AddSerializedFile(known.FindFileByName(dependency).serialized_pb)
                self._pool.Add(self._file)
        except (self._library.message.DecodeError, TypeError, ValueError, KeyError) as error:
            raise BadItem("schema", f"it is not a usable Protobuf descriptor: {error}") from None

    def about(self, value: bytes) -> tuple[str, list[str]]:
        """Return the name of a value's message type, and its fields. Raises BadItem."""
        message, _ = self._message(value)
        return message.name, message.fields

    def read(self, value: bytes) -> Any:
        """Read a value: the positions of its message type, then the message. O(bytes). Raises BadItem (`schema`)."""
        message, start = self._message(value)
        try:
            return self._library.json_format.MessageToDict(
                message.parse(value[start:]), preserving_proto_field_name=True, descriptor_pool=self._pool
            )
        except Exception as error:  # noqa: BLE001 - a third-party parser on hostile input
            raise BadItem("schema", f"the bytes do not fit the Protobuf message {message.name}: {error}") from None

    def _message(self, value: bytes) -> tuple[_Message, int]:
        """Return the message type of a value, and where the message begins."""
        positions, start = positions_of(value)
        if positions not in self._messages:
            try:
                proto = self._file.message_type[positions[0]]
                names = [self._file.package, proto.name]
                for position in positions[1:]:
                    proto = proto.nested_type[position]
                    names.append(proto.name)
            except IndexError:
                raise BadItem("schema", f"the Protobuf schema has no message at the place {list(positions)}") from None
            descriptor = self._pool.FindMessageTypeByName(".".join(filter(None, names)))
            parse = self._library.message_factory.GetMessageClass(descriptor).FromString
            fields = [field.name for field in descriptor.fields]
            self._messages[positions] = _Message(descriptor.full_name, fields, parse)
        return self._messages[positions], start


def positions_of(value: bytes) -> tuple[tuple[int, ...], int]:
    """Read which message type a value has, and where the message begins.

    The type is a list of positions: in the file, in that message, and so on. Their count comes first. Numbers are
    encoded as in Avro.

    >>> positions_of(b"\\x00..."), positions_of(b"\\x04\\x02\\x06...")
    (((0,), 1), ((1, 3), 3))
    """
    read, stream = fastavro().schemaless_reader, BytesIO(value[:_LONGEST_POSITIONS])
    try:
        count = read(stream, "long", None)
        positions = [read(stream, "long", None) for _ in range(count)]
    except (EOFError, IndexError):
        raise BadItem("schema", "no Protobuf of a registry: the positions of its message are missing") from None
    if min([count, *positions]) < 0:
        raise BadItem("schema", f"the Protobuf schema has no message at the place {positions}")
    return tuple(positions) or (0,), stream.tell()
