"""Avro container files: the rows and verdicts of their JSON, in every codec; damaged ones end the run."""

import datetime
import json
import zlib
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import cramjam
import fastavro
import pytest
import zstandard

from stream_dedup.errors import InputError
from stream_dedup.tools.inputs.lines import LineReader, read_lines
from tests.harness.feed import made_up
from tests.registry.server import AVRO
from tests.tools.batch.conftest import Run
from tests.tools.batch.feed import write

MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
FLAGS = {"type": "array", "items": {"type": "record", "name": "Flag", "fields": [{"name": "is", "type": "boolean"}]}}
NOTHING = {"type": "array", "items": {"type": "record", "name": "N", "fields": [{"name": "n", "type": "null"}]}}
SYNC = b"0123456789abcdef"
TITLES = {"type": "record", "name": "Title", "fields": [{"name": "title", "type": "string"}]}


def articles(count: int) -> list[dict[str, Any]]:
    found = [json.loads(value) for _, value in made_up(count)]
    return [
        {name: one[name] for name in ("id", "title", "text")} | {"url": f"https://{one['source']}/"} for one in found
    ]


def number(value: int) -> bytes:
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def header(codec: str, schema: Any = TITLES) -> bytes:
    fields = text(b"avro.schema") + text(json.dumps(schema).encode()) + text(b"avro.codec") + text(codec.encode())
    return b"Obj\x01" + number(2) + fields + number(0) + SYNC


def block(data: bytes, count: int) -> bytes:
    return number(count) + text(data) + SYNC


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)) + bytes(4),
    "zstandard": zstandard.compress,
}


def test_a_thousand_items_of_a_file_get_the_verdicts_of_their_json(run: Run, tmp_path: Path) -> None:
    items = articles(1000)
    with (tmp_path / "in.avro").open("wb") as file:
        fastavro.writer(file, AVRO, [item | {"published": MOMENT} for item in items], codec="deflate")
    write(tmp_path / "in.jsonl", [json.dumps(item | {"published": MOMENT.isoformat()}).encode() for item in items])
    avro, lines = (run(tmp_path / name, to=name + ".out", batch_items=100) for name in ("in.avro", "in.jsonl"))
    assert (avro.result.items, avro.result.bad) == (1000, 0)
    assert [json.loads(line)["id"] for line in avro.lines] == [json.loads(line)["id"] for line in lines.lines]
    assert [(row["id"], row["verdict"]) for row in avro.rows] == [(row["id"], row["verdict"]) for row in lines.rows]
    assert len(avro.rows) > 100


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_fastavros_files_are_read_in_every_codec_under_any_name(tmp_path: Path, codec: str) -> None:
    path, items = tmp_path / "a.jsonl", [{"title": f"Elm {i}"} for i in range(5000)]
    with path.open("wb") as file:
        fastavro.writer(file, TITLES, items, codec=codec, sync_interval=1000)
    assert [json.loads(line) for line in read_lines(path)] == items


@pytest.mark.parametrize("blocks", [0, 2])
@pytest.mark.parametrize("codec", PACKERS)
def test_blocks_are_read_in_every_codec(tmp_path: Path, codec: str, blocks: int) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(header(codec) + block(PACKERS[codec](text(b"Elm") + text(b"Oak")), 2) * blocks)
    reader = LineReader([str(path)])
    assert [json.loads(line.value)["title"] for line in reader] == ["Elm", "Oak"] * blocks
    assert reader.bytes_read == reader.bytes_total


GOOD = header("null") + block(text(b"Elm"), 1)
DAMAGED = {
    "cut in a block": (GOOD[:-5], "it is cut short"),
    "cut in the header": (GOOD[:20], "it is cut short"),
    "another mark": (GOOD[:-1] + b"x", "a block does not end where it should"),
    "bytes left over": (header("null") + block(text(b"Elm") + b"\0", 1), "a block does not end where it should"),
    "too few bytes": (header("null") + block(text(b"Elm"), 2), "do not fit the Avro schema Title"),
    "a wrong count": (header("null") + block(text(b"Elm"), 2**40), "cannot hold"),
    "a negative count": (header("null") + block(text(b"Elm"), -1), "cannot hold"),
    "a wrong size": (header("null") + number(1) + number(2**60), "is damaged, or more than"),
    "a number without end": (header("null") + b"\xff" * 20, "cut short"),
    "an unknown codec": (header("brotli") + block(b"x", 1), "its codec is 'brotli'"),
    "damaged data": (header("deflate") + block(b"\xff\xff", 1), "cannot read"),
    "damaged snappy": (header("snappy") + block(b"\x10\xff\xff\xff\xff\xff", 1), "cannot read"),
    "types without end": (header("null", NODE) + block(b"\x00\x02" * 10**6, 1), "a type contains itself"),
    "values without end": (
        header("null", FLAGS) + block(number(10**6) + bytes(10**6 + 1), 1),
        "more than some 200,000",
    ),
    "items without bytes": (header("null", NOTHING) + block(number(10**12) + b"\0", 1), "items without bytes"),
    "no schema": (header("null", {"type": "recrod"}), "not a usable Avro schema"),
    "another format": (b'{"id": 1}\n', "an Avro file with Obj"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_ends_the_run_with_the_cause(tmp_path: Path, name: str) -> None:
    data, cause = DAMAGED[name]
    (tmp_path / "a.avro").write_bytes(data)
    with pytest.raises(InputError, match=cause):
        list(read_lines(tmp_path / "a.avro"))


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_a_block_that_unpacks_to_far_more_is_refused_before_it_takes_the_memory(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(header(codec) + block(PACKERS[codec](bytes(20 * 2**20)), 1))
    reader = LineReader([str(path)], most=2**20)
    with pytest.raises(InputError, match=r"unpacks to more than 16,777,216 bytes; raise \[worker\] max_record_bytes"):
        list(reader)


def test_a_large_record_is_a_bad_item_and_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(header("null") + block(text(b"x" * 2**17) + text(b"Elm"), 2))
    large, small = LineReader([str(path)], most=2**16)
    assert large.is_cut
    assert json.loads(small.value) == {"title": "Elm"}


def test_a_pipe_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(GOOD)))
    assert [json.loads(line) for line in read_lines("-")] == [{"title": "Elm"}]
