"""Tables as inputs: CSV and TSV with a header line, and Parquet -> each row as a JSON object of column -> value.

Out: rows as the lines of a JSON Lines file would be, so that field map and decision are the same; beside each the row
as it came, for an output in the same form. Empty cells and nulls are left out, as what is not there. A CSV row is one
record: line breaks within quotes belong to it. Its bytes stay as they are. The header is handed out as a blank line, so
that rows are numbered as a spreadsheet numbers them.

A row that has more or fewer cells than the header, or is not UTF-8, is a bad item; quotes that do not match end the
reading, because nothing behind them can be trusted. Read with Python's csv (strict) and with pyarrow.
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

from stream_dedup.batch.parquet import pyarrow
from stream_dedup.errors import InputError
from stream_dedup.news.values import BOM

# The csv module stops at 128 KiB a cell by default; whole pages are larger. Bounded, since a quote that is left open
# takes all that follows into one cell.
_LARGEST_CELL = 2**27
# Rows that are Python objects at a time.
_ROWS = 1024
# A header: names of columns, among them one that feeds have. A line of prose with commas is none.
_NAME = re.compile(rb'\s*"?[a-z_@][\w@:-]*(?: [\w@:-]+){0,2}"?\s*', re.ASCII)
_NAMES = frozenset(
    (b"id", b"guid", b"uuid", b"uri", b"url", b"link", b"title", b"headline", b"text", b"body", b"content",
    b"description", b"source", b"date", b"published", b"pubdate"),
)  # fmt: skip
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class Form(StrEnum):
    """How items stand in a file; the value is what `--format` takes, and the suffix without its dot."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"


class CsvShape(NamedTuple):
    """What rows of CSV have in common: columns and delimiter decide, the header's bytes are for the output."""

    names: tuple[str, ...]
    delimiter: str


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One row as it came, without its last line feed; `header` likewise."""

    shape: CsvShape
    header: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class ParquetRow:
    """One row as it came: its place in a batch of rows (pyarrow.RecordBatch)."""

    batch: Any
    place: int


Kept = CsvRow | ParquetRow


class Row(NamedTuple):
    """A row: its JSON object, the row as it came, and why it is none (`fault`)."""

    value: bytes
    kept: Kept | None = None
    fault: str = ""


def form_of(path: str | Path) -> Form:
    """What a name says, whether it is packed or not; JSON Lines if it says nothing.

    >>> form_of("a.csv.gz"), form_of("-")
    (<Form.CSV: 'csv'>, <Form.JSONL: 'jsonl'>)
    """
    suffixes = [one.lower() for one in Path(path).suffixes]
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        suffixes.pop()
    last = suffixes[-1][1:] if suffixes else ""
    return Form(last) if last in list(Form) else Form.JSONL


def check_json_lines(path: str, cure: str, lines: Iterator[bytes]) -> Iterator[bytes]:
    """The same lines; raises InputError where the first shows that these are no JSON Lines but what people often have.

    Anything else that is no JSON is a bad item, and costs only its line. `cure`: how to say that this is CSV.
    """
    first = next(lines, None)
    if first is None:
        return
    _check_not_utf16(path, first)
    start = first.removeprefix(BOM).strip()
    if start in (b"[", b"{") or start.startswith(b"[{"):
        raise InputError(
            f"{path} looks like one JSON document, not like JSON Lines, one object a line; "
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


def csv_rows(path: str, lines: Iterator[bytes], form: Form) -> Iterator[Row]:
    """The rows of a CSV or TSV file, from its lines; the header first, as a blank one.

    >>> rows = csv_rows("a.csv", iter([b"id,title", b'1,"two', b'lines"']), Form.CSV)
    >>> [row.value for row in rows]
    [b'', b'{"id":"1","title":"two\\\\nlines"}']
    """
    before = 0
    while (first := next(lines, None)) is not None and not first.removeprefix(BOM).strip():
        before += 1
        yield Row(b"")
    if first is None:
        return
    _check_not_utf16(path, first)
    if first.removeprefix(BOM).lstrip().startswith((b"{", b"[")):
        raise InputError(f"{path} holds JSON, not CSV; give it the suffix .jsonl, or say --format jsonl")
    delimiter = _delimiter(first, form)
    pulled = _Pulled(chain([first.removeprefix(BOM)], lines))
    csv.field_size_limit(_LARGEST_CELL)
    rows = _reader(path, pulled, delimiter, before)
    header = _header(f"{path}:{before + 1}", rows)
    shape, header_bytes = CsvShape(tuple(header), delimiter), pulled.take()
    yield Row(b"", CsvRow(shape, header_bytes, b""))
    for cells in rows:
        yield _row(cells, CsvRow(shape, header_bytes, pulled.take()))


def _row(cells: list[str], kept: CsvRow) -> Row:
    names = kept.shape.names
    if not any(cells):  # spreadsheets leave rows of nothing but commas
        return Row(b"", kept)
    if len(cells) != len(names):
        said = f"a row of {len(cells)} cells under a header of {len(names)}"
        return Row(msgspec.json.encode([_readable(one) for one in cells]), kept, said)
    fields = {name: cell for name, cell in zip(names, cells, strict=True) if cell}
    try:
        return Row(msgspec.json.encode(fields), kept)
    except UnicodeEncodeError:
        return Row(msgspec.json.encode([_readable(one) for one in cells]), kept, "not UTF-8")


def _readable(cell: str) -> str:
    return cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Pulled:
    """Lines as the csv reader pulls them, kept until they are taken: a row's bytes, however many lines it spans."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._pulled: list[bytes] = []

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._pulled.append(line)
            # What is no UTF-8 comes back at the row that holds it, and costs only that one.
            yield line.decode("utf-8", "surrogateescape") + "\n"

    def take(self) -> bytes:
        raw = b"\n".join(self._pulled)
        self._pulled.clear()
        return raw


def _reader(path: str, lines: _Pulled, delimiter: str, before: int) -> Iterator[list[str]]:
    """The cells of each row; `before`: lines of the file that were read already."""
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    start = before + 1
    try:
        for cells in reader:
            yield cells
            start = before + reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{path}:{start}: the row that begins here is no CSV ({error}); a cell with quotes or line breaks must "
            'stand in quotes, each quote within it doubled: "he said ""no"""'
        ) from None


def _delimiter(first: bytes, form: Form) -> str:
    """A comma; a tab in TSV; or what separates where the header has no comma: spreadsheets write `;` in many countries.

    >>> _delimiter(b"id;title;text", Form.CSV), _delimiter(b"id,title", Form.CSV)
    (';', ',')
    """
    if form is Form.TSV:
        return "\t"
    return next((one for one in (",", ";", "\t", "|") if one.encode() in first), ",")


def _header(place: str, rows: Iterator[list[str]]) -> list[str]:
    names = [name.strip() for name in next(rows)]
    if not any(names):
        raise InputError(f"{place}: there is no header; the first line must name the columns")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"{place}: two columns have the name {twice[0]!r}; give each its own")
    if any(_readable(name) != name for name in names):
        raise InputError(f"{place}: the header is not UTF-8; convert it: iconv -f LATIN1 -t UTF-8 FILE > OTHER")
    return names


def parquet_rows(path: str, file: BinaryIO, tell: Callable[[float], None]) -> Iterator[Row]:
    """The rows of a Parquet file; `tell` takes the share of them that was read."""
    arrow, parquet = pyarrow("reading .parquet", "give the items as .jsonl")
    try:
        source = parquet.ParquetFile(file)
        total, done = max(1, source.metadata.num_rows), 0
        for batch in source.iter_batches(batch_size=_ROWS):
            done += batch.num_rows
            tell(done / total)
            for place, fields in enumerate(_as_microseconds(arrow, batch).to_pylist()):
                told = {name: value for name, value in fields.items() if value is not None}
                yield Row(msgspec.json.encode(told), ParquetRow(batch, place))
    except (arrow.ArrowException, OSError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise InputError(f"cannot read {path} as Parquet: {error}") from None


def _as_microseconds(arrow: Any, batch: Any) -> Any:
    """Moments in nanoseconds have no Python type without pandas; an item's date needs milliseconds."""
    columns = []
    for column, field in zip(batch.columns, batch.schema, strict=True):
        if arrow.types.is_timestamp(field.type) and field.type.unit == "ns":
            column = column.cast(arrow.timestamp("us", field.type.tz), safe=False)
        columns.append(column)
    return arrow.record_batch(columns, names=batch.schema.names)
