"""Writers of `pairs` and of exports: rows of plain columns as JSON Lines or Parquet.

In: columns of plain values, some rows at a time. Out: an `Output`, which takes its final name at the end. Both formats
have the same columns and values; an unknown value is null.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stream_dedup.batch.outputs import Output
from stream_dedup.batch.parquet import ParquetFile, pyarrow
from stream_dedup.batch.rows import FileFormat, format_of

Columns = Mapping[str, type[str] | type[float] | type[int] | type[bool]]


def table_writer(output: Output, columns: Columns) -> "TableWriter":
    """The writer for the format that the output's name asks for."""
    is_parquet = format_of(output.path) is FileFormat.PARQUET
    return _ParquetWriter(output, columns) if is_parquet else TableWriter(output, columns)


class TableWriter:
    """Writes a table to an output, as JSON Lines."""

    def __init__(self, output: Output, columns: Columns) -> None:
        self._output = output
        self._row = msgspec.defstruct("Row", [(name, Any) for name in columns], gc=False)
        self._names = list(columns)
        self._encode = msgspec.json.Encoder().encode_lines
        output.cut(0)

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows; all columns have the same length."""
        self._output.write(self._encode(list(map(self._row, *(columns[name] for name in self._names)))))

    def publish(self) -> None:
        """Complete the file and give it its final name."""
        self._output.publish()


class _ParquetWriter(TableWriter):
    def __init__(self, output: Output, columns: Columns) -> None:
        super().__init__(output, columns)
        arrow, _ = pyarrow()
        types = {str: arrow.string(), float: arrow.float64(), int: arrow.int32(), bool: arrow.bool_()}
        schema = arrow.schema([(name, types[kind]) for name, kind in columns.items()])
        self._parquet = ParquetFile(output.write, schema)

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._parquet.write_columns(columns)

    def publish(self) -> None:
        self._parquet.close()
        self._output.publish()
