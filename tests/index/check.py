"""Check the invariants of runs, on which the kernels rely unchecked; and force merges."""

from collections.abc import Sequence

import numpy as np

from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.recent import RecentTree
from stream_dedup.index.runs import Run, _merged, directory_bits
from stream_dedup.index.times import AliveMask, RowTimes


def check(index: HybridIndex) -> None:
    """Assert that all invariants hold. O(rows C log rows)."""
    if index._unsorted:
        index._build_run()
    assert faults(index._tiers.runs, index._recent, index._times, _alive(index)) == []


def _alive(index: HybridIndex) -> AliveMask:
    return index._times.alive(index._horizon, index._recent_row)


def rows_held(index: HybridIndex) -> int:
    """Rows in the tables, including dead ones that no merge has removed yet."""
    return sum(run.rows for run in index._tiers.runs) + len(index._recent) + index.unsorted_rows


def merge(index: HybridIndex) -> None:
    """Merge all rows that are alive into one run, now. O(rows C)."""
    tiers = index._tiers
    tiers.collect(wait=True)
    if len(index._recent) or index._unsorted:
        index._build_run()
    tiers.collect(wait=True)
    alive = _alive(index)
    while len(tiers.runs) > 1:
        tiers._replace(tiers.runs[-2:], *_merged(tiers.runs[-2:], alive))
    tiers.sweep(alive)
    if tiers.runs and tiers._live_rows[0] < tiers.runs[0].rows:
        tiers._replace(tiers.runs, *_merged(tiers.runs, alive))


def faults(runs: Sequence[Run], recent: RecentTree, times: RowTimes, alive: AliveMask) -> list[str]:
    """All broken invariants, in words. O(rows C log rows)."""
    wrong = [fault for run in runs for fault in run_faults(run)]
    edges = [edge for run in runs for edge in (run.base, run.end)] + [recent.base]
    if edges != sorted(edges):
        wrong.append(f"runs and tree are out of order or overlap: {edges}")
    if recent.base + len(recent) != times.next_row:
        wrong.append(f"the tree ends at row {recent.base + len(recent)}, the rows at {times.next_row}")
    if len(times.values()) != times.next_row - times.first:
        wrong.append("the times do not cover all rows")
    is_covered = np.zeros(times.next_row, np.bool_)
    for run in runs:
        is_covered[run.base : run.end] = True
        rows = run.base + np.unique(run.offsets).astype(np.int64)
        live = int(np.count_nonzero(alive(run.base, run.end)))
        if not max(live, len(rows)) <= run.rows <= run.end - run.base:
            wrong.append(f"the run at {run.base} counts {run.rows} rows; {live} are alive, {len(rows)} have keys")
        run_times = times.values()[rows[rows >= times.first] - times.first]
        if len(run_times) and run_times.max() > run.newest:
            wrong.append(f"a row of the run at {run.base} is newer than the run's newest")
    is_covered[recent.base :] = True
    missing = np.flatnonzero(alive(0, times.next_row) & ~is_covered)
    if len(missing):
        wrong.append(f"live rows are missing: {missing[:5]}")
    return wrong


def run_faults(run: Run) -> list[str]:
    """The broken invariants of one run. O(rows C log rows)."""
    name = f"run {run.base}…{run.end}"
    wrong = []
    if not run.rows:
        wrong.append(f"{name} is empty")
    if run.offsets.max(initial=0) >= run.end - run.base:
        wrong.append(f"{name}: rows lie outside")
    if not len(run.keys) == len(run.offsets) == run.starts[-1]:
        wrong.append(f"{name}: {len(run.keys)} keys and {len(run.offsets)} rows in tables up to {run.starts[-1]}")
    if sum(len(directory) for _, _, directory in run.tables()) != len(run.directory):
        wrong.append(f"{name}: directories of another length")
    for table, (keys, offsets, directory) in enumerate(run.tables()):
        rising = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (offsets[1:] >= offsets[:-1]))
        if not rising.all() or not keys.all():
            wrong.append(f"{name}, table {table}: not in order of key and row, or of key 0")
        bits = directory_bits(len(keys))
        shift = np.uint64(32 - bits)
        prefixes = keys.astype(np.uint64) >> shift
        if not np.array_equal(directory, np.searchsorted(prefixes, np.arange((1 << bits) + 1, dtype=np.uint64))):
            wrong.append(f"{name}, table {table}: wrong directory")
    return wrong
