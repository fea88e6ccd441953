"""Fetch Debian's packages that tests need, one process at a time.

A second apt-get does not wait for the first: it ends at once with "Could not get lock".
"""

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_LOCK = Path(tempfile.gettempdir()) / "stream_dedup-apt.lock"


def apt(*commands: list[str], folder: Path | None = None) -> None:
    """Run `apt-get COMMAND` for each command, in `folder`, alone among the test processes of this machine.

    Raises subprocess.CalledProcessError, with apt's words in `stderr`, if one fails.
    """
    options: dict[str, Any] = {"cwd": folder, "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}}
    with _LOCK.open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in commands:
            done = subprocess.run(["apt-get", *command], capture_output=True, text=True, check=False, **options)
            print(done.stdout, done.stderr, sep="")
            done.check_returncode()
