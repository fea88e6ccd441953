"""Parse tables (CSV, TSV, Parquet) into one JSON object a row; the names of the file formats.

In: an open input (`Source`). Out: each row as a line of JSON Lines, so field map and decision are the same; and the row
as it was read, for an output in the same format. Empty cells and nulls are left out. A CSV row is one record with all
line breaks within its quotes; its bytes stay unchanged. The header is handed out as a blank line, so rows have the
numbers that a spreadsheet shows.

A row with more or fewer cells than the header, or one that is not UTF-8, is a bad item. Quotes that do not match stop
the run, because nothing behind them can be trusted. Python's csv (strict) and pyarrow (extra `parquet`) read the files.
"""

import csv
import re
from codecs import BOM_UTF8, iterdecode
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from stream_dedup.batch.dialects import DELIMITERS, dialect_of, names_columns
from stream_dedup.batch.packing import CHUNK
from stream_dedup.errors import BadItem, ConfigError, InputError
from stream_dedup.news.repair import guessed_encoding
from stream_dedup.phrases import install_command

_SEPARATOR = re.compile(rb"\s*\"?sep=(.)\"?\s*")
TOO_LARGE = "too-large"
# Bytes of a line that is too large: enough to recognise it by.
_KEPT = 1000
_FEW_ROWS = 10
# Rows that are Python objects at the same time.
_ROWS = 1024
# A column that unpacks to more than this many times its bytes is not news: text shrinks to a third or a tenth.
_MOST_RATIO = 250
# A column of lists may unpack to this many of the largest records. The file does not say how long one list is.
_LISTS = 16
# Of a value in a list, as a Python object: a chunk holds equal numbers, and empty lists, in less than a bit each.
_VALUE_BYTES = 32


class FileFormat(StrEnum):
    """The file formats; the value is what `--format` takes, and the suffix without its dot."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    XML = "xml"
    AVRO = "avro"


WRITABLE = (FileFormat.JSONL, FileFormat.CSV, FileFormat.TSV, FileFormat.PARQUET)
"""The formats of outputs."""
_XML_NAMES = ("rss", "atom", "rdf", "nitf", "newsml")


def format_of(path: str | Path) -> FileFormat:
    """The format that a name stands for, packed or not; JSON Lines if it has no known suffix.

    >>> format_of("a.csv.gz"), format_of("-")
    (<FileFormat.CSV: 'csv'>, <FileFormat.JSONL: 'jsonl'>)
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes if suffix.lower() not in (".gz", ".zst")]
    last = suffixes[-1][1:] if suffixes else ""
    last = FileFormat.XML if last in _XML_NAMES else last
    return FileFormat(last) if last in list(FileFormat) else FileFormat.JSONL


class CsvRow(NamedTuple):
    """The bytes of a row and of its header, without the last line feed. Rows under one header fit into one output."""

    file_format: FileFormat
    header: bytes
    raw: bytes


class ParquetRow(NamedTuple):
    """A row as a position in a batch of rows (pyarrow.RecordBatch)."""

    batch: Any
    position: int


SourceRow = CsvRow | ParquetRow


class Row(NamedTuple):
    """A row: its JSON object, the row as it was read, and what is wrong with it."""

    value: bytes
    source_row: SourceRow | None = None
    fault: BadItem | None = None


class CutLine(bytes):
    """The beginning of a line that was too large to be read. `size`: bytes of the line; `quotes`: those in it."""

    size = quotes = 0

    @property
    def fault(self) -> BadItem:
        return _too_large(self.size)


def _too_large(size: int) -> BadItem:
    return BadItem(TOO_LARGE, f"it has {size} bytes, more than [worker] max_record_bytes; it was not read")


def limited(value: bytes, most: int) -> Row:
    """A row with this JSON object; one of more than `most` bytes is a bad item, of which only the beginning is kept."""
    return Row(value) if len(value) <= most else Row(value[:_KEPT], None, _too_large(len(value)))


class Source(NamedTuple):
    """An open input, as the readers of formats take it."""

    name: str
    file_format: FileFormat
    is_declared: bool  # the user said the format, and not the name
    file: BinaryIO  # packed as it is, for a format that seeks
    chunks: Iterator[bytes]  # unpacked
    most: int  # bytes of a row
    report: Callable[[float], None] = lambda _: None  # the share that was read, from a reader that leaves the chunks
    note: Callable[[str], None] = lambda _: None  # what a person should know of how the input is read
    path: str | None = None  # of the list of items in a document, if the user names it

    def lines(self) -> Iterator[bytes]:
        """Split the chunks into lines; too large ones come as `CutLine`.

        In linear time even if a line spans thousands of chunks.
        """
        parts, size, quotes = list[bytes](), 0, 0
        for chunk in self.chunks:
            is_new = False
            for part in chunk.split(b"\n"):
                if is_new:
                    yield self._line(parts, size, quotes)
                    parts, size, quotes = [], 0, 0
                is_new = True
                parts.append(part)
                size += len(part)
                if size > self.most:
                    whole = b"".join(parts)
                    quotes += whole.count(b'"', _KEPT)
                    parts = [whole[:_KEPT]]
        if size:
            yield self._line(parts, size, quotes)

    def _line(self, parts: list[bytes], size: int, quotes: int) -> bytes:
        if size <= self.most:
            return b"".join(parts)
        cut = CutLine(parts[0])
        cut.size, cut.quotes = size, quotes + cut.count(b'"')
        return cut


# -- CSV and TSV -------------------------------------------------------------------------------------------


def csv_rows(source: Source) -> Iterator[Row]:
    """The rows of a CSV or TSV file; the header comes first, as a blank line. Raises InputError for wrong quotes.

    There is a limit to the bytes of a row because a quote that stays open takes the rest of the file into one cell.

    >>> data = b'id,title\\n1,"two\\nlines"'
    >>> source = Source("a.csv", FileFormat.CSV, False, None, iter([data]), 1000)
    >>> [row.value for row in csv_rows(source)]
    [b'', b'{"id":"1","title":"two\\\\nlines"}']
    """
    path, start = source.name, 1
    sample, lines = _as_utf8(source)
    while (first := next(lines, None)) is not None and not first.removeprefix(BOM_UTF8).strip():
        start += 1
        yield Row(b"")
    if first is None:
        return
    if isinstance(first, CutLine):
        raise InputError(f"{path}:{start}: the header has {first.size:,} bytes; a row may have {source.most:,} at most")
    first = first.removeprefix(BOM_UTF8)
    if first.lstrip().startswith((b"{", b"[")):
        raise InputError(f"{path} holds JSON, not CSV; give it the suffix .jsonl, or use --format jsonl")
    delimiters = "\t" if source.file_format is FileFormat.TSV else DELIMITERS
    if named := _SEPARATOR.fullmatch(first):  # as Excel writes it
        delimiters, first, start = named[1].decode(), next(lines, b""), start + 1
        yield Row(b"")
        sample = sample.partition(b"\n")[2]
    delimiter, quoting = dialect_of(sample.decode("utf-8", "replace"), delimiters)
    raw = bytearray()  # the lines of the row that is read; a list of them takes a hundred bytes a line to join
    cut: CutLine | None = None  # the row is a line that was too large; an empty one stands for it

    def texts() -> Iterator[str]:
        nonlocal cut
        for line in chain([first], lines):
            cut = line if isinstance(line, CutLine) else None
            if len(raw) + len(line) >= source.most or (cut and (raw or cut.quotes % 2)):
                raise csv.Error(f"it has more than {source.most} bytes, [worker] max_record_bytes, in several lines")
            raw.extend(line + b"\n")
            # Bytes that are not UTF-8 are reported with the row that holds them, and cost only that row.
            yield "\n" if cut else line.decode("utf-8", "surrogateescape") + "\n"

    csv.field_size_limit(source.most)
    reader = csv.reader(texts(), delimiter=delimiter, strict=True, skipinitialspace=True, **quoting._asdict())
    names, header, at = list[str](), b"", start
    try:
        for cells in reader:
            bytes_of_row = bytes(raw[:-1])
            raw.clear()
            if not names and names_columns(cells):
                names, header = _header(source, start, cells), bytes_of_row
                yield Row(b"", CsvRow(source.file_format, header, b""))
            else:
                if not names:
                    names = [f"column{number}" for number in range(1, len(cells) + 1)]
                    source.note(f"has no header, as its first row looks like data: its columns are {', '.join(names)}")
                source_row = CsvRow(source.file_format, header, bytes_of_row)
                yield Row(cut, source_row, cut.fault) if cut is not None else _csv_row(names, cells, source_row)
            at = start + reader.line_num
    except csv.Error as error:
        raise InputError(
            f"{path}:{at}: the row that begins here is not valid CSV ({error}); a cell with quotes or line breaks "
            'must be quoted, and each quote in it doubled: "he said ""no"""'
        ) from None


def _csv_row(names: list[str], cells: list[str], source_row: CsvRow) -> Row:
    if not any(cells):  # spreadsheets leave rows of commas only
        return Row(b"", source_row)
    fault = BadItem("row", "not UTF-8")
    if len(cells) != len(names):
        fault = BadItem("row", f"a row of {len(cells)} cells under a header of {len(names)}")
    else:
        try:
            fields = {name: cell for name, cell in zip(names, cells, strict=True) if cell}
            return Row(msgspec.json.encode(fields), source_row)
        except UnicodeEncodeError:
            pass
    readable = [cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for cell in cells[:_KEPT]]
    return Row(msgspec.json.encode(readable), source_row, fault)


def _as_utf8(source: Source) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes of a table up to the end of a line, and its lines, in UTF-8 and with line feeds."""
    first = b""
    # A pipe may be slow; its first rows must do.
    while len(first) < CHUNK if source.file and source.file.seekable() else first.count(b"\n") < _FEW_ROWS:
        if not (chunk := next(source.chunks, b"")):
            break
        first += chunk
    name = guessed_encoding(first)
    chunks: Iterator[bytes] = chain([first], source.chunks)
    if name:
        source.note(f"is not UTF-8; it is read as {name}. If words look wrong: iconv -f ENCODING -t UTF-8 FILE > OTHER")
        chunks = (text.encode() for text in iterdecode(chunks, name, "replace"))
    if b"\r" in first and b"\n" not in first:
        chunks = (chunk.replace(b"\r", b"\n") for chunk in chunks)
    first = next(chunks, b"")
    end = first.rfind(b"\n") + 1 or len(first)
    return first[:end].removeprefix(BOM_UTF8).lstrip(), source._replace(chunks=chain([first], chunks)).lines()


def _header(source: Source, line: int, cells: list[str]) -> list[str]:
    names = [name.strip() for name in cells]
    if not any(names):
        raise InputError(f"{source.name}:{line}: there is no header; the first line must name the columns")
    repeated = [name for name, count in Counter(names).items() if count > 1 and name]
    if repeated:
        source.note(f"has two columns of the name {repeated[0]!r}: further ones are read as {repeated[0]}_2 and so on")
    seen: Counter[str] = Counter()
    for index, name in enumerate(names):
        seen[name] += 1
        names[index] = name if seen[name] == 1 else f"{name}_{seen[name]}"
    return names


# -- Parquet -----------------------------------------------------------------------------------------------


def pyarrow(purpose: str = "writing .parquet", instead: str = "name a file .jsonl") -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet. Raises ConfigError where they are not installed."""
    try:
        import pyarrow
        import pyarrow.compute
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(f"{purpose} needs pyarrow: {install_command('parquet')}, or {instead}") from None
    return pyarrow, parquet


def parquet_rows(source: Source) -> Iterator[Row]:
    """The rows of a Parquet file."""
    if not source.file.seekable():
        raise InputError(
            f"{source.name} is a Parquet file in a pipe; Parquet is read from its end, so name the file itself"
        )
    arrow, parquet = pyarrow("reading .parquet", "give the items as .jsonl")
    done = 0
    try:
        table = parquet.ParquetFile(source.file)
        for group in range(table.metadata.num_row_groups):
            size = _batch_size(arrow, parquet, table, group, source)
            for batch in table.iter_batches(batch_size=size, row_groups=[group]):
                done += batch.num_rows
                source.report(done / table.metadata.num_rows)
                for index, value in enumerate(objects_of(arrow, batch)):
                    if len(value) <= source.most:
                        yield Row(value, ParquetRow(batch, index))
                    else:  # many such lines may wait, so none holds its batch
                        empty = arrow.RecordBatch.from_pylist([], batch.schema)
                        yield Row(value[:_KEPT], ParquetRow(empty, 0), _too_large(len(value)))
    except (arrow.ArrowException, OSError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"cannot read {source.name} as Parquet: {error}") from None


def objects_of(arrow: Any, batch: Any) -> Iterator[bytes]:
    """The JSON object of each row of a pyarrow.RecordBatch; nulls are left out. `arrow`: the module pyarrow."""
    columns = [
        # Nanoseconds need pandas as Python objects; an item's date needs milliseconds.
        column.cast(arrow.timestamp("us", column.type.tz), safe=False)
        if arrow.types.is_timestamp(column.type) and column.type.unit == "ns"
        else column
        for column in batch.columns
    ]
    for fields in arrow.record_batch(columns, names=batch.schema.names).to_pylist():
        yield msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def _batch_size(arrow: Any, parquet: Any, table: Any, group: int, source: Source) -> int:
    """How many rows of a row group make a RecordBatch of about `most` bytes, or one row.

    A column chunk holds a repeated text once, in its dictionary, so the longest text there decides how many rows are
    read at a time. Raises InputError for a column that unpacks to far more than it has: it could not be read in parts.
    """
    place, most = f"{source.name}: row group {group}", source.most
    cure = "If that is right, give the items as .jsonl, or raise [worker] max_record_bytes"
    longest, chunks = 1, table.metadata.row_group(group)
    for index in range(chunks.num_columns):
        chunk, name, text = chunks.column(index), chunks.column(index).path_in_schema, 0
        packed, unpacked = chunk.total_compressed_size, chunk.total_uncompressed_size
        limit, usual = 2 * most, _MOST_RATIO * packed
        if unpacked <= max(limit, usual) and chunk.physical_type == "BYTE_ARRAY":
            text = _longest_text(arrow, parquet.ParquetFile(source.file, read_dictionary=[name]), group, name)
        elif chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
            text = table.schema.column(index).length
        longest += text
        if table.schema.column(index).max_repetition_level:
            limit, unpacked = _LISTS * most, max(unpacked, max(text, _VALUE_BYTES) * chunk.num_values)
        if unpacked > max(limit, usual):
            raise InputError(f"{place}, column {name}: {packed:,} bytes unpack to {unpacked:,}. {cure}")
    if longest > _LISTS * most:
        raise InputError(f"{place}: a row may unpack to {longest:,} bytes. {cure}")
    return min(max(most // longest, 1), _ROWS)


def _longest_text(arrow: Any, table: Any, group: int, column: str) -> int:
    """Bytes of the longest text in the dictionary of a column chunk; of a chunk without one, of its first row."""
    first = next(table.iter_batches(batch_size=1, row_groups=[group], columns=[column]), None)
    if first is None:
        return 0
    values = first.column(0)
    while arrow.types.is_nested(values.type):
        values = values.field(0) if arrow.types.is_struct(values.type) else values.values
    texts = values.dictionary if arrow.types.is_dictionary(values.type) else values
    return int(arrow.compute.max(arrow.compute.binary_length(texts)).as_py() or 0)
