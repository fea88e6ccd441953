"""Give the memory of merged runs back without holding up lookups.

In: runs that nobody reads any more, in the merging thread. Out: nothing; their pages are free. NumPy frees an array
with the interpreter lock held, and for gigabytes the kernel takes tens of milliseconds: measured 9 ms for 1 GB, as a
pause of whatever thread drops the array. `madvise` is called without the lock, and then .1 ms is left.
"""

import ctypes
import mmap
import sys
from collections.abc import Sequence

from numpy.typing import NDArray

from stream_dedup.index.run import Run

_LARGE = 1 << 22  # less is freed in well under a millisecond
_PIECE = 1 << 24  # .2 ms each
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def release(runs: Sequence[Run]) -> None:
    """Empties the runs: whoever still reads them reads zeros. O(bytes); does nothing but on Linux."""
    for run in runs:
        for array in (run.keys, run.offsets, run.directory):
            if array.nbytes >= _LARGE and array.base is None and _LIBC is not None:
                _empty(array)


def _empty(array: NDArray) -> None:  # type: ignore[type-arg]
    """Whole pages inside the array only: what stands before and behind it is the allocator's.

    Piece by piece, since the call holds up whoever wants new memory: 35 ms for the tables of 10 M rows at once.
    """
    start = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (array.ctypes.data + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    for at in range(start, end, _PIECE):
        length = min(_PIECE, end - at)
        _LIBC.madvise(ctypes.c_void_p(at), ctypes.c_size_t(length), mmap.MADV_DONTNEED)  # type: ignore[union-attr]
