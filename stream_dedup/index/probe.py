"""Look up keys in one run: find its rows that share a key with the items and are alive for them.

In: a `Run`, the items' keys, the rows' times. Out: pairs (item, row), packed. Cache misses dominate the cost, so the
kernels work table by table, in blocks of independent reads.

A table is *exact* (keys must be equal) or *near* (Manku et al. 2007, permuted SimHashes: the upper bits must be equal,
and only a few of the lower ones may differ). A bucket of a near table is a range of the sorted keys and is read in
order: 150 keys cost less than two cache misses. An exact table may be *shared* by neighbouring columns of keys: then a
key in any of them meets the equal keys in all of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.compiled import njit
from stream_dedup.fingerprint.bits import bit_count, grown
from stream_dedup.index.runs import KEY_BITS, Keys, Rows, Run, directory_bits
from stream_dedup.index.times import RECENT, Windows, is_visible


class Nearness(NamedTuple):
    """Which of the keys in C columns match.

    `table_of` (C,) int64: the table of each column, ascending from 0; `first_columns` (T + 1,) int64: the first column
    of each table, and C. `dont_care_bits` (C,) int64: the lower bits that may differ, 0 in an exact table;
    `max_hamming`: in how many places. Key 0 means "none", so a fingerprint whose key would be 0 has key 1, one bit off.
    Therefore one more bit may differ where the upper bits are all zero: recall stays exact.
    """

    table_of: NDArray[np.int64]
    first_columns: NDArray[np.int64]
    dont_care_bits: NDArray[np.int64]
    max_hamming: int

    def buckets(self, keys: Keys) -> Keys:
        """The keys (C, m) with all don't-care bits set: equal in columns of one table if two rows share a bucket.
        0 stays 0.

        >>> nearness_of([8], [0], 3).buckets(np.array([[0, 0x1234]], np.uint32)).tolist()
        [[0, 4863]]
        """
        if not self.dont_care_bits.any():
            return keys
        mask = ((np.uint64(1) << self.dont_care_bits.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
        return np.where(keys, keys | mask[:, None], keys)

    def matches(self, a: Keys, b: Keys, first: int = 0) -> NDArray[np.bool_]:
        """(n, c) whether each key of `a` matches one of `b` in its table; both are (n, c), from column `first` on.

        >>> near = nearness_of([8], [0, 1, 1], 1)
        >>> near.matches(np.array([[0x1234, 9, 8]], np.uint32), np.array([[0x1235, 8, 7]], np.uint32)).tolist()
        [[True, False, True]]
        """
        matching = np.empty(a.shape, np.bool_)
        _matches(a, b, self.table_of[first:], self.dont_care_bits[first:], self.max_hamming, matching)
        return matching


ROW_SHIFT, ITEM_SHIFT = 12, 44
"""A pair is one word, so that sorting is fast: 2^19 items of a lookup, 2^32 rows, 2^12 columns (3,074 at most)."""
# Queries per block. The reads of a block are independent, so the processor overlaps many cache misses; the scratch of
# a block (10 KB) stays in the first cache. 32 to 512 measure the same.
_BLOCK = 256
# Above this many keys per directory entry, bisection is faster than a scan. Evenly distributed keys have 2 to 4; only
# frequent keys and uneven ones (SimHash) have more.
_MAX_SCAN = 16
# Keys of a near bucket whose cache lines are read ahead, before any key of the block is compared.
_PREFETCH = 256


def nearness_of(dont_care_bits: Sequence[int], table_of: Sequence[int], max_hamming: int) -> Nearness:
    """The `Nearness` of columns of these tables. The first tables have these don't-care bits, the others are exact."""
    of, tables = np.array(table_of, np.int64), table_of[-1] + 1
    bits = np.array([*dont_care_bits, *[0] * (tables - len(dont_care_bits))], np.int64)
    return Nearness(of, np.searchsorted(of, np.arange(tables + 1)), bits[of], max_hamming)


class Asked(NamedTuple):
    """A lookup: `queries` (C, m) uint32, contiguous, 0 is no query. Row r counts for item i if r >= first and its time,
    times[r - first], is visible in windows[i]. `budgets` (C, m) int32: the rows that each key may still give; updated,
    the newest rows first.
    """

    queries: Keys
    windows: Windows
    times: Rows
    first: int
    budgets: NDArray[np.int32]


def probe(run: Run, nearness: Nearness, asked: Asked, pairs: Rows, count: int) -> tuple[Rows, int]:
    """Append to `pairs[:count]` the rows of one run that share a key with an item and are alive for it.

    A pair is a word: the item from bit `ITEM_SHIFT` on, r - first from `ROW_SHIFT` on, and below it the column of the
    item's key. Returns the array of pairs (a longer one if it was full) and the new count. One pass over the tables:
    O(C m) cache misses.
    """
    pairs, count = _probe(run, nearness, asked, pairs, count)
    if nearness.dont_care_bits.any():
        pairs, count = _probe_near(run, nearness, asked, pairs, count)
    return pairs, int(count)


@njit(nogil=True, cache=True, inline="always")
def is_near(key, other, dont_care, max_hamming):  # type: ignore[no-untyped-def]
    """Whether two keys match, all arguments uint64: the `dont_care` lower bits may differ. See `Nearness`."""
    differ = key ^ other
    most = max_hamming + np.uint64((key >> dont_care) == 0)
    return differ >> dont_care == 0 and bit_count(differ) <= most and key != 0 and other != 0


@njit(nogil=True, cache=True)
def _matches(a, b, table_of, dont_care_bits, max_hamming, matching):  # type: ignore[no-untyped-def]
    for column in range(a.shape[1]):
        dont_care = np.uint64(dont_care_bits[column])
        matching[:, column] = False
        for other in range(a.shape[1]):
            if table_of[other] == table_of[column]:
                for row in range(a.shape[0]):
                    keys = np.uint64(a[row, column]), np.uint64(b[row, other])
                    matching[row, column] |= is_near(keys[0], keys[1], dont_care, np.uint64(max_hamming))


@njit(nogil=True, cache=True)
def _probe(run, nearness, asked, pairs, count):  # type: ignore[no-untyped-def]
    """Probe the exact tables, one after the other, so that the table's directory stays in the cache for all items.

    All queries of a table are one row, whichever their column.

    Each block of queries goes through five short loops instead of one: directory, last key of the entry, scan, row of
    each hit, older rows of each hit. In a single loop the processor mispredicts the scan's branch about once per query,
    and the reads of the next query wait. Measured at 1 M rows in one run, 30 tables, 500 items, µs per item without a
    match: 1.1; in one loop 1.7; in one loop and item by item 2.1. Positions are unsigned, which saves numba's check for
    negative ones, and the arrays are not sliced by table: numba counts references to a slice, and that waits for reads.
    """
    keys, offsets, directory, base = run.keys, run.offsets, run.directory, run.base
    windows, times, first, budgets = asked.windows, asked.times, asked.first, asked.budgets
    one, items, starts, first_columns = np.uint64(1), asked.queries.shape[1], run.starts, nearness.first_columns
    low = np.empty(_BLOCK, np.uint64)
    high = np.empty(_BLOCK, np.uint64)
    last = np.empty(_BLOCK, np.uint32)
    hits = np.empty(_BLOCK, np.int64)
    newest = np.empty(_BLOCK, np.int64)
    next_directory = np.uint64(0)
    for table in range(starts.size - 1):
        first_entry, first_key = next_directory, np.uint64(starts[table])
        bits = directory_bits(starts[table + 1] - starts[table])
        shift = np.uint64(KEY_BITS - bits)
        next_directory += (one << np.uint64(bits)) + one
        first_column = first_columns[table]
        if keys.size == 0 or nearness.dont_care_bits[first_column]:
            continue
        queries = asked.queries[first_column : first_columns[table + 1]].reshape(-1)
        for start in range(0, queries.size, _BLOCK):
            block = min(_BLOCK, queries.size - start)
            for j in range(block):
                entry = first_entry + (np.uint64(queries[start + j]) >> shift)
                low[j] = first_key + np.uint64(directory[entry])
                high[j] = first_key + np.uint64(directory[entry + one])
            for j in range(block):
                last[j] = keys[max(high[j], one) - one]
            hit_count = 0
            for j in range(block):
                key = queries[start + j]
                bottom, top, candidate = low[j], high[j], last[j]
                if top - bottom > _MAX_SCAN:
                    # Find the last position whose key is not above the query.
                    end, top = top, bottom
                    while top < end:
                        middle = (top + end) >> one
                        if keys[middle] <= key:
                            top = middle + one
                        else:
                            end = middle
                    candidate = keys[max(top, one) - one]
                else:
                    while top > bottom + one and candidate > key:
                        top -= one
                        candidate = keys[top - one]
                high[j] = top
                hits[hit_count] = j
                hit_count += top > bottom and candidate == key and key != 0
            for h in range(hit_count):
                newest[h] = base + np.int64(offsets[high[hits[h]] - one]) - first
            for h in range(hit_count):
                query = start + hits[h]
                column, item = first_column, query
                while item >= items:  # faster than dividing: most tables have one column
                    column, item = column + 1, item - items
                key, budget, position = queries[query], budgets[column, item], high[hits[h]]
                row, before = newest[h], np.int64(-1)
                while budget > 0:
                    # Two columns of a row may hold the same key.
                    is_recent = row + first >= windows[item, RECENT]
                    if row >= 0 and row != before and is_visible(times[row], is_recent, windows, item):
                        if count == pairs.size:
                            pairs = grown(pairs, count, count)
                        pairs[count] = item << ITEM_SHIFT | row << ROW_SHIFT | column
                        count += 1
                        budget -= 1
                    position -= one
                    if position == first_key or keys[position - one] != key:
                        break
                    before, row = row, base + np.int64(offsets[position - one]) - first
                budgets[column, item] = budget
    return pairs, count


@njit(nogil=True, cache=True)
def _probe_near(run, nearness, asked, pairs, count):  # type: ignore[no-untyped-def]
    """Probe the near tables. A bucket is sorted by key, not by row, so its live matches are collected, and sorted if
    there are more than the budget. Short loops over blocks of queries, as in `_probe`.
    """
    base, windows, times, first = run.base, asked.windows, asked.times, asked.first
    line, items, most = 8 * 64 // KEY_BITS, asked.queries.shape[1], np.uint64(nearness.max_hamming)
    low = np.empty(_BLOCK, np.int64)
    high = np.empty(_BLOCK, np.int64)
    ends = np.empty(_BLOCK, np.int64)
    rows = np.empty(4096, np.int64)
    touched = np.uint32(0)
    next_directory = 0
    for table in range(run.starts.size - 1):
        begin, end = run.starts[table], run.starts[table + 1]
        column, row_offsets = run.keys[begin:end], run.offsets[begin:end]
        bits = directory_bits(column.size)
        shift, entries = np.uint64(KEY_BITS - bits), run.directory[next_directory:]
        next_directory += (1 << bits) + 1
        query_column = nearness.first_columns[table]
        if not nearness.dont_care_bits[query_column]:
            continue
        query_keys, table_budgets = asked.queries[query_column], asked.budgets[query_column]
        dont_care = np.uint64(nearness.dont_care_bits[query_column])
        mask = (np.uint64(1) << dont_care) - np.uint64(1)
        for start in range(0, items, _BLOCK):
            block = min(_BLOCK, items - start)
            for j in range(block):
                key = np.uint64(query_keys[start + j])
                low[j] = entries[np.int64((key & ~mask) >> shift)]
                high[j] = entries[np.int64((key | mask) >> shift) + 1]
                if key == 0 or table_budgets[start + j] <= 0:
                    high[j] = low[j]
            for j in range(block):
                for position in range(low[j], min(high[j], low[j] + _PREFETCH), line):
                    touched ^= column[position]
            hit_count = 0
            for j in range(block):
                key = np.uint64(query_keys[start + j])
                if hit_count + high[j] - low[j] > rows.size:
                    rows = grown(rows, hit_count, high[j] - low[j])
                for position in range(low[j], high[j]):
                    if is_near(key, np.uint64(column[position]), dont_care, most):
                        rows[hit_count] = position
                        hit_count += 1
                ends[j] = hit_count
            for h in range(hit_count):
                rows[h] = base + np.int64(row_offsets[rows[h]]) - first
            begin = 0
            for j in range(block):
                item = start + j
                alive = begin
                for h in range(begin, ends[j]):
                    row = rows[h]
                    rows[alive] = row
                    is_recent = row + first >= windows[item, RECENT]
                    alive += row >= 0 and is_visible(times[row], is_recent, windows, item)
                budget = table_budgets[item]
                if alive - begin > budget:
                    rows[begin:alive].sort()
                if count + alive - begin > pairs.size:
                    pairs = grown(pairs, count, alive - begin)
                for h in range(max(alive - budget, begin), alive):
                    pairs[count] = item << ITEM_SHIFT | rows[h] << ROW_SHIFT | query_column
                    count += 1
                table_budgets[item] = max(budget - (alive - begin), 0)
                begin = ends[j]
    if touched == 0:  # use the result of the reads ahead, or the compiler removes them
        low[0] = 0
    return pairs, count
