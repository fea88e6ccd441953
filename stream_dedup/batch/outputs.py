"""Outputs of a command: files and streams; and the checks of inputs and outputs before a run.

A file is written in one of two ways. With a journal it grows under its final name; after a kill it is cut to the length
in the journal. Without one, nothing may show until all is done: the file grows under a temporary name (`.NAME.part`)
and takes the final name at the end, in one step. The next run overwrites what a killed run leaves there. A stream
(standard output, a pipe, a device) passes each write on at once, and cannot be cut. If the name ends in .gz or .zst,
the output is packed; each `sync` ends a member or frame, so that a file can be cut there.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from stream_dedup.batch.lines import STDIN
from stream_dedup.batch.packing import Packer, packer, packing_of
from stream_dedup.batch.tables import FileFormat, format_of, pyarrow
from stream_dedup.changelog.files import open_locked, sync_directory
from stream_dedup.errors import InputError, UsageError

ROW_FORMATS = (FileFormat.JSONL, FileFormat.PARQUET)
"""The formats of rows that the program itself makes, such as pairs."""
UNWRITABLE = (".bz2", ".xz", ".zip", ".lz4", ".7z", ".xlsx", ".xls", ".ods")
"""Suffixes of formats that cannot be written."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where an output goes. `is_stream`: it cannot be cut or replaced; standard output is one."""

    path: Path
    is_stdout: bool = False
    is_stream: bool = False

    def __str__(self) -> str:
        return "standard output" if self.is_stdout else str(self.path)


def target(path: Path) -> Target:
    """The target that a name stands for. Links are followed, so a link stays one and its target is replaced.

    >>> str(target(Path("-"))), target(Path("/dev/null")).is_stream
    ('standard output', True)
    """
    if str(path) in ("-", "/dev/stdout"):
        return Target(path, is_stdout=True, is_stream=True)
    if path.exists() and not path.is_file() and not path.is_dir():
        return Target(path, is_stream=True)
    return Target(path.resolve())


class Output:
    """An output that is open; a file is locked while it is. `in_place`: it grows under its final name.

    Leaving it as a context manager with an error, before `publish`, discards a file under its temporary name. Raises
    InputError where it cannot be written, BrokenPipeError if a stream has no reader any more.
    """

    def __init__(self, to: Target, *, in_place: bool) -> None:
        self.path = to.path
        self.length = 0
        """Its bytes, packed as they are, up to the last `sync`."""
        self._to = to
        self._packing = packing_of(to.path)
        self._packer: Packer | None = None
        self._grows_at = to.path if in_place or to.is_stream else _temporary_path(to.path)
        try:
            self._file = self._open()
        except OSError as error:
            raise self._error(error) from None

    def _open(self) -> BinaryIO | Any:
        if self._to.is_stream:
            # Unbuffered: when the reader is gone, Python would complain at exit about what is left in a buffer.
            return open(os.dup(1) if self._to.is_stdout else self.path, "wb", buffering=0)  # noqa: PTH123 - a descriptor
        file = open_locked(self._grows_at)
        self.length = os.fstat(file.fileno()).st_size
        return file

    def cut(self, length: int) -> None:
        """Drop everything after the first `length` bytes, and continue there; a stream has nothing to drop."""
        if self._to.is_stream:
            return
        if length > self.length:
            raise InputError(
                f"{self.path} has {self.length} bytes, but the journal knows of {length}: it was changed since. "
                "Bring it back, or start over with another state directory (which remembers nothing)"
            )
        self._file.truncate(length)
        self._file.seek(length)
        self.length = length

    def write(self, data: bytes) -> int:
        """Append the bytes; returns their number."""
        if data and self._packing:
            self._packer = self._packer or packer(self._packing)
            self._append(self._packer.compress(data))
        else:
            self._append(data)
        return len(data)

    def sync(self) -> None:
        """Return when all that was appended is on the disk."""
        if self._packer:
            self._append(self._packer.flush())
            self._packer = None
        if self._to.is_stream:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._error(error) from None

    def complete(self) -> None:
        """End the output: a packed one gets an empty member, because the tools call one without bytes truncated."""
        if self._packing and not self._packer and not self.length:
            self._packer = packer(self._packing)
        self.sync()

    def publish(self) -> None:
        """Give the complete file its final name, replacing what has that name."""
        self.complete()
        if not self._to.is_stream:
            self._grows_at = self._grows_at.replace(self.path)
            sync_directory(self.path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and self._grows_at != self.path:  # it was never published
            self._grows_at.unlink(missing_ok=True)
        try:
            self._file.close()
        except OSError:
            if kind is None:
                raise

    def _append(self, data: bytes) -> None:
        try:
            with memoryview(data) as left:
                done = 0
                while done < len(data):  # a pipe may take only a part
                    done += self._file.write(left[done:]) or 0
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._error(error) from None
        self.length += len(data)

    def _error(self, error: OSError) -> InputError:
        return InputError(f"cannot write {self._to}: {error.strerror}")


def check_outputs(
    inputs: Sequence[str], outputs: Mapping[str, tuple[Target, Sequence[FileFormat]]], state: Path | None = None
) -> None:
    """Raise for outputs that cannot be written, or with which a run would destroy something.

    `outputs`: target and allowed formats by the names of their options. Files are compared by identity, so links do
    not matter. `state`: the directory of a run whose outputs are cut after a kill. Raises InputError, UsageError, and
    ConfigError where an extra is missing.
    """
    for (one, (a, _)), (other, (b, _)) in combinations(outputs.items(), 2):
        if (a.is_stdout and b.is_stdout) or (not a.is_stream and (a.path == b.path or _is_same(a.path, b.path))):
            raise UsageError(f"{one} and {other} are both {a}; write one of them elsewhere, or leave {other} out")
    for option, (to, allowed) in outputs.items():
        _check_format(option, to, allowed)
        if state is not None and (to.is_stream or format_of(to.path) is FileFormat.PARQUET):
            raise UsageError(
                f"{to} cannot be cut after a kill, so a run with --state cannot write it: name a .jsonl, .jsonl.zst or "
                f".csv file for {option}, or leave --state out"
            )
        if to.is_stream:
            continue
        if to.path.is_dir():
            raise InputError(f"{to} is a directory; name a file in it")
        if not to.path.parent.is_dir():
            raise InputError(f"cannot write {to}: there is no directory {to.path.parent}")
        if state is not None and to.path.parent == state.resolve():
            raise UsageError(
                f"{to} lies in the state directory, which the program keeps for itself; name another place"
            )
        for name in inputs:
            if name != STDIN and (_is_same(Path(name), to.path) or _is_same(Path(name), _temporary_path(to.path))):
                raise UsageError(f"{to} is an input ({name}); writing to it would destroy it")


def _check_format(option: str, to: Target, allowed: Sequence[FileFormat]) -> None:
    file_format = format_of(to.path)
    if file_format not in allowed or to.path.suffix.lower() in UNWRITABLE:
        names = " or ".join(f".{name}" for name in allowed)
        raise UsageError(
            f"{option} cannot be written as {to}; name it {names}; also packed (.gz, .zst), but for .parquet"
        )
    if file_format is FileFormat.PARQUET:
        pyarrow()
        if packing_of(to.path):
            raise UsageError(f"{to} would be packed twice: Parquet packs its columns itself; name it .parquet")


def check_free(outputs: Mapping[str, Target], own: Collection[str] = ()) -> None:
    """Raise UsageError for an output that would replace a file with content. `own`: paths that a killed run fills."""
    for option, to in outputs.items():
        if not to.is_stream and str(to.path) not in own and to.path.is_file() and to.path.stat().st_size:
            raise UsageError(f"{to.path} exists; name another file for {option}, or let --force replace it")


def check_inputs(inputs: Sequence[str], missing_hint: str = "") -> None:
    """Raise InputError for an input that cannot be read. `missing_hint` is added for a missing one, {} is its name."""
    if inputs.count(STDIN) > 1:
        raise UsageError("standard input (-) can be read only once")
    for name in inputs:
        if name == STDIN:
            continue
        if not Path(name).exists():
            raise InputError(f"there is no file {name}{missing_hint.format(name)}")
        if Path(name).is_dir():
            raise InputError(f"{name} is a directory; name its files")
        if not os.access(name, os.R_OK):
            raise InputError(f"cannot read {name}: permission denied")


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
