"""Choose the reader for an input by its name or content, and read it line by line: files, pipes, compressed or not.

Out: the bytes of each line without its line feed (of a table each row as a JSON object, rows.py); and, to find the
place again, the number of the line and a digest of all lines up to it. Memory holds one line, never the file. A line of
more than `most` bytes is a bad item, of which only the beginning is kept. The first bytes show how a file is packed, so
pipes and misnamed files are read correctly; the name or the caller says which format the lines have.
"""

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import xxhash
import zstandard

from stream_dedup.batch.packing import Packing, Readable, recognise, unpacked
from stream_dedup.batch.rows import (
    CutLine,
    FileFormat,
    Row,
    SourceRow,
    check_json_lines,
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


class InputLines:
    """The lines of one input, from its beginning; `file_format` overrides what its name says.

    `number` is the number of the last line handed out (from 1), `digest()` covers all lines up to it. For a table,
    `source_row` is the last row as it was read, and `fault` what is wrong with it. Raises InputError where the input
    cannot be opened, read or unpacked.
    """

    def __init__(self, path: str | Path, file_format: FileFormat | None = None, most: int = LARGEST_RECORD) -> None:
        self._path = str(path)
        self._most = most
        self._asked_format = file_format
        self._digest = xxhash.xxh3_128()
        self._bytes_taken = 0
        self._is_parquet = False
        self.number = 0
        self.source_row: SourceRow | None = None
        self.fault: BadItem | None = None
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
            self.number += 1
            self._digest.update(row.value)
            self._digest.update(b"\n")
            self.source_row, self.fault = row.source_row, row.fault
            yield row.value

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
        if head.startswith(_PARQUET) and self._asked_format not in (None, FileFormat.PARQUET):
            raise InputError(f"{self.name} is a Parquet file, not {self._asked_format}; leave --format out")
        if head.startswith(_PARQUET) or (file_format is FileFormat.PARQUET and not packing):
            return self._parquet_rows(head)
        if file_format is FileFormat.PARQUET:
            raise InputError(f"{self.name} is a packed Parquet file; unpack it first, Parquet packs its columns itself")
        lines = _split(self._chunks(head, packing), self._most)
        if file_format is not FileFormat.JSONL:
            return csv_rows(self.name, lines, file_format, self._most)
        if self._asked_format is None:
            cure = "say --format csv" if self._is_stdin else "give it the suffix .csv"
            lines = check_json_lines(self.name, cure, lines)
        return map(json_row, lines)

    def _parquet_rows(self, head: bytes) -> Iterator[Row]:
        if not head.startswith(_PARQUET):
            raise InputError(
                f"{self.name} is not a Parquet file, although its name says so; give it the suffix of what it holds"
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
            raise InputError(f"{self.name} is cut short: its packed data end too early, {self._position()}") from None
        except (OSError, zlib.error, zstandard.ZstdError) as error:
            raise InputError(f"cannot read {self.name} further, {self._position()}: {error}") from None

    def _position(self) -> str:
        return f"after line {self.number}"


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
