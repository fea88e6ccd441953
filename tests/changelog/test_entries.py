"""Readers apply every entry once, in whatever order they read the partitions."""

import random
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dedup.changelog import ENTRY_BYTES
from stream_dedup.changelog.block import size_of
from stream_dedup.changelog.entries import MAX_BLOCKS, ChangelogEntry, EntryBuilder, Resequencer
from stream_dedup.changelog.headers import (
    RestoreResult,
    SequenceRange,
    TaskSummary,
    blocks_header,
    blocks_start,
    offsets_header,
)
from stream_dedup.dedup.batch import DELETED, Delta
from stream_dedup.errors import CorruptBlock

RECORD = np.dtype([("row_id", "<u8"), ("time", "<i8")])


def a_delta(rows: int, first: int = 0, id_bytes: int = 10, forgotten: Sequence[tuple[int, int]] = ()) -> Delta:
    records = np.zeros(rows, RECORD)
    records["row_id"] = np.arange(first, first + rows)
    ids = [f"{first + i}".ljust(id_bytes, "x") for i in range(rows)]
    keys = np.full((rows, 3), first, np.uint32)
    return Delta(records, keys, ids, np.array(list(forgotten), DELETED), first)


# -- what is written where ------------------------------------------------------------------------------------


def a_builder() -> EntryBuilder:
    builder = EntryBuilder()
    builder.begin(1)
    return builder


def test_a_trickle_is_merged_and_a_flood_written_once() -> None:
    builder = a_builder()
    trickle = [entry for i in range(2 * MAX_BLOCKS + 1) for entry in builder.build(a_delta(1, i))]
    merged = [one for one in trickle if one.is_merged]
    assert [one.span for one in merged] == [SequenceRange(1, MAX_BLOCKS), SequenceRange(MAX_BLOCKS + 1, 2 * MAX_BLOCKS)]
    assert [len(one.delta) for one in merged] == [MAX_BLOCKS, MAX_BLOCKS]
    assert len(builder.state.waiting) == 1
    flood = [entry for i in range(5) for entry in builder.build(a_delta(2000, i))]
    assert [one.is_merged for one in flood] == [True] * 6, "one of the waiting blocks, and one for each delta"
    assert [len(one.delta) for one in flood] == [1, 2000, 2000, 2000, 2000, 2000]
    assert not builder.state.waiting


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 700), st.integers(1, 2000)), min_size=1, max_size=60))
def test_every_entry_fits_into_a_record(sizes: list[tuple[int, int]]) -> None:
    builder, first = a_builder(), 0
    for rows, id_bytes in sizes:
        entries = builder.build(a_delta(rows, first, id_bytes))
        first += rows
        assert all(size_of(entry.delta) <= ENTRY_BYTES for entry in entries)
        assert len(builder.state.waiting) <= MAX_BLOCKS


@pytest.mark.parametrize("value", [b"", b"7", b"7-", b"0-3", b"4-3", b"a-b", b"-3-4"])
def test_an_invalid_range_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptBlock, match="no range of sequence numbers"):
        SequenceRange.parse(value)


# -- any interleaving of the two partitions restores the same index ------------------------------------------------


def changes(delta: Delta) -> list[tuple[str, int]]:
    """The changes of a delta to the index, in order: additions and forgotten rows."""
    rows = [(before, 1, int(row)) for before, row in delta.forgotten.tolist()]
    rows += [(i, 2, int(row)) for i, row in enumerate(delta.signatures["row_id"])]
    return [("forget" if kind == 1 else "add", row) for _, kind, row in sorted(rows, key=lambda one: one[:2])]


class AReader:
    """Reads the two partitions as far as the test lets it."""

    def __init__(self) -> None:
        self.order: Resequencer[Delta] = Resequencer()
        self.builder = EntryBuilder()
        self.changes: list[tuple[str, int]] = []
        self.read = {True: 0, False: 0}

    def advance(self, log: Sequence[ChangelogEntry], is_merged: bool, count: int) -> None:
        own = [one for one in log if one.is_merged is is_merged]
        for entry in own[self.read[is_merged] : self.read[is_merged] + count]:
            self.read[is_merged] += 1
            put = self.order.add_merged if is_merged else self.order.add_block
            put(entry.span, entry.delta)
        if not self.order.next and sum(self.read.values()) == len(log):
            self.order.skip_gap()
        for one in self.order.ready():
            if not one.is_redundant:
                self.changes += changes(one.content)
            if one.is_merged:
                self.builder.read_merged(one.span)
            else:
                self.builder.read_block(one.span, one.content)


@pytest.mark.slow
def test_every_delta_counts_once_in_whatever_order_partitions_are_read() -> None:
    """Owners take over, some after the predecessor's last entries have expired; standbys are late by any amount."""
    for seed in range(40):
        chance = random.Random(seed)
        log: list[ChangelogEntry] = []
        truth: list[tuple[str, int]] = []
        owner, standbys = a_builder(), [AReader() for _ in range(3)]
        rows = 0
        for _ in range(chance.randrange(1, 120)):
            size = chance.choice([0, 1, 1, 1, 3, 300, 499, 500, 2500])
            gone = [(chance.randrange(size + 1), chance.randrange(rows + 1)) for _ in range(chance.randrange(2))]
            delta = a_delta(size, rows, 10, gone)
            rows += size
            truth += changes(delta)
            log += owner.build(delta)
            if chance.random() < 0.3:
                reader = chance.choice(standbys)
                reader.advance(log, chance.random() < 0.5, chance.randrange(1, 20))
            if chance.random() < 0.1:
                reader = AReader()
                # As a restore: the merged blocks first, then the blocks from an offset that is early enough.
                reader.advance(log, True, len(log))
                reader.advance(log, False, len(log))
                assert (reader.changes, reader.order.has_gap) == (truth, False), seed
                owner = reader.builder
                if chance.random() < 0.3:
                    owner.use_none_before(owner.next + chance.randrange(100))
        fresh = AReader()
        fresh.advance(log, True, len(log))
        fresh.advance(log, False, len(log))
        next_ones = written_next(fresh.builder)
        for reader in standbys:
            for is_merged in (True, False) if chance.random() < 0.5 else (False, True):
                reader.advance(log, is_merged, len(log))
            assert (reader.changes, reader.order.has_gap) == (truth, False), seed
            assert written_next(reader.builder) == next_ones, seed


def written_next(builder: EntryBuilder) -> list[tuple[SequenceRange, bool, list[tuple[str, int]]]]:
    return [(entry.span, entry.is_merged, changes(entry.delta)) for entry in builder.build(a_delta(600))]


def test_gaps_are_seen_skipped_and_closed() -> None:
    order: Resequencer[str] = Resequencer()

    def ready() -> list[tuple[str, bool]]:
        return [(entry.content, entry.is_redundant) for entry in order.ready()]

    order.add_block(SequenceRange(1, 1), "a")
    assert (ready(), order.has_gap) == ([], True), "there may be a merged block before it"
    order.skip_gap()
    assert ready() == [("a", False)]
    order.add_merged(SequenceRange(1, 3), "abc")
    assert (ready(), order.has_gap) == ([("abc", True)], True), "the blocks 2 and 3 are still to come"
    for number, content in ((2, "b"), (3, "c"), (5, "e")):
        order.add_block(SequenceRange(number, number), content)
    assert (ready(), order.has_gap) == ([("b", False), ("c", False)], True), "nothing has 4"
    with pytest.raises(ValueError, match="is still queued"):
        order.mark_read(9)
    order.skip_gap()
    assert (ready(), order.has_gap) == ([("e", False)], False)
    order.mark_read(9)
    order.add_merged(SequenceRange(6, 8), "fgh")
    order.add_block(SequenceRange(8, 8), "h")  # read twice, because its offset was unknown
    order.add_block(SequenceRange(9, 9), "i")
    assert (ready(), order.has_gap) == ([("fgh", True), ("i", False)], False)


def test_offsets_of_another_input_topic_are_dropped() -> None:
    restored, summary = RestoreResult(), TaskSummary("news.raw", "id-2", 6)
    restored.add_block([TaskSummary("news.raw", "id-1", 5).header(), offsets_header({0: 400, 1: 400, 2: 400})])
    restored.add_block([offsets_header({0: 7}), summary.header()])
    assert (restored.offsets, restored.task_summary) == ({0: 7}, summary)


def test_where_blocks_begin_counts_in_its_own_topic_only() -> None:
    """In a copy the offsets are others: blocks before that place may be needed there."""
    merged = SimpleNamespace(headers=[blocks_header(40, "id-1")])
    assert [blocks_start(merged, name) for name in ("id-1", "id-2", "")] == [40, 0, 0]
    assert blocks_start(SimpleNamespace(headers=[blocks_header(40)]), "") == 40, "brokers without ids"
    with pytest.raises(CorruptBlock, match="is no offset"):
        blocks_start(SimpleNamespace(headers=[("blocks", b" id-1")]), "id-1")
