"""The recent tree: the keys of the newest remembered items (rows), until they become a run.

A sorted array cannot take single rows cheaply; a tree (sortedcontainers) can, but it consists of Python objects. So a
blocked Bloom filter (Putze et al. 2007) over all tables stands in front of it: one NumPy array, one cache line per
query, one call of the core for all items. The keys of a new item are almost never in it, and then no Python object is
touched.
"""

from collections.abc import Iterable

import numpy as np
from sortedcontainers import SortedList

from stream_dedup.core import call
from stream_dedup.index.runs import ITEM_SHIFT, ROW_SHIFT, Keys, Lookup, Nearness, Rows
from stream_dedup.index.times import ANY_TIME, HIGH, LOW, OLD_HIGH, OLD_LOW, RECENT

# A tree entry is the integer key << 32 | offset: sorted by key, then by row, as in a run.
_OFFSET_BITS = 32
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


class RecentTree:
    """A sorted list for each table over the newest rows, `base` to `base + len - 1`, and a Bloom filter.

    >>> from stream_dedup.index.runs import nearness_of
    >>> tree = RecentTree(nearness_of((), [0, 1], 0), limit=100)
    >>> tree.add(np.array([[7, 1], [7, 2]], np.uint32))
    >>> len(tree)
    2
    """

    def __init__(self, nearness: Nearness, limit: int) -> None:
        self._nearness = nearness
        self._table_of: list[int] = nearness.table_of.tolist()
        # One 64-bit word per entry, of which 4 bits are set: false positives are 1.5 in 10,000.
        words = 1 << max(6, (limit * len(self._table_of) - 1).bit_length())
        self._filter = np.zeros(words, np.uint64)
        self._buffer = np.empty((limit, len(self._table_of)), np.uint32)
        self.base = 0
        self.clear(0)

    def __len__(self) -> int:
        return self._rows

    @property
    def nbytes(self) -> int:
        """Bytes of filter and keys, plus about 80 per list entry (a Python int and its slot in the list)."""
        return self._filter.nbytes + self._buffer.nbytes + 80 * self._rows * len(self._table_of)

    def clear(self, base: int) -> None:
        """Remove all rows; the next one to add is `base`."""
        self.base = base
        self._rows = 0
        self._trees = [SortedList() for _ in range(self._table_of[-1] + 1)]
        self._filter[:] = 0

    def keys(self) -> Keys:
        """Return the keys (n, C) of the rows, in order of arrival; a view."""
        return self._buffer[: self._rows]

    def add(self, keys: Keys) -> None:
        """Add the keys (n, C) of the next rows; O(n C log n), about 1 µs per key."""
        end = self._rows + len(keys)
        if end > len(self._buffer):
            self._buffer = np.resize(self._buffer, (2 * end, len(self._table_of)))
        self._buffer[self._rows : end] = keys
        columns = np.ascontiguousarray(keys.T)
        self._filter_keys(columns, None)
        for table, column in zip(self._table_of, columns.tolist(), strict=True):
            for offset, key in enumerate(column, self._rows):
                if key:
                    self._trees[table].add(key << _OFFSET_BITS | offset)
        self._rows = end

    def probe(self, lookup: Lookup) -> list[int]:
        """Return the live pairs of all items, packed as in runs.py.

        O(C m) in the core, and a few µs of Python for each key that is in the tree.
        """
        pairs: list[int] = []
        if not self._rows:
            return pairs
        for position in self._passed(lookup.queries).tolist():
            column, item = divmod(position, lookup.queries.shape[1])
            budget, previous = int(lookup.budgets[column, item]), -1
            for offset in self._offsets(column, int(lookup.queries[column, item])):
                if not budget:
                    break
                row = self.base + offset - lookup.first
                if row < 0 or offset == previous:  # two columns of a row may hold the same key
                    continue
                previous = offset
                if lookup.hidden is not None and lookup.hidden[row]:
                    continue
                time, window = lookup.times[row], lookup.windows[item]
                is_recent = self.base + offset >= window[RECENT]
                low, high = (LOW, HIGH) if is_recent else (OLD_LOW, OLD_HIGH)
                if window[low] <= time <= window[high] or (is_recent and time == ANY_TIME):  # as in core.h
                    pairs.append(item << ITEM_SHIFT | row << ROW_SHIFT | column)
                    budget -= 1
            lookup.budgets[column, item] = budget
        return pairs

    def _passed(self, queries: Keys) -> Rows:
        """Return the positions column * m + item of the queries (C, m) whose key may be in the tree."""
        passed = np.empty(queries.size, np.int64)
        return passed[: self._filter_keys(queries, passed)]

    def _filter_keys(self, keys: Keys, passed: Rows | None) -> int:
        buckets, words = self._nearness.buckets(keys), self._filter
        return call("filter_keys", words, len(words), buckets, *buckets.shape, self._nearness.table_of, passed)

    def _offsets(self, column: int, key: int) -> Iterable[int]:
        """Return the rows, relative to `base`, with a key in the column's table that matches, the newest first."""
        mask = (1 << int(self._nearness.dont_care_bits[column])) - 1
        low, high = (key & ~mask) << _OFFSET_BITS, (key | mask) << _OFFSET_BITS | _OFFSET_MASK
        tree = self._trees[self._table_of[column]]
        offsets = (entry & _OFFSET_MASK for entry in tree.irange(low, high, reverse=True))
        if not mask:
            return offsets
        newest_first = np.array(sorted(offsets, reverse=True), np.int64)
        keys = self._buffer[newest_first, column][:, None]
        is_near = self._nearness.matches(keys, np.full_like(keys, key), column)[:, 0]
        near: list[int] = newest_first[is_near].tolist()
        return near
