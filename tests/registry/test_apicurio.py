"""The same forms with a real registry, Apicurio."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.settings import ItemSettings, RegistrySettings
from tests.registry.apicurio import apicurio, register
from tests.registry.server import AVRO, JSON_SCHEMA, article_class, avro, frame
from tests.registry.test_frames import ITEM, MOMENT, read, twin, vars_of

pytestmark = pytest.mark.operate  # it needs the network once, and takes a dozen seconds to start
PROTO = """syntax = "proto3";
package news;
import "google/protobuf/timestamp.proto";
message Other { int32 n = 1; }
message Article {
  string id = 1; string title = 2; string text = 3; string url = 4; google.protobuf.Timestamp published = 5;
}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with apicurio(port, tmp_path_factory.mktemp("apicurio") / "log") as url:
        yield url


@pytest.fixture(scope="module")
def decode(url: str) -> Decoder:
    return Decoder(ItemSettings(), RegistrySettings(url=url))


def test_avro(url: str, decode: Decoder) -> None:
    number = register(url, "avro", "AVRO", json.dumps(AVRO))
    value = frame(number, avro(AVRO, ITEM | {"published": MOMENT}))
    assert vars_of(read(decode, value)) == vars_of(twin())
    assert decode.read(value).schema == f"news.Article (id {number})"


def test_avro_with_references(url: str, decode: Decoder) -> None:
    place = {"type": "record", "name": "geo.Place", "fields": [{"name": "name", "type": "string"}]}
    fields: list[Any] = [{"name": "title", "type": "string"}, {"name": "place", "type": "geo.Place"}]
    register(url, "places", "AVRO", json.dumps(place))
    article = json.dumps({"type": "record", "name": "Located", "fields": fields})
    number = register(url, "located", "AVRO", article, [{"name": "geo.Place", "subject": "places", "version": 1}])
    assert json.loads(decode.read(frame(number, b"\x06Elm\x04Ox")).value) == {"title": "Elm", "place": {"name": "Ox"}}


def test_json_schema(url: str, decode: Decoder) -> None:
    number = register(url, "json", "JSON", json.dumps(JSON_SCHEMA))
    value = frame(number, json.dumps(ITEM | {"published": MOMENT.isoformat()}).encode())
    assert vars_of(read(decode, value)) == vars_of(twin())
    assert str(read(decode, frame(number, b"[]"))).endswith("is a JSON Schema, and the value is no JSON object")


def test_protobuf(url: str, decode: Decoder) -> None:
    number = register(url, "protobuf", "PROTOBUF", PROTO)
    message = article_class()(**ITEM)
    message.published.FromDatetime(MOMENT)
    value = frame(number, b"\x02\x02" + message.SerializeToString())
    assert vars_of(read(decode, value)) == vars_of(twin())


def test_a_descriptor_that_apicurio_damages_is_named_with_the_cure(url: str, decode: Decoder) -> None:
    more = " ".join(f"string field_{i} = {i};" for i in range(6, 20))
    number = register(url, "large", "PROTOBUF", PROTO.replace("published = 5;", f"published = 5; {more}"))
    assert "use Confluent's registry, or publish JSON or Avro" in str(read(decode, frame(number, b"\x02\x02")))


def test_an_unknown_id(decode: Decoder) -> None:
    assert str(read(decode, frame(9999, b"\x06Elm"))) == "schema: schema 9999: the registry has no such schema"
