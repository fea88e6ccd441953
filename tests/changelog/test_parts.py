"""The parts of a delta add up to it; and the headers of its records are restored."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dedup.changelog.block import decode, encode
from stream_dedup.changelog.entries import EntryBuilder, SequenceRange, split_delta
from stream_dedup.changelog.headers import RestoreResult, TaskSummary, offsets_header
from stream_dedup.changelog.partitions import index_partitions
from stream_dedup.changelog.reader import ChangelogReader
from stream_dedup.dedup.batch import FORGOTTEN, Delta
from stream_dedup.kafka.record_batch import ENTRY_BYTES

RECORD = np.dtype([("row_id", "<u8"), ("time", "<i8")])
SCHEME = 7


def a_delta(ids: list[str], forgotten: list[int], watermark: int = 5) -> Delta:
    records = np.zeros(len(ids), RECORD)
    records["row_id"] = np.arange(len(ids))
    keys = np.arange(3 * len(ids), dtype=np.uint32).reshape(len(ids), 3)
    before = [(at, 1000 + i) for i, at in enumerate(sorted(forgotten))]
    return Delta(records, keys, ids, np.array(before, FORGOTTEN), watermark)


@settings(max_examples=60)
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
    decoded = [decode(encode(part, SCHEME), SCHEME, RECORD) for part in split_delta(whole, limit)]
    assert len(decoded) >= 1
    assert [one for part in decoded for one in part.ids] == ids
    assert [one for part in decoded for one in part.bodies] == whole.bodies
    assert np.array_equal(np.concatenate([part.signatures for part in decoded]), whole.signatures)
    assert np.array_equal(np.concatenate([part.keys for part in decoded]), whole.keys)
    assert {part.watermark for part in decoded} == {5}
    events = []  # in the order in which they would be applied
    start = 0
    for part in decoded:
        events += [(start + int(one["before"]), int(one["row_id"])) for one in part.forgotten]
        start += len(part)
    assert events == [(int(one["before"]), int(one["row_id"])) for one in whole.forgotten]
    capacity = limit - len(forgotten) * FORGOTTEN.itemsize
    for part in decoded[:-1]:
        size = len(part) * (RECORD.itemsize + 16) + sum(map(len, part.ids))
        size += sum(4 + len(body) for body in part.bodies)
        assert size <= capacity or len(part) == 1


def test_a_batch_of_twenty_thousand_fits_a_topic_with_the_default_limit() -> None:
    dtype = np.dtype([("row_id", "<u8"), ("sketch", "V284")])
    random = np.random.default_rng(1)
    records = np.frombuffer(random.bytes(20_000 * dtype.itemsize), dtype)
    keys = random.integers(0, 2**32, (20_000, 30), np.uint32)
    delta = Delta(records, keys, [f"id-{i}" for i in range(20_000)], np.zeros(0, FORGOTTEN), 0)
    sizes = [len(encode(part, SCHEME)) for part in split_delta(delta)]
    assert len(sizes) > 5
    assert max(sizes) < ENTRY_BYTES + 10_000 < 2**20


@pytest.mark.parametrize("forgotten", [[], [0, 0]])
def test_an_empty_batch_still_moves_the_watermark(forgotten: list[int]) -> None:
    [only] = split_delta(a_delta([], forgotten, 99))
    part = decode(encode(only, SCHEME), SCHEME, RECORD)
    assert (len(part), len(part.forgotten), part.watermark) == (0, len(forgotten), 99)


PLACES = index_partitions("log", 0)


class Log:
    """A consumer that returns one block a poll, and no merged blocks."""

    def __init__(self, *headers: list[tuple[str, bytes]]) -> None:
        self._block = encode(a_delta([], []), SCHEME)
        self._headers, self._at = headers, 0
        self._assigned: list[Any] = []

    def assign(self, places: list[Any]) -> None:
        self._assigned = list(places)

    def seek(self, place: Any, offset: int) -> None: ...

    def beginning_offsets(self, places: Any) -> dict[Any, int]:
        return dict.fromkeys(places, 0)

    def end_offsets(self, places: Any) -> dict[Any, int]:
        return {place: len(self._headers) if place == PLACES.blocks else 0 for place in places}

    def position(self, place: Any) -> int:
        return self._at if place == PLACES.blocks else 0

    def poll(self, milliseconds: int) -> dict[Any, list[Any]]:
        if PLACES.blocks not in self._assigned or self._at == len(self._headers):
            return {}
        headers = self._headers[self._at]
        self._at += 1
        record = SimpleNamespace(
            topic="log", partition=0, offset=self._at - 1, key=b"owner", value=self._block, headers=headers
        )
        return {PLACES.blocks: [record]}


def read(log: Log, end: int) -> RestoreResult:
    ends = {PLACES.blocks: end, PLACES.merged: 0}
    reader = ChangelogReader(
        lambda: log, PLACES, b"owner", SCHEME, RECORD, lambda delta: None, EntryBuilder(), lambda: ends
    )
    reader.read_to(ends, lambda done, total: None)
    return reader.restored


def test_offsets_of_another_input_topic_are_dropped() -> None:
    one, two = SequenceRange(1, 1).header(), SequenceRange(2, 2).header()
    before = [one, TaskSummary("news.raw", "id-1", 5).header(), offsets_header({0: 400, 1: 400, 2: 400})]
    restored = read(Log(before, [two, offsets_header({0: 7}), TaskSummary("news.raw", "id-2", 6).header()]), 2)
    assert restored.offsets == {0: 7}
    assert restored.task_summary == TaskSummary("news.raw", "id-2", 6)
