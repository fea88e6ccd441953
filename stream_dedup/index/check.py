"""Prove that an index's parts are sound; for tests and for a person in doubt.

In: the parts. Out: a list of what is wrong, empty if nothing is. Every promise that the kernels rely on
without looking is stated here once.
"""

from collections.abc import Sequence

import numpy as np

from stream_dedup.index.recent import RecentTree
from stream_dedup.index.run import KEY_BITS, Run, directory_bits
from stream_dedup.index.tiers import Alive
from stream_dedup.index.times import RowTimes


def faults(runs: Sequence[Run], recent: RecentTree, times: RowTimes, alive: Alive) -> list[str]:
    """All broken promises, in words. O(rows T log rows)."""
    wrong = [fault for run in runs for fault in run_faults(run)]
    wrong += recent.check()
    edges = [edge for run in runs for edge in (run.base, run.end)] + [recent.base]
    if edges != sorted(edges):
        wrong.append(f"runs and tree are out of order or overlap: {edges}")
    if recent.base + len(recent) != times.next_row:
        wrong.append(f"the tree ends at row {recent.base + len(recent)}, the rows at {times.next_row}")
    if len(times.held()) != times.next_row - times.first:
        wrong.append("the times do not cover the rows held")
    placed = np.zeros(times.next_row, np.int64)
    for run in runs:
        placed[run.base + run.offsets[0].astype(np.int64)] += 1
        lost = np.setdiff1d(np.flatnonzero(alive(run.base, run.end)), run.offsets[0])
        if len(lost):
            wrong.append(f"living rows missing from the run at {run.base}: {lost[:5] + run.base}")
        living = [times.held()[row - times.first] for row in run.base + run.offsets[0] if row >= times.first]
        if living and max(living) > run.newest:
            wrong.append(f"a row of the run at {run.base} is newer than the run's newest")
    placed[recent.base :] += 1
    if placed.max(initial=0) > 1:
        wrong.append("a row stands in two places")
    missing = np.flatnonzero(alive(0, times.next_row) & (placed == 0))
    if len(missing):
        wrong.append(f"living rows stand nowhere: {missing[:5]}")
    return wrong


def run_faults(run: Run) -> list[str]:
    """Broken promises of one run. O(rows T log rows)."""
    name = f"run {run.base}…{run.end}"
    wrong = []
    if not run.rows:
        wrong.append(f"{name} is empty")
        return wrong
    everyone = np.sort(run.offsets[0])
    if (np.diff(everyone.astype(np.int64)) < 1).any() or everyone[-1] >= run.end - run.base:
        wrong.append(f"{name}: rows repeat or lie outside")
    bits = directory_bits(run.rows)
    shift = np.uint64(KEY_BITS - bits)
    for table, (keys, offsets, directory) in enumerate(zip(run.keys, run.offsets, run.directory, strict=True)):
        rising = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (offsets[1:] > offsets[:-1]))
        if not rising.all():
            wrong.append(f"{name}, table {table}: not in order of key and row")
        if not np.array_equal(np.sort(offsets), everyone):
            wrong.append(f"{name}, table {table}: other rows than table 0")
        prefixes = keys.astype(np.uint64) >> shift
        if not np.array_equal(directory, np.searchsorted(prefixes, np.arange((1 << bits) + 1, dtype=np.uint64))):
            wrong.append(f"{name}, table {table}: wrong directory")
    return wrong
