"""Inputs -> lines, streaming: JSON Lines, CSV, TSV, Parquet; plain, .gz or .zst; files, pipes, "-": standard input.

Out: each line's bytes without its line feed (of a table each row as a JSON object, see rows.py), and for whoever must
find the place again: its number, and a digest of all lines up to it. A file is never held in memory, a single line
always is. How a file is packed is told by its first bytes, so pipes and names that lie are read right; what the
lines are is told by the name, or by whoever names the file.
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
from stream_dedup.batch.rows import Form, Kept, Row, check_json_lines, csv_rows, form_of, parquet_rows
from stream_dedup.errors import InputError

STDIN = "-"
# The longest magic number that is looked for.
_HEAD_BYTES = 8
_PARQUET = b"PAR1"


class InputLines:
    """The lines of one input, from its beginning; `form` wins over what its name says.

    `number` counts the lines handed out (so it is the last one's number, from 1), `digest()` is theirs. Of a table's
    last row `kept` is the row as it came, and `fault` says why it is none. Raises InputError where the input cannot be
    opened, read or unpacked.
    """

    def __init__(self, path: str | Path, form: Form | None = None) -> None:
        self._path = str(path)
        self._asked = form
        self._digest = xxhash.xxh3_128()
        self._taken = 0
        self._is_parquet = False
        self.number = 0
        self.kept: Kept | None = None
        self.fault = ""
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
            self._taken = self.bytes_read
            self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        for row in self._rows():
            self.number += 1
            self._digest.update(row.value)
            self._digest.update(b"\n")
            self.kept, self.fault = row.kept, row.fault
            yield row.value

    def digest(self) -> str:
        """Of the lines handed out so far."""
        return self._digest.hexdigest()

    @property
    def bytes_read(self) -> int:
        """Bytes of the file, packed as they are; of a pipe only what came unpacked."""
        if self._file.closed or self._is_parquet or not self._file.seekable():
            return self._taken
        return self._file.tell()

    def _rows(self) -> Iterator[Row]:
        try:
            head = self._file.read(_HEAD_BYTES)
        except OSError as error:
            raise InputError(f"cannot read {self.name}: {error.strerror}") from None
        packing = recognise(self.name, head)
        form = self._asked or form_of(self._path)
        if head.startswith(_PARQUET) or (form is Form.PARQUET and not packing):
            return self._parquet_rows(head)
        if form is Form.PARQUET:
            raise InputError(f"{self.name} is a packed Parquet file; unpack it first, Parquet is packed within")
        lines = _split(self._chunks(head, packing))
        if form is not Form.JSONL:
            return csv_rows(self.name, lines, form)
        if self._asked is None:
            cure = "say --format csv" if self._is_stdin else "give it the suffix .csv"
            lines = check_json_lines(self.name, cure, lines)
        return map(Row, lines)

    def _parquet_rows(self, head: bytes) -> Iterator[Row]:
        if not head.startswith(_PARQUET):
            raise InputError(f"{self.name} is no Parquet file, whatever its name says; name it by what it holds")
        if not self._file.seekable():
            raise InputError(
                f"{self.name} is a Parquet file in a pipe; it is read from its end, so name the file itself"
            )
        size = self._file.seek(0, 2)
        self._file.seek(0)
        self._is_parquet = True

        def tell(share: float) -> None:
            self._taken = int(share * size)

        return parquet_rows(self.name, self._file, tell)

    def _chunks(self, head: bytes, packing: Packing | None) -> Iterator[bytes]:
        try:
            for chunk in unpacked(_Begun(head, self._file), packing):
                self._taken += len(chunk)
                yield chunk
        except EOFError:
            raise InputError(f"{self.name} is cut short: its packed data end in the midst, {self._where()}") from None
        except (OSError, zlib.error, zstandard.ZstdError) as error:
            raise InputError(f"cannot read {self.name} on, {self._where()}: {error}") from None

    def _where(self) -> str:
        return f"after line {self.number}"


class _Begun:
    """A file whose first bytes were read already; a pipe cannot go back to them."""

    def __init__(self, head: bytes, file: Readable) -> None:
        self._head = head
        self._file = file

    def read(self, size: int, /) -> bytes:
        if not self._head:
            return self._file.read(size)
        head, self._head = self._head[:size], self._head[size:]
        return head


def read_lines(path: str | Path, form: Form | None = None) -> Iterator[bytes]:
    """The lines of one input that hold something; blank ones are no items."""
    with InputLines(path, form) as lines:
        for line in lines:
            if not is_blank(line):
                yield line


def is_blank(line: bytes) -> bool:
    """Nothing, or only white space."""
    return not line or line.isspace()


def _split(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Chunks -> lines; linear also where one line spans thousands of chunks."""
    begun: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun)
            begun = [others.pop()]
            yield from others
    last = b"".join(begun)
    if last:
        yield last
