"""The files that a command writes: appended to, cut back to a known length, or put in place when they are whole.

Two ways, one class. With a journal the file stands at its final name and grows; after a kill it is cut to the length
that the journal knows. Without one, nothing may show until all is done: the file grows under a name of its own
(`.NAME.part`) and takes the final name at the end, in one step. What a killed run leaves there, the next one
overwrites.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from stream_dedup.batch.lines import STDIN
from stream_dedup.changelog.files import open_locked, sync_directory
from stream_dedup.errors import InputError


class OutputFile:
    """One output, ours alone while it is open. `length` counts its bytes. Leaving it by an error discards its part."""

    def __init__(self, path: Path, *, in_place: bool) -> None:
        self.path = path
        self._target = path if in_place else _part_of(path)
        try:
            self._file = open_locked(self._target)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from None
        self.length = os.fstat(self._file.fileno()).st_size

    def cut(self, length: int) -> Self:
        """Forgets everything after so many bytes, and goes on from there."""
        if length > self.length:
            raise InputError(
                f"{self.path} has {self.length} bytes, but the journal knows of {length}: it was changed since. "
                "Bring it back, or start anew with another state directory (which remembers nothing)"
            )
        self._file.truncate(length)
        self._file.seek(length)
        self.length = length
        return self

    def append(self, lines: Sequence[bytes]) -> None:
        """The lines, each with a line feed; safe only after `sync`."""
        self.write(b"".join(part for line in lines for part in (line, b"\n")))

    def write(self, data: bytes) -> int:
        """The bytes as they are; their number."""
        try:
            written = self._file.write(data)
        except OSError as error:
            raise self._unwritable(error) from None
        self.length += written
        return written

    def sync(self) -> None:
        """What was appended is on the disk when this returns."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._unwritable(error) from None

    def publish(self) -> None:
        """The whole file takes its final name, over whatever stood there."""
        self.sync()
        self._target = self._target.replace(self.path)
        sync_directory(self.path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and self._target != self.path:  # begun, never to be finished
            self._target.unlink(missing_ok=True)
        try:
            self._file.close()
        except OSError:
            if kind is None:
                raise

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"cannot write {self.path}: {error.strerror}")


def check_paths(inputs: Sequence[str], outputs: dict[str, Path], state: Path | None) -> None:
    """Refuses what would destroy something: raises InputError naming the two that clash.

    `outputs`: two, by the names of their options; they must be resolved. Files are compared themselves, not by name, so
    links are seen through.
    """
    output, other = outputs.values()
    if output == other or _is_same(output, other):
        raise InputError(f"{' and '.join(outputs)} are the same file, {output}; give each its own")
    if inputs.count(STDIN) > 1:
        raise InputError("standard input (-) can be read only once")
    for path in outputs.values():
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no regular file, so it could not be made again after a kill; name a file")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no directory {path.parent}")
        if state is not None and path.parent == state.resolve():
            raise InputError(f"{path} lies in the state directory, which is the program's alone; name another place")
        for one in inputs:
            if one != STDIN and (_is_same(Path(one), path) or _is_same(Path(one), _part_of(path))):
                raise InputError(f"{path} is an input ({one}); writing to it would destroy it")
    for one in inputs:
        if one != STDIN:
            _check_readable(Path(one))


def _part_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _check_readable(path: Path) -> None:
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if path.is_dir():
        raise InputError(f"{path} is a directory; name its files")
    if not os.access(path, os.R_OK):
        raise InputError(f"cannot read {path}: permission denied")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
