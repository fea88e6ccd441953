"""Rows of pairs and clusters -> an output: JSON Lines, or Parquet where the name ends in .parquet (extra `parquet`).

In: columns of plain values, a piece at a time. Out: an `Output`; a file takes its name when it is whole. A Parquet
file has the same columns and values as the JSON Lines; what is unknown is null in both.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from stream_dedup.batch.forms import check_form
from stream_dedup.batch.outputs import Output, Target
from stream_dedup.batch.parquet import ParquetFile, pyarrow
from stream_dedup.batch.rows import Form, form_of

Columns = Mapping[str, type[str] | type[float] | type[int]]


class Table(Protocol):
    """A table that is being written."""

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """More rows, all columns of one length."""

    def publish(self) -> None:
        """The whole file takes its name."""


def check_format(option: str, to: Target) -> None:
    """Raises InputError where no table has the form that the name asks for, ConfigError where an extra is missing."""
    check_form(option, to, (Form.JSONL, Form.PARQUET))


def table(file: Output, columns: Columns) -> Table:
    """The table that the file's name asks for."""
    return _Parquet(file, columns) if form_of(file.path) is Form.PARQUET else _JsonLines(file, columns)


class _JsonLines:
    def __init__(self, file: Output, columns: Columns) -> None:
        self._file = file
        self._row = msgspec.defstruct("Row", [(name, Any) for name in columns], gc=False)
        self._names = list(columns)
        self._encode = msgspec.json.Encoder().encode_lines
        file.cut(0)

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._file.write(self._encode(list(map(self._row, *(columns[name] for name in self._names)))))

    def publish(self) -> None:
        self._file.publish()


class _Parquet:
    def __init__(self, file: Output, columns: Columns) -> None:
        arrow, _ = pyarrow()
        types = {str: arrow.string(), float: arrow.float64(), int: arrow.int32()}
        self._file = file
        file.cut(0)
        self._parquet = ParquetFile(file.write, arrow.schema([(name, types[kind]) for name, kind in columns.items()]))

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._parquet.columns(columns)

    def publish(self) -> None:
        self._parquet.close()
        self._file.publish()
