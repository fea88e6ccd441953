"""The runs, oldest first, and when which of them become one.

In: new runs, and which rows are alive. Out: few runs. The policy is size-tiered like that of a log-structured
merge tree (O'Neil et al. 1996), but only *adjacent* runs merge, so the list stays in order of rows. A merge
that takes noticeable time is done by one background thread: the kernels release the interpreter lock, the
inputs never change, and the owning thread swaps the result in at its next call. So nothing is locked, and
lookups go on over the old runs meanwhile. Which rows a lookup returns does not depend on any of this.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_dedup.errors import MergeFailed
from stream_dedup.index.release import release
from stream_dedup.index.run import Run, compact_run, merge_runs

# (base, end) -> bool (end - base,): which of these rows are alive. A merge asks it in its own thread: over
# 10 M rows that takes 30 ms, which the owner need not wait for.
Alive: TypeAlias = Callable[[int, int], NDArray[np.bool_]]

# A run takes in its newer neighbour when that has at least a quarter of its rows. Simulated for 1 M rows in
# batches of 500, ratio: rows written per row, mean runs at lookup. 1: 9.1, 5.4; 2: 10.6, 4.3; 4: 13.2, 3.3;
# 8: 19, 2.7. A lookup pays for each run in cache misses and on the caller's time, a merge on the other core.
_RATIO = 4
# A run that is dead by half is rewritten: its rows are then written once more per expired row, and the
# tables never hold more than twice the living rows.
_DEAD = 0.5
# Merges up to this many rows are done at once: 2 ms at 30 tables, and most of them are far smaller. Handing a
# merge over costs the thread's wake-up and lets small runs pile up in the meantime.
_AT_ONCE = 8192
# With this many runs the adding thread waits for the background merge: lookups would otherwise slow down
# without bound when rows come faster than they can be merged. Live feeds stay below ten.
_MOST_RUNS = 24


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge under way: the runs it replaces and the future of their successor."""

    runs: tuple[Run, ...]
    result: Future[tuple[Run, float]]


def next_merge(living: Sequence[int], held: Sequence[int]) -> tuple[int, int] | None:
    """Which runs to merge next, as a half-open range of one or two neighbours; None if all is well. O(runs).

    `living` and `held` are each run's living rows and rows in tables, oldest first. The newest pair goes
    first because it is the cheapest.

    >>> next_merge([1000, 10, 10], [1000, 10, 10])
    (1, 3)
    >>> next_merge([1000, 20], [1000, 20]) is None
    True
    >>> next_merge([400, 20], [1000, 20])
    (0, 1)
    """
    for newer in range(len(living) - 1, 0, -1):
        if living[newer] * _RATIO >= living[newer - 1]:
            return newer - 1, newer + 1
    for run in range(len(living) - 1, -1, -1):
        if living[run] < held[run] * _DEAD:
            return run, run + 1
    return None


class Tiers:
    """The list of runs, kept short. One thread owns it and makes all calls.

    >>> from stream_dedup.index.run import build_run
    >>> tiers = Tiers(background=False)
    >>> for row in range(8):
    ...     tiers.append(build_run(row, np.array([[row + 1]], np.uint32), newest=0))
    ...     tiers.schedule_merges(lambda base, end: np.ones(end - base, np.bool_))
    >>> [run.rows for run in tiers.runs]
    [7, 1]
    """

    def __init__(self, *, background: bool) -> None:
        self.runs: list[Run] = []
        self.merges = 0
        self.merge_seconds = 0.0
        self._living: list[int] = []  # as of the last sweep or merge; only the policy reads it
        self._pool = ThreadPoolExecutor(1, "index-merge") if background else None
        self._under_way: _Merge | None = None
        self._failure: MergeFailed | None = None  # not yet raised

    def append(self, run: Run) -> None:
        """Take in a run of newer rows than all others."""
        self.runs.append(run)
        self._living.append(run.rows)

    def schedule_merges(self, alive: Alive) -> None:
        """Merge what the policy says: small ones now, a large one in the background. O(rows merged).

        A background merge that failed is not raised here, in the middle of its owner's work, but by the next
        `collect`.
        """
        while self._failure is None:
            if self._under_way is not None and self._under_way.result.done():
                self._take()
                continue
            busy = len(self._under_way.runs) if self._under_way else 0
            start = self._place() + busy if busy else 0
            plan = next_merge(self._living[start:], [run.rows for run in self.runs[start:]])
            chosen = self.runs[start + plan[0] : start + plan[1]] if plan else []
            at_once = self._pool is None or sum(run.rows for run in chosen) <= _AT_ONCE
            if chosen and at_once:
                self._swap(chosen, *_merged(chosen, alive))
            elif chosen and self._pool and not busy:
                self._under_way = _Merge(tuple(chosen), self._pool.submit(_merged, chosen, alive))
            elif busy and len(self.runs) > _MOST_RUNS:
                self._take()
            else:
                return

    def collect(self) -> None:
        """Swap in the background merge if it is done. Raises `MergeFailed` if one failed."""
        if self._under_way is not None and self._under_way.result.done():
            self._take()
        self._raise_failure()

    def wait(self) -> None:
        """Wait for the background merge, if any, and swap it in. Raises `MergeFailed` if one failed."""
        self._take()
        self._raise_failure()

    def sweep(self, alive: Alive) -> None:
        """Count the living rows of every run and drop runs without any; O(rows), 1 ms a million.

        Runs in a merge under way stay until it is swapped in.
        """
        self._living = [int(np.count_nonzero(alive(run.base, run.end))) for run in self.runs]
        busy = self._under_way.runs if self._under_way else ()
        kept = [i for i, run in enumerate(self.runs) if self._living[i] or run in busy]
        self.runs = [self.runs[i] for i in kept]
        self._living = [self._living[i] for i in kept]

    def close(self) -> None:
        """End the background thread after its merge; later merges are done at once. May be called again."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
            self.wait()

    def _take(self) -> None:
        """Wait for the merge under way; swap its run in, or keep its failure for the next `collect`."""
        merge, self._under_way = self._under_way, None
        if merge is None:
            return
        try:
            run, seconds = merge.result.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised, by the owner's next call
            self._failure = MergeFailed(f"merging rows {merge.runs[0].base} to {merge.runs[-1].end}: {error!r}")
            self._failure.__cause__ = error
        else:
            self._swap(merge.runs, run, seconds)
            if self._pool is not None:
                self._pool.submit(release, merge.runs)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _place(self) -> int:
        """Where the first run of the merge under way stands in the list."""
        assert self._under_way is not None  # noqa: S101 - asked only while a merge is under way
        return self.runs.index(self._under_way.runs[0])

    def _swap(self, old: Sequence[Run], new: Run, seconds: float) -> None:
        """Put `new` in the place of `old`, which are neighbours; an empty run leaves nothing."""
        place = self.runs.index(old[0])
        self.runs[place : place + len(old)] = [new] if new.rows else []
        self._living[place : place + len(old)] = [new.rows] if new.rows else []
        self.merges += 1
        self.merge_seconds += seconds


def _merged(runs: Sequence[Run], alive: Alive) -> tuple[Run, float]:
    """The successor of one or two runs and the seconds it took. Runs in either thread."""
    start = perf_counter()
    living = alive(runs[0].base, runs[-1].end)
    run = merge_runs(runs[0], runs[1], living) if len(runs) > 1 else compact_run(runs[0], living)
    return run, perf_counter() - start
