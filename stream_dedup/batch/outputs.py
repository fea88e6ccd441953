"""What a command writes to: files that are appended to, cut back or put in place when they are whole; and streams.

A file is written in two ways, by one class. With a journal it stands at its final name and grows; after a kill it is
cut to the length that the journal knows. Without one, nothing may show until all is done: the file grows under a name
of its own (`.NAME.part`) and takes the final name at the end, in one step. What a killed run leaves there, the next one
overwrites. A stream (standard output, a pipe, a device) takes what is written at once, and cannot be cut. Where the
name ends in .gz or .zst either is packed; each `sync` ends a member or frame, so that a file can be cut there.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from stream_dedup.batch.lines import STDIN
from stream_dedup.batch.packing import Packer, Packing, packer, packing_of
from stream_dedup.batch.rows import Form, form_of
from stream_dedup.changelog.files import open_locked, sync_directory
from stream_dedup.errors import InputError

STDOUT = "-"
_STANDARD = {STDOUT: 1, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")


@dataclass(frozen=True, slots=True)
class Target:
    """Where an output goes. `descriptor`: of this process, already open; `is_stream`: it cannot be cut or replaced."""

    path: Path
    descriptor: int | None = None
    is_stream: bool = False

    @property
    def is_stdout(self) -> bool:
        return self.descriptor == 1

    def __str__(self) -> str:
        return {1: "standard output", 2: "standard error"}.get(self.descriptor or 0, str(self.path))


def target(path: Path) -> Target:
    """What a name stands for. Links are followed: a link to an output stays one, what lies behind it is put in place.

    >>> str(target(Path("-"))), target(Path("/dev/fd/2")).descriptor
    ('standard output', 2)
    """
    name = str(path)
    found = _DESCRIPTOR.fullmatch(name)
    descriptor = int(found[1]) if found else _STANDARD.get(name)
    if descriptor is not None:
        # Not by its name: a file behind it must go on where the shell has it, and not be replaced.
        return Target(path, descriptor, True)
    path = path.resolve()
    return Target(path, None, path.exists() and not path.is_file() and not path.is_dir())


class Output(Protocol):
    """One output. `length` counts its bytes, as they are packed, up to the last `sync`."""

    @property
    def path(self) -> Path: ...

    @property
    def length(self) -> int: ...

    def cut(self, length: int) -> object:
        """Forgets everything after so many bytes, and goes on from there."""

    def write(self, data: bytes) -> int:
        """The bytes as they are; their number."""

    def sync(self) -> None:
        """What was appended is on the disk when this returns."""

    def complete(self) -> None:
        """What even a file without content must have."""

    def publish(self) -> None:
        """The whole file takes its final name, over whatever stood there."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


def open_output(to: Target, *, in_place: bool) -> Output:
    """The output that the target's name asks for; `in_place`: it grows at its final name, for whoever has a journal."""
    plain: Output = OutputStream(to) if to.is_stream else OutputFile(to.path, in_place=in_place)
    packing = packing_of(to.path)
    return _Packed(plain, packing) if packing else plain


class OutputFile:
    """One file, ours alone while it is open. `length` counts its bytes. Leaving it by an error discards its part."""

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

    def complete(self) -> None:
        """Nothing: an empty file is one."""

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


class OutputStream:
    """Standard output, a pipe or a device. Raises BrokenPipeError where nobody reads it any more."""

    def __init__(self, to: Target) -> None:
        self.path = to.path
        self.length = 0
        self._name = str(to)
        try:
            # Without a buffer of Python's: what is left in one would be complained of at exit, when the reader is gone.
            self._file = open(  # noqa: SIM115, PTH123 - closed by __exit__; a descriptor is no path
                to.path if to.descriptor is None else os.dup(to.descriptor), "wb", buffering=0
            )
        except OSError as error:
            raise InputError(f"cannot write to {self._name}: {error.strerror}") from None

    def cut(self, length: int) -> Self:
        """Nothing: a stream is at its beginning."""
        return self

    def write(self, data: bytes) -> int:
        """The bytes as they are; their number."""
        try:
            with memoryview(data) as left:
                done = 0
                while done < len(data):  # a pipe may take less than all
                    done += self._file.write(left[done:]) or 0
        except BrokenPipeError:
            raise
        except OSError as error:
            raise InputError(f"cannot write to {self._name}: {error.strerror}") from None
        self.length += len(data)
        return len(data)

    def sync(self) -> None:
        """Nothing: it went out at once."""

    def complete(self) -> None:
        """Nothing: an empty stream is one."""

    def publish(self) -> None:
        """Nothing: it is out already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


class _Packed:
    """An output whose bytes are packed; one member or frame from each `sync` to the next."""

    def __init__(self, to: Output, packing: Packing) -> None:
        self._to = to
        self._packing = packing
        self._open: Packer | None = None
        self.path = to.path

    @property
    def length(self) -> int:
        return self._to.length

    def cut(self, length: int) -> Self:
        self._to.cut(length)
        self._open = None
        return self

    def write(self, data: bytes) -> int:
        if data:
            self._open = self._open or packer(self._packing)
            self._to.write(self._open.compress(data))
        return len(data)

    def sync(self) -> None:
        self._end()
        self._to.sync()

    def complete(self) -> None:
        """An empty file is no packed one: the tools call it cut short."""
        if not self._open and not self._to.length:
            self._open = packer(self._packing)
        self.sync()

    def publish(self) -> None:
        self.complete()
        self._to.publish()

    def __enter__(self) -> Self:
        self._to.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._to.__exit__(kind, error, at)

    def _end(self) -> None:
        if self._open:
            self._to.write(self._open.flush())
            self._open = None


def check_paths(inputs: Sequence[str], outputs: Mapping[str, Target], state: Path | None, *, cut: bool) -> None:
    """Refuses what would destroy something: raises InputError naming the two that clash.

    `outputs`: one or two, by the names of their options. Files are compared themselves, not by name, so links are
    seen through. `state`: the directory that is the program's own; `cut`: after a kill the outputs are cut.
    """
    if inputs.count(STDIN) > 1:
        raise InputError("standard input (-) can be read only once")
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
            raise InputError(f"{path} lies in the state directory, which is the program's alone; name another place")
        for one in inputs:
            if one != STDIN and (_is_same(Path(one), path) or _is_same(Path(one), _part_of(path))):
                raise InputError(f"{path} is an input ({one}); writing to it would destroy it")
    for one in inputs:
        if one != STDIN:
            _check_readable(Path(one))


def _check_differ(outputs: Mapping[str, Target]) -> None:
    if len(outputs) < 2:
        return
    one, other = outputs.values()
    both = " and ".join(outputs)
    if one.descriptor is not None or other.descriptor is not None:
        if one.descriptor == other.descriptor:
            raise InputError(
                f"{both} are both {one}, where nobody could tell them apart; write one of them to a file, or leave "
                f"{list(outputs)[1]} out"
            )
    elif one.path == Path(os.devnull):
        return
    elif one.path == other.path or _is_same(one.path, other.path):
        raise InputError(f"{both} are the same file, {one.path}; give each its own")


def _check_can_be_cut(option: str, to: Target) -> None:
    if to.is_stream:
        also = "" if option == "--output" else f"{option} or "
        raise InputError(
            f"{to} cannot be taken back after a kill, so no run with --state can write to it; name a file for "
            f"{option}, or leave {also}--state out"
        )
    if form_of(to.path) is Form.PARQUET:
        raise InputError(
            f"{to} cannot be cut after a kill: a Parquet file is whole or none, so no run with --state can write it; "
            "name it .jsonl or .jsonl.zst, or leave --state out"
        )


def _check_not_read(inputs: Sequence[str], to: Target) -> None:
    """What a shell redirected to an input: its end would never come."""
    if to.descriptor is None:
        return
    with suppress(OSError):  # it is closed, or an input is not there: said elsewhere
        behind = os.fstat(to.descriptor)
        for one in inputs:
            if one != STDIN and Path(one).is_file() and os.path.samestat(behind, Path(one).stat()):
                raise InputError(f"{to} is an input ({one}); writing to it would destroy it")


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
