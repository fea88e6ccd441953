"""A block decodes to the delta it encodes, anything else is refused with its cause; and parts add up to their delta."""

import dataclasses
import struct
from typing import Any

import msgspec
import numpy as np
import pytest
import xxhash
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dedup.changelog.block import decode, encode, merge_deltas, size_of, split_delta
from stream_dedup.dedup.batch import ARRIVAL, DELETED, Delta
from stream_dedup.dedup.clocks import CLOCK
from stream_dedup.errors import CorruptBlock, SchemeMismatch

SCHEME = 0xFEDC_BA98_7654_3210
RECORD = np.dtype([("row_id", "<u8"), ("time", "<i8"), ("size", "<u2"), ("sketch", "u1", 5)])
ONE = Delta(np.zeros(1, RECORD), np.ones((1, 3), np.uint32), ["a"], np.empty(0, DELETED), 5)
ANY_TIME = st.integers(-(2**63), 2**63 - 1)


@st.composite
def deltas(draw: st.DrawFn) -> Delta:
    ids = draw(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=20))
    n, tables = len(ids), draw(st.integers(1, 40))
    records = np.frombuffer(draw(st.binary(min_size=n * RECORD.itemsize, max_size=n * RECORD.itemsize)), RECORD)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    keys = random.integers(0, 2**32, (n, tables), np.uint32)
    forgotten = np.array(draw(st.lists(st.tuples(st.integers(0, n), st.integers(0, 2**64 - 1)), max_size=5)), DELETED)
    bodies = draw(st.just([]) | st.lists(st.binary(max_size=9), min_size=n, max_size=n))
    counts = np.zeros(0, np.uint8)
    if n and draw(st.booleans()):
        counts = random.choice(np.array([0, 1, 7, 128], np.uint8), n)
    passages = random.integers(1, 2**32, counts.sum(dtype=int), np.uint32)
    arrivals, clocks, elapsed = np.zeros(0, ARRIVAL), np.zeros(0, CLOCK), 0
    if draw(st.booleans()):
        arrivals = np.frombuffer(random.bytes(n * ARRIVAL.itemsize), ARRIVAL)
        clocks = np.frombuffer(random.bytes(draw(st.integers(1, 3)) * CLOCK.itemsize), CLOCK)
        elapsed = draw(ANY_TIME)
    times, stories = draw(ANY_TIME), [name + "'s" if draw(st.booleans()) else "" for name in ids]
    stories = stories if any(stories) else []
    return Delta(records, keys, ids, forgotten, times, bodies, passages, counts, arrivals, clocks, elapsed, stories)


@given(deltas())
def test_a_block_decodes_to_its_delta(delta: Delta) -> None:
    decoded = decode(encode(delta, SCHEME), SCHEME, RECORD)
    assert decoded.keys.shape == delta.keys.shape
    for field in dataclasses.fields(Delta):
        one, other = getattr(decoded, field.name), getattr(delta, field.name)
        assert one.tobytes() == other.tobytes() if isinstance(one, np.ndarray) else one == other, field.name


@given(deltas(), st.data())
def test_any_changed_missing_or_added_byte_is_corruption(delta: Delta, data: st.DataObject) -> None:
    block = encode(delta, SCHEME)
    at, change = data.draw(st.integers(0, len(block) - 1)), data.draw(st.integers(1, 255))
    changed = block[:at] + bytes([block[at] ^ change]) + block[at + 1 :]
    for damaged in (changed, block[:at], block + data.draw(st.binary(min_size=1, max_size=100))):
        with pytest.raises(CorruptBlock):
            decode(damaged, SCHEME, RECORD)


@given(deltas(), st.integers(0, 2**64 - 1).filter(lambda one: one != SCHEME))
def test_an_intact_block_of_another_scheme_is_a_mismatch_that_names_both(delta: Delta, other: int) -> None:
    with pytest.raises(SchemeMismatch, match=f"{SCHEME:016x}.*{other:016x}"):
        decode(encode(delta, SCHEME), other, RECORD)


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(6, "<H", 1), (16, "<I", 2), (16, "<I", 2**32 - 1), (20, "<I", 9), (40, "<Q", 2**40), (40, "<Q", 3)],
    ids=["tables", "additions", "very many additions", "forgotten", "huge content", "small content"],
)
def test_a_head_that_contradicts_its_content_is_corruption(at: int, form: str, value: int) -> None:
    """Also with a correct checksum: no size from the head is used unchecked."""
    block = encode(ONE, SCHEME)
    head = bytearray(block[:48])
    struct.pack_into(form, head, at, value)
    with pytest.raises(CorruptBlock):
        decode(bytes(head) + xxhash.xxh3_128_digest(head + block[64:]) + block[64:], SCHEME, RECORD)


@pytest.mark.parametrize(
    "changes",
    [
        {"passages": np.array([7, 8, 9], np.uint32), "passage_counts": np.array([2], np.uint8)},
        {"passages": np.array([7, 8, 9], np.uint32)},
        {"passage_counts": np.zeros(2, np.uint8)},
        {"bodies": [b"one", b"more"]},
        {"arrivals": np.zeros(2, ARRIVAL)},
        {"stories": ["b", "c"]},
        {"signatures": np.zeros(2, RECORD)},
        {"signatures": np.zeros(1, [("row_id", "<u8"), ("body", "u1", 300)])},
    ],
)
def test_columns_that_do_not_add_up_are_corruption(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptBlock, match=r"add up|cannot be read"):
        decode(encode(dataclasses.replace(ONE, **changes), SCHEME), SCHEME, RECORD)


def test_a_block_of_before_has_no_stories_and_the_program_of_before_reads_ours() -> None:
    block = encode(dataclasses.replace(ONE, stories=["b"]), SCHEME)
    content = msgspec.msgpack.decode(zstandard.decompress(block[64:]))
    assert content.pop() == [b"b"], "it skips elements behind those that it knows"
    frame = msgspec.msgpack.encode(content)
    head = block[:40] + len(frame).to_bytes(8, "little")
    packed = zstandard.compress(frame)
    before = decode(head + xxhash.xxh3_128_digest(head + packed) + packed, SCHEME, RECORD)
    assert (before.ids, before.names()) == (["a"], [("a", "a")])


def test_other_bytes_are_refused_as_no_block() -> None:
    with pytest.raises(CorruptBlock, match="starts with b'PK"):
        decode(b"PK\3\4" + bytes(200), SCHEME, RECORD)


@settings(max_examples=60)
@given(deltas(), st.integers(200, 900))
def test_parts_add_up_and_fit(whole: Delta, limit: int) -> None:
    whole = dataclasses.replace(whole, forgotten=np.sort(whole.forgotten, order="before"), clocks=whole.clocks[:0])
    parts = list(split_delta(whole, limit))
    assert all(len(part) == 1 or size_of(part) <= limit for part in parts[:-1])
    merged = merge_deltas([decode(encode(part, SCHEME), SCHEME, RECORD) for part in parts])
    assert encode(dataclasses.replace(merged, elapsed=whole.elapsed), SCHEME) == encode(whole, SCHEME)
