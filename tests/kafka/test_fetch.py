"""Our unpacking of a fetch gives the same records and the same next offset as kafka-python's."""

import struct
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import Fetcher, IsolationLevel
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from stream_dedup.kafka import fetch
from stream_dedup.kafka.fetch import FastPartitionRecords
from tests.harness.check import assert_exactly_once
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make
from tests.lab.model import log
from tests.lab.model.log import signed
from tests.worker.support import run_until

PLACE = TopicPartition("news", 3)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TRANSACTIONAL, CONTROL, APPEND_TIME = 0x10, 0x20, 0x08

contents = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=9), contents), max_size=3)
records = st.tuples(st.integers(0, 2**42), contents, contents, headers)
batches = st.tuples(st.sampled_from(sorted(CODECS.values())), st.lists(records, min_size=1, max_size=9))


def batch_of(
    codec: int, some: Sequence[Any], base: int = 0, producer: int = -1, magic: int = 2, flags: int = 0
) -> bytes:
    """The bytes of a batch; `producer`: of a transaction of this producer id."""
    batch = MemoryRecordsBuilder(magic, codec, 2**30)
    for timestamp, key, value, extra in some:
        assert batch.append(timestamp, key, value, extra) is not None
    if producer >= 0:
        batch.set_producer_state(producer, 0, 0, True)
    batch.close()
    data = bytearray(batch.buffer())
    struct.pack_into(">q", data, 0, base)
    if flags:
        at = DefaultRecordBatch.ATTRIBUTES_OFFSET
        struct.pack_into(">h", data, at, struct.unpack_from(">h", data, at)[0] | flags)
    if magic == 2:
        signed(data)
    return bytes(data)


def marker(base: int, producer: int, *, commit: bool) -> bytes:
    data = log.marker(commit, producer, 0, 7).content
    struct.pack_into(">q", data, 0, base)
    return bytes(data)


def taken(kind: Any, data: bytes, first: int = 0, steps: Sequence[int | None] = (None,), aborted: Any = ()) -> Any:
    """The records of each `take`, and where the next fetch begins; an error ends the list."""
    parts = kind(
        first, PLACE, MemoryRecords(data), isolation_level=IsolationLevel.READ_COMMITTED, aborted_transactions=aborted
    )
    out = []
    for step in steps:
        if not parts:
            break
        try:
            found = parts.take(step)
        except kafka_errors.CorruptRecordError as error:
            return [*out, type(error)]
        shown = [(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in found]
        out.append((shown, parts.next_fetch_offset, parts.leader_epoch))
    return out


def same(data: bytes, **arguments: Any) -> Any:
    ours = taken(FastPartitionRecords, data, **arguments)
    assert ours == taken(Fetcher.PartitionRecords, data, **arguments)
    return ours


@given(st.lists(batches, max_size=3), st.integers(0, 12), st.lists(st.integers(1, 5), max_size=12))
def test_records_are_those_of_the_client(some: list[Any], first: int, steps: list[int]) -> None:
    """`same` compares both readers' records and errors."""
    data, base = b"", 0
    for codec, content in some:
        data += batch_of(codec, content, base)
        base += len(content) + 2  # as if compaction had taken two
    same(data, first=first, steps=[*steps, None, None])


@given(batches, st.data())
def test_damage_is_reported_where_the_client_reports_it(batch: Any, data: st.DataObject) -> None:
    _, content = batch
    damaged = bytearray(batch_of(0, content))
    start = DefaultRecordBatch.HEADER_STRUCT.size
    at = data.draw(st.integers(start, len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    signed(damaged)
    theirs = taken(Fetcher.PartitionRecords, bytes(damaged), steps=[1] * 12)
    ours = taken(FastPartitionRecords, bytes(damaged), steps=[1] * 12)
    # The exception: the client demands UTF-8 names of headers.
    if readable := [i for i, step in enumerate(ours) if isinstance(step, tuple) and has_escaped_name(step[0])]:
        assert theirs == [*ours[: readable[0]], kafka_errors.CorruptRecordError]
    else:
        assert ours == theirs


def has_escaped_name(shown: Any) -> bool:
    return any("\ud800" <= letter <= "\udfff" for *_, names in shown for name, _ in names for letter in name)


def test_a_wrong_checksum_is_an_error() -> None:
    data = bytearray(batch_of(0, [(1, b"k", b"value", [])]))
    data[-3] ^= 1
    assert same(bytes(data)) == [kafka_errors.CorruptRecordError]


def test_aborted_records_and_markers_are_skipped() -> None:
    class Aborted:
        producer_id, first_offset = 7, 0

    data = b"".join(
        [
            batch_of(3, [(1, None, b"aborted", [])] * 2, base=0, producer=7),
            batch_of(3, [(1, None, b"of another", [])], base=2, producer=8),
            marker(3, 7, commit=False),
            batch_of(3, [(1, None, b"committed", [])], base=4, producer=7),
            marker(5, 7, commit=True),
            marker(6, 8, commit=True),
        ]
    )
    ((read, behind, _),) = same(data, aborted=[Aborted()])
    assert [(offset, value) for _, _, offset, _, _, value, _ in read] == [(2, b"of another"), (4, b"committed")]
    assert behind == 7


def test_with_append_time_each_record_has_the_time_of_its_batch() -> None:
    data = batch_of(0, [(5, None, b"a", []), (9, None, b"b", [])], flags=APPEND_TIME)
    ((read, _, _),) = same(data)
    assert [timestamp for _, _, _, timestamp, *_ in read] == [9, 9]


@pytest.mark.parametrize("magic", [0, 1])
def test_formats_of_before_kafka_0_11_are_refused_by_name(magic: int) -> None:
    data = batch_of(0, [(5, b"k", b"a", [])], magic=magic)
    with pytest.raises(kafka_errors.CorruptRecordError, match=f"has format {magic}, and only format 2 is read"):
        fetch.next_batch(MemoryRecords(data))


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
@given(st.lists(st.tuples(st.integers(0, 300_000), st.binary(max_size=9)), min_size=1, max_size=9))
@settings(max_examples=20)
def test_a_batch_is_unpacked_record_by_record_and_larger_ones_are_cut(codec: str, some: list[Any]) -> None:
    """Whatever the sizes: each record comes, in order, with its key and place, and its value if it is small enough."""
    most = 2**17
    content = [(7, key, b"v" * size, [("name", b"x")]) for size, key in some]
    batch = fetch.next_batch(MemoryRecords(batch_of(CODECS[codec], content)))
    read = list(fetch.unpack(batch, "news", 3, most))
    assert [(one.offset, one.timestamp, one.key) for one in read] == [(i, 7, key) for i, (_, key) in enumerate(some)]
    for (size, _), one in zip(some, read, strict=True):
        is_small = size < most - 100
        assert is_small == (one.cut == 0) or abs(size - most) < 100
        assert len(one.value or b"") == (0 if one.cut else size)
        assert one.cut == 0 or size < one.cut < size + 100


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_bomb_takes_the_memory_of_a_small_record(codec: str) -> None:
    """Records of 30 MB that compress to nothing, and small ones between them: they were unpacked all at once."""
    values = [b"small", *([b"a" * 30_000_000, b"small"] * 4)]
    batch = fetch.next_batch(MemoryRecords(batch_of(CODECS[codec], [(7, b"k", value, []) for value in values])))
    tracemalloc.start()
    read = [(record.value, record.cut > 30_000_000) for record in fetch.unpack(batch, "news", 3, 2**20)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read == [(b"small", False), *([(b"", True), (b"small", False)] * 4)]
    assert most < 2**24


@pytest.mark.parametrize(
    ("key", "headers"),
    # Two bytes each on the wire, a hundred in memory: ten such records of 4 MiB killed a worker of 1 GiB.
    [(b"k" * 2**22, []), (b"k", [("", None)] * 20_000)],
    ids=["huge key", "many headers"],
)
def test_a_record_is_cut_for_its_key_and_its_headers_too(key: bytes, headers: list[Any]) -> None:
    few = [("name", b"12")] * 9
    batch = fetch.next_batch(MemoryRecords(batch_of(4, [(7, key, b"v", headers), (8, b"k", b"v", few)])))
    large, small = fetch.unpack(batch, "news", 3, 2**20)
    assert large.key == (None if len(key) > 2**20 else key)
    assert (large.value, large.headers, large.cut > 2**20) == (b"", (), True)
    assert (small.key, small.value, small.headers, small.cut) == (b"k", b"v", few, 0)


@pytest.mark.kafka
def test_every_codec_is_read(make: Make) -> None:
    settings = make()
    some = list(made_up(60))
    sent = []
    for i, codec in enumerate([None, "gzip", "snappy", "lz4", "zstd"]):
        sent += feed(settings, some[12 * i : 12 * i + 12], compression=codec, trace=b"\x00\xff")
    run_until(settings, len(sent))
    came = assert_exactly_once(settings, sent)
    values = {record.key: record.value for record in (*came.output, *came.duplicates)}
    assert values == {one.key: one.value for one in sent}


@pytest.mark.parametrize("last", [2, 900])
def test_a_damaged_batch_says_where_the_next_one_begins(last: int) -> None:
    """`last`: the offset of its end that the damaged header names, counted from its beginning."""
    damaged = bytearray(batch_of(0, [(1, b"k", b"v", [])] * 3, base=40))
    damaged[-1] ^= 1
    struct.pack_into(">i", damaged, DefaultRecordBatch.ATTRIBUTES_OFFSET + 2, last)
    data = (
        batch_of(0, [(1, b"k", b"v", [])] * 2, base=38) + bytes(damaged) + batch_of(0, [(1, b"k", b"v", [])], base=43)
    )
    parts = FastPartitionRecords(38, PLACE, MemoryRecords(data), isolation_level=IsolationLevel.READ_COMMITTED)
    assert [record.offset for record in parts.take()] == [38, 39]
    with pytest.raises(kafka_errors.CorruptRecordError) as caught:
        parts.take()
    assert caught.value.damaged == (PLACE.partition, 43)
