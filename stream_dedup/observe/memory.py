"""Memory of this process, as the kernel reports it.

It comes from a file of Linux. On other systems the result is None, and the metric is absent instead of wrong.
"""

import os
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident(statm: Path = _STATM) -> int | None:
    """Return the bytes of this process that are resident in memory."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
