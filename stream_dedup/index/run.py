"""One sorted run: T tables of keys over a contiguous range of rows, built once and never changed.

In: the keys of consecutive rows, or two older runs to merge. Out: a `Run`. A run is the sorted-table form of
locality-sensitive hashing (LSH Forest, Bawa et al. 2005; sorted permutations, Charikar 2002): a table is its
keys in order, beside each key the row it came from, in front a *prefix directory* that says where the keys
with given top bits begin. A lookup is one directory read and a short scan, so two cache misses, however many
rows there are.

Nothing here is random or concurrent: the same keys give the same arrays, whatever was merged when.

What was weighed and left out, measured at 10 M rows. Coding the sorted keys: of their 4 bytes Golomb-Rice leaves 1.28
(10 ns a key to decode), zstd of the gaps' bytes, transposed, 1.34 (3 ns), gaps as varints 1.74 (3 ns); but an offset
needs 3 of its 4 bytes whatever is done, so a table would shrink from 8.8 to 4.5 bytes a row, and a key's lookup, 70 ns,
would take twice as long with the 4 to 8 keys of its slot to decode: 130 bytes of 600 an original are not worth it. A
Bloom filter in front of a run (blocked, as that of the tree): a new item's key costs 28 ns instead of 37 in a run of
200,000 rows, 39 instead of 52 at 1 M, 57 instead of 135 at 10 M, for 1 to 1.7 bytes a key (50 of 600 an original), and
copies pay for both: at most 2 of the 30 µs that an item costs in all.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray

Keys: TypeAlias = NDArray[np.uint32]
Rows: TypeAlias = NDArray[np.int64]
KEY_BITS = 32

# Rows whose keys and offsets, twice, fit into a second cache of 1 to 2 MB.
_IN_CACHE = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Sorted tables over the rows `base <= row < end`; rows that were dead at a merge are no longer in them.

    `keys` (T, n), ascending in each table; `offsets` (T, n) uint32, row - base, ascending
    within equal keys; `directory` (T, 2^p + 1) uint32, the first position whose key's top p bits are at
    least the index. `newest` is an upper bound of the rows' times.
    """

    base: int
    end: int
    keys: Keys
    offsets: NDArray[np.uint32]
    directory: NDArray[np.uint32]
    newest: int

    @property
    def rows(self) -> int:
        """How many rows the tables hold: n."""
        return int(self.keys.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: 8 a row and table, and an eighth of that for the directory."""
        return self.keys.nbytes + self.offsets.nbytes + self.directory.nbytes


def directory_bits(rows: int) -> int:
    """How many top bits of a key the directory of a table of `rows` keys resolves; O(1).

    2^p lies in (rows/8, rows/4]: 4 to 8 keys an entry, half a cache line of keys, and 4 * 2^p bytes is at most an
    eighth of the 8 bytes a row that the table itself takes. Measured in one run, ns a key of a new item, with a
    quarter, half, one, two and four times as many entries: 96, 75, 56, 47, 44 at 1 M rows, and 94, 73, 70, 118, 210
    at 10 M, where a larger directory leaves the cache. Interpolation search without any directory, as Manku et al.
    propose: 248 and 313, since each step waits for the one before. At least one bit, because a shift by a key's
    whole width is undefined.

    >>> [directory_bits(n) for n in (1, 8, 1_000, 1_000_000)]
    [1, 1, 7, 17]
    """
    return max(1, rows.bit_length() - 3)


def build_run(base: int, keys: Keys, newest: int) -> Run:
    """Sort the keys of the rows base, base + 1, … into a run; O(T n), releases the lock.

    `keys` is (n, T), one line a row, in any memory order. The sort is a radix sort by
    bytes: stable, so offsets ascend within equal keys. Measured at 30 tables: 9 ns a key for 512
    to 65,536 rows, 15 ns at 1 M; NumPy's sort of packed words needs 20, 86 and 98.

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
    """One run over the range of two adjacent ones, without the dead rows; O(T (n + m)), releases the lock.

    `alive` (newer.end - older.base,) says which rows of the range live. A dead row never lives again, so
    a row that an earlier merge dropped must be False here too. Measured at 1 M rows and 30
    tables: 5.5 ns a key, and as much again for the first touch of the new arrays.

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
    every = kept == older.rows + newer.rows
    shift = newer.base - older.base
    _merge(older.keys, older.offsets, newer.keys, newer.offsets, shift, alive, every, keys, offsets)
    directory = _directory(keys, directory_bits(kept))
    return Run(older.base, newer.end, keys, offsets, directory, max(older.newest, newer.newest))


def compact_run(run: Run, alive: NDArray[np.bool_]) -> Run:
    """The same run without its dead rows; `alive` (run.end - run.base,). A merge with nothing."""
    nothing = Run(run.end, run.end, run.keys[:, :0].copy(), run.offsets[:, :0].copy(), run.directory, run.newest)
    return merge_runs(run, nothing, alive)


@numba.njit(nogil=True, cache=True)
def _sort(keys, sorted_keys, sorted_offsets):  # type: ignore[no-untyped-def]
    """Radix sort of each line of `keys` (T, n) into (T, n) keys and offsets.

    Lowest byte first, while a table fits into the second cache. A larger one is first dealt out by its top byte, once,
    and then each of the 256 parts is sorted by itself, in the cache. Measured at 2 M rows, ns a key: 17 without the
    dealing, 12 with it.
    """
    tables, rows = keys.shape
    digits = KEY_BITS // 8
    top = np.uint64(8 * (digits - 1))
    keys_0, keys_1 = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
    offsets_0, offsets_1 = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
    ends = np.empty(256, np.int64)
    for table in range(tables):
        column, to_keys, to_offsets = keys[table], sorted_keys[table], sorted_offsets[table]
        if rows <= _IN_CACHE:
            for row in range(rows):
                keys_0[row] = column[row]
                offsets_0[row] = row
            _sort_bytes(keys_0, offsets_0, keys_1, offsets_1, digits, to_keys, to_offsets)
            continue
        ends[:] = 0
        for row in range(rows):
            ends[np.int64(np.uint64(column[row]) >> top)] += 1
        _starts(ends)
        for row in range(rows):
            part = np.int64(np.uint64(column[row]) >> top)
            place = ends[part]
            ends[part] = place + 1
            keys_0[place] = column[row]
            offsets_0[place] = row
        start = np.int64(0)
        for end in ends:
            part_keys, part_offsets = keys_0[start:end], offsets_0[start:end]
            _sort_bytes(
                part_keys, part_offsets, keys_1, offsets_1, digits - 1, to_keys[start:end], to_offsets[start:end]
            )
            start = end


@numba.njit(nogil=True, cache=True)
def _sort_bytes(keys_0, offsets_0, keys_1, offsets_1, digits, sorted_keys, sorted_offsets):  # type: ignore[no-untyped-def]
    """Sorts by the lowest `digits` bytes of the keys; stable.

    Bytes and not wider digits: the 256 write positions of a pass stay in the first cache, and a run of 16
    rows does not pay for emptying large counters. The last pass writes to the output; the passes before it
    swing between the input and the scratch.
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
        _starts(places)
        shift = np.uint64(8 * digit)
        for row in range(rows):
            value = np.int64((np.uint64(from_keys[row]) >> shift) & byte)
            place = places[value]
            places[value] = place + 1
            to_keys[place] = from_keys[row]
            to_offsets[place] = from_offsets[row]
        if digit % 2 == 0:
            from_keys, from_offsets, to_keys, to_offsets = keys_1, offsets_1, keys_0, offsets_0
        else:
            from_keys, from_offsets, to_keys, to_offsets = keys_0, offsets_0, keys_1, offsets_1


@numba.njit(inline="always")
def _starts(counts):  # type: ignore[no-untyped-def]
    """Counts of 256 values -> where each value's first one stands, in place."""
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
        for place in range(rows):
            prefix = np.int64(np.uint64(keys[table, place]) >> shift)
            while entry <= prefix:
                directory[table, entry] = place
                entry += 1
        while entry <= entries:
            directory[table, entry] = rows
            entry += 1
    return directory


@numba.njit(nogil=True, cache=True)
def _merge(keys_a, offsets_a, keys_b, offsets_b, shift, alive, every, keys, offsets):  # type: ignore[no-untyped-def]
    """Two-way merge of each table; on equal keys the older run first, so offsets ascend.

    The choice is arithmetic, not a branch: with hashed keys a branch would be guessed wrong half the time.
    A dead entry is written like a live one and then overwritten, for the same reason; hence the check of
    the end of the output, which a dead entry after the last live one would pass.
    """
    length_a = keys_a.shape[1]
    length_b = keys_b.shape[1]
    kept = keys.shape[1]
    for table in range(keys.shape[0]):
        ka, oa, kb, ob = keys_a[table], offsets_a[table], keys_b[table], offsets_b[table]
        to_keys, to_offsets = keys[table], offsets[table]
        a = 0
        b = 0
        place = 0
        while a < length_a and b < length_b and place < kept:
            key_a, key_b = ka[a], kb[b]
            second = key_b < key_a
            offset = np.uint32(ob[b] + shift) if second else oa[a]
            to_keys[place] = key_b if second else key_a
            to_offsets[place] = offset
            a += not second
            b += second
            place += 1 if every else alive[offset]
        while a < length_a and place < kept:
            to_keys[place] = ka[a]
            to_offsets[place] = oa[a]
            place += 1 if every else alive[oa[a]]
            a += 1
        while b < length_b and place < kept:
            offset = np.uint32(ob[b] + shift)
            to_keys[place] = kb[b]
            to_offsets[place] = offset
            place += 1 if every else alive[offset]
            b += 1
