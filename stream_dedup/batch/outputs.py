"""Outputs of a command: files and streams; and the checks of inputs and outputs before a run.

A file is written in one of two ways. With a journal it grows under its final name; after a kill it is cut to the length
in the journal. Without one, nothing may show until all is done: the file grows under a temporary name (`.NAME.part`)
and takes the final name at the end, in one step. The next run overwrites what a killed run leaves there. A stream
(standard output, a pipe, a device) passes each write on at once, and cannot be cut. If the name ends in .gz or .zst,
the output is packed; each `sync` ends a member or frame, so that a file can be cut there.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from stream_dedup.batch.lines import STDIN
from stream_dedup.batch.packing import Packer, Packing, packer, packing_of
from stream_dedup.batch.rows import FileFormat, format_of
from stream_dedup.changelog.files import open_locked, sync_directory
from stream_dedup.errors import InputError, UsageError

STDOUT = "-"
_STANDARD = {STDOUT: 1, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


@dataclass(frozen=True, slots=True)
class Target:
    """Where an output goes. `descriptor`: an open one of this process; `is_stream`: it cannot be cut or replaced."""

    path: Path
    descriptor: int | None = None
    is_stream: bool = False

    @property
    def is_stdout(self) -> bool:
        return self.descriptor == 1

    def __str__(self) -> str:
        return {1: "standard output", 2: "standard error"}.get(self.descriptor or 0, str(self.path))


def target(path: Path) -> Target:
    """The target that a name stands for. Links are followed, so a link stays one and its target is replaced.

    >>> str(target(Path("-"))), target(Path("/dev/fd/2")).descriptor
    ('standard output', 2)
    """
    name = str(path)
    match = _DESCRIPTOR.fullmatch(name)
    descriptor = int(match[1]) if match else _STANDARD.get(name)
    if descriptor is not None:
        # Opened by number: a file behind it must continue at the position of the shell, and must not be replaced.
        return Target(path, descriptor, True)
    path = path.resolve()
    return Target(path, None, path.exists() and not path.is_file() and not path.is_dir())


class Output:
    """An output that is open. A subclass writes; what it need not do, such as cutting a stream, does nothing here."""

    path: Path
    _length = 0

    @property
    def length(self) -> int:
        """Its bytes, packed as they are, up to the last `sync`."""
        return self._length

    def cut(self, length: int) -> None:
        """Drop everything after the first `length` bytes, and continue there."""

    def write(self, data: bytes) -> int:
        """Append the bytes; returns their number."""
        raise NotImplementedError

    def sync(self) -> None:
        """Return when all that was appended is on the disk."""

    def complete(self) -> None:
        """Write what even a file without content must have."""

    def publish(self) -> None:
        """Give the complete file its final name, replacing what has that name."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close it. An error before `publish` discards a file under its temporary name."""
        raise NotImplementedError


def open_output(to: Target, *, in_place: bool) -> Output:
    """Open the target, packed if its name says so; `in_place`: it grows under its final name (there is a journal)."""
    plain = OutputStream(to) if to.is_stream else OutputFile(to.path, in_place=in_place)
    packing = packing_of(to.path)
    return _PackedOutput(plain, packing) if packing else plain


class OutputFile(Output):
    """A file, locked while it is open."""

    def __init__(self, path: Path, *, in_place: bool) -> None:
        self.path = path
        self._target = path if in_place else _temporary_path(path)
        try:
            self._file = open_locked(self._target)
        except OSError as error:
            raise self._write_error(error) from None
        self._length = os.fstat(self._file.fileno()).st_size

    def cut(self, length: int) -> None:
        if length > self._length:
            raise InputError(
                f"{self.path} has {self._length} bytes, but the journal knows of {length}: it was changed since. "
                "Bring it back, or start over with another state directory (which remembers nothing)"
            )
        self._file.truncate(length)
        self._file.seek(length)
        self._length = length

    def write(self, data: bytes) -> int:
        try:
            written = self._file.write(data)
        except OSError as error:
            raise self._write_error(error) from None
        self._length += written
        return written

    def sync(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._write_error(error) from None

    def publish(self) -> None:
        self.sync()
        self._target = self._target.replace(self.path)
        sync_directory(self.path.parent)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and self._target != self.path:  # it was never published
            self._target.unlink(missing_ok=True)
        try:
            self._file.close()
        except OSError:
            if kind is None:
                raise

    def _write_error(self, error: OSError) -> InputError:
        return InputError(f"cannot write {self.path}: {error.strerror}")


class OutputStream(Output):
    """Standard output, a pipe or a device. Raises BrokenPipeError if it has no reader any more."""

    def __init__(self, to: Target) -> None:
        self.path = to.path
        self._name = str(to)
        try:
            # Unbuffered: when the reader is gone, Python would complain at exit about what is left in a buffer.
            self._file = open(  # noqa: SIM115, PTH123 - closed by __exit__; a descriptor is not a path
                to.path if to.descriptor is None else os.dup(to.descriptor), "wb", buffering=0
            )
        except OSError as error:
            raise InputError(f"cannot write to {self._name}: {error.strerror}") from None

    def write(self, data: bytes) -> int:
        try:
            with memoryview(data) as left:
                done = 0
                while done < len(data):  # a pipe may take only a part
                    done += self._file.write(left[done:]) or 0
        except BrokenPipeError:
            raise
        except OSError as error:
            raise InputError(f"cannot write to {self._name}: {error.strerror}") from None
        self._length += len(data)
        return len(data)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


class _PackedOutput(Output):
    """Packs what is written; each `sync` ends a member or frame."""

    def __init__(self, output: Output, packing: Packing) -> None:
        self._output = output
        self._packing = packing
        self._packer: Packer | None = None
        self.path = output.path

    @property
    def length(self) -> int:
        return self._output.length

    def cut(self, length: int) -> None:
        self._output.cut(length)
        self._packer = None

    def write(self, data: bytes) -> int:
        if data:
            self._packer = self._packer or packer(self._packing)
            self._output.write(self._packer.compress(data))
        return len(data)

    def sync(self) -> None:
        if self._packer:
            self._output.write(self._packer.flush())
            self._packer = None
        self._output.sync()

    def complete(self) -> None:
        """Write an empty member: the tools call a packed file without bytes truncated."""
        if not self._packer and not self._output.length:
            self._packer = packer(self._packing)
        self.sync()

    def publish(self) -> None:
        self.complete()
        self._output.publish()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._output.__exit__(kind, error, at)


def check_paths(inputs: Sequence[str], outputs: Mapping[str, Target], state: Path | None, *, cut: bool) -> None:
    """Raise InputError for unusable paths, UsageError for those with which a run would destroy something.

    `outputs`: one or two, by the names of their options. Files are compared by identity, so links do not matter.
    `state`: the directory of the run; `cut`: whether the outputs are cut after a kill.
    """
    check_inputs(inputs)
    _check_differ(outputs)
    for option, to in outputs.items():
        if cut:
            _check_can_be_cut(option, to)
        if to.is_stream:
            _check_not_read(inputs, to)
            continue
        path = to.path
        if path.is_dir():
            raise InputError(f"{path} is a directory; name a file in it")
        if not path.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no directory {path.parent}")
        if state is not None and path.parent == state.resolve():
            raise UsageError(
                f"{path} lies in the state directory, which the program keeps for itself; name another place"
            )
        for name in inputs:
            if name != STDIN and (_is_same(Path(name), path) or _is_same(Path(name), _temporary_path(path))):
                raise UsageError(f"{path} is an input ({name}); writing to it would destroy it")


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


def _check_differ(outputs: Mapping[str, Target]) -> None:
    if len(outputs) < 2:
        return
    one, other = outputs.values()
    both = " and ".join(outputs)
    if one.descriptor is not None or other.descriptor is not None:
        if one.descriptor == other.descriptor:
            raise UsageError(
                f"{both} are both {one}, where their rows would mix; write one of them to a file, or leave "
                f"{list(outputs)[1]} out"
            )
    elif one.path == Path(os.devnull):
        return
    elif one.path == other.path or _is_same(one.path, other.path):
        raise UsageError(f"{both} are the same file, {one.path}; give each its own")


def _check_can_be_cut(option: str, to: Target) -> None:
    if to.is_stream:
        also = "" if option == "--output" else f"{option} or "
        raise UsageError(
            f"{to} cannot be taken back after a kill, so a run with --state cannot write to it; name a file for "
            f"{option}, or leave {also}--state out"
        )
    if format_of(to.path) is FileFormat.PARQUET:
        raise UsageError(
            f"{to} cannot be cut after a kill: a Parquet file is whole or none, so a run with --state cannot write it; "
            "name it .jsonl or .jsonl.zst, or leave --state out"
        )


def _check_not_read(inputs: Sequence[str], to: Target) -> None:
    """Raise UsageError if the shell redirected the output to an input, because that would never end."""
    if to.descriptor is None:
        return
    with suppress(OSError):  # it is closed: opening it reports that
        status = os.fstat(to.descriptor)
        for name in inputs:
            if name != STDIN and Path(name).is_file() and os.path.samestat(status, Path(name).stat()):
                raise UsageError(f"{to} is an input ({name}); writing to it would destroy it")


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
