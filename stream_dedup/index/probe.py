"""Ask one run: which of its rows share a key with these items, and are alive for them.

In: a `Run`, the items' keys, the rows' times. Out: pairs (item, row), packed. The work is all cache misses,
so the kernel is laid out for them: table by table, and block by block of independent reads.

A table is *exact* (the whole key must be equal) or *near* (Manku et al. 2007: a permuted SimHash; the upper bits
must be equal, and of the lower ones only few may differ). A near table's bucket is one stretch of the sorted keys,
read in order: 150 keys of it cost less than two cache misses.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from stream_dedup.fingerprint.byte_blocks import bit_count
from stream_dedup.index.run import KEY_BITS, Keys, Rows, Run
from stream_dedup.index.times import ANY_TIME


class Nearness(NamedTuple):
    """Which keys of a table match. `dont_care_bits` (T,) int64: lower bits that need not be equal, 0 for an exact
    table;
    `max_hamming`: how many of them may differ.

    Key 0 means "none", so the fingerprint whose key would be 0 has the key 1, one bit off. Where the upper bits are
    all zero one bit more may differ, therefore: recall stays exact.
    """

    dont_care_bits: NDArray[np.int64]
    max_hamming: int

    def buckets(self, keys: Keys) -> Keys:
        """The keys (T, m) with their loose bits all set: equal where two rows share a bucket. 0 stays 0.

        >>> Nearness(np.array([8]), 3).buckets(np.array([[0, 0x1234]], np.uint32)).tolist()
        [[0, 4863]]
        """
        if not self.dont_care_bits.any():
            return keys
        ones = ((np.uint64(1) << self.dont_care_bits.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
        return np.where(keys, keys | ones[:, None], keys)

    def matches(self, a: Keys, b: Keys, first: int = 0) -> NDArray[np.bool_]:
        """Whether the index would match a's key with b's, table by table: (n, t) of two (n, t), t tables from `first`.

        >>> near = Nearness(np.array([8, 0]), 1)
        >>> near.matches(np.array([[0x1234, 9]], np.uint32), np.array([[0x1235, 8]], np.uint32)).tolist()
        [[True, False]]
        """
        found = np.empty(a.shape, np.bool_)
        _matches(a, b, self.dont_care_bits[first:], self.max_hamming, found)
        return found


# Queries walked together through one table. The reads of a block do not depend on each other, so the
# processor has many cache misses under way at once; the block's own scratch (10 KB) stays in the first cache. 32 to 512
# measure the same.
_BLOCK = 256
# Above this many keys under one directory entry a bisection is quicker than a walk. Even keys leave 2 to 4;
# only hot keys and uneven (SimHash) keys come here.
_WALK = 16
# Keys of a near bucket that are read ahead, a cache line each, before any of the block is compared.
_AHEAD = 256


def nearness_of(dont_care_bits: Sequence[int], tables: int, max_hamming: int) -> Nearness:
    """Near tables first, with so many loose bits each; all further ones are exact."""
    return Nearness(np.array([*dont_care_bits, *[0] * (tables - len(dont_care_bits))], np.int64), max_hamming)


def probe(
    run: Run,
    queries: Keys,
    scopes: Rows,
    times: Rows,
    first: int,
    left: NDArray[np.int32],
    pairs: Rows,
    count: int,
    nearness: Nearness,
) -> tuple[Rows, int]:
    """Append to `pairs[:count]` the rows of one run that share a key with an item and are alive for it.

    `queries` (T, m) contiguous; 0 asks nothing. A row r counts for item i if
    r >= first and its time counts by scopes[i], whose columns are those of `Windows`. A pair is the word
    (item << 32 | r - first). `left` (T, m) is how many rows each bucket may still give: it is used up newest row first,
    and written back. Returns the array (a longer one if it was full) and the new count. One pass over the tables:
    O(T m) cache misses.
    """
    bits = KEY_BITS - (run.directory.shape[1] - 1).bit_length() + 1
    tables = run.keys, run.offsets, run.directory, bits, run.base
    pairs, count = _probe(*tables, queries, scopes, times, first, left, pairs, count, nearness.dont_care_bits)
    if nearness.dont_care_bits.any():
        pairs, count = _probe_near(*tables, queries, scopes, times, first, left, pairs, count, *nearness)
    return pairs, int(count)


@numba.njit(nogil=True, cache=True, inline="always")
def _is_near(key, other, free, max_hamming):  # type: ignore[no-untyped-def]
    """Whether two keys of a table match: all uint64, `free` lower bits need not be equal. See `Nearness`."""
    differ = key ^ other
    most = max_hamming + np.uint64((key >> free) == 0)
    return differ >> free == 0 and bit_count(differ) <= most and key != 0 and other != 0


@numba.njit(nogil=True, cache=True)
def _matches(a, b, dont_care_bits, max_hamming, found):  # type: ignore[no-untyped-def]
    for row in range(a.shape[0]):
        for table in range(a.shape[1]):
            free = np.uint64(dont_care_bits[table])
            found[row, table] = _is_near(
                np.uint64(a[row, table]), np.uint64(b[row, table]), free, np.uint64(max_hamming)
            )


@numba.njit(nogil=True, cache=True, inline="always")
def _counts(time, row, scopes, item):  # type: ignore[no-untyped-def]
    """Whether a row with this time counts for an item: see `Windows`, whose columns stand in `scopes`."""
    if row >= scopes[item, 0]:
        return scopes[item, 1] <= time <= scopes[item, 2] or time == ANY_TIME
    return scopes[item, 3] <= time <= scopes[item, 4]


@numba.njit(nogil=True, cache=True)
def _probe(keys, offsets, directory, bits, base, queries, scopes, times, first, left, pairs, count, dont_care_bits):  # type: ignore[no-untyped-def]
    """Table by table, so that one table's directory is in the cache for all items.

    Each block of queries goes through five short loops instead of one: directory, last key of the slot, scan,
    row of each hit, and the rows behind it. In one loop the scan's branch is guessed wrong about once a
    query, and then the next query's reads wait for this one's. Measured at 1 M rows in one run, 30 tables, 500
    items, µs an item: items without a match 1.1, in one loop 1.7, in one loop and item by item 2.1.
    """
    shift = np.uint64(bits)
    items = queries.shape[1]
    low = np.empty(_BLOCK, np.int64)
    high = np.empty(_BLOCK, np.int64)
    last = np.empty(_BLOCK, np.uint32)
    hits = np.empty(_BLOCK, np.int64)
    newest = np.empty(_BLOCK, np.int64)
    for table in range(queries.shape[0]):
        if dont_care_bits[table]:
            continue
        column, places, entries, wanted = keys[table], offsets[table], directory[table], queries[table]
        for start in range(0, items, _BLOCK):
            block = min(_BLOCK, items - start)
            for j in range(block):
                prefix = np.int64(np.uint64(wanted[start + j]) >> shift)
                low[j] = entries[prefix]
                high[j] = np.int64(entries[prefix + 1]) - 1
            for j in range(block):
                last[j] = column[max(high[j], 0)]
            found = 0
            for j in range(block):
                key = wanted[start + j]
                bottom, top = low[j], high[j]
                if top - bottom > _WALK:
                    # The last position whose key is not above the wanted one.
                    while bottom <= top:
                        middle = (bottom + top) >> 1
                        if column[middle] <= key:
                            bottom = middle + 1
                        else:
                            top = middle - 1
                    bottom = low[j]
                    hit = top >= bottom and column[top] == key
                else:
                    candidate = last[j]
                    while top > bottom and candidate > key:
                        top -= 1
                        candidate = column[top]
                    hit = top >= bottom and candidate == key
                high[j] = top
                hits[found] = j
                found += hit and key != 0
            for h in range(found):
                newest[h] = base + np.int64(places[high[hits[h]]]) - first
            for h in range(found):
                j = hits[h]
                item = start + j
                key = wanted[item]
                budget = left[table, item]
                place = high[j]
                row = newest[h]
                while budget > 0:
                    if row >= 0 and _counts(times[row], row + first, scopes, item):
                        if count == pairs.size:
                            pairs = _doubled(pairs)
                        pairs[count] = item << 32 | row
                        count += 1
                        budget -= 1
                    place -= 1
                    if place < 0 or column[place] != key:
                        break
                    row = base + np.int64(places[place]) - first
                left[table, item] = budget
    return pairs, count


@numba.njit(nogil=True, cache=True)
def _probe_near(  # type: ignore[no-untyped-def]
    keys, offsets, directory, bits, base, queries, scopes, times, first, left, pairs, count, dont_care_bits, max_hamming
):
    """The near tables. A bucket is in order of key, not of row, so its live matches are gathered, and where they are
    more than may be given, sorted. Short loops over a block of queries for the same reason as in `_probe`.
    """
    shift = np.uint64(bits)
    line = 8 * 64 // KEY_BITS
    items = queries.shape[1]
    low = np.empty(_BLOCK, np.int64)
    high = np.empty(_BLOCK, np.int64)
    ends = np.empty(_BLOCK, np.int64)
    rows = np.empty(4096, np.int64)
    touched = keys[0, 0]
    for table in range(queries.shape[0]):
        if not dont_care_bits[table]:
            continue
        column, places, entries, wanted = keys[table], offsets[table], directory[table], queries[table]
        free = np.uint64(dont_care_bits[table])
        ones = (np.uint64(1) << free) - np.uint64(1)
        for start in range(0, items, _BLOCK):
            block = min(_BLOCK, items - start)
            for j in range(block):
                key = np.uint64(wanted[start + j])
                low[j] = entries[np.int64((key & ~ones) >> shift)]
                high[j] = entries[np.int64((key | ones) >> shift) + 1]
                if key == 0 or left[table, start + j] <= 0:
                    high[j] = low[j]
            for j in range(block):
                for place in range(low[j], min(high[j], low[j] + _AHEAD), line):
                    touched ^= column[place]
            found = 0
            for j in range(block):
                key = np.uint64(wanted[start + j])
                while found + high[j] - low[j] > rows.size:
                    rows = _doubled(rows)
                for place in range(low[j], high[j]):
                    if _is_near(key, np.uint64(column[place]), free, np.uint64(max_hamming)):
                        rows[found] = place
                        found += 1
                ends[j] = found
            for h in range(found):
                rows[h] = base + np.int64(places[rows[h]]) - first
            begin = 0
            for j in range(block):
                item = start + j
                alive = begin
                for h in range(begin, ends[j]):
                    row = rows[h]
                    rows[alive] = row
                    alive += row >= 0 and _counts(times[row], row + first, scopes, item)
                budget = left[table, item]
                if alive - begin > budget:
                    rows[begin:alive].sort()
                while count + alive - begin > pairs.size:
                    pairs = _doubled(pairs)
                for h in range(max(alive - budget, begin), alive):
                    pairs[count] = item << 32 | rows[h]
                    count += 1
                left[table, item] = max(budget - (alive - begin), 0)
                begin = ends[j]
    if touched == 0:  # the reads ahead must have a use, or the compiler leaves them out
        low[0] = 0
    return pairs, count


@numba.njit(nogil=True, cache=True)
def _doubled(array: Rows) -> Rows:
    longer = np.empty(2 * array.size, np.int64)
    longer[: array.size] = array
    return longer
