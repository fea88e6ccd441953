"""A schema registry on 127.0.0.1, as far as serializers and readers use Confluent's API; and what they write.

In: schemas. Out: ids, and framed values. It can go away and come back under the same address, refuse a login, and count
what it is asked.
"""

import datetime
import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import fastavro
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, datetime.UTC)
AVRO = {
    "type": "record", "name": "Article", "namespace": "news", "fields": [
        {"name": "id", "type": "string"},
        {"name": "title", "type": ["null", "string"]},
        {"name": "text", "type": ["null", "string"]},
        {"name": "url", "type": ["null", "string"], "default": None},
        {"name": "published", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip
JSON_SCHEMA = {"type": "object", "title": "Article", "properties": {"title": {"type": "string"}}}


def protobuf_file() -> FileDescriptorProto:
    """Two message types, of which the second one is the article; its time is a Timestamp, which is imported."""
    file = FileDescriptorProto(name="article.proto", package="news", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    file.message_type.add(name="Other").field.add(name="n", number=1, type=Field.TYPE_INT32, label=1)
    article = file.message_type.add(name="Article")
    for number, name in enumerate(("id", "title", "text", "url"), 1):
        article.field.add(name=name, number=number, type=Field.TYPE_STRING, label=1)
    article.field.add(
        name="published", number=5, type=Field.TYPE_MESSAGE, label=1, type_name=".google.protobuf.Timestamp"
    )
    return file


def frame(number: int, value: bytes) -> bytes:
    """A value as serializers of Confluent write it."""
    return b"\0" + number.to_bytes(4, "big") + value


def avro(schema: Any, record: Any) -> bytes:
    """A datum in Avro."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def article_class() -> Any:
    """The class of the article of `protobuf_file`."""
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(protobuf_file())
    return GetMessageClass(pool.FindMessageTypeByName("news.Article"))


def _as_protobuf(item: Mapping[str, Any]) -> bytes:
    """The article is the second type of its file: one position, which is 1."""
    message = article_class()(**item)
    message.published.FromDatetime(MOMENT)
    return b"\x02\x02" + message.SerializeToString()


def as_json(item: Mapping[str, Any]) -> bytes:
    return json.dumps({**item, "published": MOMENT.isoformat()}).encode()


# By kind: a schema, and what a serializer makes of an article without a date, which is dated MOMENT.
FORMS: dict[str, tuple[Any, Callable[[Mapping[str, Any]], bytes]]] = {
    "AVRO": (AVRO, lambda item: avro(AVRO, {**item, "published": MOMENT})),
    "JSON": (JSON_SCHEMA, as_json),
    "PROTOBUF": (protobuf_file(), _as_protobuf),
}


class RegistryServer:
    """A registry. `requests`: the paths that were asked for; `login`: the header that it requires."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.versions: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.login = ""
        self.status = 200  # of every answer, unless it is 200
        self.has_descriptors = True
        self._context = context
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http{'s' if self._context else ''}://127.0.0.1:{self._port}"

    def register(self, kind: str, schema: Any, references: tuple[tuple[str, str], ...] = (), subject: str = "") -> int:
        """Register a schema; `references`: name and subject. Returns its id."""
        number = len(self.schemas) + 1
        if isinstance(schema, FileDescriptorProto):
            text = 'syntax = "proto3"; // ' + schema.name
            self.schemas[number] = {"serialized": b64encode(schema.SerializeToString()).decode()}
        else:
            text, self.schemas[number] = schema if isinstance(schema, str) else json.dumps(schema), {}
        self.schemas[number] |= {"schema": text, "references": [
            {"name": name, "subject": other, "version": len(self.versions[other])} for name, other in references
        ]}  # fmt: skip
        if kind != "AVRO":  # Confluent's leaves this one out
            self.schemas[number]["schemaType"] = kind
        self.versions.setdefault(subject or f"subject/{number}", []).append(number)
        return number

    def answer(self, path: str) -> tuple[int, Any]:
        parts = [unquote(part) for part in urlsplit(path).path.split("/")[1:]]
        match parts:
            case ["schemas", "ids", number]:
                schema = dict(self.schemas.get(int(number), {}))
                if not schema:
                    return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
                serialized = schema.pop("serialized", None)
                if (
                    serialized
                    and self.has_descriptors
                    and parse_qs(urlsplit(path).query).get("format") == ["serialized"]
                ):
                    schema["schema"] = serialized
                return 200, schema
            case ["subjects", subject, "versions", version]:
                numbers = self.versions.get(subject, [])
                if not 0 < int(version) <= len(numbers):
                    return 404, {"error_code": 40401, "message": "Subject not found."}
                return 200, {"subject": subject, "version": int(version), "id": numbers[int(version) - 1]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def start(self) -> None:
        """Come back under the same address."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append(self.path)
                status, body = registry.answer(self.path)
                if registry.login and self.headers["Authorization"] != registry.login:
                    status, body = 401, {"error_code": 40101, "message": "Unauthorized"}
                if registry.status != 200:
                    status, body = registry.status, "busy"
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:9/")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = server.server_address[1]
        if self._context:
            server.socket = self._context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Go away; connections are refused."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
