"""A delta in parts is the delta; and what was aborted is not remembered."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dedup.changelog.block import decode
from stream_dedup.changelog.topic import PART_BYTES, blocks
from stream_dedup.dedup.batch import FORGOTTEN, Delta

RECORD = np.dtype([("row_id", "<u8"), ("time", "<i8")])
SCHEME = 7


def a_delta(ids: list[str], forgotten: list[int], watermark: int = 5) -> Delta:
    records = np.zeros(len(ids), RECORD)
    records["row_id"] = np.arange(len(ids))
    keys = np.arange(3 * len(ids), dtype=np.uint32).reshape(len(ids), 3)
    before = [(at, 1000 + i) for i, at in enumerate(sorted(forgotten))]
    return Delta(records, keys, ids, np.array(before, FORGOTTEN), watermark)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 60), max_size=40),
    forgotten=st.lists(st.integers(0, 1000), max_size=10),
    limit=st.integers(200, 900),
    whole_bodies=st.booleans(),
)
def test_parts_add_up(sizes: list[int], forgotten: list[int], limit: int, whole_bodies: bool) -> None:
    ids = [f"{i}".ljust(size, "x") for i, size in enumerate(sizes)]
    whole = a_delta(ids, [one % (len(ids) + 1) for one in forgotten])
    if whole_bodies:
        whole = replace(whole, bodies=[one.encode()[::-1] for one in ids])
    parts = [decode(block, SCHEME, RECORD) for block in blocks(whole, SCHEME, limit)]
    assert len(parts) >= 1
    assert [one for part in parts for one in part.ids] == ids
    assert [one for part in parts for one in part.bodies] == whole.bodies
    assert np.array_equal(np.concatenate([part.records for part in parts]), whole.records)
    assert np.array_equal(np.concatenate([part.keys for part in parts]), whole.keys)
    assert {part.watermark for part in parts} == {5}
    events = []  # in the order in which they would be applied
    start = 0
    for part in parts:
        events += [(start + int(one["before"]), int(one["row_id"])) for one in part.forgotten]
        start += len(part)
    assert events == [(int(one["before"]), int(one["row_id"])) for one in whole.forgotten]
    room = limit - len(forgotten) * FORGOTTEN.itemsize
    for part in parts[:-1]:
        size = len(part) * (RECORD.itemsize + 16) + sum(map(len, part.ids))
        size += sum(4 + len(body) for body in part.bodies)
        assert size <= room or len(part) == 1


def test_a_batch_of_twenty_thousand_passes_a_topic_with_the_default_limit() -> None:
    dtype = np.dtype([("row_id", "<u8"), ("sketch", "V284")])
    random = np.random.default_rng(1)
    records = np.frombuffer(random.bytes(20_000 * dtype.itemsize), dtype)
    keys = random.integers(0, 2**32, (20_000, 30), np.uint32)
    delta = Delta(records, keys, [f"id-{i}" for i in range(20_000)], np.zeros(0, FORGOTTEN), 0)
    sizes = [len(block) for block in blocks(delta, SCHEME)]
    assert len(sizes) > 5
    assert max(sizes) < PART_BYTES + 10_000 < 2**20


@pytest.mark.parametrize("forgotten", [[], [0, 0]])
def test_an_empty_batch_still_moves_the_watermark(forgotten: list[int]) -> None:
    [block] = blocks(a_delta([], forgotten, 99), SCHEME)
    part = decode(block, SCHEME, RECORD)
    assert (len(part), len(part.forgotten), part.watermark) == (0, len(forgotten), 99)
