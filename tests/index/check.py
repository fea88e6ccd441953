"""Check the invariants of an index, on which the kernels rely unchecked; and force merges."""

from collections.abc import Sequence

import numpy as np

from stream_dedup.index.hybrid import HybridIndex
from stream_dedup.index.recent import _OFFSET_BITS, RecentTree, _filter_check
from stream_dedup.index.run import KEY_BITS, Run, directory_bits
from stream_dedup.index.tiers import AliveMask, _merged
from stream_dedup.index.times import RowTimes


class BrokenIndex(AssertionError):  # noqa: N818
    """An invariant of the index does not hold; the message says which."""


def check(index: HybridIndex) -> None:
    """Raise `BrokenIndex` with all broken invariants. O(rows T log rows)."""
    if index._unsorted:
        index._build_run()
    wrong = faults(index._tiers.runs, index._recent, index._times, index._alive())
    if wrong:
        raise BrokenIndex("; ".join(wrong))


def merge(index: HybridIndex) -> None:
    """Merge all rows that are alive into one run, now. O(rows T)."""
    tiers = index._tiers
    tiers.wait()
    if len(index._recent) or index._unsorted:
        index._build_run()
    tiers.wait()
    alive = index._alive()
    while len(tiers.runs) > 1:
        tiers._replace(tiers.runs[-2:], *_merged(tiers.runs[-2:], alive))
    tiers.sweep(alive)
    if tiers.runs and tiers._live_rows[0] < tiers.runs[0].rows:
        tiers._replace(tiers.runs, *_merged(tiers.runs, alive))


def faults(runs: Sequence[Run], recent: RecentTree, times: RowTimes, alive: AliveMask) -> list[str]:
    """All broken invariants, in words. O(rows T log rows)."""
    wrong = [fault for run in runs for fault in run_faults(run)]
    wrong += tree_faults(recent)
    edges = [edge for run in runs for edge in (run.base, run.end)] + [recent.base]
    if edges != sorted(edges):
        wrong.append(f"runs and tree are out of order or overlap: {edges}")
    if recent.base + len(recent) != times.next_row:
        wrong.append(f"the tree ends at row {recent.base + len(recent)}, the rows at {times.next_row}")
    if len(times.values()) != times.next_row - times.first:
        wrong.append("the times do not cover all rows")
    placed = np.zeros(times.next_row, np.int64)
    for run in runs:
        placed[run.base + run.offsets[0].astype(np.int64)] += 1
        lost = np.setdiff1d(np.flatnonzero(alive(run.base, run.end)), run.offsets[0])
        if len(lost):
            wrong.append(f"live rows missing from the run at {run.base}: {lost[:5] + run.base}")
        run_times = [times.values()[row - times.first] for row in run.base + run.offsets[0] if row >= times.first]
        if run_times and max(run_times) > run.newest:
            wrong.append(f"a row of the run at {run.base} is newer than the run's newest")
    placed[recent.base :] += 1
    if placed.max(initial=0) > 1:
        wrong.append("a row is stored twice")
    missing = np.flatnonzero(alive(0, times.next_row) & (placed == 0))
    if len(missing):
        wrong.append(f"live rows are missing: {missing[:5]}")
    return wrong


def run_faults(run: Run) -> list[str]:
    """The broken invariants of one run. O(rows T log rows)."""
    name = f"run {run.base}…{run.end}"
    wrong = []
    if not run.rows:
        wrong.append(f"{name} is empty")
        return wrong
    all_offsets = np.sort(run.offsets[0])
    if (np.diff(all_offsets.astype(np.int64)) < 1).any() or all_offsets[-1] >= run.end - run.base:
        wrong.append(f"{name}: rows repeat or lie outside")
    bits = directory_bits(run.rows)
    shift = np.uint64(KEY_BITS - bits)
    for table, (keys, offsets, directory) in enumerate(zip(run.keys, run.offsets, run.directory, strict=True)):
        rising = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (offsets[1:] > offsets[:-1]))
        if not rising.all():
            wrong.append(f"{name}, table {table}: not in order of key and row")
        if not np.array_equal(np.sort(offsets), all_offsets):
            wrong.append(f"{name}, table {table}: other rows than table 0")
        prefixes = keys.astype(np.uint64) >> shift
        if not np.array_equal(directory, np.searchsorted(prefixes, np.arange((1 << bits) + 1, dtype=np.uint64))):
            wrong.append(f"{name}, table {table}: wrong directory")
    return wrong


def tree_faults(tree: RecentTree) -> list[str]:
    """The broken invariants of the tree. O(n T)."""
    wrong = []
    columns = np.ascontiguousarray(tree.keys().T)
    for table, (entries, column) in enumerate(zip(tree._trees, columns.tolist(), strict=True)):
        if list(entries) != sorted(key << _OFFSET_BITS | row for row, key in enumerate(column) if key):
            wrong.append(f"tree {table} does not hold the keys of its rows in order")
    if len(_filter_check(tree._filter, tree._nearness.buckets(columns))) != np.count_nonzero(columns):
        wrong.append("the filter denies a key that is in the tree")
    return wrong
