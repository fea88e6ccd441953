"""Thousands of random calls compared with the model: frequent keys, expiry, deletion and merges at any time."""

import numpy as np
import pytest

from stream_dedup.index import hybrid, runs
from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.times import ANY_TIME
from tests.index.check import check, merge, rows_held
from tests.index.model import ModelIndex, pairs_of, words_of

TABLE_OF = (0, 1, 2, 2, 2, 3)
"""Two tables of their own, one that three columns share, and another one."""
LIMIT = 5
TOP = 2**32 - 1


@pytest.mark.parametrize("dont_care_bits", [(), (8, 27)])
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("steps", [500, pytest.param(2500, marks=pytest.mark.slow)])
def test_every_lookup_agrees_with_the_model(steps, background, dont_care_bits, monkeypatch):
    monkeypatch.setattr(runs, "_AT_ONCE", 100)  # so that this little data goes through the background too
    monkeypatch.setattr(runs, "_MAX_RUNS", 6)
    monkeypatch.setattr(hybrid, "RECENT_ROWS", 20)
    rng = np.random.default_rng([background, 4])
    near = {"dont_care_bits": dont_care_bits, "max_hamming": 2}
    index = HybridIndex(TABLE_OF, bucket_limit=LIMIT, background=background, **near)
    model = ModelIndex(TABLE_OF, LIMIT, **near)
    # Many rare keys, a few frequent ones, 0 (none), and both ends of the range.
    pool = np.concatenate([rng.integers(0, TOP, 60, np.uint32), np.arange(6, dtype=np.uint32).repeat(4)])
    pool = np.append(pool, np.array([TOP, 1], np.uint32))
    if dont_care_bits:  # keys a few bits apart
        pool = np.concatenate([pool, *(pool ^ np.uint32(bit) for bit in (1, 6, 130, 7 << 20))])
    now = 1000

    def some_times(n):
        """One row in ten has an unknown time."""
        return np.where(rng.random(n) < 0.1, ANY_TIME, now + rng.integers(-300, 50, n))

    def some_keys(n):
        return rng.choice(pool, (n, len(TABLE_OF)))

    for step in range(steps):
        now += int(rng.integers(0, 20))
        calls = ["add", "bulk", "later", "settle", "lookup", "windows", "forget", "expire", "evict", "merge"]
        match rng.choice(calls, p=[0.35, 0.07, 0.03, 0.01, 0.18, 0.18, 0.11, 0.05, 0.01, 0.01]):
            case "add" | "bulk" | "later" as call:
                n = int(rng.integers(*{"add": (0, 7), "bulk": (7, 80), "later": (0, 40)}[call]))
                keys, times = some_keys(n), some_times(n)
                assert index.add(keys, times, defer_sort=call == "later") == model.add(keys, times)
            case "lookup":
                n = int(rng.integers(0, 9))
                keys, horizons = some_keys(n), now - rng.integers(0, 6000, n)
                assert pairs_of(index.lookup(keys, horizons)) == model.lookup(keys, horizons), f"step {step}"
            case "windows":
                n = int(rng.integers(0, 9))
                low, high = now - rng.integers(0, 6000, n), now - rng.integers(-100, 3000, n)
                recent = len(model.times) - rng.integers(0, 900, n)
                windows = np.column_stack((recent, low, high, low + rng.integers(0, 500, n), high))
                keys = some_keys(n)
                assert words_of(index.find(keys, windows)) == model.find(keys, windows), f"step {step}"
            case "forget" if model.times:
                row = int(rng.integers(max(0, len(model.times) - 900), len(model.times)))
                index.forget(row)
                model.forget(row)
            case "expire":
                horizon = now - int(rng.integers(1500, 5000))
                recent = max(0, len(model.times) - int(rng.integers(0, 1500)))
                assert index.expire(horizon, recent) == model.expire(horizon, recent)
            case "evict":
                first = len(model.times) - int(rng.integers(500, 2000))
                assert index.evict(first) == model.evict(first)
            case "settle":
                index.catch_up()
                assert index.unsorted_rows == 0
            case "merge":
                merge(index)
                assert index.stats().runs <= 1
                assert rows_held(index) == sum(map(model.is_alive, range(len(model.times))))
        if step % 40 == 0:
            check(index)
    assert index._tiers.merges > steps / 50
    assert index.first_row > 0
    index.close()
    check(index)
