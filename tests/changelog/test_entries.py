"""A merged block equals its blocks, and readers apply every entry once, in whatever order they read the partitions."""

import random
from collections.abc import Sequence
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dedup.changelog.block import decode, encode, merge_deltas, size_of
from stream_dedup.changelog.entries import MAX_BLOCKS, ChangelogEntry, EntryBuilder, Resequencer
from stream_dedup.changelog.records import (
    RestoreResult,
    SequenceRange,
    TaskSummary,
    blocks_header,
    blocks_start,
    offsets_header,
)
from stream_dedup.dedup.batch import FORGOTTEN, Delta
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import CorruptBlock
from stream_dedup.kafka.record_batch import ENTRY_BYTES
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings, load_settings
from tests.harness.feed import made_up

RECORD = np.dtype([("row_id", "<u8"), ("time", "<i8")])
DAY = 86_400_000


def a_delta(rows: int, first: int = 0, id_bytes: int = 10, forgotten: Sequence[tuple[int, int]] = ()) -> Delta:
    records = np.zeros(rows, RECORD)
    records["row_id"] = np.arange(first, first + rows)
    ids = [f"{first + i}".ljust(id_bytes, "x") for i in range(rows)]
    keys = np.full((rows, 3), first, np.uint32)
    return Delta(records, keys, ids, np.array(list(forgotten), FORGOTTEN), first)


# -- merging is exact -----------------------------------------------------------------------------------------


def items(count: int, seed: int) -> list[Item | Tombstone]:
    """Small articles within three days, a third of them copies or cut; some are late, some withdrawn."""
    chance = random.Random(seed)
    found: list[Item | Tombstone] = []
    for i, (name, value) in enumerate(made_up(count, seed)):
        if found and chance.random() < 0.05:
            found.append(Tombstone(f"item-{chance.randrange(i)}", i * DAY // 200))
            continue
        text = value.decode().split('"text": "')[1].split('"')[0]
        title = value.decode().split('"title": "')[1].split('"')[0]
        name_of = f"item-{chance.randrange(i)}" if i and chance.random() < 0.05 else name.decode()
        moment = i * DAY // 200 - (chance.randrange(5 * DAY) if chance.random() < 0.1 else 0)
        found.append(
            Item(name_of, title, text, f"site{chance.randrange(9)}.example", max(0, moment), chance.randrange(3), i)
        )
    return found


EXACT = load_settings(fingerprint={"verify": "exact"}, window={"length": "2d"})
SKETCHES = load_settings(window={"length": "2d"})


@pytest.mark.parametrize("config", [SKETCHES, EXACT], ids=["sketches", "bodies"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_index_restored_from_merged_blocks_decides_like_one_from_blocks(config: Settings, seed: int) -> None:
    chance = random.Random(seed)
    stream, after = items(500, seed), items(300, seed + 10)
    first, from_blocks, from_merged = Deduplicator(config), Deduplicator(config), Deduplicator(config)
    deltas, at = [], 0
    while at < len(stream):
        size = chance.choice([1, 1, 1, 2, 7, 40])
        batch = first.judge(stream[at : at + size])
        first.apply(batch)
        deltas.append(batch.delta)
        at += size
    assert any(len(one.forgotten) for one in deltas)
    assert {int(one) for delta in deltas for one in delta.clocks["partition"]} >= {0, 1, 2}
    for delta in deltas:
        from_blocks.restore(delta)
    at = 0
    while at < len(deltas):
        size = chance.choice([1, 2, 30, 200])
        block = encode(merge_deltas(deltas[at : at + size]), first.scheme_id)
        from_merged.restore(decode(block, first.scheme_id, first.scheme.signature_dtype))
        at += size
    assert from_merged.watermark == from_blocks.watermark == first.watermark
    assert np.array_equal(from_merged.boilerplate.entries, from_blocks.boilerplate.entries)
    for start in range(0, len(after), 20):
        some = [msgspec.structs.replace(one, time=one.time + 2 * DAY) for one in after[start : start + 20]]
        one, other = from_blocks.judge(some), from_merged.judge(some)
        assert [v.as_json() for v in other.verdicts] == [v.as_json() for v in one.verdicts]
        assert encode(other.delta, first.scheme_id) == encode(one.delta, first.scheme_id)
        from_blocks.apply(one)
        from_merged.apply(other)
    for dedup in (first, from_blocks, from_merged):
        dedup.close()


# -- what is written where ------------------------------------------------------------------------------------


def a_folding() -> EntryBuilder:
    builder = EntryBuilder()
    builder.begin(1)
    return builder


def test_a_trickle_is_merged_and_a_flood_written_once() -> None:
    builder = a_folding()
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
    builder, first = a_folding(), 0
    for rows, id_bytes in sizes:
        entries = builder.build(a_delta(rows, first, id_bytes))
        first += rows
        assert all(size_of(one.delta) <= ENTRY_BYTES for one in entries)
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
        owner, standbys = a_folding(), [AReader() for _ in range(3)]
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
                    owner.skip_to(owner.next + chance.randrange(100))
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
    return [(one.span, one.is_merged, changes(one.delta)) for one in builder.build(a_delta(600))]


def test_gaps_are_seen_skipped_and_closed() -> None:
    order: Resequencer[str] = Resequencer()

    def ready() -> list[tuple[str, bool]]:
        return [(one.content, one.is_redundant) for one in order.ready()]

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
        order.skip_to(9)
    order.skip_gap()
    assert (ready(), order.has_gap) == ([("e", False)], False)
    order.skip_to(9)
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
