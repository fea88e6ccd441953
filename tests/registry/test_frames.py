"""Values of a schema registry's serializers, in the three forms, become the items that their JSON would be."""

import json
import logging
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from stream_dedup.errors import BadItem, RegistryAway
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.registry.readers import AvroReader
from stream_dedup.settings import ItemSettings, RegistrySettings, Settings
from stream_dedup.tools.survey.summary import rows_of
from stream_dedup.tools.survey.survey import Survey
from tests.registry.server import AVRO, FORMS, MOMENT, RegistryServer, as_json, avro, frame, protobuf_file

ITEM = {"id": "7", "title": "Elm bridge opens", "text": "It opened on Monday.", "url": "https://a.example/7"}
IN_AVRO = FORMS["AVRO"][1](ITEM)


def decoder(registry: RegistryServer) -> Decoder:
    return Decoder(ItemSettings(), RegistrySettings(url=registry.url))


def read(decode: Decoder, value: bytes) -> Any:
    return decode(value, b"k", None, 1, 2)


TWIN = read(Decoder(ItemSettings()), as_json(ITEM))


def record_type(name: str, /, **types: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": types[field]} for field in types]}


@pytest.mark.parametrize("kind", FORMS)
def test_each_form_is_read_as_its_json(registry: RegistryServer, kind: str) -> None:
    schema, encode = FORMS[kind]
    number = registry.register(kind, schema)
    value, decode = frame(number, encode(ITEM)), decoder(registry)
    assert read(decode, value) == TWIN
    assert decode.read(value).schema == f"{'JSON Schema' if kind == 'JSON' else 'news.Article'} (id {number})"
    if kind == "JSON":
        assert not registry.requests
        assert read(Decoder(ItemSettings()), value) == TWIN, "no registry is needed"


def test_avro_that_begins_like_json_is_avro(registry: RegistryServer) -> None:
    """The long -62 is written as an opening brace."""
    schema = record_type("Odd", n="long", title="string")
    value = frame(registry.register("AVRO", schema), avro(schema, {"n": -62, "title": "Elm bridge opens"}))
    assert value[5:6] == b"{"
    assert read(decoder(registry), value).title == "Elm bridge opens"


def test_an_id_of_eight_bytes_is_told_apart(registry: RegistryServer) -> None:
    number = registry.register("AVRO", AVRO)
    value = b"\0" + number.to_bytes(8, "big") + IN_AVRO
    assert read(decoder(registry), value) == TWIN


def test_avro_types_become_json(registry: RegistryServer) -> None:
    author = record_type("Author", name="string")
    types: dict[str, Any] = {
        "micros": {"type": "long", "logicalType": "timestamp-micros"},
        "day": {"type": "int", "logicalType": "date"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "uuid": {"type": "string", "logicalType": "uuid"},
        "kind": {"type": "enum", "name": "Kind", "symbols": ["NEWS", "OPINION"]},
        "body": "bytes",
        "image": {"type": "fixed", "name": "Hash", "size": 2},
        "authors": {"type": "array", "items": author},
        "labels": {"type": "map", "values": ["null", "Author", "double"]},
        "editor": ["null", "Author"],
    }
    schema = record_type("All", **types)
    same = {"kind": "OPINION", "authors": [{"name": "Ann"}], "editor": {"name": "Cy"}}
    same["labels"] = {"a": None, "b": {"name": "Bo"}, "c": 1.5}
    values = same | {
        "micros": MOMENT, "day": MOMENT.date(), "price": Decimal("3.50"), "uuid": UUID(int=7),
        "body": "Brücke".encode(), "image": b"\xff\x00",
    }  # fmt: skip
    found = decoder(registry).read(frame(registry.register("AVRO", schema), avro(schema, values)))
    assert json.loads(found.value) == same | {
        "micros": "2024-01-02T03:04:05.678000Z", "day": "2024-01-02", "price": "3.50", "uuid": str(UUID(int=7)),
        "body": "Brücke", "image": "/wA=",
    }  # fmt: skip


def test_a_schema_may_refer_to_others(registry: RegistryServer) -> None:
    registry.register("AVRO", record_type("geo.Place", name="string"), subject="places")
    author = record_type("news.Author", name="string", home="geo.Place")
    registry.register("AVRO", author, (("geo.Place", "places"),), "authors / all")
    article = record_type("Article", title="string", author="news.Author", place="geo.Place")
    number = registry.register("AVRO", article, (("news.Author", "authors / all"), ("geo.Place", "places")))
    value = frame(number, b"\x06Elm" + b"\x06Ann" + b"\x04Ox" + b"\x04Oy")
    found = json.loads(decoder(registry).read(value).value)
    assert found == {"title": "Elm", "author": {"name": "Ann", "home": {"name": "Ox"}}, "place": {"name": "Oy"}}


def test_a_protobuf_file_may_import_others(registry: RegistryServer) -> None:
    file = protobuf_file()
    file.dependency.append("confluent/meta.proto")  # options alone; no subject has it
    other = protobuf_file()
    other.name, other.package = "other.proto", "others"
    registry.register("PROTOBUF", other, subject="others")
    file.dependency.append("other.proto")
    file.message_type[1].field.add(name="related", number=9, type=11, label=1, type_name=".others.Article")
    number = registry.register("PROTOBUF", file, (("other.proto", "others"),))
    value = frame(number, b"\x02\x02" + b"\x12\x03Elm" + b"\x4a\x05\x12\x03Oak")
    found = json.loads(decoder(registry).read(value).value)
    assert found == {"title": "Elm", "related": {"title": "Oak"}}


def test_a_schema_is_fetched_once(registry: RegistryServer) -> None:
    number = registry.register("AVRO", AVRO)
    value = frame(number, IN_AVRO)
    for _ in range(3):
        assert isinstance(read(decoder(registry), value), Item)
    assert registry.requests == [f"/schemas/ids/{number}"]
    registry.stop()
    assert isinstance(read(decoder(registry), value), Item)


def test_an_unknown_id_is_a_bad_item_and_asked_for_once(registry: RegistryServer) -> None:
    decode = decoder(registry)
    for _ in range(3):
        assert str(read(decode, frame(77, b"\x06Elm"))) == "schema: schema 77: the registry has no such schema"
    assert len(registry.requests) == 1


def test_without_a_registry_the_setting_is_named() -> None:
    found = read(Decoder(ItemSettings()), frame(7, b"\x06Elm"))
    assert str(found) == "schema: it is Avro or Protobuf of a schema registry (schema id 7): set [registry] url"


def test_a_schema_without_title_and_text_is_said_once_with_its_fields(
    registry: RegistryServer, caplog: pytest.LogCaptureFixture
) -> None:
    number = registry.register("AVRO", record_type("Stock", kop="string"))
    decode = decoder(registry)
    with caplog.at_level(logging.WARNING):
        found = [read(decode, frame(number, b"\x06Elm")) for _ in range(3)]
    assert "the record has: kop" in str(found[0])
    assert str(found[0]).endswith(f"schema: Stock (id {number})")
    [said] = [record.getMessage() for record in caplog.records]
    assert "Stock" in said
    assert "kop" in said


@pytest.mark.parametrize(
    ("kind", "payload", "cause"),
    [
        ("AVRO", b"", "malformed"),
        ("AVRO", b"\x06Elm", "do not fit"),
        ("AVRO", IN_AVRO + b"\0", "some are left over"),
        ("AVRO", IN_AVRO[:-3], "do not fit"),
        ("AVRO", b"\x02\xff", "do not fit"),
        ("PROTOBUF", b"\x02\x02\x12\xffElm", "do not fit"),
        ("PROTOBUF", b"\x02\x08", "no message at the place [4]"),
        ("PROTOBUF", b"\x04\x02\x02", "no message at the place [1, 1]"),
        ("PROTOBUF", b"\x02\x01", "no message at the place [-1]"),
        ("PROTOBUF", b"\x01", "no message at the place []"),
        ("PROTOBUF", b"\x80\x80\x80\x80\x80\x80", "the positions of its message are missing"),
        ("PROTOBUF", b"\xfe\x01", "positions of its message are missing"),
        ("PROTOBUF", b"\x02\x02", "hold neither a headline nor a text"),
        ("JSON", b"\x06Elm", "is a JSON Schema, and the value is no JSON object"),
    ],
)
def test_a_value_that_does_not_fit_its_schema_is_a_bad_item(
    registry: RegistryServer, kind: str, payload: bytes, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = read(decoder(registry), frame(registry.register(kind, FORMS[kind][0]), payload))
    assert isinstance(found, BadItem)
    assert cause in str(found)
    assert not caplog.records, "it is not the fault of the schema"


def test_a_registry_without_descriptors_is_named_with_the_cure(registry: RegistryServer) -> None:
    registry.has_descriptors = False
    number = registry.register("PROTOBUF", protobuf_file())
    found = read(decoder(registry), frame(number, b"\x02\x02"))
    assert f"schema {number}: the registry does not give the descriptor of this Protobuf schema" in str(found)


@pytest.mark.parametrize(("kind", "schema"), [("AVRO", {"type": "recrod"}), ("AVRO", "{"), ("THRIFT", "x")])
def test_a_schema_that_cannot_be_used_makes_bad_items(registry: RegistryServer, kind: str, schema: Any) -> None:
    number = registry.register(kind, schema)
    assert str(read(decoder(registry), frame(number, b"\x06Elm"))).startswith(f"schema: schema {number}: ")


def test_a_schema_that_contains_itself_is_refused_with_the_cure(
    registry: RegistryServer, caplog: pytest.LogCaptureFixture
) -> None:
    """fastavro follows each byte one level deeper, until the stack of the process ends."""
    number = registry.register("AVRO", record_type("Node", title="string", next=["null", "Node"]))
    decode = decoder(registry)
    found, _ = (str(read(decode, frame(number, b"\x00\x02" * 1_000_000))) for _ in range(2))
    assert len(caplog.records) == 1, "said once"
    assert f"schema {number}: it is not a usable Avro schema: a type contains itself" in found
    assert "publish under a schema without that, or as JSON" in found


def nested(name: str, inner: Any) -> dict[str, Any]:
    return record_type(name, one=inner, two=inner)


def test_types_that_unfold_to_many_or_deep_ones_take_no_time() -> None:
    wide: Any = nested("N0", "string")
    for i in range(1, 40):
        wide = [*(wide if isinstance(wide, list) else [wide]), nested(f"N{i}", f"N{i - 1}")]
    AvroReader(json.dumps(wide))  # one datum has a million million values, and their bytes
    with pytest.raises(BadItem, match="more than 50 deep"):
        AvroReader(json.dumps([*wide, *(nested(f"N{i}", f"N{i - 1}") for i in range(40, 1000))]))


def test_a_registry_that_is_away_is_no_verdict_on_the_record(registry: RegistryServer) -> None:
    value = frame(registry.register("AVRO", AVRO), IN_AVRO)
    registry.stop()
    decode = decoder(registry)
    with pytest.raises(RegistryAway, match="cannot be reached"):
        read(decode, value)
    registry.start()
    assert isinstance(read(decode, value), Item)


def test_a_survey_counts_the_schemas(registry: RegistryServer) -> None:
    number = registry.register("AVRO", AVRO)
    value = frame(number, IN_AVRO)
    decode = decoder(registry)
    survey = Survey(decode.read, Settings())
    for i in range(3):
        survey.add(decode(value, b"k", 1, 0, i), value, 0, i)
    assert ("schemas", f"news.Article (id {number}) (3)") in rows_of(survey.summary())
    assert survey.summary().as_json()["schemas"] == {f"news.Article (id {number})": 3}
