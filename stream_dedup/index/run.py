"""Build and merge runs: immutable sorted tables of keys over a contiguous range of rows.

In: the keys of consecutive rows, or two older runs. Out: a `Run`. A run is the sorted-table form of locality-sensitive
hashing (LSH Forest, Bawa et al. 2005; sorted permutations, Charikar 2002). A table consists of its sorted keys, the row
of each key, and a *prefix directory*: where the keys with given top bits begin. A lookup is one directory read and a
short scan, two cache misses for any number of rows. The same keys always give the same arrays, in any order of merges.

Two alternatives are not worth it, measured at 10 M rows:

- Compressed keys. Of 4 bytes, Golomb-Rice leaves 1.28 (10 ns per key to decode), transposed gaps with zstd 1.34 (3 ns),
  gaps as varints 1.74 (3 ns), but an offset still needs 3 of its 4 bytes. A table would shrink from 8.8 to 4.5 bytes
  per row, saving 130 of 600 bytes per original, and a lookup (70 ns) would take twice as long to decode 4 to 8 keys.
- A blocked Bloom filter in front of each run. A key of a new item costs 28 ns instead of 37 in a run of 200,000 rows,
  39 instead of 52 at 1 M, 57 instead of 135 at 10 M: at most 2 of the 30 µs per item. It takes 1 to 1.7 bytes per key
  (50 of 600 bytes per original), and copies pay for both lookups.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.uint32]
Rows: TypeAlias = NDArray[np.int64]
KEY_BITS = 32

# With this many rows, two copies of keys and offsets fit into a second-level cache of 1 to 2 MB.
_CACHED_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Sorted tables over the rows `base <= row < end`, without rows that were dead at a merge.

    `keys` (T, n), ascending in each table; `offsets` (T, n) uint32, row - base, ascending within equal keys;
    `directory` (T, 2^p + 1) uint32: entry i is the first position whose key's top p bits are at least i. `newest` is an
    upper bound of the rows' times.
    """

    base: int
    end: int
    keys: Keys
    offsets: NDArray[np.uint32]
    directory: NDArray[np.uint32]
    newest: int

    @property
    def rows(self) -> int:
        """Number of rows in the tables, n."""
        return int(self.keys.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: 8 per row and table, plus at most an eighth of that for the directory."""
        return self.keys.nbytes + self.offsets.nbytes + self.directory.nbytes


def directory_bits(rows: int) -> int:
    """The number p of top key bits in the directory of a table with `rows` keys; O(1).

    2^p lies in (rows/8, rows/4]: 4 to 8 keys per entry, half a cache line, and 4 * 2^p bytes are at most an eighth of
    the table's 8 bytes per row. Measured in one run, ns per key of a new item with 1/4, 1/2, 1, 2 and 4 times as many
    entries: 96, 75, 56, 47, 44 at 1 M rows; 94, 73, 70, 118, 210 at 10 M, where a larger directory leaves the cache.
    Interpolation search without a directory (Manku et al.) takes 248 and 313, since each step waits for the previous
    one. At least one bit, because a shift by the whole width of a key is undefined.

    >>> [directory_bits(n) for n in (1, 8, 1_000, 1_000_000)]
    [1, 1, 7, 17]
    """
    return max(1, rows.bit_length() - 3)


def build_run(base: int, keys: Keys, newest: int) -> Run:
    """Sort the keys of the rows base, base + 1, … into a run; O(T n), releases the lock.

    `keys` (n, T), in any memory order. A radix sort by bytes, stable, so offsets ascend within equal keys. Measured at
    30 tables: 9 ns per key for 512 to 65,536 rows, 15 ns at 1 M; NumPy's sort of packed words needs 20, 86 and 98.

    >>> run = build_run(100, np.array([[7, 1], [5, 1]], np.uint32), newest=0)
    >>> run.keys.tolist(), run.offsets.tolist()
    ([[5, 7], [1, 1]], [[1, 0], [0, 1]])
    """
    rows, tables = keys.shape
    table_keys = np.empty((tables, rows), np.uint32)
    offsets = np.empty((tables, rows), np.uint32)
    _sort(np.ascontiguousarray(keys.T), table_keys, offsets)
    directory = _directory(table_keys, directory_bits(rows))
    return Run(base, base + rows, table_keys, offsets, directory, newest)


def merge_runs(older: Run, newer: Run, alive: NDArray[np.bool_]) -> Run:
    """Merge two adjacent runs into one without the dead rows; O(T (n + m)), releases the lock.

    `alive` (newer.end - older.base,): which rows of the range are alive; rows that an earlier merge dropped must be
    False. Measured at 1 M rows and 30 tables: 5.5 ns per key, and as much again for the page faults of the new arrays.

    >>> a = build_run(0, np.array([[7], [5]], np.uint32), newest=1)
    >>> b = build_run(2, np.array([[6], [5]], np.uint32), newest=2)
    >>> run = merge_runs(a, b, np.array([True, True, False, True]))
    >>> run.keys.tolist(), run.offsets.tolist()
    ([[5, 5, 7]], [[1, 3, 0]])
    """
    kept = int(np.count_nonzero(alive))
    tables = len(older.keys)
    keys = np.empty((tables, kept), np.uint32)
    offsets = np.empty((tables, kept), np.uint32)
    all_live = kept == older.rows + newer.rows
    shift = newer.base - older.base
    _merge(older.keys, older.offsets, newer.keys, newer.offsets, shift, alive, all_live, keys, offsets)
    directory = _directory(keys, directory_bits(kept))
    return Run(older.base, newer.end, keys, offsets, directory, max(older.newest, newer.newest))


def compact_run(run: Run, alive: NDArray[np.bool_]) -> Run:
    """Return the run without its dead rows; `alive` (run.end - run.base,)."""
    empty_run = Run(run.end, run.end, run.keys[:, :0].copy(), run.offsets[:, :0].copy(), run.directory, run.newest)
    return merge_runs(run, empty_run, alive)


@numba.njit(nogil=True, cache=True)
def _sort(keys, sorted_keys, sorted_offsets):  # type: ignore[no-untyped-def]
    """Radix-sort each line of `keys` (T, n) into (T, n) keys and offsets.

    A table that fits into the second cache is sorted from the lowest byte on. A larger one is first partitioned by its
    top byte, and each of the 256 parts is then sorted in the cache. Measured at 2 M rows, ns per key: 12, instead of 17
    without partitioning.
    """
    tables, rows = keys.shape
    digits = KEY_BITS // 8
    top = np.uint64(8 * (digits - 1))
    keys_0, keys_1 = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
    offsets_0, offsets_1 = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
    ends = np.empty(256, np.int64)
    for table in range(tables):
        column, to_keys, to_offsets = keys[table], sorted_keys[table], sorted_offsets[table]
        if rows <= _CACHED_ROWS:
            for row in range(rows):
                keys_0[row] = column[row]
                offsets_0[row] = row
            _sort_bytes(keys_0, offsets_0, keys_1, offsets_1, digits, to_keys, to_offsets)
            continue
        ends[:] = 0
        for row in range(rows):
            ends[np.int64(np.uint64(column[row]) >> top)] += 1
        _exclusive_sums(ends)
        for row in range(rows):
            part = np.int64(np.uint64(column[row]) >> top)
            position = ends[part]
            ends[part] = position + 1
            keys_0[position] = column[row]
            offsets_0[position] = row
        start = np.int64(0)
        for end in ends:
            part_keys, part_offsets = keys_0[start:end], offsets_0[start:end]
            _sort_bytes(
                part_keys, part_offsets, keys_1, offsets_1, digits - 1, to_keys[start:end], to_offsets[start:end]
            )
            start = end


@numba.njit(nogil=True, cache=True)
def _sort_bytes(keys_0, offsets_0, keys_1, offsets_1, digits, sorted_keys, sorted_offsets):  # type: ignore[no-untyped-def]
    """Sort by the lowest `digits` bytes of the keys; stable.

    Digits are bytes, because 256 write positions stay in the first cache, and small runs need not clear large
    counters. The last pass writes to the output; earlier passes alternate between input and scratch.
    """
    rows = keys_0.size
    byte = np.uint64(255)
    counts = np.zeros((digits, 256), np.int64)
    for row in range(rows):
        rest = np.uint64(keys_0[row])
        for digit in range(digits):
            counts[digit, np.int64(rest & byte)] += 1
            rest >>= np.uint64(8)
    from_keys, from_offsets, to_keys, to_offsets = keys_0, offsets_0, keys_1, offsets_1
    for digit in range(digits):
        if digit == digits - 1:
            to_keys, to_offsets = sorted_keys, sorted_offsets
        places = counts[digit]
        _exclusive_sums(places)
        shift = np.uint64(8 * digit)
        for row in range(rows):
            value = np.int64((np.uint64(from_keys[row]) >> shift) & byte)
            position = places[value]
            places[value] = position + 1
            to_keys[position] = from_keys[row]
            to_offsets[position] = from_offsets[row]
        if digit % 2 == 0:
            from_keys, from_offsets, to_keys, to_offsets = keys_1, offsets_1, keys_0, offsets_0
        else:
            from_keys, from_offsets, to_keys, to_offsets = keys_0, offsets_0, keys_1, offsets_1


@numba.njit(inline="always")
def _exclusive_sums(counts):  # type: ignore[no-untyped-def]
    """Turn the counts of 256 values into the start of each value, in place (exclusive prefix sums)."""
    total = 0
    for value in range(256):
        total += counts[value]
        counts[value] = total - counts[value]


@numba.njit(nogil=True, cache=True)
def _directory(keys: Keys, bits: int) -> NDArray[np.uint32]:
    tables, rows = keys.shape
    shift = np.uint64(KEY_BITS - bits)
    entries = 1 << bits
    directory = np.empty((tables, entries + 1), np.uint32)
    for table in range(tables):
        entry = 0
        for position in range(rows):
            prefix = np.int64(np.uint64(keys[table, position]) >> shift)
            while entry <= prefix:
                directory[table, entry] = position
                entry += 1
        while entry <= entries:
            directory[table, entry] = rows
            entry += 1
    return directory


@numba.njit(nogil=True, cache=True)
def _merge(keys_a, offsets_a, keys_b, offsets_b, shift, alive, all_live, keys, offsets):  # type: ignore[no-untyped-def]
    """Merge each table of two runs; of equal keys the older run's come first, so offsets ascend.

    The choice is arithmetic, because hashed keys make a branch mispredict half the time. For the same reason a dead
    entry is written and then overwritten; the check of the output's end is for dead entries after the last live one.
    """
    length_a = keys_a.shape[1]
    length_b = keys_b.shape[1]
    kept = keys.shape[1]
    for table in range(keys.shape[0]):
        ka, oa, kb, ob = keys_a[table], offsets_a[table], keys_b[table], offsets_b[table]
        to_keys, to_offsets = keys[table], offsets[table]
        a = 0
        b = 0
        position = 0
        while a < length_a and b < length_b and position < kept:
            key_a, key_b = ka[a], kb[b]
            second = key_b < key_a
            offset = np.uint32(ob[b] + shift) if second else oa[a]
            to_keys[position] = key_b if second else key_a
            to_offsets[position] = offset
            a += not second
            b += second
            position += 1 if all_live else alive[offset]
        while a < length_a and position < kept:
            to_keys[position] = ka[a]
            to_offsets[position] = oa[a]
            position += 1 if all_live else alive[oa[a]]
            a += 1
        while b < length_b and position < kept:
            offset = np.uint32(ob[b] + shift)
            to_keys[position] = kb[b]
            to_offsets[position] = offset
            position += 1 if all_live else alive[offset]
            b += 1
