"""A file system for a broker's data that can be full.

With the right to mount it is a tmpfs; when it is full, its size is cut to what it holds. Without that right the kernel
limits the size of the broker's files instead: writes fail in the same places, with EFBIG for ENOSPC.
"""

import os
import resource
import subprocess
from pathlib import Path
from typing import Self

# The data of a round is a tenth of it; it is no reservation.
_ROOM = 4 * 2**30
# What still fits into a full file system: less than a second of any round.
_REST = 2**16


class Disk:
    """Mounted at `path` inside a `with` block, if possible."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_mounted = False

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        self._is_mounted = _run("mount", "-t", "tmpfs", "-o", f"size={_ROOM}", "stream-dedup-soak", str(self.path))
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_mounted:
            _run("umount", "--lazy", str(self.path))

    def fill(self, process_id: int) -> None:
        """Leave no room for what the broker (with this process id) writes."""
        if self._is_mounted:
            held = os.statvfs(self.path)
            used = (held.f_blocks - held.f_bfree) * held.f_frsize
            assert _run("mount", "-o", f"remount,size={used + _REST}", str(self.path)), f"{self.path} cannot be cut"
        else:
            _, hard = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
            resource.prlimit(process_id, resource.RLIMIT_FSIZE, (0, hard))

    def make_room(self) -> None:
        """Give it its size again. A process whose files were limited must be restarted."""
        if self._is_mounted:
            assert _run("mount", "-o", f"remount,size={_ROOM}", str(self.path)), f"{self.path} stays full"


def _run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
