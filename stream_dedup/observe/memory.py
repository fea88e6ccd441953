"""Memory of this process, and its limit, as the kernel reports them.

Both come from files of Linux. On other systems, or if a file is not as expected, the result is None, and the metric is
absent instead of wrong.
"""

import os
from pathlib import Path

# Control groups version 2, then version 1. A container sees its own limit at the root.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_STATM = Path("/proc/self/statm")


def limit(setting: int | None = None, files: tuple[Path, ...] = _LIMITS) -> int | None:
    """Return the bytes that this process may take: the setting, else the container's limit, else the machine's memory.

    >>> limit(2**30)
    1073741824
    """
    if setting is not None:
        return setting
    bounds = [machine] if (machine := _machine()) else []
    for file in files:
        try:
            bounds.append(int(file.read_text()))
        except (OSError, ValueError):  # no such file, or "max": no limit
            continue
    return min(bounds, default=None)


def resident(statm: Path = _STATM) -> int | None:
    """Return the bytes of this process that are resident in memory."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _machine() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
