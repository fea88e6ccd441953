"""Temporary files of arrays, for what does not fit in memory.

In: named arrays. Out: the same, mapped into memory, so the system keeps in memory what it can. The files have no names:
whatever ends the process, the system frees them.
"""

import mmap
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A cache line; each array begins at one.
_ALIGN = 64

Arrays = dict[str, NDArray[Any]]


def spill(arrays: Mapping[str, NDArray[Any]], directory: Path) -> Arrays:
    """Write the arrays to an unnamed file in the directory; return them read-only. O(bytes). Raises OSError.

    The arrays must have plain number dtypes.
    """
    starts, at = {}, 0
    with tempfile.TemporaryFile(dir=directory) as file:
        for name, array in arrays.items():
            at += file.write(bytes(-at % _ALIGN))
            starts[name] = at
            at += file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        file.flush()
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if at else b""
    return {
        # An empty array may lie at the very end, where nothing can be mapped.
        name: np.frombuffer(whole, array.dtype, array.size, starts[name] if array.size else 0).reshape(array.shape)
        for name, array in arrays.items()
    }
