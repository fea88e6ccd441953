"""The index as a person would state it: every row in a dict by (table, key), looked through one by one."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray


class ModelIndex:
    """The same calls as `HybridIndex`, and nothing to get wrong."""

    def __init__(self, tables: int, bucket_limit: int) -> None:
        self.tables = tables
        self.limit = bucket_limit
        self.times: list[float] = []
        self.buckets: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self.horizon = -float("inf")

    def add(self, keys: NDArray, times: NDArray) -> int:
        first = len(self.times)
        for row, line in enumerate(keys.tolist(), first):
            for table, key in enumerate(line):
                if key:
                    self.buckets[table, key].append(row)
        self.times += times.tolist()
        return first

    def lookup(self, keys: NDArray, horizons: NDArray) -> list[tuple[int, int]]:
        pairs = set()
        for item, (line, horizon) in enumerate(zip(keys.tolist(), horizons.tolist(), strict=True)):
            floor = max(horizon, self.horizon)
            for table, key in enumerate(line):
                alive = [r for r in self.buckets.get((table, key), ()) if self.times[r] >= floor] if key else []
                pairs.update((item, row) for row in alive[-self.limit :])
        return sorted(pairs)

    def forget(self, row: int) -> None:
        self.times[row] = -float("inf")

    def expire(self, horizon: int) -> int:
        self.horizon = max(self.horizon, horizon)
        for place, rows in self.buckets.items():  # only so that the model stays quick
            self.buckets[place] = [row for row in rows if self.times[row] >= self.horizon]
        first = 0
        while first < len(self.times) and self.times[first] < self.horizon:
            first += 1
        return first


def pairs_of(found: tuple[NDArray, NDArray]) -> list[tuple[int, int]]:
    """A lookup's answer as a list of (item, row)."""
    items, rows = found
    assert items.dtype == np.int32
    assert rows.dtype == np.int64
    return list(zip(items.tolist(), rows.tolist(), strict=True))
