"""A wall clock for each worker that a test can set, by libfaketime.

The library is loaded into the fork server, and so into every worker. It reads the difference from a file, which differs
between workers. CLOCK_MONOTONIC stays right, as on a machine whose clock is set.
"""

import os
import select
import time
from collections.abc import Mapping
from pathlib import Path

_LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
MISSING = "" if _LIBRARIES else "libfaketime is not installed (Debian: apt-get install libfaketime)"
# Seconds until a worker notices that its file has changed. Without a cache each reading of the clock reads the file.
_CACHE_SECONDS = 1


def variables() -> Mapping[str, str]:
    """Environment variables that load the library into a process."""
    if MISSING:
        return {}
    return {
        "LD_PRELOAD": str(_LIBRARIES[0]),
        "FAKETIME_CACHE_DURATION": str(_CACHE_SECONDS),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def mend_sleep() -> None:
    """Let `time.sleep` of this process work under libfaketime.

    The library (0.9.10) subtracts the wall clock's difference from every moment to sleep until, of CLOCK_MONOTONIC too,
    so Python's `time.sleep` fails with EINVAL. Other waits are not affected.
    """
    if "faketime" in os.environ.get("LD_PRELOAD", ""):
        time.sleep = lambda seconds: select.select([], [], [], float(seconds)) and None


def follow(file: Path) -> None:
    """Let this process's clock follow a file."""
    os.environ["FAKETIME_TIMESTAMP_FILE"] = str(file)


def set_clock(file: Path, seconds: int) -> None:
    """Set the clock that follows the file to this many seconds from the right time, at once."""
    part = file.with_suffix(".part")
    part.write_text(f"{seconds:+d}\n")
    part.rename(file)
