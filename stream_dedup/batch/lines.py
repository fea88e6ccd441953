"""Read inputs line by line: files and pipes, packed or not, JSON Lines or tables; several of them as one sequence.

Out: the bytes of each line without its line feed (of a table each row as a JSON object, tables.py), with its place. A
run that must find its place again stores the reader's position: the number of the line, and a digest of all lines up to
it. Memory holds one line, never the file. A line of more than `most` bytes is a bad item, of which only the beginning
is kept. The first bytes show how a file is packed, so pipes and misnamed files are read correctly; the name or the
caller says which format the lines have.
"""

import re
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

import xxhash
import zstandard

from stream_dedup.batch.packing import Packing, Readable, recognise, unpacked
from stream_dedup.batch.tables import (
    TOO_LARGE,
    CutLine,
    FileFormat,
    Row,
    SourceRow,
    csv_rows,
    format_of,
    json_row,
    parquet_rows,
)
from stream_dedup.errors import BadItem, InputError
from stream_dedup.settings.memory import LARGEST_RECORD

STDIN = "-"
# The longest magic number that is recognised.
_HEAD_BYTES = 8
_PARQUET = b"PAR1"
# A header consists of column names, at least one of them usual in feeds. A line of prose with commas does not.
_NAME = re.compile(rb'\s*"?[a-z_@][\w@:-]*(?: [\w@:-]+){0,2}"?\s*', re.ASCII)
_NAMES = frozenset(
    (b"id", b"guid", b"uuid", b"uri", b"url", b"link", b"title", b"headline", b"text", b"body", b"content",
    b"description", b"source", b"date", b"published", b"pubdate"),
)  # fmt: skip


class Line(NamedTuple):
    """One line. The numbers of its input and of the line become the item's partition and offset.

    For a row of a table, `value` is its JSON object, `source_row` the row as it was read, and `fault` what is wrong
    with it.
    """

    value: bytes
    input: int
    number: int
    source_row: SourceRow | None = None
    fault: BadItem | None = None

    @property
    def is_cut(self) -> bool:
        """Whether the line was too large to be read, so that `value` is only its beginning."""
        return self.fault is not None and self.fault.reason == TOO_LARGE

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.value)


class Position(NamedTuple):
    """The place behind `line` lines of the input number `input`; `digest` is theirs, "" if it need not be checked."""

    input: int = 0
    line: int = 0
    digest: str = ""


_START = Position()


class LineReader:
    """An iterator over the lines that hold items, behind `start`.

    Input i has the number `first_number` + i in the lines. `on_header` receives the header line of each table. Raises
    InputError where the skipped lines are not the former ones.
    """

    def __init__(
        self,
        inputs: Sequence[str],
        file_format: FileFormat | None,
        start: Position = _START,
        *,
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
        self._bytes_before = sum(size_of(name) or 0 for name in inputs[: start.input])

    @property
    def position(self) -> Position:
        """The position behind the line that was read last."""
        return Position(self._input, self._current.number, self._current.digest()) if self._current else self._start

    @property
    def bytes_read(self) -> int:
        """The bytes of all inputs up to the position, packed as they are."""
        return self._bytes_before + (self._current.bytes_read if self._current else 0)

    @property
    def bytes_total(self) -> int | None:
        """The bytes of all inputs; None if one is no regular file."""
        sizes = [size_of(name) for name in self._inputs]
        return None if None in sizes else sum(size or 0 for size in sizes)

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
                    line = self._current.line(value, self._first_number + index)
                    if line.fault is not None or not is_blank(value):
                        yield line
                    elif line.source_row is not None:
                        self._on_header(line)

    def _skip(self, current: "InputLines", values: Iterator[bytes]) -> None:
        for _ in islice(values, self._start.line):
            pass
        if self._start.digest and current.digest() != self._start.digest:
            raise InputError(
                f"the first {self._start.line} lines of {self._inputs[self._start.input]} are not those the killed run "
                "judged; bring the former input back, or start over with another state directory"
            )


class InputLines:
    """The lines of one input, from its beginning; `file_format` overrides what its name says.

    `number` is the number of the last line handed out (from 1), `digest()` covers all lines up to it. Raises InputError
    where the input cannot be opened, read or unpacked.
    """

    def __init__(self, path: str | Path, file_format: FileFormat | None = None, most: int = LARGEST_RECORD) -> None:
        self._path = str(path)
        self._most = most
        self._asked_format = file_format
        self._digest = xxhash.xxh3_128()
        self._bytes_taken = 0
        self._is_parquet = False
        self._row = Row(b"")
        self.number = 0
        self._is_stdin = self._path == STDIN
        self.name = "standard input" if self._is_stdin else self._path
        try:
            self._file: BinaryIO = sys.stdin.buffer if self._is_stdin else Path(path).open("rb")  # noqa: SIM115 - __exit__
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._is_stdin:
            self._bytes_taken = self.bytes_read
            self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        for row in self._rows():
            self._row = row
            self.number += 1
            self._digest.update(row.value)
            self._digest.update(b"\n")
            yield row.value

    def line(self, value: bytes, input: int) -> Line:
        """The line that was just handed out as `value`."""
        return Line(value, input, self.number, self._row.source_row, self._row.fault)

    def digest(self) -> str:
        """The digest of the lines handed out so far."""
        return self._digest.hexdigest()

    @property
    def bytes_read(self) -> int:
        """Bytes of the file, packed as they are; of a pipe only the unpacked bytes are known."""
        if self._file.closed or self._is_parquet or not self._file.seekable():
            return self._bytes_taken
        return self._file.tell()

    def _rows(self) -> Iterator[Row]:
        try:
            head = self._file.read(_HEAD_BYTES)
        except OSError as error:
            raise InputError(f"cannot read {self.name}: {error.strerror}") from None
        packing = recognise(self.name, head)
        file_format = self._asked_format or format_of(self._path)
        if head.startswith(_PARQUET) or file_format is FileFormat.PARQUET:
            return self._parquet_rows(head)
        lines = _split(self._chunks(head, packing), self._most)
        if file_format is not FileFormat.JSONL:
            return csv_rows(self.name, lines, file_format, self._most)
        if self._asked_format is None:
            cure = "say --format csv" if self._is_stdin else "give it the suffix .csv"
            lines = check_json_lines(self.name, cure, lines)
        return map(json_row, lines)

    def _parquet_rows(self, head: bytes) -> Iterator[Row]:
        if not head.startswith(_PARQUET) or self._asked_format not in (None, FileFormat.PARQUET):
            raise InputError(
                f"{self.name} does not hold what its name or --format says: a Parquet file begins with PAR1, any other "
                "does not, and it is not packed again"
            )
        if not self._file.seekable():
            raise InputError(
                f"{self.name} is a Parquet file in a pipe; Parquet is read from its end, so name the file itself"
            )
        size = self._file.seek(0, 2)
        self._file.seek(0)
        self._is_parquet = True

        def report(share: float) -> None:
            self._bytes_taken = int(share * size)

        return parquet_rows(self.name, self._file, report, self._most)

    def _chunks(self, head: bytes, packing: Packing | None) -> Iterator[bytes]:
        try:
            for chunk in unpacked(_FileWithHead(head, self._file), packing):
                self._bytes_taken += len(chunk)
                yield chunk
        except EOFError:
            raise InputError(
                f"{self.name} is cut short: its packed data end too early, after line {self.number}"
            ) from None
        except (OSError, zlib.error, zstandard.ZstdError) as error:
            raise InputError(f"cannot read {self.name} further, after line {self.number}: {error}") from None


class _FileWithHead:
    """A file whose first bytes were read already; a pipe cannot seek back to them."""

    def __init__(self, head: bytes, file: Readable) -> None:
        self._head = head
        self._file = file

    def read(self, size: int, /) -> bytes:
        if not self._head:
            return self._file.read(size)
        head, self._head = self._head[:size], self._head[size:]
        return head


def read_lines(path: str | Path, file_format: FileFormat | None = None, most: int = LARGEST_RECORD) -> Iterator[bytes]:
    """The lines of one input that are not blank; of one with more than `most` bytes the beginning."""
    with InputLines(path, file_format, most) as lines:
        for line in lines:
            if not is_blank(line):
                yield line


def is_blank(line: bytes) -> bool:
    """Whether the line is empty or only white space; such a line holds no item."""
    return not line or line.isspace()


def size_of(name: str) -> int | None:
    """The bytes of an input, packed as it is; None if it is no regular file."""
    return Path(name).stat().st_size if name != STDIN and Path(name).is_file() else None


def check_json_lines(path: str, cure: str, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Pass the lines through. Raise InputError if the first line shows a common mistake: one JSON document, or CSV.

    Any other line that is not JSON is a bad item and costs only itself. `cure`: how the user can declare CSV.
    """
    first = next(lines, None)
    if first is None:
        return
    start = first.removeprefix(BOM_UTF8).strip()
    if start in (b"[", b"{") or start.startswith(b"[{"):
        raise InputError(
            f"{path} looks like one JSON document, not like JSON Lines with one object a line; "
            "convert it: jq -c '.[]' FILE (a list) or jq -c . FILE (objects)"
        )
    cells = re.split(rb"[,;\t]", start.lower())
    if len(cells) > 1 and all(map(_NAME.fullmatch, cells)) and any(cell.strip(b' "') in _NAMES for cell in cells):
        raise InputError(
            f"{path} looks like CSV: its first line is {start.decode()[:80]!r}; {cure}, or --format jsonl if it is not"
        )
    yield first
    yield from lines


def _split(chunks: Iterator[bytes], most: int) -> Iterator[bytes]:
    """Split chunks into lines, in linear time even if a line spans thousands of chunks; too large ones as `CutLine`."""
    line = _Unfinished(most)
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        line.add(first)
        if others:
            yield line.take()
            line.add(others.pop())
            for other in others:
                yield other if len(other) <= most else CutLine.of(other, len(other), other.count(b'"'))
    if last := line.take():
        yield last


class _Unfinished:
    """The parts of a line; of one with more than `most` bytes only the beginning is kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = self._quotes = 0
        self._is_cut = False

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._most:
            self._quotes += sum(one.count(b'"') for one in self._parts[self._is_cut :])
            self._parts = [CutLine.of(b"".join(self._parts), 0, 0)]
            self._is_cut = True

    def take(self) -> bytes:
        line = b"".join(self._parts)
        if self._is_cut:
            line = CutLine.of(line, self._size, self._quotes)
        self._parts, self._size, self._quotes, self._is_cut = [], 0, 0, False
        return line
