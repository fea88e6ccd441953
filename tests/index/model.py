"""A reference implementation of the index: rows in a dict by (table, key), searched one by one."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_dedup.index.hybrid import Found, windows_since
from stream_dedup.index.runs import ITEM_SHIFT, ROW_SHIFT
from stream_dedup.index.times import ANY_TIME, NO_ROW, Windows


class ModelIndex:
    """The interface of `HybridIndex`, implemented as simply as possible."""

    def __init__(
        self, table_of: Sequence[int], bucket_limit: int, dont_care_bits: tuple[int, ...] = (), max_hamming: int = 0
    ) -> None:
        self.table_of = table_of
        self.limit = bucket_limit
        self.dont_care_bits = [*dont_care_bits, *[0] * (table_of[-1] + 1 - len(dont_care_bits))]
        self.max_hamming = max_hamming
        self.times: list[float] = []
        self.buckets: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)  # of (row, key)
        self.horizon = -float("inf")
        self.recent = 0
        self.first = 0

    def add(self, keys: NDArray, times: NDArray) -> int:
        first = len(self.times)
        for row, line in enumerate(keys.tolist(), first):
            for table, key in dict.fromkeys(zip(self.table_of, line, strict=True)):
                if key:
                    self.buckets[table, key >> self.dont_care_bits[table]].append((row, key))
        self.times += times.tolist()
        return first

    def lookup(self, keys: NDArray, horizons: NDArray) -> list[tuple[int, int]]:
        return sorted({(item, row) for item, row, _ in self.find(keys, windows_since(horizons))})

    def find(self, keys: NDArray, windows: Windows) -> list[tuple[int, int, int]]:
        """(item, row, column of the item), ascending."""
        found = []
        for item, line in enumerate(keys.tolist()):
            window = windows[item].tolist()
            for column, (table, key) in enumerate(zip(self.table_of, line, strict=True)):
                if not key:
                    continue
                upper = key >> self.dont_care_bits[table]
                most = self.max_hamming + (upper == 0) if self.dont_care_bits[table] else 0
                bucket = self.buckets.get((table, upper), ())
                alive = [row for row, other in bucket if self.counts(row, window) and (other ^ key).bit_count() <= most]
                found += [(item, row, column) for row in alive[-self.limit :]]
        return sorted(found)

    def counts(self, row: int, window: list[int]) -> bool:
        recent, low, high, old_low, old_high = window
        time = self.times[row]
        if not self.is_alive(row):
            return False
        if row >= max(recent, self.recent):
            return low <= time <= high or time == ANY_TIME
        return max(old_low, self.horizon) <= time <= old_high and time != ANY_TIME

    def is_alive(self, row: int) -> bool:
        time = self.times[row]
        if row < self.first or time == -float("inf"):
            return False
        return row >= self.recent or (time >= self.horizon and time != ANY_TIME)

    def forget(self, row: int) -> None:
        self.times[row] = -float("inf")

    def expire(self, horizon: int, recent: int = NO_ROW) -> int:
        self.horizon, self.recent = max(self.horizon, horizon), max(self.recent, recent)
        return self._first_alive()

    def evict(self, first: int) -> int:
        self.first = max(self.first, min(first, len(self.times)))
        return self.first

    def _first_alive(self) -> int:
        while self.first < len(self.times) and not self.is_alive(self.first):
            self.first += 1
        for bucket, entries in self.buckets.items():  # only to keep the model fast
            self.buckets[bucket] = [entry for entry in entries if self.is_alive(entry[0])]
        return self.first


def words_of(found: Found) -> list[tuple[int, int, int]]:
    """What was found as a list of (item, row, column of the item)."""
    rows = (1 << ITEM_SHIFT - ROW_SHIFT) - 1
    return [
        (word >> ITEM_SHIFT, (word >> ROW_SHIFT & rows) + found.first, word & (1 << ROW_SHIFT) - 1)
        for word in found.hits.tolist()
    ]


def pairs_of(found: tuple[NDArray, NDArray]) -> list[tuple[int, int]]:
    """The result of a lookup as a list of (item, row)."""
    items, rows = found
    assert items.dtype == np.int32
    assert rows.dtype == np.int64
    return list(zip(items.tolist(), rows.tolist(), strict=True))
