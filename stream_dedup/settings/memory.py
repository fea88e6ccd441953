"""The memory of a process, from the kernel's limits or `[worker] memory`, and the part of it that is for records.

The rest is for originals (index/footprint.py). Everything that grows with the input follows from this one number, so
that the kernel does not kill the container at its limit.
"""

import os
from contextlib import suppress
from pathlib import Path

_GROUP = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")

BUSY_BYTES = 350 * 2**20
"""The memory of a process without originals, during a backlog: arenas of glibc, scratch memory, buffers of the client.
343 MiB in tests/lab/load."""
BATCHES = 5
"""Bytes of memory for each byte of a batch: fetches, the records of a poll, their items, and the output, for the batch
that is being committed and the next one (tests/lab/load)."""
COPIES = 58
"""Bytes of memory for each byte of the largest record: fetched, unpacked, decoded, fingerprinted and packed, for the
batch that is being committed and the next one. In tests/lab/load: 43 with words, 12 more with words of one letter; 57
with ten records of 30 MiB in compressed batches."""
LARGEST_RECORD = 32 * 2**20
"""Larger records and batches gain nothing: an article has some kilobytes, and 2,000 articles have 8 MB."""
_LEAST = 2**20  # Kafka's own limit of a record by default


def available(group: Path = _GROUP, root: Path = _ROOT) -> int:
    """Return the memory of the machine, or the lowest limit of the control groups (v1, v2) that this process is in.

    A container sees its own group at the root, whatever path /proc names.
    """
    bounds = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    try:
        lines = group.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        base, name = (root / "memory", "memory.limit_in_bytes") if kinds else (root, "memory.max")
        inner = base / path.lstrip("/")
        for directory in (inner, *inner.parents):
            with suppress(OSError, ValueError):  # no such file, or "max": no limit
                bounds.append(int((directory / name).read_text()))
    return min(bounds)


def record_bytes(memory: int) -> int:
    """Return the size of the largest record for a process of `memory` bytes, which takes less than a quarter of them.

    >>> [record_bytes(int(gib * 2**30)) >> 20 for gib in (0.5, 1, 1.5, 2, 64)]
    [2, 4, 6, 8, 32]
    """
    return min(max(memory // 256, _LEAST), LARGEST_RECORD)


def batch_bytes(memory: int) -> int:
    """Return the size of a batch for a process of `memory` bytes, which takes a twenty-fifth of them."""
    return min(max(memory // 128, _LEAST), LARGEST_RECORD)


def work_bytes(batch: int, record: int) -> int:
    """Return the most memory that a busy process takes besides its originals, with batches and records of these
    sizes."""
    return BUSY_BYTES + BATCHES * batch + COPIES * record


def sized(count: float) -> str:
    """Format a number of bytes.

    >>> sized(1_572_864_000), sized(1000), sized(5 * 2**40)
    ('1,500 MiB', '1,000 bytes', '5,120 GiB')
    """
    if count >= 2**40:
        return f"{count / 2**30:,.0f} GiB"
    return f"{count / 2**20:,.0f} MiB" if count >= 10 * 2**20 else f"{count:,.0f} bytes"
