"""The store of signatures and ids."""

import numpy as np
import pytest

from stream_dedup.index import rows
from stream_dedup.index.rows import RowStore

DTYPE = np.dtype([("sketch", "u1", (4,)), ("time", "i8")])


def signatures(*times):
    made = np.zeros(len(times), DTYPE)
    made["time"] = times
    made["sketch"] = np.array(times)[:, None] % 251
    return made


def test_ids_of_more_than_four_gigabytes_keep_their_ends(monkeypatch):
    monkeypatch.setattr(rows, "_MAX_UINT32", 5)
    store = RowStore(np.dtype([("time", "i8")]))
    for name in ("abc", "de", "f", ""):
        store.append(np.zeros(1, store.dtype), [name])
    assert [store.name(row)[0] for row in range(4)] == ["abc", "de", "f", ""]


def test_an_id_comes_back_as_it_was_even_empty_or_broken():
    store = RowStore(DTYPE)
    ids = ["", "\ud800", "\x00", "x" * 10_000, ""]
    store.append(signatures(*range(5)), ids)
    assert [store.name(row)[0] for row in range(5)] == ids


def test_batches_may_cross_segments_and_whole_segments_are_freed():
    store = RowStore(DTYPE)
    total = 0
    for size in (1, 65_535, 1, 100, 150_000, 0, 7):
        times = np.arange(total, total + size)
        assert (
            store.append(signatures(*times.tolist()) if size else signatures()[:0], [f"id{t}" for t in times]) == total
        )
        total += size
    rows = np.array([0, 65_535, 65_536, 65_537, 131_071, 131_072, total - 1])
    assert store.take(rows[::-1])["time"].tolist() == rows[::-1].tolist()
    assert [store.name(row)[0] for row in rows.tolist()] == [f"id{row}" for row in rows.tolist()]
    before = sum(store.parts())
    store.trim(65_535)
    assert (len(store), store.first_row) == (total, 0)
    store.trim(131_100)
    store.trim(5)
    assert (len(store), store.first_row) == (total - 131_072, 131_072)
    assert sum(store.parts()) < before * 0.5
    assert store.take(rows[-2:])["time"].tolist() == rows[-2:].tolist()
    assert store.name(total - 1)[0] == f"id{total - 1}"
    assert store.append(signatures(5), ["next"]) == total
    for row in (131_071, total + 1):
        with pytest.raises(IndexError, match="the store has"):
            store.take(np.array([row]))
        with pytest.raises(IndexError, match="the store has"):
            store.name(row)[0]


def test_bodies_stand_beside_the_ids_and_are_freed_with_them():
    store = RowStore(DTYPE, with_bodies=True)
    bodies = [b"%d" % n * (n % 5) for n in range(70_000)]
    for start, end in ((0, 1), (1, 60_000), (60_000, 70_000)):
        store.append(signatures(*range(start, end)), [f"id{n}" for n in range(start, end)], bodies[start:end])
    rows = [69_999, 0, 65_535, 65_536, 3, 3]
    assert store.bodies(np.array(rows)) == [bodies[row] for row in rows]
    assert store.name(65_536)[0] == "id65536"
    whole = sum(store.parts())
    store.trim(70_000)
    assert sum(store.parts()) < whole / 4
    with pytest.raises(IndexError, match="the store has"):
        store.bodies(np.array([0]))


def test_sequences_are_dropped_by_whole_segments_and_sets_stay():
    head, codes, members = (3).to_bytes(4, "little") + bytes(4), b"abcdef", b"set"
    store, count = RowStore(DTYPE, with_bodies=True), 70_000
    bodies = [head + codes + members * (row % 2) for row in range(count)]
    store.append(signatures(*range(count)), [f"id{row}" for row in range(count)], bodies)
    rows, whole = np.array([0, 1, 65_535, 65_536, 69_999]), store.parts()
    store.drop_sequences(65_535)
    assert (store.bodies(rows), store.parts()) == ([bodies[row] for row in rows], whole), "row 65,535 is needed"
    for first_row in (65_536, 69_999, 10**9):
        store.drop_sequences(first_row)
        assert store.bodies(rows) == [b"", bytes(8) + members, bytes(8) + members, *(bodies[row] for row in rows[3:])]
    assert store.parts()[:2] == whole[:2]
    assert store.parts()[2] < whole[2] - 32_768 * (len(head) + len(codes))
    store.append(signatures(1), ["next"], [head + codes])
    assert store.bodies(np.array([count])) == [head + codes]
    assert store.name(65_535)[0] == "id65535"
