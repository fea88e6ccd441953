"""A control group with a limit of memory: the kernel kills the process in it that goes beyond."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")
_V1 = _ROOT / "memory"


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
    """The command that runs another one in the group: the shell enters it before Python starts and reads its limit."""
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
