"""Parse tables (CSV, TSV, Parquet) into one JSON object a row; the names of the file formats.

Out: each row as a line of JSON Lines, so field map and decision are the same; and the row as it was read, for an output
in the same format. Empty cells and nulls are left out. A CSV row is one record with all line breaks within its quotes;
its bytes stay unchanged. The header is handed out as a blank line, so rows have the numbers that a spreadsheet shows.

A row with more or fewer cells than the header, or one that is not UTF-8, is a bad item. Quotes that do not match stop
the run, because nothing behind them can be trusted. Python's csv (strict) and pyarrow read the files.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from stream_dedup.batch.parquet import bounded_batches, pyarrow
from stream_dedup.errors import BadItem, InputError
from stream_dedup.news.fields import BOM

TOO_LARGE = "too-large"
# Bytes of a line that is too large: enough to recognise it by.
_KEPT = 1000
# A header consists of column names, at least one of them usual in feeds. A line of prose with commas does not.
_NAME = re.compile(rb'\s*"?[a-z_@][\w@:-]*(?: [\w@:-]+){0,2}"?\s*', re.ASCII)
_NAMES = frozenset(
    (b"id", b"guid", b"uuid", b"uri", b"url", b"link", b"title", b"headline", b"text", b"body", b"content",
    b"description", b"source", b"date", b"published", b"pubdate"),
)  # fmt: skip
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class FileFormat(StrEnum):
    """The file formats; the value is what `--format` takes, and the suffix without its dot."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"


class CutLine(bytes):
    """The beginning of a line that was too large to be read. `size`: bytes of the line; `quotes`: those in it."""

    size = quotes = 0

    @classmethod
    def of(cls, start: bytes, size: int, quotes: int) -> "CutLine":
        line = cls(start[:_KEPT])
        line.size, line.quotes = size, quotes
        return line


class CsvShape(NamedTuple):
    """The columns and the delimiter of a CSV file. Files of one shape can be written to one output."""

    names: tuple[str, ...]
    delimiter: str


@dataclass(frozen=True, slots=True)
class CsvRow:
    """The bytes of a row and of its header, without the last line feed."""

    shape: CsvShape
    header: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class ParquetRow:
    """A row as an index into a batch of rows (pyarrow.RecordBatch)."""

    batch: Any
    index: int


SourceRow = CsvRow | ParquetRow


class Row(NamedTuple):
    """A row: its JSON object, the row as it was read, and what is wrong with it."""

    value: bytes
    source_row: SourceRow | None = None
    fault: BadItem | None = None


def json_row(line: bytes) -> Row:
    """The row of a line of JSON Lines."""
    return Row(line, None, _too_large(line.size) if isinstance(line, CutLine) else None)


def _too_large(size: int) -> BadItem:
    return BadItem(TOO_LARGE, f"it has {size} bytes, more than [worker] max_record_bytes; it was not read")


def format_of(path: str | Path) -> FileFormat:
    """The format that a name stands for, packed or not; JSON Lines if it has no known suffix.

    >>> format_of("a.csv.gz"), format_of("-")
    (<FileFormat.CSV: 'csv'>, <FileFormat.JSONL: 'jsonl'>)
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    last = suffixes[-1][1:] if suffixes else ""
    return FileFormat(last) if last in list(FileFormat) else FileFormat.JSONL


def check_json_lines(path: str, cure: str, lines: Iterator[bytes]) -> Iterator[bytes]:
    """Pass the lines through. Raise InputError if the first line shows a common mistake: one JSON document, or CSV.

    Any other line that is not JSON is a bad item and costs only itself. `cure`: how the user can declare CSV.
    """
    first = next(lines, None)
    if first is None:
        return
    _check_not_utf16(path, first)
    start = first.removeprefix(BOM).strip()
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


def _check_not_utf16(path: str, first: bytes) -> None:
    if first.startswith(_UTF16):
        raise InputError(f"{path} is UTF-16, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8 FILE > OTHER")


def csv_rows(path: str, lines: Iterator[bytes], file_format: FileFormat, most: int) -> Iterator[Row]:
    """The rows of a CSV or TSV file; the header comes first, as a blank line. Raises InputError for wrong quotes.

    There is a limit of `most` bytes because a quote that stays open takes the rest of the file into one cell.

    >>> rows = csv_rows("a.csv", iter([b"id,title", b'1,"two', b'lines"']), FileFormat.CSV, 1000)
    >>> [row.value for row in rows]
    [b'', b'{"id":"1","title":"two\\\\nlines"}']
    """
    skipped = 0
    while (first := next(lines, None)) is not None and not first.removeprefix(BOM).strip():
        skipped += 1
        yield Row(b"")
    if first is None:
        return
    _check_not_utf16(path, first)
    if isinstance(first, CutLine):
        raise InputError(f"{path}:{skipped + 1}: the header has {first.size:,} bytes; a row may have {most:,} at most")
    if first.removeprefix(BOM).lstrip().startswith((b"{", b"[")):
        raise InputError(f"{path} holds JSON, not CSV; give it the suffix .jsonl, or use --format jsonl")
    delimiter = _delimiter(first, file_format)
    recorder = _LineRecorder(chain([first.removeprefix(BOM)], lines), most)
    csv.field_size_limit(most)
    rows = _reader(path, recorder, delimiter, skipped)
    header = _header(f"{path}:{skipped + 1}", rows)
    shape, header_bytes = CsvShape(tuple(header), delimiter), recorder.take()
    yield Row(b"", CsvRow(shape, header_bytes, b""))
    for cells in rows:
        cut, source_row = recorder.cut, CsvRow(shape, header_bytes, recorder.take())
        yield _row(cells, source_row) if cut is None else Row(cut, source_row, _too_large(cut.size))


def _row(cells: list[str], source_row: CsvRow) -> Row:
    names = source_row.shape.names
    if not any(cells):  # spreadsheets leave rows of commas only
        return Row(b"", source_row)
    if len(cells) != len(names):
        fault = BadItem("row", f"a row of {len(cells)} cells under a header of {len(names)}")
        return Row(msgspec.json.encode([_readable(cell) for cell in cells]), source_row, fault)
    fields = {name: cell for name, cell in zip(names, cells, strict=True) if cell}
    try:
        return Row(msgspec.json.encode(fields), source_row)
    except UnicodeEncodeError:
        return Row(msgspec.json.encode([_readable(cell) for cell in cells]), source_row, BadItem("row", "not UTF-8"))


def _readable(cell: str) -> str:
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _LineRecorder:
    """Passes lines to the csv reader and records them, so that `take` gives the bytes of a row of several lines."""

    def __init__(self, lines: Iterator[bytes], most: int) -> None:
        self._lines, self._most = lines, most
        self._recorded: list[bytes] = []
        self._bytes = 0
        self.cut: CutLine | None = None  # the row is a line that was too large; an empty one stands for it

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.cut = line if isinstance(line, CutLine) else None
            self._bytes += len(line) + 1
            if self._bytes > self._most or (self.cut and (self._recorded or self.cut.quotes % 2)):
                raise csv.Error(f"it has more than {self._most} bytes, [worker] max_record_bytes, in several lines")
            self._recorded.append(line)
            if self.cut:
                yield "\n"
                continue
            # Bytes that are not UTF-8 are reported with the row that holds them, and cost only that row.
            yield line.decode("utf-8", "surrogateescape") + "\n"

    def take(self) -> bytes:
        raw = b"\n".join(self._recorded)
        self._recorded.clear()
        self._bytes = 0
        return raw


def _reader(path: str, lines: _LineRecorder, delimiter: str, skipped: int) -> Iterator[list[str]]:
    """The cells of each row; `skipped`: the number of lines of the file before `lines`."""
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    start = skipped + 1
    try:
        for cells in reader:
            yield cells
            start = skipped + reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}:{start}: the row that begins here is not valid CSV ({error}); a cell with quotes or line breaks "
            'must be quoted, and each quote in it doubled: "he said ""no"""'
        ) from None


def _delimiter(first: bytes, file_format: FileFormat) -> str:
    """A tab in TSV; else a comma, or what the header has instead: spreadsheets write `;` in many countries.

    >>> _delimiter(b"id;title;text", FileFormat.CSV), _delimiter(b"id,title", FileFormat.CSV)
    (';', ',')
    """
    if file_format is FileFormat.TSV:
        return "\t"
    return next((mark for mark in (",", ";", "\t", "|") if mark.encode() in first), ",")


def _header(place: str, rows: Iterator[list[str]]) -> list[str]:
    names = [name.strip() for name in next(rows)]
    if not any(names):
        raise InputError(f"{place}: there is no header; the first line must name the columns")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{place}: two columns have the name {repeated[0]!r}; give each its own")
    if any(_readable(name) != name for name in names):
        raise InputError(f"{place}: the header is not UTF-8; convert it: iconv -f LATIN1 -t UTF-8 FILE > OTHER")
    return names


def parquet_rows(path: str, file: BinaryIO, report: Callable[[float], None], most: int) -> Iterator[Row]:
    """The rows of a Parquet file; `report` receives the share of them that was read."""
    arrow, _ = pyarrow("reading .parquet", "give the items as .jsonl")
    try:
        for batch in bounded_batches(path, file, most, report):
            empty = arrow.RecordBatch.from_pylist([], batch.schema)
            for index, value in enumerate(objects_of(arrow, batch)):
                if len(value) <= most:
                    yield Row(value, ParquetRow(batch, index))
                else:  # many such lines may wait, so none holds its batch
                    yield Row(value[:_KEPT], ParquetRow(empty, 0), _too_large(len(value)))
    except (arrow.ArrowException, OSError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"cannot read {path} as Parquet: {error}") from None


def objects_of(arrow: Any, batch: Any) -> Iterator[bytes]:
    """The JSON object of each row of a pyarrow.RecordBatch; nulls are left out. `arrow`: the module pyarrow."""
    for fields in _as_microseconds(arrow, batch).to_pylist():
        yield msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def _as_microseconds(arrow: Any, batch: Any) -> Any:
    """Cast timestamps in nanoseconds, which need pandas as Python objects; an item's date needs milliseconds."""
    columns = []
    for column, field in zip(batch.columns, batch.schema, strict=True):
        if arrow.types.is_timestamp(field.type) and field.type.unit == "ns":
            column = column.cast(arrow.timestamp("us", field.type.tz), safe=False)
        columns.append(column)
    return arrow.record_batch(columns, names=batch.schema.names)
