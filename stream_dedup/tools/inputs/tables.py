"""Read tables (CSV, TSV, Parquet). Each row is given twice: as a JSON object to judge, and unchanged, to be written to
an output of the same format.

Field map and decision are those of JSON Lines. Empty cells and nulls are left out. The header is handed out as a blank
line, so rows have the numbers that a spreadsheet shows. Python's csv (strict) and pyarrow (extra `parquet`) read the
files.

A CSV row is one record with all line breaks within its quotes; its bytes stay unchanged. A row with more or fewer cells
than the header, or one that is not UTF-8, is a bad item. Quotes that do not match stop the run, because nothing behind
them can be trusted.

Delimiter and quotes are those with which most rows fit their header. On twelve dialects of public reports this reads as
many as DuckDB's sniffer (12; clevercsv 9, polars 3), which weighs 66 MB and gives no row back as it was.
"""

import csv
import re
from codecs import BOM_UTF8, iterdecode
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import StringIO
from itertools import chain, islice, product, repeat
from typing import Any, NamedTuple

import msgspec

from stream_dedup.errors import BadItem, InputError
from stream_dedup.extras import require
from stream_dedup.news.dates import NO_VALUES
from stream_dedup.news.names import FIELDS, meant_by
from stream_dedup.news.repair import guessed_encoding
from stream_dedup.phrases import counted
from stream_dedup.tools.inputs.packing import CHUNK, KEPT, CsvRow, CutLine, Input, ParquetRow, Row, too_large

# -- delimiter, quotes, header ---------------------------------------------------------------------------------------

DELIMITERS = ",;\t|"
"""Those of tables other than TSV, the usual one first."""
# An unusual dialect counts only if at least this share of the rows fits it.
_MOST_FIT = 0.9
# A cell that is an address, or as long as a sentence, names no column. A number or date may, beside known names.
_SENTENCE = re.compile(r"https?://.*|.{60,}", re.DOTALL)
_NUMBER = re.compile(r"[\d\s.,:/+-]*\d[\d\s.,:/+-]*")
# What is looked at of a table: all combinations take some 20 ms.
_SAMPLE_ROWS, _SAMPLE_CHARACTERS = 1000, 2**16
_MOST_PREAMBLE = 20  # lines before a header
_MOST_WORDS = 3  # of a column's name


class Quoting(NamedTuple):
    """How cells are quoted: with doubled quotes, quotes behind a backslash, apostrophes, or not at all."""

    quotechar: str = '"'
    doublequote: bool = True
    escapechar: str | None = None
    quoting: int = csv.QUOTE_MINIMAL


_QUOTINGS = (Quoting(), Quoting(doublequote=False, escapechar="\\"), Quoting("'"), Quoting(quoting=csv.QUOTE_NONE))


def dialect_of(sample: str, delimiters: str = DELIMITERS) -> tuple[str, Quoting]:
    """Return the delimiter and quoting with which most rows have as many cells as the first, in doubt the usual.

    >>> dialect_of('id;"Title, short"\\n1;"Open, at last"')[0]
    ';'
    """
    sample = sample[:_SAMPLE_CHARACTERS]
    usual, best = (delimiters[0], _QUOTINGS[0]), (0.0, 0)
    for quoting, delimiter in product(_QUOTINGS, delimiters):
        if quoting.escapechar and '\\"' not in sample:
            continue
        fit = _fit(sample, delimiter, quoting)
        if (quoting == _QUOTINGS[0] or fit[0] >= _MOST_FIT) and fit > best:
            usual, best = (delimiter, quoting), fit
    return usual


def _fit(sample: str, delimiter: str, quoting: Quoting) -> tuple[float, int]:
    """Return the share of rows with as many cells as the first, if it has two at least, and their number.

    A row with half a pair of quotes in a cell does not count: its delimiter cut a quoted cell.
    """
    sizes = list[int]()
    reader = csv.reader(
        StringIO(sample, "\n"), delimiter=delimiter, strict=True, skipinitialspace=True, **quoting._asdict()
    )
    try:
        for cells in islice(reader, _SAMPLE_ROWS):
            halves = [cell for cell in cells if cell.count('"') % 2]
            is_cut = any(quoting.quoting != csv.QUOTE_NONE or cell.startswith('"') for cell in halves)
            sizes += [0 if is_cut else len(cells)] if any(cells) else []
    except csv.Error as error:
        if "end of data" not in str(error):  # of the sample, within a cell
            return 0.0, 0
    return (sizes.count(sizes[0]) / len(sizes), sizes[0]) if sizes and sizes[0] > 1 else (0.0, 0)


def _preamble(sample: str, delimiters: str) -> int:
    """Count the lines before the header: comments, or a title of fewer cells. A header has known names.

    >>> _preamble("# made by hand\\nid,title\\n1,Open", ","), _preamble("News, 2024\\n\\nid,title,text\\n1,Open,x", ",")
    (1, 2)
    """
    lines = sample[:_SAMPLE_CHARACTERS].splitlines(keepends=True)[:_SAMPLE_ROWS]
    for count, line in enumerate(lines[:_MOST_PREAMBLE]):
        rest = "".join(lines[count:])
        delimiter, quoting = dialect_of(rest, delimiters)
        cells = [cell.strip("# ") for cell in next(csv.reader([line], delimiter=delimiter), [])]
        is_known = are_known(cells)
        is_title = sum(map(bool, cells)) < 2 or (line.startswith("#") and not is_known)
        if not is_title and (is_known or not count) and _fit(rest, delimiter, quoting)[0] >= _MOST_FIT:
            return count
    return 0


def names_columns(cells: Sequence[str]) -> bool:
    """Return whether a first row names the columns: one of them is known, or none looks like data.

    >>> names_columns(["id", "kop"]), names_columns(["3", "Bridge opens", "The bridge opened."])
    (True, False)
    """
    names = [cell.strip() for cell in cells]
    if any(_SENTENCE.fullmatch(name) for name in names):
        return False
    short = [name for name in names if len(name.split()) <= _MOST_WORDS]
    return are_known(short) or not any(_NUMBER.fullmatch(name) for name in names)


def are_known(names: Sequence[str]) -> bool:
    """Return whether one of the names is that of a field."""
    return any(meant_by(names, field) for field in FIELDS)


# -- CSV and TSV -------------------------------------------------------------------------------------------

_FEW_ROWS = 10
_SEPARATOR = re.compile(rb"\s*\"?sep=(.)\"?\s*")


def csv_rows(input: Input) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file; the header comes first, as a blank line. Raises InputError for wrong quotes.

    The bytes of a row are limited, because a quote that stays open takes the rest of the file into one cell.

    >>> data = b'id,title\\n1,"two\\nlines"'
    >>> input = Input("a.csv", "csv", False, None, iter([data]), 1000)
    >>> [row.value for row in csv_rows(input)]
    [b'', b'{"id":"1","title":"two\\\\nlines"}']
    """
    path, start = input.name, 1
    sample, lines = _as_utf8(input)
    while (first := next(lines, None)) is not None and not first.removeprefix(BOM_UTF8).strip():
        start += 1
        yield Row(b"")
    if first is None:
        return
    if isinstance(first, CutLine):
        raise InputError(f"{path}:{start}: the header has {first.size:,} bytes; a row may have {input.most:,} at most")
    first = first.removeprefix(BOM_UTF8)
    if first.lstrip().startswith((b"{", b"[")):
        raise InputError(f"{path} holds JSON, not CSV; give it the suffix .jsonl, or use --format jsonl")
    delimiters = "\t" if input.file_format == "tsv" else DELIMITERS
    if named := _SEPARATOR.fullmatch(first):  # as Excel writes it
        delimiters, first, start = named[1].decode(), next(lines, b""), start + 1
        yield Row(b"")
        sample = sample.partition(b"\n")[2]
    text = sample.decode("utf-8", "replace")
    if count := _preamble(text, delimiters):
        shown = first[:60].decode(errors="replace")
        input.note(f"begins with {counted(count, 'line')} before the names of its columns: {shown}")
        start, text = start + count, "".join(text.splitlines(keepends=True)[count:])
        yield from repeat(Row(b""), count)
        first = next(islice(lines, count - 1, None), b"")
    delimiter, quoting = dialect_of(text, delimiters)
    raw = bytearray()  # the lines of the row that is read; a list of them takes a hundred bytes a line to join
    cut: CutLine | None = None  # the row is a line that was too large; an empty one stands for it

    def texts() -> Iterator[str]:
        nonlocal cut
        for line in chain([first], lines):
            cut = line if isinstance(line, CutLine) else None
            if len(raw) + len(line) >= input.most or (cut and (raw or cut.quotes % 2)):
                raise csv.Error(f"it has more than {input.most} bytes, [worker] max_record_bytes, in several lines")
            raw.extend(line + b"\n")
            # Bytes that are not UTF-8 are reported with the row that holds them, and cost only that row.
            yield "\n" if cut else line.decode("utf-8", "surrogateescape") + "\n"

    csv.field_size_limit(input.most)
    reader = csv.reader(texts(), delimiter=delimiter, strict=True, skipinitialspace=True, **quoting._asdict())
    names, header, first_line, head = list[str](), b"", start, list[str]()
    try:
        for cells in reader:
            bytes_of_row = bytes(raw[:-1])
            raw.clear()
            if not names and names_columns(cells):
                names, header, head = _header(input, start, cells), bytes_of_row, cells
                yield Row(b"", CsvRow(input.file_format, header, b""))
            else:
                if not names:
                    names = [f"column{number}" for number in range(1, len(cells) + 1)]
                    input.note(f"has no header, as its first row looks like data: its columns are {', '.join(names)}")
                source_row = CsvRow(input.file_format, header, bytes_of_row)
                repeated = BadItem("row", "the header again, as of files that were joined") if cells == head else None
                fault = cut.fault if cut is not None else repeated
                yield Row(cut or header, source_row, fault) if fault else _csv_row(names, cells, source_row)
            first_line = start + reader.line_num
    except csv.Error as error:
        raise InputError(
            f"{path}:{first_line}: the row that begins here is not valid CSV ({error}); a cell with quotes or line "
            'breaks must be quoted, and each quote in it doubled: "he said ""no"""'
        ) from None


def _csv_row(names: list[str], cells: list[str], source_row: CsvRow) -> Row:
    if not any(cells):  # spreadsheets leave rows of commas only
        return Row(b"", source_row)
    fault = BadItem("row", "not UTF-8")
    if len(cells) != len(names):
        fault = BadItem("row", f"a row of {len(cells)} cells under a header of {len(names)}")
    else:
        try:
            fields = {name: cell for name, cell in zip(names, cells, strict=True) if cell and cell not in NO_VALUES}
            return Row(msgspec.json.encode(fields), source_row)
        except UnicodeEncodeError:
            pass
    readable = [cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for cell in cells[:KEPT]]
    return Row(msgspec.json.encode(readable), source_row, fault)


def _as_utf8(input: Input) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes of a table up to the end of a line, and its lines, in UTF-8 and with line feeds."""
    first = b""
    # A pipe may be slow; its first rows must do.
    while len(first) < CHUNK if input.file and input.file.seekable() else first.count(b"\n") < _FEW_ROWS:
        if not (chunk := next(input.chunks, b"")):
            break
        first += chunk
    name = guessed_encoding(first)
    chunks: Iterator[bytes] = chain([first], input.chunks)
    if name:
        input.note(f"is not UTF-8; it is read as {name}. If words look wrong: iconv -f ENCODING -t UTF-8 FILE > OTHER")
        chunks = (text.encode() for text in iterdecode(chunks, name, "replace"))
    if b"\r" in first and b"\n" not in first:
        chunks = (chunk.replace(b"\r", b"\n") for chunk in chunks)
    first = next(chunks, b"")
    end = first.rfind(b"\n") + 1 or len(first)
    return first[:end].removeprefix(BOM_UTF8).lstrip(), input._replace(chunks=chain([first], chunks)).lines()


def _header(input: Input, line: int, cells: list[str]) -> list[str]:
    names = [name.strip() for name in cells]
    if not any(names):
        raise InputError(f"{input.name}:{line}: there is no header; the first line must name the columns")
    repeated = [name for name, count in Counter(names).items() if count > 1 and name]
    if repeated:
        input.note(f"has two columns of the name {repeated[0]!r}: further ones are read as {repeated[0]}_2 and so on")
    seen: Counter[str] = Counter()
    for index, name in enumerate(names):
        seen[name] += 1
        names[index] = name if seen[name] == 1 else f"{name}_{seen[name]}"
    return names


# -- Parquet -----------------------------------------------------------------------------------------------

# Rows that are Python objects at the same time.
_ROWS = 1024
# A column that unpacks to more than this many times its bytes is not news: text shrinks to a third or a tenth.
_MOST_RATIO = 250
# A column of lists may unpack to this many of the largest records. The file does not say how long one list is.
_LISTS = 16
# Bytes of a value in a list, as a Python object. A chunk holds equal numbers, and empty lists, in less than a bit each.
_VALUE_BYTES = 32


def pyarrow(purpose: str = "writing .parquet", instead: str = "name a file .jsonl") -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet. Raises ConfigError where they are not installed."""
    require("pyarrow", purpose, instead)
    import pyarrow
    import pyarrow.compute
    from pyarrow import parquet

    return pyarrow, parquet


def parquet_rows(input: Input) -> Iterator[Row]:
    """Yield the rows of a Parquet file."""
    if not input.file.seekable():
        raise InputError(
            f"{input.name} is a Parquet file in a pipe; Parquet is read from its end, so name the file itself"
        )
    arrow, parquet = pyarrow("reading .parquet", "give the items as .jsonl")
    done = 0
    try:
        table = parquet.ParquetFile(input.file)
        for group in range(table.metadata.num_row_groups):
            size = _batch_size(arrow, parquet, table, group, input)
            for batch in table.iter_batches(batch_size=size, row_groups=[group]):
                done += batch.num_rows
                input.report(done / table.metadata.num_rows)
                for index, value in enumerate(objects_of(arrow, batch)):
                    if len(value) <= input.most:
                        yield Row(value, ParquetRow(batch, index))
                    else:  # many such lines may wait, so none holds its batch
                        empty = arrow.RecordBatch.from_pylist([], batch.schema)
                        yield Row(value[:KEPT], ParquetRow(empty, 0), too_large(len(value)))
    except (arrow.ArrowException, OSError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"cannot read {input.name} as Parquet: {error}") from None


def objects_of(arrow: Any, batch: Any) -> Iterator[bytes]:
    """Yield the JSON object of each row of a pyarrow.RecordBatch; nulls are left out. `arrow`: the module pyarrow."""
    columns = [
        # Nanoseconds need pandas as Python objects; an item's date needs milliseconds.
        column.cast(arrow.timestamp("us", column.type.tz), safe=False)
        if arrow.types.is_timestamp(column.type) and column.type.unit == "ns"
        else _as_text(arrow, column)
        for column in batch.columns
    ]
    for fields in arrow.record_batch(columns, names=batch.schema.names).to_pylist(maps_as_pydicts="lossy"):
        yield msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def _as_text(arrow: Any, column: Any) -> Any:
    """Return a column of bytes as text if all are UTF-8, as old writers store text; any other column as it is."""
    if arrow.types.is_binary(column.type) or arrow.types.is_large_binary(column.type):
        with suppress(arrow.ArrowInvalid):
            return column.cast(arrow.large_string())
    return column


def _batch_size(arrow: Any, parquet: Any, table: Any, group: int, input: Input) -> int:
    """Return how many rows of a row group make a RecordBatch of about `most` bytes, or one row.

    A column chunk holds a repeated text once, in its dictionary, so the longest text there decides how many rows are
    read at a time. Raises InputError for a column that unpacks to far more than it has: it could not be read in parts.
    """
    place, most = f"{input.name}: row group {group}", input.most
    cure = "If that is right, give the items as .jsonl, or raise [worker] max_record_bytes"
    longest, chunks = 1, table.metadata.row_group(group)
    for index in range(chunks.num_columns):
        chunk, name, text = chunks.column(index), chunks.column(index).path_in_schema, 0
        packed, unpacked = chunk.total_compressed_size, chunk.total_uncompressed_size
        limit, usual = 2 * most, _MOST_RATIO * packed
        if unpacked <= max(limit, usual) and chunk.physical_type == "BYTE_ARRAY":
            text = _longest_text(arrow, parquet.ParquetFile(input.file, read_dictionary=[name]), group, name)
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
    """Return the bytes of the longest text in a column chunk's dictionary; without one, of its first row."""
    first = next(table.iter_batches(batch_size=1, row_groups=[group], columns=[column]), None)
    if first is None:
        return 0
    values = first.column(0)
    while arrow.types.is_nested(values.type):
        values = values.field(0) if arrow.types.is_struct(values.type) else values.values
    texts = values.dictionary if arrow.types.is_dictionary(values.type) else values
    return int(arrow.compute.max(arrow.compute.binary_length(texts)).as_py() or 0)
