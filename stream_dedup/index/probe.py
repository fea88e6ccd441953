"""Look up keys in runs: find the rows that share a key with the items and are alive for them.

Cache misses dominate the cost, so the core works table by table, in blocks of independent reads (core/index.c).

A table is *exact* (keys must be equal) or *near* (Manku et al. 2007, permuted SimHashes: the upper bits must be equal,
and only a few of the lower ones may differ). A bucket of a near table is a range of the sorted keys and is read in
order: 150 keys cost less than two cache misses. An exact table may be *shared* by neighbouring columns of keys: then a
key in any of them meets the equal keys in all of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, arena, call, copied, fields, pointers
from stream_dedup.index.runs import Keys, Rows, Run
from stream_dedup.index.times import Windows


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


class CoreNearness(Struct, name="nearness"):
    """`Nearness` as the core takes it."""

    _fields_ = (*fields(POINTER, "first_columns dont_care_bits"), *fields(INT64, "columns tables max_hamming"))

    @classmethod
    def from_nearness(cls, near: Nearness) -> "CoreNearness":
        sizes = {"columns": len(near.dont_care_bits), "tables": len(near.first_columns) - 1}
        arrays = {"first_columns": near.first_columns, "dont_care_bits": near.dont_care_bits}
        return cls(**arrays, **sizes, max_hamming=near.max_hamming)


class _CoreLookup(Struct, name="lookup"):
    _fields_ = (
        *fields(POINTER, "queries windows times hidden budgets hits"),
        *fields(INT64, "items rows first count room"),
    )


def probe(runs: Sequence[Run], near: CoreNearness, lookup: Lookup) -> Rows:
    """Find the rows of runs, the newest run first, that share a key with an item and are alive for it; as hits.

    A hit is one number: the item from bit `ITEM_SHIFT` on, r - first from `ROW_SHIFT` on, and below it the column of
    the item's key. One pass over the tables of each run: O(C m) cache misses.
    """
    given = _CoreLookup(**lookup._asdict(), items=lookup.queries.shape[1], rows=len(lookup.times))
    count = call("index_find", arena(), pointers([run.packed for run in runs]), len(runs), near, given)
    return copied(given.hits, count, np.int64)
