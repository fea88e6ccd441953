"""The index as a person would state it: every row in a dict by (table, key), looked through one by one."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray


class ModelIndex:
    """The same calls as `HybridIndex`, and nothing to get wrong."""

    def __init__(self, tables: int, bucket_limit: int, loose: tuple[int, ...] = (), within: int = 0) -> None:
        self.tables = tables
        self.limit = bucket_limit
        self.loose = [*loose, *[0] * (tables - len(loose))]
        self.within = within
        self.times: list[float] = []
        self.buckets: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)  # of (row, key)
        self.suspended: dict[int, float] = {}  # row -> its time, while it has none
        self.horizon = -float("inf")

    def add(self, keys: NDArray, times: NDArray) -> int:
        first = len(self.times)
        for row, line in enumerate(keys.tolist(), first):
            for table, key in enumerate(line):
                if key:
                    self.buckets[table, key >> self.loose[table]].append((row, key))
        self.times += times.tolist()
        return first

    def lookup(self, keys: NDArray, horizons: NDArray) -> list[tuple[int, int]]:
        pairs = set()
        for item, (line, horizon) in enumerate(zip(keys.tolist(), horizons.tolist(), strict=True)):
            floor = max(horizon, self.horizon)
            for table, key in enumerate(line):
                if not key:
                    continue
                upper = key >> self.loose[table]
                most = self.within + (upper == 0) if self.loose[table] else 0
                bucket = self.buckets.get((table, upper), ())
                alive = [row for row, of in bucket if self.times[row] >= floor and (of ^ key).bit_count() <= most]
                pairs.update((item, row) for row in alive[-self.limit :])
        return sorted(pairs)

    def forget(self, row: int) -> None:
        self.suspended.pop(row, None)
        self.times[row] = -float("inf")

    def suspend(self, row: int) -> None:
        if self.times[row] != -float("inf"):
            self.suspended[row], self.times[row] = self.times[row], -float("inf")

    def revive(self, row: int) -> None:
        self.times[row] = self.suspended.pop(row, self.times[row])

    def expire(self, horizon: int) -> int:
        self.horizon = max(self.horizon, horizon)
        for place, rows in self.buckets.items():  # only so that the model stays quick
            self.buckets[place] = [one for one in rows if self._time(one[0]) >= self.horizon]
        first = 0
        while first < len(self.times) and self._time(first) < self.horizon:
            first += 1
        return first

    def _time(self, row: int) -> float:
        return self.suspended.get(row, self.times[row])


def pairs_of(found: tuple[NDArray, NDArray]) -> list[tuple[int, int]]:
    """A lookup's answer as a list of (item, row)."""
    items, rows = found
    assert items.dtype == np.int32
    assert rows.dtype == np.int64
    return list(zip(items.tolist(), rows.tolist(), strict=True))
