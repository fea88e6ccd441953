"""The hybrid index: find the remembered items (rows) that share a key with new ones and are still alive.

A row has C keys and a time. One index serves all views and families: a column of keys (a MinHash band, the hash of a
headline, permuted bits of a SimHash) is a table, or several columns share one, and then a key also matches equal keys
of the others. The newest rows are in a tree (recent.py), all others in sorted runs (runs.py), which are merged in the
background.

The result of a lookup depends only on the rows, their times and the calls of `forget`, `expire` and `evict`, never on
batch boundaries or merges. Replays of the stream rely on this. Rows are *forgotten* by number one by one, *expired* by
time, *evicted* by number all that are older; a *sweep* frees the memory of any of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.index.recent import RecentTree
from stream_dedup.index.runs import ITEM_SHIFT, ROW_SHIFT, Keys, Lookup, Rows, Tiers, build_run, nearness_of, probe
from stream_dedup.index.times import ANY_TIME, EARLIEST, FORGOTTEN, LOW, NO_ROW, OLD_HIGH, OLD_LOW, RowTimes, Windows

# A batch of at least this many rows becomes a run at once. Measured at 30 tables and 200,000 rows, µs per row in tree
# or run: adding 31 or 58 one by one, 28 or 18 by fours, 24 or 10 by eights; and looking up a copy of a row costs 60 to
# 190 µs of Python in the tree, 9 in a run.
_MIN_RUN_ROWS = 4
# Rows that the recent tree holds before it becomes a run. Its filter takes 8 bytes a key: 256 KB with 30 tables, which
# fits the second-level cache. Adding a row at a time takes 30 µs with 256, 31 with 1024 and 41 with 4096.
RECENT_ROWS = 1024
# Most rows that stay unsorted (`defer_sort`) before they become a run.
_MAX_UNSORTED = 1 << 21
BUCKET_LIMIT = 24
"""Newest rows looked up per key, so that templates with thousands of items stay cheap. With 64, items of one template
took 92 µs each instead of 58, and on the labelled streams .077 instead of .075 of the items with nothing new were let
through."""
MAX_ITEMS = 1 << 19
"""The most items of one lookup."""
# Evicted and forgotten rows are removed from the tables when they are this share of all rows: a sweep takes 1 ms per
# million rows, and a lookup walks past each dead row of its key, 20 ns.
_SWEEP_SHARE = 1 / 64


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Sizes and counters of the index."""

    runs: int
    bytes: int
    merge_seconds: float
    crowded: int  # keys looked up that gave as many rows as `bucket_limit` allows
    oldest: int | None  # the time of the first row


class Found(NamedTuple):
    """What a lookup found. hits: (p,) int64, ascending: an item, a row, and the column of a key that they share, as in
    runs.py with rows counted from `first`.
    """

    hits: Rows
    first: int

    def pairs(self) -> tuple[NDArray[np.int32], Rows, Rows]:
        """Return the distinct pairs, (p,) each: items, rows, and where each pair's hits begin, plus the end."""
        pairs = self.hits >> ROW_SHIFT
        distinct = np.ones(len(pairs), np.bool_)
        np.not_equal(pairs[1:], pairs[:-1], out=distinct[1:])
        starts = np.flatnonzero(distinct)
        pairs = pairs[starts]
        rows = (pairs & ((1 << (ITEM_SHIFT - ROW_SHIFT)) - 1)) + self.first
        return (pairs >> (ITEM_SHIFT - ROW_SHIFT)).astype(np.int32), rows, np.append(starts, len(self.hits))


def windows_since(horizons: NDArray[np.int64]) -> Windows:
    """Return all rows with a time not below each horizon, (m,)."""
    everything = np.full(len(horizons), ANY_TIME)
    return np.column_stack((horizons * 0, horizons, everything, horizons, everything))


class HybridIndex:
    """Tables of keys over the same rows. Rows are numbered 0, 1, 2, … in order of arrival; numbers are never reused.

    `table_of`: the table of each of the C columns of keys, ascending from 0. Several columns may share a table; then a
    key in one column also matches equal keys in the others. Key 0 means "no key" and never matches. One key gives an
    item at most `bucket_limit` rows, the newest ones that are alive for it. In table t, which then is that of one
    column, the lower `dont_care_bits[t]` bits of two keys may differ (0 for tables beyond the sequence) in at most
    `max_hamming` places: see `Nearness`. With `background`, large merges run in a thread, which `close` ends. One
    thread owns the index; any call may raise `MergeFailed` from a background merge.

    >>> index = HybridIndex([0, 1, 1], background=False)
    >>> index.add(np.array([[7, 1, 4], [7, 2, 3], [9, 0, 0]], np.uint32), np.array([1000, 2000, 3000]))
    0
    >>> items, rows = index.lookup(np.array([[7, 5, 2], [5, 4, 0]], np.uint32), np.array([0, 0]))
    >>> items.tolist(), rows.tolist()
    ([0, 0, 1], [0, 1, 0])
    >>> index.expire(1500)
    1
    >>> index.lookup(np.array([[7, 2, 4]], np.uint32), np.array([0]))[1].tolist()
    [1]
    """

    def __init__(
        self,
        table_of: Sequence[int],
        *,
        bucket_limit: int = BUCKET_LIMIT,
        background: bool = True,
        dont_care_bits: Sequence[int] = (),
        max_hamming: int = 0,
    ) -> None:
        self.nearness = nearness_of(dont_care_bits, table_of, max_hamming)
        self.bucket_limit = bucket_limit
        self._times = RowTimes()
        self._recent = RecentTree(self.nearness, RECENT_ROWS)
        self._tiers = Tiers(background=background)
        # Rows with earlier times are dead, unless they arrived recently.
        self._horizon = EARLIEST
        self._recent_row = 0
        self._dead = 0  # rows evicted or forgotten since the last sweep
        self._crowded = 0
        self._unsorted: list[Keys] = []  # blocks of keys of rows that are newer than all in runs and tree
        self.unsorted_rows = 0
        """Rows whose keys are not sorted yet (`defer_sort`). A sum at each addition would make a restore
        quadratic in blocks."""

    def add(self, keys: Keys, times: Rows, *, defer_sort: bool = False) -> int:
        """Add rows; return the number of the first one.

        `keys` (n, C); `times` (n,) int64 milliseconds or ANY_TIME, in any order. `defer_sort`: for a restore, leave the
        rows unsorted until the next lookup. O(C log n) per row, amortised. Raises `MergeFailed` before anything is
        added. Measured at 30 tables: 0.6 µs per row in bulk, 1.8 by 500, 32 one by one, and 2 to 5 in the background.
        """
        self._check_columns(keys)
        self._tiers.collect()
        first = self._times.append(times)
        if not len(keys):
            return first
        if defer_sort or self._unsorted or len(keys) >= _MIN_RUN_ROWS:
            # The keys of a restored block are a view, which would keep the whole block in memory.
            self._unsorted.append(keys.copy(order="K") if defer_sort else keys)
            self.unsorted_rows += len(keys)
            if not defer_sort or self.unsorted_rows >= _MAX_UNSORTED:
                self._build_run()
        else:
            self._recent.add(keys)
            if len(self._recent) >= RECENT_ROWS:
                self._build_run()
        return first

    def lookup(self, keys: Keys, horizons: Rows, limit: int | None = None) -> tuple[NDArray[np.int32], Rows]:
        """Return the candidate pairs: `items` (p,) int32 and `rows` (p,) int64, distinct, sorted by item, then row.

        `keys` (m, C); `horizons` (m,) int64. In a pair, item and row share a key in at least one table, the row's time
        is not below the item's horizon, and the row is neither forgotten, expired nor evicted. Each key gives only the
        newest `limit` such rows (default: `bucket_limit`). Measured at 1 M rows, 30 tables, 500 items, µs per item: 1.2
        for new items and 2.9 for copies in one run, 3.2 and 6.5 in four runs.
        """
        items, rows, _ = self.find(keys, windows_since(horizons), limit).pairs()
        return items, rows

    def find(
        self, keys: Keys, windows: Windows, limit: int | None = None, hidden: NDArray[np.uint8] | None = None
    ) -> Found:
        """Find pairs as `lookup` does, but by the items' windows, and with the columns whose keys the pairs share.

        hidden: 1 for each row from `first_row` on that counts for no item of this call.
        """
        if len(keys) > MAX_ITEMS:
            raise ValueError(f"{len(keys)} items at once; at most {MAX_ITEMS}")
        self._check_columns(keys)
        self.catch_up()
        queries, budget = keys.T.copy(), self.bucket_limit if limit is None else limit
        windows = np.maximum(windows, (self._recent_row, EARLIEST, FORGOTTEN, self._horizon, FORGOTTEN), order="C")
        np.minimum(windows[:, OLD_HIGH], ANY_TIME - 1, out=windows[:, OLD_HIGH])
        times, first = self._times.values(), self._times.first
        lookup = Lookup(queries, windows, times, first, np.full(queries.shape, budget, np.int32), hidden)
        in_tree = self._recent.probe(lookup)
        lowest = int(windows[:, (LOW, OLD_LOW)].min(initial=ANY_TIME))
        runs = [run for run in reversed(self._tiers.runs) if run.newest >= lowest]
        hits = probe(runs, self.nearness, lookup)
        self._crowded += lookup.budgets.size - int(np.count_nonzero(lookup.budgets))
        if in_tree:
            hits = np.append(hits, in_tree)
        hits.sort()
        return Found(hits, first)

    def forget(self, row: int) -> None:
        """Never return this row again; O(1), and O(rows) each time 1/64 of the rows are forgotten."""
        self._tiers.collect()
        self._times.forget(row)
        self._dead += 1
        if self._dead > max(RECENT_ROWS, _SWEEP_SHARE * (self._times.next_row - self._times.first)):
            self.catch_up()
            self._sweep(self._times.first)

    def expire(self, horizon: int, recent: int = NO_ROW) -> int:
        """Forget all rows below `recent` with a time below `horizon`, and free memory.

        Returns the first row that may still be returned, below which the owner may free its own data. Bounds never
        decrease. O(rows), 1 ms per million: call it every few seconds, not for each item; lookups check times anyway.
        """
        self._horizon = max(self._horizon, horizon)
        self._recent_row = max(self._recent_row, recent)
        self.catch_up()
        return self._sweep(self._times.advance(self._horizon, self._recent_row))

    def evict(self, first: int) -> int:
        """Forget all rows below `first`; return the first row that may still be returned.

        O(1), and O(rows) each time 1/64 of the rows are evicted.
        """
        former_first = self._times.first
        first = self._times.drop(min(first, self._times.next_row))
        self._dead += first - former_first
        if self._dead > _SWEEP_SHARE * (self._times.next_row - first):
            self.catch_up()
            self._sweep(first)
        return first

    def _sweep(self, first: int) -> int:
        self._dead = 0
        if len(self._recent) and first == self._times.next_row:
            self._recent.clear(first)
        alive = self._times.alive(self._horizon, self._recent_row)
        self._tiers.sweep(alive)
        self._tiers.schedule_merges(alive)
        return first

    @property
    def first_row(self) -> int:
        """The first row that may still be returned."""
        return self._times.first

    def export(self) -> tuple[int, Keys, Rows]:
        """Copy the first row that may still be returned, and from there on all keys (n, C) and times (n,), for `add`.

        Rows that a merge has removed have no keys. A row's keys in a shared table may be in another order. O(C n).
        """
        self.catch_up()
        first = self._times.first
        columns = np.zeros((len(self.nearness.table_of), self._times.next_row - first), np.uint32)
        for run in self._tiers.runs:
            run.unsort(self.nearness.first_columns, first, columns)
        columns[:, max(self._recent.base - first, 0) :] = self._recent.keys()[max(first - self._recent.base, 0) :].T
        times = self._times.values().copy()
        columns[:, times == FORGOTTEN] = 0
        return first, columns.T, times

    def catch_up(self) -> None:
        """Swap in a finished merge and sort the n unsorted rows, so that the next lookup need not. O(C n log n)."""
        self._tiers.collect()
        if self._unsorted:
            self._build_run()

    def close(self) -> None:
        """End the background thread after its merge. The index stays usable; later merges run in the caller."""
        self._tiers.close()

    def stats(self) -> IndexStats:
        """Return the present sizes and counters; O(runs). Any thread may call it, and can see a merge half counted."""
        runs, unsorted = list(self._tiers.runs), list(self._unsorted)
        fixed = self._recent.nbytes + self._times.nbytes
        return IndexStats(
            runs=len(runs),
            bytes=sum(run.nbytes for run in runs) + sum(keys.nbytes for keys in unsorted) + fixed,
            merge_seconds=self._tiers.merge_seconds,
            crowded=self._crowded,
            oldest=self._times.oldest,
        )

    def _check_columns(self, keys: Keys) -> None:
        if keys.shape[1] != len(self.nearness.table_of):
            raise ValueError(f"{keys.shape[1]} keys an item; the index has {len(self.nearness.table_of)} columns")

    def _build_run(self) -> None:
        """Build a run of the rows in the tree and the unsorted ones, which are newer."""
        base = self._recent.base
        parts = [part.T for part in (self._recent.keys(), *self._unsorted) if len(part)]
        keys = np.concatenate(parts, axis=1).T if len(parts) > 1 else parts[0].T
        self._tiers.append(build_run(base, keys, self.nearness.first_columns, self._times.newest(base)))
        self._unsorted.clear()
        self.unsorted_rows = 0
        self._recent.clear(self._times.next_row)
        self._tiers.schedule_merges(self._times.alive(self._horizon, self._recent_row))
