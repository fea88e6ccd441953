"""A block decodes to the delta it encodes; anything else is refused with its cause."""

import dataclasses
import struct

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from stream_dedup.changelog.block import HEADER_BYTES, decode, encode
from stream_dedup.dedup.batch import ARRIVAL, FORGOTTEN, Delta
from stream_dedup.dedup.clocks import CLOCK
from stream_dedup.errors import CorruptBlock, SchemeMismatch

SCHEME = 0xFEDC_BA98_7654_3210
RECORD = np.dtype([("row_id", "<u8"), ("time", "<i8"), ("size", "<u2"), ("sketch", "u1", 5)])
ANY_TIME = st.integers(-(2**63), 2**63 - 1)


@st.composite
def deltas(draw: st.DrawFn) -> Delta:
    ids = draw(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=20))
    n, tables = len(ids), draw(st.integers(1, 40))
    records = np.frombuffer(draw(st.binary(min_size=n * RECORD.itemsize, max_size=n * RECORD.itemsize)), RECORD)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    keys = random.integers(0, 2**32, (n, tables), np.uint32)
    forgotten = np.array(draw(st.lists(st.tuples(st.integers(0, n), st.integers(0, 2**64 - 1)), max_size=5)), FORGOTTEN)
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
    return Delta(records, keys, ids, forgotten, draw(ANY_TIME), bodies, passages, counts, arrivals, clocks, elapsed)


@given(deltas())
def test_a_block_decodes_to_its_delta(delta: Delta) -> None:
    decoded = decode(encode(delta, SCHEME), SCHEME, RECORD)
    assert decoded.signatures.tobytes() == delta.signatures.tobytes()
    assert np.array_equal(decoded.keys, delta.keys)
    assert decoded.keys.shape == delta.keys.shape
    assert decoded.ids == delta.ids
    assert decoded.bodies == delta.bodies
    assert np.array_equal(decoded.passages, delta.passages)
    assert np.array_equal(decoded.passage_counts, delta.passage_counts)
    assert np.array_equal(decoded.forgotten, delta.forgotten)
    assert (decoded.watermark, decoded.elapsed) == (delta.watermark, delta.elapsed)
    assert decoded.arrivals.tobytes() == delta.arrivals.tobytes()
    assert decoded.clocks.tobytes() == delta.clocks.tobytes()


@given(deltas(), st.data())
def test_any_changed_byte_is_corruption(delta: Delta, data: st.DataObject) -> None:
    block = bytearray(encode(delta, SCHEME))
    block[data.draw(st.integers(0, len(block) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBlock):
        decode(bytes(block), SCHEME, RECORD)


@given(deltas(), st.data())
def test_a_block_cut_anywhere_is_corruption(delta: Delta, data: st.DataObject) -> None:
    block = encode(delta, SCHEME)
    with pytest.raises(CorruptBlock):
        decode(block[: data.draw(st.integers(0, len(block) - 1))], SCHEME, RECORD)


@given(deltas(), st.binary(min_size=1, max_size=100))
def test_a_block_with_trailing_bytes_is_corruption(delta: Delta, more: bytes) -> None:
    with pytest.raises(CorruptBlock):
        decode(encode(delta, SCHEME) + more, SCHEME, RECORD)


@given(deltas(), st.integers(0, 2**64 - 1).filter(lambda one: one != SCHEME))
def test_an_intact_block_of_another_scheme_is_a_mismatch_that_names_both(delta: Delta, other: int) -> None:
    with pytest.raises(SchemeMismatch, match=f"{SCHEME:016x}.*{other:016x}"):
        decode(encode(delta, SCHEME), other, RECORD)


def test_a_block_of_another_version_is_reported() -> None:
    block = encode(_one(), SCHEME)
    head, frame = bytearray(block[:40]), block[HEADER_BYTES:]
    head[4:6] = struct.pack("<H", 9)
    with pytest.raises(CorruptBlock, match="version 9; this program reads 1 to 8"):
        decode(_seal(bytes(head), frame), SCHEME, RECORD)


@pytest.mark.parametrize(
    ("at", "form", "value"),
    [(6, "<H", 1), (16, "<I", 2), (16, "<I", 2**32 - 1), (20, "<I", 9), (32, "<Q", 2**40), (32, "<Q", 3)],
    ids=["tables", "additions", "very many additions", "forgotten", "huge content", "small content"],
)
def test_a_head_that_contradicts_its_content_is_corruption(at: int, form: str, value: int) -> None:
    """Also with a correct checksum: no size from the head is used unchecked."""
    block = encode(_one(), SCHEME)
    head = bytearray(block[:40])
    struct.pack_into(form, head, at, value)
    with pytest.raises(CorruptBlock):
        decode(_seal(bytes(head), block[HEADER_BYTES:]), SCHEME, RECORD)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_the_version_of_a_block_tells_its_content(version: int) -> None:
    """1: nothing more; 2: bodies; 3: passages; 4: both. Blocks of each version can still be read."""
    delta = _of_version(version)
    block = encode(delta, SCHEME)
    assert struct.unpack_from("<H", block, 4)[0] == version
    decoded = decode(block, SCHEME, RECORD)
    assert (decoded.bodies, decoded.passages.tolist()) == (delta.bodies, delta.passages.tolist())
    assert decoded.passage_counts.tolist() == delta.passage_counts.tolist()


@pytest.mark.parametrize(("version", "read_as"), [(a, b) for a in range(1, 5) for b in range(1, 5) if a != b])
def test_a_block_read_as_another_version_is_corruption(version: int, read_as: int) -> None:
    block = encode(_of_version(version), SCHEME)
    head = bytearray(block[:40])
    struct.pack_into("<H", head, 4, read_as)
    with pytest.raises(CorruptBlock):
        decode(_seal(bytes(head), block[HEADER_BYTES:]), SCHEME, RECORD)


def test_counts_that_do_not_add_up_to_the_passages_are_corruption() -> None:
    for counts in ([2], [4], [0]):
        delta = dataclasses.replace(_of_version(3), passage_counts=np.array(counts, np.uint8))
        with pytest.raises(CorruptBlock, match="do not add up"):
            decode(encode(delta, SCHEME), SCHEME, RECORD)


def test_signatures_of_another_layout_are_corruption() -> None:
    with pytest.raises(CorruptBlock):
        decode(encode(_one(), SCHEME), SCHEME, np.dtype([("row_id", "<u8"), ("body", "u1", 300)]))


def test_other_bytes_are_refused_as_no_block() -> None:
    with pytest.raises(CorruptBlock, match="starts with b'PK"):
        decode(b"PK\3\4" + bytes(200), SCHEME, RECORD)


def _one() -> Delta:
    return Delta(np.zeros(1, RECORD), np.ones((1, 3), np.uint32), ["a"], np.empty(0, FORGOTTEN), 5)


def _of_version(version: int) -> Delta:
    bodies = [b"body"] if version in (2, 4) else []
    passages, counts = ([7, 8, 9], [3]) if version in (3, 4) else ([], [])
    more = {"passages": np.array(passages, np.uint32), "passage_counts": np.array(counts, np.uint8)}
    return dataclasses.replace(_one(), bodies=bodies, **more)


def _seal(head: bytes, frame: bytes) -> bytes:
    return head + xxhash.xxh3_128_digest(head + frame) + bytes(8) + frame
