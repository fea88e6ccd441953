"""Keep the number of runs small: decide which sorted runs to merge, and merge large ones in the background.

In: new runs, and which rows are alive. Out: a short list of runs, oldest first. The policy is size-tiered, like that of
a log-structured merge tree (O'Neil et al. 1996), but merges only *adjacent* runs, so the list stays sorted by row.
Large merges run in one background thread: the kernels release the interpreter lock, their inputs never change, and the
owning thread swaps the result in at its next call. So there are no locks, and lookups continue on the old runs
meanwhile. Merges do not affect which rows a lookup returns. `_release` then returns the memory of the merged runs.
"""

import ctypes
import mmap
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from stream_dedup.errors import MergeFailed
from stream_dedup.index.run import Run, compact_run, merge_runs
from stream_dedup.index.times import AliveMask

# A run merges with its newer neighbour if that has at least a quarter of its rows. Simulated for 1 M rows in batches of
# 500, ratio: rows written per row, mean runs at lookup. 1: 9.1, 5.4; 2: 10.6, 4.3; 4: 13.2, 3.3; 8: 19, 2.7. Each run
# costs a lookup cache misses, in the caller's thread; a merge runs on another core.
_MERGE_RATIO = 4
# A run is rewritten if less than this share of it is alive: so each expired row costs at most one more written row, and
# the tables have at most twice as many rows as are alive.
_MIN_LIVE_SHARE = 0.5
# Merges up to this many rows run in the caller: 2 ms at 30 tables, and most are far smaller. A background merge costs a
# wake-up of its thread, and small runs accumulate meanwhile.
_AT_ONCE = 8192
# Above this number of runs, adding rows waits for the background merge: otherwise lookups would slow down without bound
# if rows come faster than they can be merged. Live feeds stay below ten.
_MAX_RUNS = 24
_LARGE = 1 << 22  # smaller arrays are freed in well under a millisecond
_CHUNK = 1 << 24  # .2 ms each
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class _Merge:
    """A background merge: the runs that it replaces, and the future of the merged run and its seconds."""

    runs: tuple[Run, ...]
    result: Future[tuple[Run, float]]


def next_merge(live_rows: Sequence[int], stored_rows: Sequence[int]) -> tuple[int, int] | None:
    """The runs to merge next, a half-open range of one or two neighbours; None if there are none. O(runs).

    `live_rows`, `stored_rows`: live rows and rows in the tables of each run, oldest first. The newest pair is first,
    because it is the cheapest.

    >>> next_merge([1000, 10, 10], [1000, 10, 10])
    (1, 3)
    >>> next_merge([1000, 20], [1000, 20]) is None
    True
    >>> next_merge([400, 20], [1000, 20])
    (0, 1)
    """
    for newer in range(len(live_rows) - 1, 0, -1):
        if live_rows[newer] * _MERGE_RATIO >= live_rows[newer - 1]:
            return newer - 1, newer + 1
    for run in range(len(live_rows) - 1, -1, -1):
        if live_rows[run] < stored_rows[run] * _MIN_LIVE_SHARE:
            return run, run + 1
    return None


class Tiers:
    """The list of runs. One thread owns it and makes all calls.

    >>> from stream_dedup.index.run import build_run
    >>> tiers = Tiers(background=False)
    >>> for row in range(8):
    ...     tiers.append(build_run(row, np.array([[row + 1]], np.uint32), np.array([0, 1]), newest=0))
    ...     tiers.schedule_merges(lambda base, end: np.ones(end - base, np.bool_))
    >>> [run.rows for run in tiers.runs]
    [7, 1]
    """

    def __init__(self, *, background: bool) -> None:
        self.runs: list[Run] = []
        self.merges = 0
        self.merge_seconds = 0.0
        self._live_rows: list[int] = []  # as of the last sweep or merge, for the policy
        self._pool = ThreadPoolExecutor(1, "index-merge") if background else None
        self._running: _Merge | None = None
        self._failure: MergeFailed | None = None  # not yet raised

    def append(self, run: Run) -> None:
        """Append a run, whose rows are newer than all others."""
        self.runs.append(run)
        self._live_rows.append(run.rows)

    def schedule_merges(self, alive: AliveMask) -> None:
        """Merge runs by the policy: small merges now, a large one in the background. O(rows merged).

        The failure of a background merge is not raised here, in the middle of the owner's work, but by the next
        `collect`.
        """
        while self._failure is None:
            if self._running is not None and self._running.result.done():
                self._finish_merge()
                continue
            busy = len(self._running.runs) if self._running else 0
            start = self._position(self._running.runs[0]) + busy if self._running else 0
            selected = next_merge(self._live_rows[start:], [run.rows for run in self.runs[start:]])
            chosen = self.runs[start + selected[0] : start + selected[1]] if selected else []
            at_once = self._pool is None or sum(run.rows for run in chosen) <= _AT_ONCE
            if chosen and at_once:
                self._replace(chosen, *_merged(chosen, alive))
            elif chosen and self._pool and not busy:
                self._running = _Merge(tuple(chosen), self._pool.submit(_merged, chosen, alive))
            elif busy and len(self.runs) > _MAX_RUNS:
                self._finish_merge()
            else:
                return

    def collect(self) -> None:
        """Swap in the background merge if it is finished. Raises `MergeFailed` if one failed."""
        if self._running is not None and self._running.result.done():
            self._finish_merge()
        self._raise_failure()

    def wait(self) -> None:
        """Wait for the background merge, if any, and swap it in. Raises `MergeFailed` if one failed."""
        self._finish_merge()
        self._raise_failure()

    def sweep(self, alive: AliveMask) -> None:
        """Count the live rows of each run and drop runs without any; O(rows), 1 ms per million.

        The runs of an unfinished merge stay until it is swapped in.
        """
        self._live_rows = [int(np.count_nonzero(alive(run.base, run.end))) for run in self.runs]
        busy = [run.base for run in self._running.runs] if self._running else []
        remaining = [i for i, run in enumerate(self.runs) if self._live_rows[i] or run.base in busy]
        self.runs = [self.runs[i] for i in remaining]
        self._live_rows = [self._live_rows[i] for i in remaining]

    def close(self) -> None:
        """End the background thread after its merge; later merges run in the caller. May be called repeatedly."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
            self.wait()

    def _finish_merge(self) -> None:
        """Wait for the background merge; swap its run in, or keep its failure for the next `collect`."""
        merge, self._running = self._running, None
        if merge is None:
            return
        try:
            run, seconds = merge.result.result()
        except Exception as error:  # noqa: BLE001 - the owner's next call raises any error
            self._failure = MergeFailed(
                f"merging rows {merge.runs[0].base} to {merge.runs[-1].end} of the index: {error!r}; give the process "
                "more memory, or shorten [window] length"
            )
            self._failure.__cause__ = error
        else:
            self._replace(merge.runs, run, seconds)
            if self._pool is not None:
                self._pool.submit(_release, merge.runs)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _position(self, run: Run) -> int:
        return [other.base for other in self.runs].index(run.base)

    def _replace(self, old: Sequence[Run], new: Run, seconds: float) -> None:
        """Replace the neighbours `old` by `new`, or by nothing if `new` is empty."""
        position = self._position(old[0])
        self.runs[position : position + len(old)] = [new] if new.rows else []
        self._live_rows[position : position + len(old)] = [new.rows] if new.rows else []
        self.merges += 1
        self.merge_seconds += seconds


def _merged(runs: Sequence[Run], alive: AliveMask) -> tuple[Run, float]:
    """Merge two runs or compact one; return the new run and the seconds it took. Runs in either thread."""
    start = perf_counter()
    live_rows = alive(runs[0].base, runs[-1].end)
    run = merge_runs(runs[0], runs[1], live_rows) if len(runs) > 1 else compact_run(runs[0], live_rows)
    return run, perf_counter() - start


def _release(runs: Sequence[Run]) -> None:
    """Discard the contents of runs, which read as zeros from then on. O(bytes); on Linux only.

    NumPy frees an array while it holds the interpreter lock, and for gigabytes the kernel takes tens of milliseconds:
    measured, 9 ms for 1 GB, in which all threads pause. `madvise` runs without the lock; freeing the emptied array then
    takes .1 ms.
    """
    for run in runs:
        for array in (run.keys, run.offsets, run.directory):
            if array.nbytes >= _LARGE and array.base is None and _LIBC is not None:
                _discard_pages(array)


def _discard_pages(array: NDArray) -> None:  # type: ignore[type-arg]
    """Discard the whole pages inside the array; memory before and after it belongs to the allocator.

    In chunks, because the call blocks all allocations: 35 ms for the tables of 10 M rows at once.
    """
    start = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (array.ctypes.data + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    for chunk_start in range(start, end, _CHUNK):
        length = min(_CHUNK, end - chunk_start)
        _LIBC.madvise(ctypes.c_void_p(chunk_start), ctypes.c_size_t(length), mmap.MADV_DONTNEED)  # type: ignore[union-attr]
