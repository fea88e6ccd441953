"""How much memory this process takes, and how much it may take: what the kernel says -> bytes.

Both are read from Linux's files; elsewhere, or where a file says something else, the answer is None, and the
metric stays away rather than lie.
"""

import os
from pathlib import Path

# Version 2 of the control groups, then version 1. In a container its own limit stands at the root.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_STATM = Path("/proc/self/statm")


def limit(setting: int | None = None, files: tuple[Path, ...] = _LIMITS) -> int | None:
    """Bytes this process may take: the setting, else the container's limit, else the machine's memory.

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


def taken(statm: Path = _STATM) -> int | None:
    """Bytes resident in memory now."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _machine() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
