"""Write rows of plain columns as JSON Lines, or as Parquet if the name ends in .parquet (extra `parquet`).

In: columns of plain values, some rows at a time. Out: an `Output`, which takes its final name at the end. Both formats
have the same columns and values; an unknown value is null.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from stream_dedup.batch.line_writers import check_output_format
from stream_dedup.batch.outputs import Output, Target
from stream_dedup.batch.parquet import ParquetFile, pyarrow
from stream_dedup.batch.rows import FileFormat, format_of

Columns = Mapping[str, type[str] | type[float] | type[int]]


class TableWriter(Protocol):
    """A table that is being written."""

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows; all columns have the same length."""

    def publish(self) -> None:
        """Complete the file and give it its final name."""


def check_table_format(option: str, to: Target) -> None:
    """Raise InputError where no table has the format of the name, ConfigError where an extra is missing."""
    check_output_format(option, to, (FileFormat.JSONL, FileFormat.PARQUET))


def table_writer(output: Output, columns: Columns) -> TableWriter:
    """The writer for the format that the output's name asks for."""
    is_parquet = format_of(output.path) is FileFormat.PARQUET
    return _ParquetWriter(output, columns) if is_parquet else _JsonLinesWriter(output, columns)


class _JsonLinesWriter:
    def __init__(self, output: Output, columns: Columns) -> None:
        self._output = output
        self._row = msgspec.defstruct("Row", [(name, Any) for name in columns], gc=False)
        self._names = list(columns)
        self._encode = msgspec.json.Encoder().encode_lines
        output.cut(0)

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._output.write(self._encode(list(map(self._row, *(columns[name] for name in self._names)))))

    def publish(self) -> None:
        self._output.publish()


class _ParquetWriter:
    def __init__(self, output: Output, columns: Columns) -> None:
        arrow, _ = pyarrow()
        types = {str: arrow.string(), float: arrow.float64(), int: arrow.int32()}
        self._output = output
        output.cut(0)
        schema = arrow.schema([(name, types[kind]) for name, kind in columns.items()])
        self._parquet = ParquetFile(output.write, schema)

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._parquet.write_columns(columns)

    def publish(self) -> None:
        self._parquet.close()
        self._output.publish()
