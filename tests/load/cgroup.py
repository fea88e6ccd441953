"""Limits for a process: a control group, whose processes the kernel kills beyond its memory, and few descriptors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")
_V1 = _ROOT / "memory"
DESCRIPTORS = 256


@contextmanager
def limited(limit: int) -> Iterator[Path]:
    """Yield the directory of a new group of `limit` bytes; skip the test where none can be made (it takes root)."""
    parent, files = (_V1, ("memory.limit_in_bytes",)) if _V1.is_dir() else (_ROOT, ("memory.max",))
    group = parent / f"stream-dedup-test-{os.getpid()}"
    try:
        group.mkdir()
        for file in files:
            (group / file).write_text(str(limit))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield group
    finally:
        group.rmdir()


def highest(group: Path) -> int:
    """The most bytes that the processes of the group ever took, files in memory included."""
    names = ("memory.max_usage_in_bytes", "memory.peak")
    return next(int((group / name).read_text()) for name in names if (group / name).exists())


def entering(group: Path) -> list[str]:
    """The command that runs another one in the group with 256 descriptors.

    The shell enters the group before Python starts, which reads the limit of its group.
    """
    return ["sh", "-c", f'echo $$ > "$0" && ulimit -n {DESCRIPTORS} && exec "$@"', str(group / "cgroup.procs")]
