"""Read the lines of several inputs as one sequence, from any position on.

In: the inputs, and the position where an earlier run stopped. Out: the lines that hold items, each with its place. The
reader knows its own position, so a run can store it and a later run can go on there.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from stream_dedup.batch.judge import Line, line_of
from stream_dedup.batch.lines import InputLines, is_blank
from stream_dedup.batch.resumable import START_OVER, Source
from stream_dedup.batch.rows import FileFormat
from stream_dedup.errors import InputError
from stream_dedup.settings.memory import LARGEST_RECORD


class Position(NamedTuple):
    """The place behind `line` lines of the input number `input`; `digest` is theirs, "" if it need not be checked."""

    input: int = 0
    line: int = 0
    digest: str = ""


_START = Position()


class LineReader:
    """An iterator over the lines behind `start`. Raises InputError where the skipped lines are not the former ones.

    Input i has the number `first_number` + i in the lines. `on_header` receives the header line of each table. A line
    of more than `most` bytes is a bad item.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        file_format: FileFormat | None,
        start: Position = _START,
        *,
        sources: Sequence[Source] = (),
        first_number: int = 0,
        on_header: Callable[[Line], None] = lambda _: None,
        most: int = LARGEST_RECORD,
    ) -> None:
        self._inputs = inputs
        self._file_format = file_format
        self._start = start
        self._first_number = first_number
        self._on_header = on_header
        self._most = most
        self._input = start.input
        self._current: InputLines | None = None
        self._bytes_before = sum(max(source.size, 0) for source in sources[: start.input])

    @property
    def position(self) -> Position:
        """The position behind the line that was read last."""
        return Position(self._input, self._current.number, self._current.digest()) if self._current else self._start

    @property
    def bytes_read(self) -> int:
        """The bytes of all inputs up to the position, packed as they are."""
        return self._bytes_before + (self._current.bytes_read if self._current else 0)

    def __iter__(self) -> Iterator[Line]:
        for index in range(self._start.input, len(self._inputs)):
            if self._current:
                self._bytes_before += self._current.bytes_read
            self._input = index
            with InputLines(self._inputs[index], self._file_format, self._most) as self._current:
                values = iter(self._current)
                if index == self._start.input and self._start.line:
                    self._skip(self._current, values)
                for value in values:
                    line = line_of(self._current, value, self._first_number + index)
                    if line.fault is not None or not is_blank(value):
                        yield line
                    elif line.source_row is not None:
                        self._on_header(line)

    def _skip(self, current: InputLines, values: Iterator[bytes]) -> None:
        for _ in islice(values, self._start.line):
            pass
        if self._start.digest and current.digest() != self._start.digest:
            raise InputError(
                f"the first {self._start.line} lines of {self._inputs[self._start.input]} are not those the killed run "
                f"judged; bring the former input back, or {START_OVER}"
            )
