"""Runs, immutable sorted tables of the keys of consecutive rows: build them, look keys up in them, and merge them so
that they stay few.

`Tiers` is the short list of runs, oldest first. A run is the sorted-table form of locality-sensitive hashing (LSH
Forest, Bawa et al. 2005; sorted permutations, Charikar 2002). A table holds the keys of one column, or of several, in
which any key may meet any. It consists of its sorted keys, the row of each key, and a *prefix directory*: where the
keys with given top bits begin. A lookup is one directory read and a short scan, two cache misses for any number of
rows. The same keys always give the same arrays, in any order of merges.

A table is *exact* (keys must be equal) or *near* (Manku et al. 2007, permuted SimHashes: the upper bits must be equal,
and only a few of the lower ones may differ). A bucket of a near table is a range of the sorted keys and is read in
order: 150 keys cost less than two cache misses. An exact table may be *shared* by neighbouring columns of keys: then a
key in any of them meets the equal keys in all of them. Cache misses dominate the cost of a lookup, so the core works
table by table, in blocks of independent reads (core/index.c).

Two alternatives are not worth it, measured at 10 M rows:

- Compressed keys. Of 4 bytes, Golomb-Rice leaves 1.28 (10 ns per key to decode), transposed gaps with zstd 1.34 (3 ns),
  gaps as varints 1.74 (3 ns), but an offset still needs 3 of its 4 bytes. A table would shrink from 8.8 to 4.5 bytes
  per row, saving 130 of 600 bytes per original, and a lookup (70 ns) would take twice as long to decode 4 to 8 keys.
- A blocked Bloom filter in front of each run. A key of a new item costs 28 ns instead of 37 in a run of 200,000 rows,
  39 instead of 52 at 1 M, 57 instead of 135 at 10 M: at most 2 of the 30 µs per item. It takes 1 to 1.7 bytes per key
  (50 of 600 bytes per original), and copies pay for both lookups.

Which runs are merged is size-tiered, like in a log-structured merge tree (O'Neil et al. 1996), but only *adjacent* runs
are, so the list stays sorted by row. Large merges run in one background thread: the core releases the interpreter
lock, their inputs never change, and the owning thread swaps the result in at its next call. So there are no locks, and
lookups continue on the old runs meanwhile. Merges do not affect which rows a lookup returns. `_release` then returns
the memory of the merged runs.
"""

import ctypes
import mmap
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, arena, call, copied, fields, pointers
from stream_dedup.errors import MergeFailed
from stream_dedup.index.times import AliveMask, Windows

Keys: TypeAlias = NDArray[np.uint32]
Rows: TypeAlias = NDArray[np.int64]

# A run merges with its newer neighbour if that has at least a quarter of its rows. Simulated for 1 M rows in batches of
# 500, ratio: rows written per row, mean runs at lookup. 1: 9.1, 5.4; 2: 10.6, 4.3; 4: 13.2, 3.3; 8: 19, 2.7. Each run
# costs a lookup cache misses, in the caller's thread; a merge runs on another core.
_MERGE_RATIO = 4
# A run is rewritten if less than this share of it is alive: so each expired row costs at most one more written row, and
# the tables have at most twice as many rows as are alive.
_MIN_LIVE_SHARE = 0.5
# Merges up to this many rows run in the caller: 2 ms at 30 tables, and most are far smaller. A background merge costs a
# wake-up of its thread, and small runs accumulate meanwhile.
_AT_ONCE = 8192
# Above this number of runs, adding rows waits for the background merge: otherwise lookups would slow down without bound
# if rows come faster than they can be merged. Live feeds stay below ten.
_MAX_RUNS = 24
_LARGE = 1 << 22  # smaller arrays are freed in well under a millisecond
_CHUNK = 1 << 24  # .2 ms each
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class PackedRun(Struct, name="run"):
    """What the core reads of a run."""

    _fields_ = (*fields(INT64, "base end tables"), *fields(POINTER, "starts keys offsets directory"))


@dataclass(frozen=True, eq=False)
class Run:
    """Sorted tables over the rows `base <= row < end`. The T tables lie one after the other in each array."""

    base: int
    end: int
    rows: int  # how many of these it holds: not those that were dead at a merge
    # (T + 1,): table t has the entries starts[t] to starts[t + 1] - 1, one for each key that a row has in it
    starts: Rows
    keys: Keys  # uint32, ascending in each table, never 0
    offsets: NDArray[np.uint32]  # row - base, ascending within equal keys; repeated if a row has the key in two columns
    # 2^p + 1 for each table (`directory_bits`): number i is where keys begin whose top p bits are at least i
    directory: NDArray[np.uint32]
    newest: int  # an upper bound of the rows' times

    @cached_property
    def packed(self) -> PackedRun:
        """The run as the core reads it."""
        arrays = {"starts": self.starts, "keys": self.keys, "offsets": self.offsets, "directory": self.directory}
        return PackedRun(base=self.base, end=self.end, tables=len(self.starts) - 1, **arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: 8 per entry, plus at most an eighth of that for the directory."""
        return self.keys.nbytes + self.offsets.nbytes + self.directory.nbytes

    def tables(self) -> Iterator[tuple[Keys, NDArray[np.uint32], NDArray[np.uint32]]]:
        """Yield views of the keys, offsets and directory of each table."""
        first = 0
        for start, end in pairwise(self.starts.tolist()):
            last = first + (1 << directory_bits(end - start)) + 1
            yield self.keys[start:end], self.offsets[start:end], self.directory[first:last]
            first = last

    def unsort(self, first_columns: Rows, first: int, columns: Keys) -> None:
        """Write the keys to `columns` (C, n) by row, from row `first` on; in a row, those of a table ascend. O(C n)."""
        for (keys, offsets, _), (column, end) in zip(self.tables(), pairwise(first_columns.tolist()), strict=True):
            target = columns[column:end]
            call("run_unsort", arena(), keys, offsets, len(keys), self.base - first, target, *target.shape)


def directory_bits(entries: int) -> int:
    """Return the number p of top key bits in the directory of a table with this many entries.

    2^p lies in (entries/8, entries/4]: 4 to 8 keys for each, half a cache line, and 4 * 2^p bytes are at most an eighth
    of the table's 8 bytes per entry. Measured in one run, ns per key of a new item with 1/4, 1/2, 1, 2 and 4 times as
    many: 96, 75, 56, 47, 44 at 1 M rows; 94, 73, 70, 118, 210 at 10 M, where a larger directory leaves the cache.
    Interpolation search without a directory (Manku et al.) takes 248 and 313, since each step waits for the previous
    one. At least one bit, because a shift by the whole width of a key is undefined.

    >>> [directory_bits(n) for n in (0, 8, 1_000, 1_000_000)]
    [1, 1, 7, 17]
    """
    return max(int(entries).bit_length() - 3, 1)


def build_run(base: int, keys: Keys, first_columns: Rows, newest: int) -> Run:
    """Sort the keys of the rows base, base + 1, … into a run; O(C n), releases the lock.

    `keys` (n, C), in any memory order; `first_columns` (T + 1,): the first column of each table, and C. A radix sort by
    bytes, stable, so offsets ascend within equal keys. Measured at 30 tables: 9 ns per key for 512 to 65,536 rows,
    15 ns at 1 M; NumPy's sort of packed words needs 20, 86 and 98.

    >>> run = build_run(100, np.array([[7, 1, 2], [5, 1, 7]], np.uint32), np.array([0, 1, 3]), newest=0)
    >>> [(keys.tolist(), offsets.tolist()) for keys, offsets, _ in run.tables()]
    [([5, 7], [1, 0]), ([1, 1, 2, 7], [0, 1, 0, 1])]
    """
    columns, arrays = np.ascontiguousarray(keys.T), _arrays(keys.size, len(first_columns) - 1)
    size = call("run_sort", arena(), columns, len(keys), first_columns, len(first_columns) - 1, *arrays)
    return _run(base, base + len(keys), len(keys), arrays, size, newest)


def merge_runs(older: Run, newer: Run, alive: NDArray[np.bool_]) -> Run:
    """Merge two adjacent runs into one without the dead rows; O(entries), releases the lock.

    `alive` (newer.end - older.base,): which rows of the range are alive; rows that an earlier merge dropped must be
    False. Measured at 1 M rows and 30 tables: 5.5 ns per key, and as much again for the page faults of the new arrays.

    >>> a = build_run(0, np.array([[7], [5]], np.uint32), np.array([0, 1]), newest=1)
    >>> b = build_run(2, np.array([[6], [5]], np.uint32), np.array([0, 1]), newest=2)
    >>> run = merge_runs(a, b, np.array([True, True, False, True]))
    >>> run.keys.tolist(), run.offsets.tolist()
    ([5, 5, 7], [1, 3, 0])
    """
    kept = int(np.count_nonzero(alive))
    arrays = _arrays(len(older.keys) + len(newer.keys), len(older.starts) - 1)
    is_kept = None if kept == older.rows + newer.rows else alive
    size = call("run_merge", older.packed, newer.packed, is_kept, len(alive), *arrays)
    return _run(older.base, newer.end, kept, arrays, size, max(older.newest, newer.newest))


def compact_run(run: Run, alive: NDArray[np.bool_]) -> Run:
    """Return the run without its dead rows; `alive` (run.end - run.base,)."""
    nothing = np.empty(0, np.uint32)
    return merge_runs(run, Run(run.end, run.end, 0, run.starts * 0, nothing, nothing, nothing, run.newest), alive)


_Arrays: TypeAlias = tuple[Rows, Keys, NDArray[np.uint32], NDArray[np.uint32]]  # starts, keys, offsets, directory


def _arrays(entries: int, tables: int) -> _Arrays:
    """Make room for a run of at most this many entries; a directory has 2^p + 1 of its own, see `directory_bits`."""
    keys, offsets = np.empty(entries, np.uint32), np.empty(entries, np.uint32)
    return np.empty(tables + 1, np.int64), keys, offsets, np.empty(entries // 4 + 3 * tables, np.uint32)


def _run(base: int, end: int, rows: int, arrays: _Arrays, size: int, newest: int) -> Run:
    """Shorten the arrays to their entries, and the directory to this size."""
    starts, keys, offsets, directory = arrays
    for array, length in (keys, starts[-1]), (offsets, starts[-1]), (directory, size):
        array.resize(int(length), refcheck=False)  # in place: what lies behind was never written
    return Run(base, end, rows, starts, keys, offsets, directory, newest)


# -- lookups ----------------------------------------------------------------------------------------------------------


class Nearness(NamedTuple):
    """Which of the keys in C columns of T tables match.

    Key 0 means "none", so a fingerprint whose key would be 0 has key 1, one bit off. Therefore one more bit may differ
    where the upper bits are all zero: recall stays exact.
    """

    table_of: NDArray[np.int64]  # (C,): the table of each column, ascending from 0
    first_columns: NDArray[np.int64]  # (T + 1,): the first column of each table, and C
    dont_care_bits: NDArray[np.int64]  # (C,): the number of lower bits that may differ, 0 in an exact table
    max_hamming: int  # in how many of these bits two keys may differ

    def buckets(self, keys: Keys) -> Keys:
        """Set all don't-care bits of the keys (C, m), so that two rows share a bucket if their keys are equal.

        The key 0, which means none, stays 0.

        >>> nearness_of([8], [0], 3).buckets(np.array([[0, 0x1234]], np.uint32)).tolist()
        [[0, 4863]]
        """
        if not self.dont_care_bits.any():
            return keys
        mask = ((np.uint64(1) << self.dont_care_bits.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
        return np.where(keys, keys | mask[:, None], keys)

    def matches(self, a: Keys, b: Keys, first: int = 0) -> NDArray[np.bool_]:
        """Return (n, c), whether keys of `a` match those of `b` in their table; both are (n, c), from column `first`.

        >>> near = nearness_of([8], [0, 1, 1], 1)
        >>> near.matches(np.array([[0x1234, 9, 8]], np.uint32), np.array([[0x1235, 8, 7]], np.uint32)).tolist()
        [[True, False, True]]
        """
        a, b, matching = np.ascontiguousarray(a), np.ascontiguousarray(b), np.empty(a.shape, np.bool_)
        tables = self.table_of[first:], self.dont_care_bits[first:], self.max_hamming
        call("index_matches", a, b, *a.shape, *tables, matching)
        return matching


ROW_SHIFT, ITEM_SHIFT = 12, 44
"""A hit is one number, so that sorting is fast: 2^19 items of a lookup, 2^32 rows, 2^12 columns (30 at most)."""


def nearness_of(dont_care_bits: Sequence[int], table_of: Sequence[int], max_hamming: int) -> Nearness:
    """Describe the columns of these tables. The first tables have these don't-care bits, the others are exact."""
    columns, tables = np.array(table_of, np.int64), table_of[-1] + 1
    bits = np.array([*dont_care_bits, *[0] * (tables - len(dont_care_bits))], np.int64)
    return Nearness(columns, np.searchsorted(columns, np.arange(tables + 1)), bits[columns], max_hamming)


class Lookup(NamedTuple):
    """A lookup for m items. Row r counts for item i if r >= first and times[r - first] is visible in windows[i]."""

    queries: Keys  # (C, m), contiguous; 0 is no query
    windows: Windows
    times: Rows
    first: int
    budgets: NDArray[np.int32]  # (C, m): how many rows each key may still give, the newest first; updated
    hidden: NDArray[np.uint8] | None = None  # 1 for each row, from `first` on, that counts for no item


class _CoreNearness(Struct, name="nearness"):
    _fields_ = (*fields(POINTER, "first_columns dont_care_bits"), *fields(INT64, "columns tables max_hamming"))


class _CoreLookup(Struct, name="lookup"):
    _fields_ = (
        *fields(POINTER, "queries windows times hidden budgets hits"),
        *fields(INT64, "items rows first count room"),
    )


def probe(runs: Sequence[Run], near: Nearness, lookup: Lookup) -> Rows:
    """Find the rows of runs, the newest run first, that share a key with an item and are alive for it; as hits.

    A hit is one number: the item from bit `ITEM_SHIFT` on, r - first from `ROW_SHIFT` on, and below it the column of
    the item's key. One pass over the tables of each run: O(C m) cache misses.
    """
    sizes = {"columns": len(near.dont_care_bits), "tables": len(near.first_columns) - 1}
    first_columns, bits = near.first_columns, near.dont_care_bits
    nearness = _CoreNearness(first_columns=first_columns, dont_care_bits=bits, max_hamming=near.max_hamming, **sizes)
    given = _CoreLookup(**lookup._asdict(), items=lookup.queries.shape[1], rows=len(lookup.times))
    count = call("index_find", arena(), pointers([run.packed for run in runs]), len(runs), nearness, given)
    return copied(given.hits, count, np.int64)


# -- the list of runs --------------------------------------------------------------------------------------------------


def next_merge(live_rows: Sequence[int], stored_rows: Sequence[int]) -> tuple[int, int] | None:
    """Return the runs to merge next, a half-open range of one or two neighbours; None if there are none. O(runs).

    `live_rows`, `stored_rows`: live rows and rows in the tables of each run, oldest first. The newest pair is first,
    because it is the cheapest.

    >>> next_merge([1000, 10, 10], [1000, 10, 10])
    (1, 3)
    >>> next_merge([1000, 20], [1000, 20]) is None
    True
    >>> next_merge([400, 20], [1000, 20])
    (0, 1)
    """
    for newer in range(len(live_rows) - 1, 0, -1):
        if live_rows[newer] * _MERGE_RATIO >= live_rows[newer - 1]:
            return newer - 1, newer + 1
    for run in range(len(live_rows) - 1, -1, -1):
        if live_rows[run] < stored_rows[run] * _MIN_LIVE_SHARE:
            return run, run + 1
    return None


class Tiers:
    """The list of runs. One thread owns it and makes all calls.

    >>> tiers = Tiers(background=False)
    >>> for row in range(8):
    ...     tiers.append(build_run(row, np.array([[row + 1]], np.uint32), np.array([0, 1]), newest=0))
    ...     tiers.schedule_merges(lambda base, end: np.ones(end - base, np.bool_))
    >>> [run.rows for run in tiers.runs]
    [7, 1]
    """

    def __init__(self, *, background: bool) -> None:
        self.runs: list[Run] = []
        self.merges = 0
        self.merge_seconds = 0.0
        self._live_rows: list[int] = []  # as of the last sweep or merge, for the policy
        self._pool = ThreadPoolExecutor(1, "index-merge") if background else None
        self._running: tuple[Sequence[Run], Future[tuple[Run, float]]] | None = None  # what it replaces, and its result
        self._failure: MergeFailed | None = None  # not yet raised

    def append(self, run: Run) -> None:
        """Append a run, whose rows are newer than all others."""
        self.runs.append(run)
        self._live_rows.append(run.rows)

    def schedule_merges(self, alive: AliveMask) -> None:
        """Merge runs by the policy: small merges now, a large one in the background. O(rows merged).

        The failure of a background merge is not raised here, in the middle of the owner's work, but by the next
        `collect`.
        """
        while self._failure is None:
            busy, result = self._running or ((), None)
            if result is not None and result.done():
                self._finish_merge()
                continue
            start = self._position(busy[0]) + len(busy) if busy else 0
            selected = next_merge(self._live_rows[start:], [run.rows for run in self.runs[start:]])
            chosen = self.runs[start + selected[0] : start + selected[1]] if selected else []
            at_once = self._pool is None or sum(run.rows for run in chosen) <= _AT_ONCE
            if chosen and at_once:
                self._replace(chosen, *_merged(chosen, alive))
            elif chosen and self._pool and not busy:
                self._running = chosen, self._pool.submit(_merged, chosen, alive)
            elif busy and len(self.runs) > _MAX_RUNS:
                self._finish_merge()
            else:
                return

    def collect(self, *, wait: bool = False) -> None:
        """Swap in the background merge if it is finished, or `wait` for it. Raises `MergeFailed` if one failed."""
        if self._running is not None and (wait or self._running[1].done()):
            self._finish_merge()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def sweep(self, alive: AliveMask) -> None:
        """Count the live rows of each run and drop runs without any; O(rows), 1 ms per million.

        The runs of an unfinished merge stay until it is swapped in.
        """
        self._live_rows = [int(np.count_nonzero(alive(run.base, run.end))) for run in self.runs]
        busy = [run.base for run in self._running[0]] if self._running else []
        remaining = [i for i, run in enumerate(self.runs) if self._live_rows[i] or run.base in busy]
        self.runs = [self.runs[i] for i in remaining]
        self._live_rows = [self._live_rows[i] for i in remaining]

    def close(self) -> None:
        """End the background thread after its merge; later merges run in the caller. May be called repeatedly."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
            self.collect(wait=True)

    def _finish_merge(self) -> None:
        """Wait for the background merge; swap its run in, or keep its failure for the next `collect`."""
        if self._running is None:
            return
        (runs, result), self._running = self._running, None
        try:
            run, seconds = result.result()
        except Exception as error:  # noqa: BLE001 - the owner's next call raises any error
            self._failure = MergeFailed(
                f"merging rows {runs[0].base} to {runs[-1].end} of the index: {error!r}; give the process "
                "more memory, or shorten [window] length"
            )
            self._failure.__cause__ = error
        else:
            self._replace(runs, run, seconds)
            if self._pool is not None:
                self._pool.submit(_release, runs)

    def _position(self, run: Run) -> int:
        return [stored.base for stored in self.runs].index(run.base)

    def _replace(self, old: Sequence[Run], new: Run, seconds: float) -> None:
        """Replace the neighbours `old` by `new`, or by nothing if `new` is empty."""
        position = self._position(old[0])
        self.runs[position : position + len(old)] = [new] if new.rows else []
        self._live_rows[position : position + len(old)] = [new.rows] if new.rows else []
        self.merges += 1
        self.merge_seconds += seconds


def _merged(runs: Sequence[Run], alive: AliveMask) -> tuple[Run, float]:
    """Merge two runs or compact one; return the new run and the seconds it took. Runs in either thread."""
    start = perf_counter()
    live_rows = alive(runs[0].base, runs[-1].end)
    run = merge_runs(runs[0], runs[1], live_rows) if len(runs) > 1 else compact_run(runs[0], live_rows)
    return run, perf_counter() - start


def _release(runs: Sequence[Run]) -> None:
    """Discard the contents of runs, which read as zeros from then on. O(bytes); on Linux only.

    NumPy frees an array while it holds the interpreter lock, and for gigabytes the kernel takes tens of milliseconds:
    measured, 9 ms for 1 GB, in which all threads pause. `madvise` runs without the lock; freeing the emptied array then
    takes .1 ms.
    """
    for array in (array for run in runs for array in (run.keys, run.offsets, run.directory)):
        if _LIBC is None or array.nbytes < _LARGE or array.base is not None:
            continue
        # Only whole pages: memory before and after the array belongs to the allocator. In chunks, because the call
        # blocks all allocations: 35 ms for the tables of 10 M rows at once.
        start = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (array.ctypes.data + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        for chunk in range(start, end, _CHUNK):
            length = min(_CHUNK, end - chunk)
            _LIBC.madvise(ctypes.c_void_p(chunk), ctypes.c_size_t(length), mmap.MADV_DONTNEED)
