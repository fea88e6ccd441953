"""When a passage counts as boilerplate, for how long, and that only the originals in the window decide it."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import Boilerplate, log_for
from stream_dedup.errors import InputError
from tests.dedup.world import DAY, HOUR, START

WAYS = 4
"""Entries per bucket."""


def see(table: Boilerplate, time: int, *passages: int) -> None:
    """Add one original with these passages."""
    table.add(np.array(passages, np.uint32), np.array([len(passages)]), np.array([time]))


def known(table: Boilerplate, *passages: int, since: int = 0) -> list[bool]:
    """Whether each was seen in three originals since then, ms."""
    entries, second = table.entries, max(since // 1000, 1)
    return [bool((entries["seen"][entries["hash"] == passage, 2] >= second).any()) for passage in passages]


def of_one_bucket(count: int) -> list[int]:
    """Hashes that share a bucket, by the multiplicative hash of the table."""
    hashes = np.arange(1, 16_000_000, dtype=np.uint64)
    buckets = len(Boilerplate().entries) // WAYS
    bucket = (hashes * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) % np.uint64(buckets)
    found: list[int] = hashes[bucket == bucket[0]][:count].tolist()
    assert len(found) == count
    return found


def test_boilerplate_expires_with_the_window_and_returns() -> None:
    table = Boilerplate()
    for day in (0, 1, 2):
        see(table, START + day * DAY, 7)
    assert known(table, 7, since=START) == [True], "the first moment of the window belongs to it"
    assert known(table, 7, since=START + 1000) == [False]
    see(table, START + 3 * DAY, 7)
    assert known(table, 7, since=START + 1000) == [True]


def test_a_full_bucket_replaces_the_passage_that_was_seen_least_recently() -> None:
    passages = of_one_bucket(WAYS + 1)
    table = Boilerplate()
    for hour in range(2):
        for n, one in enumerate(passages[:WAYS]):
            see(table, START + hour * HOUR + n * 1000, one)
    see(table, START + 2 * HOUR, passages[0])  # now the second one is the oldest
    see(table, START + 3 * HOUR, passages[WAYS])
    for n, one in enumerate(passages[:WAYS]):
        see(table, START + 4 * HOUR + n, one) if n != 1 else None
    assert known(table, *passages[:WAYS]) == [n != 1 for n in range(WAYS)]
    see(table, START + 5 * HOUR, passages[1])
    assert not known(table, passages[1])[0], "its two sightings are gone"


@pytest.mark.parametrize("seed", range(3))
def test_a_table_restored_from_the_window_equals_the_running_one(seed: int) -> None:
    """A restart reads only the window. Some passages recur, most do not, and buckets overflow."""
    random = np.random.default_rng(seed)
    window, hashes = 3 * DAY, np.array(of_one_bucket(40), np.uint32)
    originals: list[tuple[int, NDArray[np.uint32]]] = []
    for n in range(600):
        common = hashes[(random.pareto(1.0, random.integers(0, 5)) * 3).astype(int) % len(hashes)]
        originals.append((START + n * HOUR // 2, common))
    running = Boilerplate()
    compared = 0
    for n, (time, passages) in enumerate(originals):
        running.add(passages, np.array([len(passages)]), np.array([time]))
        if n % 60 == 59:
            horizon = time - window
            inside = [one for one in originals[: n + 1] if one[0] >= horizon]
            restored = Boilerplate()
            restored.add(
                np.concatenate([one for _, one in inside]),
                np.array([len(one) for _, one in inside]),
                np.array([when for when, _ in inside]),
            )
            found = known(running, *hashes.tolist(), since=horizon)
            assert found == known(restored, *hashes.tolist(), since=horizon)
            compared += sum(found)
    assert compared >= 3
    assert np.count_nonzero(running.entries["hash"]) == WAYS, "the bucket overflowed"


def test_what_was_counted_is_undone() -> None:
    random, table = np.random.default_rng(0), Boilerplate()
    hashes = np.array(of_one_bucket(40), np.uint32)
    see(table, START, *hashes[:WAYS].tolist())
    before, log = table.entries.copy(), log_for(90)
    for hour in range(3):
        table.add(random.choice(hashes, 30), np.array([7, 0, 23]), np.full(3, START + hour * HOUR), log)
    assert not np.array_equal(table.entries, before)
    table.undo(log)
    assert np.array_equal(table.entries, before)


@pytest.mark.parametrize("counts", [[2, 2], [-1], [2**62, 2**62]])
def test_counts_that_do_not_fit_the_hashes_are_refused(counts: list[int]) -> None:
    with pytest.raises(InputError, match="does not fit"):
        Boilerplate().add(np.arange(1, 4, dtype=np.uint32), np.array(counts), np.full(len(counts), START))
