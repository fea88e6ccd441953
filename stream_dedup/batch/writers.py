"""Writers on an `Output`: forwarded lines as they were read, and tables of plain columns.

*Lines* (`filter`): JSON Lines take the bytes of the lines unchanged, and each row of a table as its JSON object. A
table takes only rows of one header or schema, unchanged: CSV and TSV the bytes of the rows, Parquet the rows. *Tables*
(`pairs`): JSON Lines or Parquet with the same columns and values; an unknown value is null. The name of the output says
which format it has.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from stream_dedup.batch.lines import Line
from stream_dedup.batch.outputs import Output
from stream_dedup.batch.tables import CsvRow, FileFormat, ParquetRow, format_of, pyarrow
from stream_dedup.errors import InputError

Columns = Mapping[str, type[str] | type[float] | type[int] | type[bool]]


class LineWriter:
    """Writes lines. They are on the disk after the output's `sync`. Leave it with `close`, after `publish` or without.

    As a table it begins with the header of the first input, which a resumed run finds there.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._format = format_of(output.path)
        self._header: Any = None  # what all rows must have in common: format and header, or the schema
        self._parquet: ParquetFile | None = None

    def start_input(self, first: Line) -> None:
        """Write the header if none is there; `first`: a line of the next input, forwarded or not.

        Raises InputError where this output cannot hold lines of that input beside those of the inputs before.
        """
        if self._format is FileFormat.JSONL:
            return
        row, header = first.source_row, None
        if isinstance(row, CsvRow) and row.file_format is self._format:
            header = row.header.strip()
            if self._header is None and self._output.length == 0:
                self._output.write(row.header + b"\n")
        elif isinstance(row, ParquetRow) and self._format is FileFormat.PARQUET:
            header = row.batch.schema
            self._parquet = self._parquet or ParquetFile(self._output, header)
        if header is None or self._header not in (None, header):
            raise InputError(
                f"{self._output.path} can hold only rows of .{self._format} inputs that all have the same columns; "
                "name it .jsonl for one JSON object a row"
            )
        self._header = header

    def write(self, lines: Sequence[Line]) -> None:
        """Append the lines."""
        if self._format is FileFormat.JSONL:
            self._output.write(b"".join(part for line in lines for part in (line.value, b"\n")))
        elif self._parquet is None:
            rows = [line.source_row for line in lines if isinstance(line.source_row, CsvRow)]
            self._output.write(b"".join(part for row in rows for part in (row.raw, b"\n")))
        else:
            batches = [line.source_row for line in lines if isinstance(line.source_row, ParquetRow)]
            for _, group in groupby(batches, key=lambda row: id(row.batch)):
                rows_of_batch = list(group)
                self._parquet.writer.write_batch(rows_of_batch[0].batch.take([row.position for row in rows_of_batch]))

    def publish(self) -> None:
        """Write what follows the last line, and give the file its final name."""
        if self._format is FileFormat.PARQUET:
            # Without any input row there is no schema, and a table needs a column.
            arrow, _ = pyarrow()
            (self._parquet or ParquetFile(self._output, arrow.schema([("id", arrow.string())]))).writer.close()
        self._output.publish()

    def close(self) -> None:
        """Release all resources."""
        if self._parquet:
            self._parquet.abandon()


class TableWriter:
    """Writes a table, as JSON Lines or Parquet."""

    def __init__(self, output: Output, columns: Columns) -> None:
        self._output = output
        self._row = msgspec.defstruct("Row", [(name, Any) for name in columns], gc=False)
        self._names = list(columns)
        self._encode = msgspec.json.Encoder().encode_lines
        self._parquet: ParquetFile | None = None
        output.cut(0)
        if format_of(output.path) is FileFormat.PARQUET:
            arrow, _ = pyarrow()
            types = {str: arrow.string(), float: arrow.float64(), int: arrow.int32(), bool: arrow.bool_()}
            self._parquet = ParquetFile(output, arrow.schema([(name, types[kind]) for name, kind in columns.items()]))

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows; all columns have the same length."""
        if self._parquet:
            arrow, _ = pyarrow()
            self._parquet.writer.write_table(arrow.table(dict(columns), schema=self._parquet.schema))
        else:
            self._output.write(self._encode(list(map(self._row, *(columns[name] for name in self._names)))))

    def publish(self) -> None:
        """Complete the file and give it its final name."""
        if self._parquet:
            self._parquet.writer.close()
        self._output.publish()


class ParquetFile:
    """A Parquet file in the making; its bytes go to the output, which opens, syncs and closes the real file."""

    def __init__(self, output: Output, schema: Any) -> None:
        arrow, parquet = pyarrow()
        self.schema = schema
        self._sink = _Sink(output)
        self.writer = parquet.ParquetWriter(arrow.PythonFile(self._sink, mode="w"), schema, compression="zstd")

    def abandon(self) -> None:
        """Write nothing more unless it is closed; else pyarrow writes the footer at garbage collection."""
        self._sink.write = len
        self.writer.close()


class _Sink:
    """The file interface that pyarrow needs."""

    closed = False

    def __init__(self, output: Output) -> None:
        self.write: Any = output.write

    def flush(self) -> None:
        """Do nothing: the owner of the output syncs it."""

    close = flush
