"""The hybrid index: lookups, deletion, expiry, merges and their failures."""

import sys
import threading

import numpy as np
import pytest

from stream_dedup.errors import MergeFailed, StreamDedupError
from stream_dedup.index import hybrid, runs
from stream_dedup.index.hybrid import HybridIndex, windows_since
from stream_dedup.index.runs import build_run
from tests.index.check import check, merge, rows_held
from tests.index.model import pairs_of, words_of

U32 = np.uint32


def keys_of(*lines):
    return np.array(lines, U32)


def at(*times):
    return np.array(times, np.int64)


def test_arrays_may_be_read_only_and_lie_anyhow():
    index = HybridIndex(range(2), background=False)
    lines = np.asfortranarray(keys_of([7, 1, 0], [8, 2, 0]))[:, :2]
    lines.flags.writeable = False
    index.add(lines, at(1, 9, 2, 9)[::2])
    for _ in range(2):
        assert pairs_of(index.lookup(lines[::-1], at(1, 9, 1, 9)[::2])) == [(0, 1), (1, 0)]
        merge(index)


def test_keys_of_another_number_of_columns_are_refused():
    index = HybridIndex(range(2), background=False)
    for use in (lambda keys: index.add(keys, at(0)), lambda keys: index.lookup(keys, at(0))):
        with pytest.raises(ValueError, match="1 keys an item; the index has 2 columns"):
            use(keys_of([7]))
    assert index._times.next_row == 0


def test_a_bucket_of_thousands_in_a_full_answer():
    index = HybridIndex(range(1), background=False, bucket_limit=3000)
    index.add(np.full((5000, 1), 7, U32), np.zeros(5000, np.int64))
    index.add(np.full((3, 1), 7, U32), np.zeros(3, np.int64))
    items, rows = index.lookup(np.full((4, 1), 7, U32), np.zeros(4, np.int64))
    assert rows.tolist() == list(range(2003, 5003)) * 4
    assert items.tolist() == np.arange(4).repeat(3000).tolist()


def test_memory_follows_the_window():
    index = HybridIndex(range(2), background=False)
    rng = np.random.default_rng(0)
    sizes = []
    for hour in range(40):
        index.add(rng.integers(1, 2**32, (2000, 2), U32), np.full(2000, hour))
        index.expire(hour - 5)
        sizes.append(rows_held(index))
    check(index)
    assert max(sizes) <= 2 * 6 * 2000
    assert index.stats().bytes < 2 * 6 * 2000 * (2 * 10 + 2 * 8) + 100_000


SHARED = (0, 0, 0, 1)
"""Columns 0 to 2 share a table, column 3 has its own."""


@pytest.mark.parametrize("is_merged", [False, True])
def test_an_export_gives_each_row_its_keys_by_table(is_merged):
    index = HybridIndex(SHARED, background=False)
    for line in ([9, 4, 7, 2], [0, 5, 0, 0], [0, 0, 0, 3]):
        index.add(keys_of(line), at(0))
    if is_merged:
        merge(index)
    first, keys, _ = index.export()
    assert first == 0
    assert [sorted(line[:3]) for line in keys.tolist()] == [[4, 7, 9], [0, 0, 5], [0, 0, 0]]
    assert keys[:, 3].tolist() == [2, 0, 3]
    again, asked = HybridIndex(SHARED, background=False), keys_of([4, 9, 5, 3])
    again.add(keys, at(0, 0, 0))
    assert words_of(again.find(asked, windows_since(at(0)))) == words_of(index.find(asked, windows_since(at(0))))


class TestTree:
    def test_a_trickle_stays_in_the_tree_until_it_is_full(self, monkeypatch):
        monkeypatch.setattr(hybrid, "RECENT_ROWS", 16)
        index = HybridIndex(range(2), background=False)
        for row in range(16):
            assert len(index._recent) == row
            index.add(keys_of([row + 1, 7]), at(row))
        assert len(index._recent) == 0
        assert index.stats().runs == 1

    def test_new_items_hardly_ever_pass_the_filter(self):
        rng = np.random.default_rng(1)
        index = HybridIndex(range(30), background=False)
        for _ in range(500):
            index.add(rng.integers(1, 2**32, (2, 30), U32), at(0, 0))
        assert len(index._recent._passed(rng.integers(1, 2**32, (30, 2000), U32))) < 60


class TestBackground:
    @pytest.fixture
    def gate(self, monkeypatch):
        """Merges of more than ten rows wait for the gate, and raise `gate.error` if it is set."""
        event = threading.Event()
        event.error = None
        merge = runs.merge_runs

        def held_up(*args):
            if threading.current_thread() is not threading.main_thread():
                assert event.wait(20)
                if event.error:
                    raise event.error
            return merge(*args)

        monkeypatch.setattr(runs, "_AT_ONCE", 10)
        monkeypatch.setattr(runs, "merge_runs", held_up)
        yield event
        event.set()

    @staticmethod
    def fill(index, rows=100):
        for row in range(0, rows, 20):
            index.add(np.full((20, 1), 7, U32), np.arange(row, row + 20))

    def test_lookups_go_on_while_a_merge_is_under_way(self, gate):
        index = HybridIndex(range(1), bucket_limit=1000)
        self.fill(index)
        assert index.stats().runs > 1
        assert len(pairs_of(index.lookup(keys_of([7]), at(0)))) == 100
        index.forget(3)
        check(index)
        gate.set()
        index.close()
        assert [row for _, row in pairs_of(index.lookup(keys_of([7]), at(0)))] == [r for r in range(100) if r != 3]
        assert index._tiers.merges > 0
        check(index)

    def test_rows_that_expire_during_their_merge_stay_dead(self, gate):
        index = HybridIndex(range(1))
        self.fill(index)
        assert index.expire(1000) == 100
        assert pairs_of(index.lookup(keys_of([7]), at(0))) == []
        gate.set()
        merge(index)
        assert rows_held(index) == 0
        check(index)
        index.close()

    def test_a_failed_merge_surfaces_and_the_index_goes_on(self, gate):
        index = HybridIndex(range(1), bucket_limit=1000)
        self.fill(index)
        gate.error = MemoryError("no room")
        gate.set()

        added = []

        def add_until_it_fails():
            for _ in range(10_000):
                added.append(index.add(keys_of([8]), at(0)))
                threading.Event().wait(0.001)

        with pytest.raises(MergeFailed, match="no room") as failure:
            add_until_it_fails()
        assert index._times.next_row == 100 + len(added)  # the call that raised added nothing
        assert isinstance(failure.value, StreamDedupError)
        assert isinstance(failure.value.__cause__, MemoryError)
        gate.error = None
        check(index)
        assert len(pairs_of(index.lookup(keys_of([7]), at(0)))) == 100
        merge(index)
        assert index.stats().runs == 1
        index.close()

    def test_close_does_not_lose_a_failure_and_may_be_repeated(self, gate):
        index = HybridIndex(range(1))
        self.fill(index)
        gate.error = MemoryError("no room")
        gate.set()
        with pytest.raises(MergeFailed):
            index.close()
        index.close()
        self.fill(index)
        check(index)

    def test_adding_waits_when_merges_fall_behind(self, gate, monkeypatch):
        monkeypatch.setattr(runs, "_MAX_RUNS", 8)
        index = HybridIndex(range(1))
        threading.Timer(0.2, gate.set).start()
        self.fill(index, 2000)
        assert index.stats().runs <= 9
        index.close()


def test_released_runs_are_empty_and_what_lies_beside_them_is_not_touched():
    rows = 1 << 20
    run = build_run(0, np.full((rows, 2), 7, U32), np.arange(3), newest=0)
    beside = np.full(rows, 7, U32)
    runs._release([run])
    assert sys.platform != "linux" or np.count_nonzero(run.keys) <= 2 * 4096
    assert (beside == 7).all()


def test_keys_that_reach_the_bucket_limit_are_counted() -> None:
    """Both in the tree and in a run; a key of fewer rows, and key 0, are not."""
    index = HybridIndex(range(2), bucket_limit=3, background=False)
    keys = np.array([[7, 1], [7, 2], [7, 2], [7, 0]], np.uint32)
    index.add(keys, np.arange(4))
    assert len(index.lookup(np.array([[7, 2], [9, 0]], np.uint32), np.array([0, 0]))[1]) == 3
    assert index.stats().crowded == 1
    for key in keys:
        index.add(key[None], np.array([5]))
    index.lookup(np.array([[7, 2]], np.uint32), np.array([0]))
    assert index.stats().crowded == 3
