"""Read inputs line by line, in any format; several of them as one sequence. packing.py unpacks them.

`READERS` lists the formats and the function that reads each. A `LineReader` yields the bytes of each line without its
line feed (of a table each row as a JSON object), with its place. A run that must find its place again stores the
reader's position: the number of the line, and a digest of all lines up to it. Memory holds one line, never the file. A
line of more than `most` bytes is a bad item, of which only the beginning is kept.
"""

import sys
import zlib
from codecs import iterdecode, iterencode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import xxhash
import zstandard

from stream_dedup.errors import BadItem, InputError
from stream_dedup.news.decode import Beside, Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.news.item_lists import query_of
from stream_dedup.news.repair import wide_encoding
from stream_dedup.settings.memory import LARGEST_RECORD
from stream_dedup.tools.inputs.archives import begin_of, is_tar, members_of
from stream_dedup.tools.inputs.avro_files import avro_rows
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.inputs.json_files import json_rows
from stream_dedup.tools.inputs.packing import (
    CHUNK,
    STDIN,
    STDIN_NAME,
    TOO_LARGE,
    Input,
    Packing,
    Row,
    SourceRow,
    recognise,
    refuse,
    unpacked,
)
from stream_dedup.tools.inputs.tables import csv_rows, parquet_rows
from stream_dedup.tools.inputs.xml_files import xml_rows

# The longest magic number that is recognised.
_HEAD_BYTES = 8


READERS: Mapping[FileFormat, tuple[Callable[[Input], Iterator[Row]], bytes]] = {
    FileFormat.JSONL: (json_rows, b""),
    FileFormat.CSV: (csv_rows, b""),
    FileFormat.TSV: (csv_rows, b""),
    FileFormat.PARQUET: (parquet_rows, b"PAR1"),
    FileFormat.XML: (xml_rows, b""),
    FileFormat.AVRO: (avro_rows, b"Obj\x01"),
}
"""What reads each format, and the bytes with which all its files begin, if any; such a file is never packed."""
LINE_FORMATS = (FileFormat.JSONL, FileFormat.CSV, FileFormat.TSV, FileFormat.PARQUET)
"""The formats that are written, too."""
UNWRITABLE = (".bz2", ".xz", ".zip", ".lz4", ".7z", ".xlsx", ".xls", ".ods")
"""Suffixes of formats that cannot be written."""
_XML_NAMES = ("rss", "atom", "rdf", "nitf", "newsml")


def format_of(path: str | Path) -> FileFormat:
    """Return the format that a name stands for, packed or not; JSON Lines if it has no known suffix.

    >>> format_of("a.csv.gz"), format_of("-")
    (<FileFormat.CSV: 'csv'>, <FileFormat.JSONL: 'jsonl'>)
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in list(Packing)]
    last = suffixes[-1][1:] if suffixes else ""
    last = FileFormat.XML if last in _XML_NAMES else last
    return FileFormat(last) if last in list(FileFormat) else FileFormat.JSONL


class Line(NamedTuple):
    """One line."""

    value: bytes  # for a row of a table its JSON object
    input: int  # the number of its input, which becomes the item's partition
    number: int  # of the line, which becomes the item's offset
    source_row: SourceRow | None = None  # for a row of a table the row as it was read
    fault: BadItem | None = None  # what is wrong with the line

    @property
    def is_cut(self) -> bool:
        """Whether the line was too large to be read, so that `value` is only its beginning."""
        return self.fault is not None and self.fault.reason == TOO_LARGE

    @property
    def size(self) -> int:
        """The bytes of the line."""
        return len(self.value)


def item_of(decode: Decoder, line: Line, beside: list[Beside] | None = None) -> Item | Tombstone | BadItem:
    """Return the item of a line, or what is wrong with it. `beside` receives what an item does not keep."""
    if line.fault is not None:
        return line.fault
    return decode(line.value, None, None, line.input, line.number, beside=beside)


class Position(NamedTuple):
    """The place behind the first `line` lines of the input number `input`; `digest` is theirs."""

    input: int = 0
    line: int = 0
    digest: str = ""


_START = Position()


@dataclass(eq=False)
class LineReader:
    """Iterates over the lines that hold items, behind `start`.

    Raises InputError if the only input cannot be opened, read or unpacked (one of several is a bad item), or if the
    skipped lines are not the former ones.
    """

    inputs: Sequence[str]
    file_format: FileFormat | None = None  # overrides what the names of the inputs say
    start: Position = _START
    _: KW_ONLY
    first_number: int = 0  # the number of the first input in its lines
    on_header: Callable[[Line], None] = lambda _: None  # receives the header line of each table
    most: int = LARGEST_RECORD
    query: str | None = None  # [item] query

    def __post_init__(self) -> None:
        self.notes: list[str] = []
        """What a person should know of how the inputs were read, up to the position."""
        self._input, self._number, self._digest = self.start.input, 0, xxhash.xxh3_128()
        self._bytes_before = sum(size_of(name) or 0 for name in self.inputs[: self.start.input])
        self._bytes_of_input: Callable[[], int] = lambda: 0

    @property
    def position(self) -> Position:
        """The position behind the line that was read last."""
        return Position(self._input, self._number, self._digest.hexdigest())

    @property
    def bytes_read(self) -> int:
        """The packed bytes of all inputs up to the position; of a pipe only the unpacked ones are known."""
        return self._bytes_before + self._bytes_of_input()

    @property
    def bytes_total(self) -> int | None:
        """The bytes of all inputs; None if one of them is not a regular file."""
        sizes = [size_of(name) for name in self.inputs]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def __iter__(self) -> Iterator[Line]:
        for index, name in list(enumerate(self.inputs))[self.start.input :]:
            self._input, self._number, self._digest = index, 0, xxhash.xxh3_128()
            with _opened(name) as (file, head):
                rows = self._numbered(self._until_fault(name, file, head))
                if index == self.start.input and self.start.line:
                    self._skip(name, rows)
                for row in rows:
                    line = Line(row.value, self.first_number + index, self._number, row.source_row, row.fault)
                    if line.fault is not None or not is_blank(line.value):
                        yield line
                    elif line.source_row is not None:
                        self.on_header(line)
                self._bytes_before = self.bytes_read
                self._bytes_of_input = lambda: 0

    def _until_fault(self, name: str, file: BinaryIO, head: bytes) -> Iterator[Row]:
        """Yield the rows of an input. One of several inputs may fail: that is a bad item, and the others are read."""
        try:
            yield from self._rows(name, file, head)
        except InputError as error:
            if len(self.inputs) == 1:
                raise
            self._note(f"one input is not read to its end: {error}")
            yield Row(b"", None, BadItem("input", str(error)))

    def _numbered(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            self._number += 1
            self._digest.update(row.value)
            self._digest.update(b"\n")
            yield row

    def _skip(self, name: str, rows: Iterator[Row]) -> None:
        for _ in islice(rows, self.start.line):
            pass
        if self._digest.hexdigest() != self.start.digest:
            raise InputError(
                f"the first {self.start.line} lines of {name} are not those the killed run "
                "judged; bring the former input back, or start over with another state directory"
            )

    def _rows(self, path: str, file: BinaryIO, head: bytes) -> Iterator[Row]:
        name, taken = _display_name(path), 0
        packing = recognise(name, head)
        by_head = next(
            (file_format for file_format, (_, magic) in READERS.items() if magic and head.startswith(magic)), None
        )
        source = self._unpacked(name, chain([head], iter(lambda: file.read(CHUNK), b"")), packing)

        def counted() -> Iterator[bytes]:
            nonlocal taken
            for chunk in source:
                taken += len(chunk)
                yield chunk

        def report(share: float) -> None:
            size = size_of(path) or 0
            self._bytes_of_input = lambda: int(share * size)

        self._bytes_of_input = file.tell if file.seekable() else lambda: taken
        chunks = counted()
        begin = begin_of(chunks) if by_head is None else b""
        chunks = chain([begin], chunks) if begin else chunks
        refuse(name, begin)
        if is_tar(begin):
            return self._members(name, file, chunks)
        file_format = self.file_format or by_head or format_of(path)
        read, magic = READERS[file_format]
        if by_head is not (file_format if magic else None):
            raise InputError(
                f"{name} does not hold what its name or --format says: a Parquet file begins with PAR1, an Avro file "
                "with Obj, any other with neither; and these two are never packed again"
            )
        return read(self._input_of(name, file_format, file, chunks)._replace(report=report))

    def _members(self, name: str, file: BinaryIO, chunks: Iterator[bytes]) -> Iterator[Row]:
        """Yield the rows of the files of a tar archive. Like one of several inputs, each may fail."""
        self._note(name, " is a tar archive, and its files are read one after another")
        for member, content in members_of(name, chunks):
            try:
                head = next(content, b"")
                packing, file_format = recognise(member, head), self.file_format or format_of(member)
                if READERS[file_format][1]:
                    raise InputError(f"{member} is read only as a file of its own; unpack the archive: tar -xf FILE")
                source = self._unpacked(member, chain([head], content), packing)
                yield from READERS[file_format][0](self._input_of(member, file_format, file, source))
            except InputError as error:
                self._note(f"one file is not read to its end: {error}")
                yield Row(b"", None, BadItem("input", str(error)))

    def _input_of(self, name: str, file_format: FileFormat, file: BinaryIO, source: Iterator[bytes]) -> Input:
        def chunks() -> Iterator[bytes]:
            first = next(source, b"")
            if encoding := wide_encoding(first):
                self._note(name, f" is {encoding.upper()}, and read as UTF-8")
                yield from iterencode(iterdecode(chain([first], source), encoding, "replace"), "utf-8")
            else:
                yield from chain([first] if first else [], source)

        is_declared, note = self.file_format is not None, partial(self._note, f"{name} ")
        query = query_of(self.query) if self.query else None
        return Input(name, file_format, is_declared, file, chunks(), self.most, note=note, query=query)

    def _note(self, *words: str) -> None:
        text = "".join(words)
        if text not in self.notes:
            self.notes.append(text)

    def _unpacked(self, name: str, chunks: Iterator[bytes], packing: Packing | None) -> Iterator[bytes]:
        try:
            yield from unpacked(chunks, packing)
        except EOFError:
            raise InputError(f"{name} is cut short: its packed data end too early, after line {self._number}") from None
        except (OSError, zlib.error, zstandard.ZstdError) as error:
            raise InputError(f"cannot read {name} further, after line {self._number}: {error}") from None


@contextmanager
def _opened(name: str) -> Iterator[tuple[BinaryIO, bytes]]:
    """Open an input; yield it and its first bytes, to which a pipe cannot seek back."""
    try:
        file: BinaryIO = sys.stdin.buffer if name == STDIN else Path(name).open("rb")  # noqa: SIM115 - closed below
        head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise InputError(f"cannot read {_display_name(name)}: {error.strerror}") from None
    try:
        yield file, head
    finally:
        if name != STDIN:
            file.close()


def _display_name(name: str) -> str:
    return STDIN_NAME if name == STDIN else name


def read_lines(path: str | Path, file_format: FileFormat | None = None) -> Iterator[bytes]:
    """Return the lines of one input that hold items; of a line that is too large only the beginning."""
    return (line.value for line in LineReader([str(path)], file_format))


def is_blank(line: bytes) -> bool:
    """Return whether the line is empty or white space; such a line holds no item."""
    return not line or line.isspace()


def size_of(name: str) -> int | None:
    """Return the packed bytes of an input; None if it is not a regular file."""
    return Path(name).stat().st_size if name != STDIN and Path(name).is_file() else None
