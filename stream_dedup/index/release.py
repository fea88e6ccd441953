"""Return the memory of merged runs to the system without delaying lookups.

In: runs that are no longer read, in the merging thread. NumPy frees an array while it holds the interpreter lock, and
for gigabytes the kernel takes tens of milliseconds: measured, 9 ms for 1 GB, in which all threads pause. `madvise` runs
without the lock; freeing the emptied array then takes .1 ms.
"""

import ctypes
import mmap
import sys
from collections.abc import Sequence

from numpy.typing import NDArray

from stream_dedup.index.run import Run

_LARGE = 1 << 22  # smaller arrays are freed in well under a millisecond
_CHUNK = 1 << 24  # .2 ms each
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def release(runs: Sequence[Run]) -> None:
    """Discard the contents of runs, which read as zeros from then on. O(bytes); on Linux only."""
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
