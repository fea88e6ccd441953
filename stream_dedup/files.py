"""Write files that appear complete, and lock files: names of `.part` files, renames, locks, and what a killed run left.

A file that others read appears complete, by a rename (`new_file`). Until then it has a random name that was free, and
nothing is written through a link: where others may write to the directory, too, none of their links leads elsewhere.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from stream_dedup.errors import InputError


def replace_file(path: Path, parts: Iterable[bytes]) -> int:
    """Write a file of these parts and replace the former one by it, atomically; returns its bytes.

    Raises OSError, and InputError like `new_file`.
    """
    new, target = new_file(path)
    try:
        with target:
            target.writelines(parts)
            target.flush()
            os.fsync(target.fileno())
            size = target.tell()
            new.replace(path)  # while it is locked: another process deletes parts without a lock
    finally:
        new.unlink(missing_ok=True)
    sync_directory(path.parent)
    return size


def new_file(path: Path) -> tuple[Path, BinaryIO]:
    """Create a file that gets the name of `path` once it is complete (Path.replace); it is locked until it is closed.

    Deletes what killed processes have left. Raises InputError if another process is writing it.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    file = open_locked(new, os.O_CREAT | os.O_EXCL)
    try:
        abandoned = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.part")
        for sibling in path.parent.iterdir():
            if abandoned.fullmatch(sibling.name) and sibling != new:
                with suppress(OSError):  # another user's, or a link
                    open_locked(sibling, 0, path).close()
                    sibling.unlink()
    except BaseException:
        new.unlink(missing_ok=True)
        file.close()
        raise
    return new, file


def open_locked(path: Path, flags: int = os.O_CREAT, purpose: Path | None = None) -> BinaryIO:
    """Open a file for reading and writing, locked until it is closed; create it if it is missing.

    The kernel releases the lock when the process ends, so a killed process leaves none. `purpose`: the path to name in
    the error, if not this one. Raises InputError if another process holds the lock, OSError for a link.
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o666), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous owner may have renamed the file after we opened it. Then this lock is on another file.
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        file.close()
        raise
    file.close()
    raise InputError(f"another process is at work on {purpose or path}; wait until it ends, or name another path")


def sync_directory(directory: Path) -> None:
    """Make creations and renames in the directory survive a power failure."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
