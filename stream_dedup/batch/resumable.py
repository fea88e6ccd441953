"""The skeleton of a resumable run, shared by `filter` (filter.py) and `pairs` (pairs.py).

In: inputs, outputs and settings as the user names them. A run checks them, opens its state, and decides where to go on:
at the beginning, behind what a killed run of the same arguments has finished, or nowhere because everything is done.
Its steps are numbered. The first one names the run in its state; the last one puts the outputs in place or clears the
state. Each step is announced before it is done, and the fault tests kill the process at each announcement.

A later run recognises a file by path, size and time of change. It cannot recognise standard input or a pipe.
"""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from stat import S_ISREG
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
import xxhash

from stream_dedup.batch.judge import check_items
from stream_dedup.batch.line_writers import check_output_format
from stream_dedup.batch.lines import STDIN
from stream_dedup.batch.outputs import Output, check_paths, open_output, target
from stream_dedup.batch.rows import FileFormat
from stream_dedup.errors import InputError
from stream_dedup.news.summary import Summary
from stream_dedup.settings import Settings

START_OVER = "start over with another state directory (which remembers nothing)"
"""The last resort in messages about a state that does not fit the run."""

_DECIDING_SETTINGS = {"item", "window", "fingerprint", "decision", "policy", "index"}
"""The settings tables that a verdict depends on."""

Step = TypeVar("Step", bound=IntEnum)
Progress = TypeVar("Progress")


class Source(msgspec.Struct, frozen=True):
    """An input as it is when a run begins. `size` -1: it is no regular file, so no later run can recognise it."""

    name: str  # as the user gave it; the rows of the duplicates show it
    path: str
    size: int = -1
    modified: int = -1  # ns

    def is_unchanged(self, now: "Source") -> bool:
        """Whether `now` describes the same file with the same content."""
        return self.size >= 0 and (self.path, self.size, self.modified) == (now.path, now.size, now.modified)


class OutputOption(NamedTuple):
    """An output that a command line option names (None: not asked for), and the formats it may have."""

    path: str | Path | None
    formats: Sequence[FileFormat] = (FileFormat.JSONL, FileFormat.PARQUET)


class Writer(Protocol):
    """An output in some format that can be put in place."""

    def publish(self) -> None:
        """Complete the file and give it its final name."""


@dataclass(frozen=True, slots=True)
class RunRequest(Generic[Step, Progress]):
    """What the caller of a command asks for. `outputs`: by the names of their options, the main one first.

    `in_place`: the outputs grow under their final names, and a later run cuts them back after a kill. `progress` is
    called now and then, `announce` before each step.
    """

    inputs: Sequence[str | Path]
    outputs: Mapping[str, OutputOption]
    state: str | Path | None
    in_place: bool
    file_format: FileFormat | None
    settings: Settings
    steps: type[Step]
    progress: Callable[[Progress], None]
    announce: Callable[[Step], None]


class ResumableRun(ABC, Generic[Step, Progress]):
    """One run of a command. Call `execute` once.

    The constructor raises InputError and ConfigError for arguments that do not fit together, before it writes anything.
    """

    def __init__(self, request: RunRequest[Step, Progress]) -> None:
        self._started = time.monotonic()
        self._inputs = [str(path) for path in request.inputs]
        self._targets = {
            option: target(Path(output.path)) for option, output in request.outputs.items() if output.path is not None
        }
        self._state_path = Path(request.state) if request.state is not None else None
        self._in_place = request.in_place
        self._file_format = request.file_format
        self._settings = request.settings
        self._first_step, *_, self._last_step = request.steps
        self._progress = request.progress
        self._announce = request.announce
        self._resumed = 0
        self._summary: Summary | None = None
        check_paths(self._inputs, self._targets, self._state_path, cut=self._in_place)
        check_items(self._inputs, self._file_format, self._settings)
        for option, to in self._targets.items():
            check_output_format(option, to, request.outputs[option].formats)

    def execute(self) -> None:
        """Do all steps that are left. Raises InputError where a file cannot be read or written.

        Raises BrokenPipeError where nobody reads an output any more.
        """
        try:
            with ExitStack() as stack:
                if not self._open(stack):
                    return
                if self._is_new():
                    self._announce(self._first_step)
                    self._begin()
                self._work()
                self._announce(self._last_step)
                self._finish()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise InputError(f"cannot read or write: {error}") from None

    @abstractmethod
    def _open(self, stack: ExitStack) -> bool:
        """Open the state and decide where to go on; False if nothing is left to do."""

    @abstractmethod
    def _is_new(self) -> bool:
        """Whether the state must name this run, because it is not the one that was killed."""

    @abstractmethod
    def _begin(self) -> None:
        """The first step: name the run in the state."""

    @abstractmethod
    def _work(self) -> None:
        """All steps between the first and the last, each announced."""

    @abstractmethod
    def _finish(self) -> None:
        """The last step."""

    def _open_outputs(self, stack: ExitStack) -> list[Output]:
        """The outputs in the order of their options. The first is opened last, so a failed run discards it first."""
        opened = [
            stack.enter_context(open_output(to, in_place=self._in_place)) for to in reversed(self._targets.values())
        ]
        return opened[::-1]

    def _publish(self, writers: Sequence[Writer]) -> None:
        """Put the outputs in place, the first one last: once it is there, everything is."""
        for writer in reversed(writers):
            writer.publish()

    def _seconds(self) -> float:
        return time.monotonic() - self._started


def describe(inputs: Sequence[str]) -> list[Source]:
    """The inputs as they are now."""
    return [_describe(name) for name in inputs]


def total_bytes(sources: Sequence[Source]) -> int | None:
    """The size of all inputs together; None if one of them is unknown."""
    sizes = [source.size for source in sources]
    return None if min(sizes, default=0) < 0 else sum(sizes)


def settings_digest(settings: Settings) -> str:
    """A digest that is equal for settings that give the same verdicts."""
    return xxhash.xxh3_128_hexdigest(settings.model_dump_json(include=_DECIDING_SETTINGS).encode())


def summary_or_none(summary: Summary) -> Summary | None:
    """The summary; None if it covers no item."""
    return summary if summary.items else None


def _describe(name: str) -> Source:
    if name == STDIN:
        return Source(STDIN, STDIN)
    status = Path(name).stat()
    path = _as_text(str(Path(name).resolve()))
    if not S_ISREG(status.st_mode):
        return Source(_as_text(name), path)
    return Source(_as_text(name), path, status.st_size, status.st_mtime_ns)


def _as_text(path: str) -> str:
    """A path as valid text; a file system allows bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
