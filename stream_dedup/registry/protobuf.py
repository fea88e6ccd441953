"""Decode Protobuf messages into what becomes JSON, by descriptors.

In: FileDescriptorProtos, and bytes. Out: a dict, with the names of the fields as the schema
has them, in the JSON form of Protobuf: times as text, 64-bit numbers as digits, enums by name.
"""

from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from typing import Any, NamedTuple

from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.phrases import install_command
from stream_dedup.registry.avro import fastavro

# What decoding needs, and the types that schemas may import without a reference.
_PARTS = (
    "descriptor_pb2", "descriptor_pool", "json_format", "message", "message_factory",
    "any_pb2", "duration_pb2", "empty_pb2", "field_mask_pb2", "struct_pb2", "timestamp_pb2", "wrappers_pb2",
)  # fmt: skip
# It declares only options of fields, so an empty file does; Confluent's registry has it without a subject.
_META = "confluent/meta.proto"
_LONGEST_POSITIONS = 64  # bytes, two at most for each level of a nested message


def protobuf() -> Any:
    """Import google.protobuf with the types that schemas may import. Raises ConfigError where it is not installed."""
    try:
        for part in _PARTS:
            import_module(f"google.protobuf.{part}")
    except ImportError:
        raise ConfigError(f"Protobuf needs protobuf: {install_command('registry')}, or publish JSON") from None
    return import_module("google.protobuf")


class Message(NamedTuple):
    """A message type of a file: its full name, its fields, and the class that parses it."""

    name: str
    fields: list[str]
    parse: Any


class ProtobufReader:
    """Reads the messages of the last one of these files. `files`: by the name under which others import it, after those
    that it imports itself.

    Raises BadItem for a file that cannot be used.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._library = protobuf()
        self._messages: dict[tuple[int, ...], Message] = {}
        self._pool, known = self._library.descriptor_pool.DescriptorPool(), self._library.descriptor_pool.Default()
        try:
            for name, file in ({_META: b""} | dict(files)).items():
                self._file = self._library.descriptor_pb2.FileDescriptorProto.FromString(file)
                self._file.name = name
                for each in self._file.dependency:
                    if each != _META and each not in files:
                        self._pool.AddSerializedFile(known.FindFileByName(each).serialized_pb)
                self._pool.Add(self._file)
        except (self._library.message.DecodeError, TypeError, ValueError, KeyError) as error:
            raise BadItem("schema", f"it is not a usable Protobuf descriptor: {error}") from None

    def about(self, value: bytes) -> tuple[str, list[str]]:
        """Return the name of the message type of a value, and its fields. Raises BadItem."""
        message, _ = self._message(value)
        return message.name, message.fields

    def read(self, value: bytes) -> Any:
        """Read a value: positions of its message type, and the message. O(bytes). Raises BadItem (reason `schema`)."""
        message, start = self._message(value)
        try:
            return self._library.json_format.MessageToDict(
                message.parse(value[start:]), preserving_proto_field_name=True, descriptor_pool=self._pool
            )
        except Exception as error:  # noqa: BLE001 - a third-party parser on hostile input
            raise BadItem("schema", f"the bytes do not fit the Protobuf message {message.name}: {error}") from None

    def _message(self, value: bytes) -> tuple[Message, int]:
        """The message type of a value, and where the message begins."""
        indexes, start = positions_of(value)
        if indexes not in self._messages:
            try:
                proto = self._file.message_type[indexes[0]]
                name = ".".join(filter(None, (self._file.package, proto.name)))
                for index in indexes[1:]:
                    proto = proto.nested_type[index]
                    name += f".{proto.name}"
            except IndexError:
                raise BadItem("schema", f"the Protobuf schema has no message at the place {list(indexes)}") from None
            descriptor = self._pool.FindMessageTypeByName(name)
            parse = self._library.message_factory.GetMessageClass(descriptor).FromString
            self._messages[indexes] = Message(name, [field.name for field in descriptor.fields], parse)
        return self._messages[indexes], start


def positions_of(value: bytes) -> tuple[tuple[int, ...], int]:
    """Read the positions of the message type (of the file, of that message, and so on), and where the message begins.

    A count and numbers come first, which are encoded as in Avro.

    >>> positions_of(b"\\x00..."), positions_of(b"\\x04\\x02\\x06...")
    (((0,), 1), ((1, 3), 3))
    """
    read, stream = fastavro().schemaless_reader, BytesIO(value[:_LONGEST_POSITIONS])
    try:
        count = read(stream, "long", None)
        found = [read(stream, "long", None) for _ in range(count)]
    except (EOFError, IndexError):
        raise BadItem("schema", "no Protobuf of a registry: the positions of its message are missing") from None
    if min([count, *found]) < 0:
        raise BadItem("schema", f"the Protobuf schema has no message at the place {found}")
    return tuple(found) or (0,), stream.tell()
