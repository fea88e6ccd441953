"""The hybrid index: fingerprint keys in, candidate rows out.

In: T keys a row with its time, in order of arrival. Out: for new items, the remembered rows that share at
least one key with them and are still alive. One index serves every view and family: a table is only a column
of keys (a band of MinHash values, a hash of a headline, a permuted piece of a SimHash). The newest few rows
stand in a tree (`recent`), all others in sorted runs (`run`) that merge behind the scenes (`tiers`).

What a lookup returns depends on the rows, their times and the calls `forget`, `expire` and `evict` alone, never on
how rows were batched, where they stand, or when a merge happened; the stream's replay relies on that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.index.probe import nearness_of, probe
from stream_dedup.index.recent import RecentTree
from stream_dedup.index.run import KEY_BITS, Keys, Rows, build_run
from stream_dedup.index.tiers import Tiers
from stream_dedup.index.times import ANY_TIME, EARLIEST, FORGOTTEN, NO_ROW, Alive, RowTimes, Windows
from stream_dedup.settings import IndexSettings

# A batch of at least this many rows goes straight to a sorted run. Measured at 30 tables and 200,000 rows, µs a
# row, tree or run: add 31 or 58 one by one, 28 or 18 by fours, 24 or 10 by eights; and a copy of a row in the
# tree costs its lookup 60 to 190 µs of Python, of one in a run 9.
_BULK = 4
# Rows that may wait unsorted (`later`) before they become a run. A restore of 1 M rows of 30 tables in blocks of 1000:
_MOST_WAITING = 1 << 21
# First size of the array of pairs; it doubles when full. A batch of 500 items mostly finds fewer.
_PAIRS = 4096
_ROW_BITS = 32
# Evicted rows leave the tables when they are this share of those held: a sweep takes 1 ms a million.
_SWEPT = 1 / 64


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What the index holds and has done. `rows_held` counts rows in tables, some perhaps dead already.

    `first_row` is the first row that may still be returned, `next_row` the next one to be given.
    `filter_asked` are keys looked up while the tree held rows, `filter_passed` those that its filter let
    through to the tree. `oldest` is the time of the first row, None if there is none.
    """

    first_row: int
    next_row: int
    rows_held: int
    rows_recent: int
    runs: int
    bytes: int
    merges: int
    merge_seconds: float
    filter_asked: int
    filter_passed: int
    oldest: int | None


class HybridIndex:
    """T sorted tables over the same rows; rows are numbered 0, 1, 2, … in order of arrival, for ever.

    `tables` is T; a key of 0 means "none in this table" and never matches. Of `limits` (default: as in the settings)
    `recent_limit` rows fill the tree, and `bucket_limit` is the most rows that one bucket gives one item: the newest
    that are alive for it. `loose[t]` lower bits of a key in table t need not be equal (0 for tables beyond the
    sequence); at most `max_hamming` of them may differ: see `Nearness`. With `background` large merges run in a thread
    of their own; end it with `close`. One thread owns the index; any call may raise `MergeFailed` from a background
    merge.

    >>> index = HybridIndex(tables=2, background=False)
    >>> index.add(np.array([[7, 1], [7, 2], [9, 0]], np.uint32), np.array([1000, 2000, 3000]))
    0
    >>> items, rows = index.lookup(np.array([[7, 2], [5, 0]], np.uint32), np.array([0, 0]))
    >>> items.tolist(), rows.tolist()
    ([0, 0], [0, 1])
    >>> index.expire(1500)
    1
    >>> index.lookup(np.array([[7, 2]], np.uint32), np.array([0]))[1].tolist()
    [1]
    """

    def __init__(
        self,
        tables: int,
        *,
        limits: IndexSettings | None = None,
        background: bool = True,
        dont_care_bits: Sequence[int] = (),
        max_hamming: int = 0,
    ) -> None:
        if tables < 1:
            raise ValueError("tables must be at least 1")
        if not all(0 <= bits < KEY_BITS for bits in dont_care_bits) or len(dont_care_bits) > tables or max_hamming < 0:
            raise ValueError(f"loose = {dont_care_bits} does not fit {tables} tables")
        self._tables = tables
        self.nearness = nearness_of(dont_care_bits, tables, max_hamming)
        self._limits = limits or IndexSettings()
        self._times = RowTimes()
        self._recent = RecentTree(self.nearness, self._limits.recent_limit)
        self._tiers = Tiers(background=background)
        # Below it nothing is alive any more that is no recent row; a forgotten row never is.
        self._horizon = EARLIEST
        self._recent_row = 0
        self._evicted = 0  # since the last sweep
        self._filter_asked = 0
        self._waiting: list[Keys] = []  # of rows that are newer than all in runs and tree
        self._rows_waiting = 0  # counted: to sum them at each addition would make a restore quadratic in its blocks

    def add(self, keys: Keys, times: Rows, *, later: bool = False) -> int:
        """Remember rows; returns the first one's number, the others follow it.

        `keys` (n, T), `times` (n,) int64 milliseconds or ANY_TIME, in any order. With `later` the rows
        may stand unsorted until somebody looks: for a restore, when nobody does.
        O(T log n) a row, amortised. Raises TypeError or ValueError for arrays of another dtype or shape, and
        `MergeFailed`; each before anything is added. Measured at 30 tables: 0.6 µs a row in bulk, 1.8 by 500, 32 one
        by one, and 2 to 5 in the background.
        """
        self._require_keys(keys)
        self._require_times("times", times, len(keys))
        if len(times) and times.min() < EARLIEST:
            raise ValueError(f"below {EARLIEST} there is no time; such words mark forgotten rows")
        self._tiers.collect()
        first = self._times.append(times)
        if not len(keys):
            return first
        if later or self._waiting or len(keys) >= _BULK:
            # A restored block's keys are a view of the whole block, whose signatures would stay as long as they wait.
            self._waiting.append(keys.copy(order="K") if later else keys)
            self._rows_waiting += len(keys)
            if not later or self._rows_waiting >= _MOST_WAITING:
                self._sort()
        else:
            self._recent.add(keys)
            if len(self._recent) >= self._limits.recent_limit:
                self._sort()
        return first

    def lookup(self, keys: Keys, horizons: Rows | Windows, limit: int | None = None) -> tuple[NDArray[np.int32], Rows]:
        """Candidate pairs: `items` (p,) int32 and `rows` (p,) int64, distinct, sorted by item, then row.

        `keys` (m, T), `horizons` (m,) int64, or `Windows`. A pair says that item and row share a key
        in at least one table, that the row's time is not below the item's horizon (or that the row counts by its
        window), and that the row is neither forgotten, expired nor evicted. Of each bucket only the newest `limit` such
        rows count (default: `limits.bucket_limit`).
        Measured at 1 M rows, 30 tables, 500 items, µs an item: 1.2 if it is new and 2.9 if it is a copy in one run,
        3.2 and 6.5 in four runs. Raises TypeError or ValueError for arrays of another dtype or shape.
        """
        return self.lookup_shared(keys, horizons, limit)[:2]

    def lookup_shared(
        self, keys: Keys, horizons: Rows | Windows, limit: int | None = None
    ) -> tuple[NDArray[np.int32], Rows, NDArray[np.int32]]:
        """As `lookup`, and (p,) in how many tables item and row share a key, as far as buckets give all their rows."""
        self._require_keys(keys)
        windows = horizons if isinstance(horizons, Windows) else Windows.since(horizons)
        for column in windows:
            self._require_times("horizons", column, len(keys))
        self._tiers.collect()
        if self._waiting:
            self._sort()
        queries = keys.T.copy()
        scopes = np.column_stack(
            (
                np.maximum(windows.recent, self._recent_row),
                np.maximum(windows.low, EARLIEST),
                windows.high,
                np.maximum(windows.old_low, self._horizon),
                np.minimum(windows.old_high, ANY_TIME - 1),
            )
        )
        left = np.full(queries.shape, self._limits.bucket_limit if limit is None else limit, np.int32)
        times, first = self._times.held(), self._times.first
        newest_first = self._recent.probe(queries, scopes, times, first, left)
        if len(self._recent):
            self._filter_asked += queries.size
        count = len(newest_first)
        pairs = np.empty(max(_PAIRS, 2 * count), np.int64)
        pairs[:count] = newest_first
        lowest = min(scopes[:, 1].min(), scopes[:, 3].min()) if len(scopes) else 0
        for run in reversed(self._tiers.runs):
            if run.newest >= lowest:
                pairs, count = probe(run, queries, scopes, times, first, left, pairs, count, self.nearness)
        found = pairs[:count]
        found.sort()
        distinct = np.ones(count, np.bool_)
        np.not_equal(found[1:], found[:-1], out=distinct[1:])
        starts = np.flatnonzero(distinct)
        found = found[starts]
        rows = (found & ((1 << _ROW_BITS) - 1)) + first
        shared = np.diff(starts, append=count).astype(np.int32)
        return (found >> _ROW_BITS).astype(np.int32), rows, shared

    def forget(self, row: int) -> None:
        """Never return this row again; O(1). Raises IndexError for a row that was never given."""
        self._require_row(row)
        self._tiers.collect()
        self._times.kill(row)

    def suspend(self, row: int) -> None:
        """Do not return this row until `revive`; `forget` makes it final. Merges keep it. O(1).

        Raises IndexError as `forget` does, ValueError if its time is neither one of 0 to 2^61 ms nor ANY_TIME.

        >>> index = HybridIndex(tables=1, background=False)
        >>> key = np.array([[7]], np.uint32)
        >>> row = index.add(key, np.array([1000]))
        >>> index.suspend(row); len(index.lookup(key, np.array([0]))[1])
        0
        >>> index.revive(row); len(index.lookup(key, np.array([0]))[1])
        1
        """
        self._require_row(row)
        self._tiers.collect()
        self._times.suspend(row)

    def revive(self, row: int) -> None:
        """Return a suspended row again; O(1). Raises IndexError as `forget` does."""
        self._require_row(row)
        self._times.revive(row)

    def expire(self, horizon: int, recent: int = NO_ROW) -> int:
        """Forget all rows below `recent` with a time below `horizon`, for every later lookup; free what can be freed.

        Returns the first row that may still be returned: the owner may free its own store below it. Lower bounds than
        before change nothing. O(rows held), 1 ms a million: meant to be called every few seconds, not for each item, as
        lookups look at the times themselves.
        """
        self._horizon = max(self._horizon, horizon)
        self._recent_row = max(self._recent_row, recent)
        self._tiers.collect()
        if self._waiting:
            self._sort()
        return self._swept(self._times.advance(self._horizon, self._recent_row))

    def evict(self, first: int) -> int:
        """Forget all rows below `first`, whatever their times; returns the first row that may still be returned.

        O(1), and O(rows held) each time a sixty-fourth of them has gone.
        """
        before = self._times.first
        first = self._times.drop(min(first, self._times.next_row))
        self._evicted += first - before
        if self._evicted > _SWEPT * (self._times.next_row - first):
            self._tiers.collect()
            if self._waiting:
                self._sort()
            self._swept(first)
        return first

    def _swept(self, first: int) -> int:
        self._evicted = 0
        if len(self._recent) and first == self._times.next_row:
            self._recent.clear(first)
        self._tiers.sweep(self._alive())
        self._tiers.schedule_merges(self._alive())
        return first

    @property
    def first_row(self) -> int:
        """The first row that may still be returned."""
        return self._times.first

    @property
    def rows_waiting(self) -> int:
        """Rows that stand unsorted (`later`)."""
        return self._rows_waiting

    def held(self) -> tuple[int, Keys, Rows]:
        """The first row that may still be returned, and from it on all keys (n, T) and times (n,), as `add` takes them.

        Rows that a merge has dropped have no keys. A copy; O(T n).
        """
        self.wait_for_merges()
        first = self._times.first
        columns = np.zeros((self._tables, self._times.next_row - first), np.uint32)
        for run in self._tiers.runs:
            for table in range(self._tables):
                places = run.offsets[table].astype(np.int64) + (run.base - first)
                is_held = places >= 0
                columns[table][places[is_held]] = run.keys[table][is_held]
        columns[:, max(self._recent.base - first, 0) :] = self._recent.keys()[max(first - self._recent.base, 0) :].T
        times = self._times.held().copy()
        columns[:, times == FORGOTTEN] = 0
        return first, columns.T, times

    def wait_for_merges(self) -> None:
        """Sort what waits, so that the next lookup need not. O(T n log n) for n rows that wait."""
        self._tiers.collect()
        if self._waiting:
            self._sort()

    def close(self) -> None:
        """End the background thread after its merge. The index stays usable; merges are then done at once."""
        self._tiers.close()

    def stats(self) -> IndexStats:
        """Counts and sizes as of now; O(runs). Another thread may ask: it can see a merge half counted."""
        runs, waiting = list(self._tiers.runs), list(self._waiting)
        fixed = self._recent.nbytes + self._times.nbytes
        return IndexStats(
            first_row=self._times.first,
            next_row=self._times.next_row,
            rows_held=sum(run.rows for run in runs) + len(self._recent) + sum(map(len, waiting)),
            rows_recent=len(self._recent),
            runs=len(runs),
            bytes=sum(run.nbytes for run in runs) + sum(keys.nbytes for keys in waiting) + fixed,
            merges=self._tiers.merges,
            merge_seconds=self._tiers.merge_seconds,
            filter_asked=self._filter_asked,
            filter_passed=self._recent.filter_passed,
            oldest=self._times.oldest,
        )

    def _alive(self) -> Alive:
        return self._times.alive(self._horizon, self._recent_row)

    def _sort(self) -> None:
        """Make a run of the rows in the tree and those that wait, which are newer."""
        base = self._recent.base
        parts = [part.T for part in (self._recent.keys(), *self._waiting) if len(part)]
        keys = np.concatenate(parts, axis=1).T if len(parts) > 1 else parts[0].T
        self._tiers.append(build_run(base, keys, self._times.newest(base)))
        self._waiting.clear()
        self._rows_waiting = 0
        self._recent.clear(self._times.next_row)
        self._tiers.schedule_merges(self._alive())

    def _require_row(self, row: int) -> None:
        if not 0 <= row < self._times.next_row:
            raise IndexError(f"row {row} was never given; the next one is {self._times.next_row}")

    def _require_keys(self, keys: Keys) -> None:
        if keys.dtype != np.uint32:
            raise TypeError(f"keys must be uint32, not {keys.dtype}")
        if keys.ndim != 2 or keys.shape[1] != self._tables:
            raise ValueError(f"keys must have the shape (n, {self._tables}), not {keys.shape}")

    @staticmethod
    def _require_times(name: str, times: Rows, length: int) -> None:
        if times.dtype != np.int64:
            raise TypeError(f"{name} must be int64, not {times.dtype}")
        if times.shape != (length,):
            raise ValueError(f"{name} must have the shape ({length},), not {times.shape}")
