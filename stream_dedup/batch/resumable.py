"""The skeleton of a run on files, shared by `filter` (filter.py) and `pairs` (pairs.py).

Also what a later run of `filter` recognises it by: its inputs and the settings that decide.

In: inputs, outputs and settings as the user names them; a run checks them before it begins. A later run recognises a
file by path, size and time of change. It cannot recognise standard input or a pipe.
"""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

import msgspec
import xxhash

from stream_dedup.batch.judge import check_items
from stream_dedup.batch.line_writers import ROW_FORMATS, check_output_format
from stream_dedup.batch.lines import STDIN
from stream_dedup.batch.outputs import Output, check_paths, open_output, target
from stream_dedup.batch.rows import FileFormat
from stream_dedup.errors import InputError
from stream_dedup.news.survey import Summary
from stream_dedup.settings import Settings

START_OVER = "start over with another state directory (which remembers nothing)"
"""The last resort in messages about a state that does not fit the run."""

_DECIDING_SETTINGS = {"item", "window", "fingerprint", "decision", "policy", "index"}
"""The settings tables that a verdict depends on."""


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
    """The output that a command line option names (None: not asked for), and the formats it may have."""

    path: str | Path | None
    formats: Sequence[FileFormat] = ROW_FORMATS


@dataclass(kw_only=True)
class FileRun(ABC):
    """One run of a command. Creating it checks the arguments; it raises InputError and ConfigError, and writes nothing.

    `outputs`: by the names of their options, the main one first. `in_place`: they grow under their final names, and a
    later run cuts them back after a kill. `force`: existing files may be replaced.
    """

    inputs: Sequence[str | Path]
    outputs: Mapping[str, OutputOption]
    force: bool
    file_format: FileFormat | None
    settings: Settings
    state: str | Path | None = None
    in_place: bool = False

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._names = [str(path) for path in self.inputs]
        self._targets = {
            option: target(Path(output.path)) for option, output in self.outputs.items() if output.path is not None
        }
        self._directory = Path(self.state) if self.state is not None else None
        self._summary: Summary | None = None
        check_paths(self._names, self._targets, self._directory, cut=self.in_place)
        check_items(self._names, self.file_format, self.settings)
        for option, to in self._targets.items():
            check_output_format(option, to, self.outputs[option].formats)

    def execute(self) -> None:
        """Do the work; call it once. Raises InputError where a file cannot be read or written.

        Raises BrokenPipeError if an output has no reader any more.
        """
        try:
            with ExitStack() as stack:
                self._run(stack)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise InputError(f"cannot read or write: {error}") from None

    @abstractmethod
    def _run(self, stack: ExitStack) -> None:
        """All of it; `stack` closes what is opened."""

    def _describe_inputs(self) -> None:
        """Note what the inputs are now, in the order of `_names`; `_total_bytes` is None if a size is unknown."""
        self._sources = describe(self._names)
        sizes = [source.size for source in self._sources]
        self._total_bytes = None if min(sizes, default=0) < 0 else sum(sizes)

    def _open_outputs(self, stack: ExitStack) -> list[Output]:
        """The outputs in the order of their options. The first is opened last, so a failed run discards it first."""
        targets = reversed(self._targets.values())
        return [stack.enter_context(open_output(to, in_place=self.in_place)) for to in targets][::-1]

    def _seconds(self) -> float:
        return time.monotonic() - self._started


def describe(inputs: Sequence[str]) -> list[Source]:
    """The inputs as they are now."""
    return [_describe(name) for name in inputs]


def settings_digest(settings: Settings) -> str:
    """A digest that is equal for settings that give the same verdicts."""
    exclude = {"fingerprint": {"salt", "salt_file"}}  # a state of another salt has another scheme, and is refused
    fields = settings.model_dump_json(include=_DECIDING_SETTINGS, exclude=exclude)
    return xxhash.xxh3_128_hexdigest(fields.encode())


def _describe(name: str) -> Source:
    if name == STDIN:
        return Source(STDIN, STDIN)
    status = Path(name).stat()
    path = as_text(str(Path(name).resolve()))
    if not S_ISREG(status.st_mode):
        return Source(as_text(name), path)
    return Source(as_text(name), path, status.st_size, status.st_mtime_ns)


def as_text(path: str) -> str:
    """A path as valid text; a file system allows bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
