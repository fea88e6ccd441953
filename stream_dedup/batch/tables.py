"""Rows of pairs and clusters -> a file: JSON Lines, or Parquet where the name ends in .parquet (extra `parquet`).

In: columns of plain values, a piece at a time. Out: an `OutputFile` that takes its name when it is whole. A Parquet
file has the same columns and values as the JSON Lines; what is unknown is null in both.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from stream_dedup.batch.outputs import OutputFile
from stream_dedup.errors import ConfigError

SUFFIX = ".parquet"

Columns = Mapping[str, type[str] | type[float] | type[int]]


class Table(Protocol):
    """A table that is being written."""

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """More rows, all columns of one length."""

    def publish(self) -> None:
        """The whole file takes its name."""


def check_format(path: Path) -> None:
    """Raises ConfigError where the file's form needs an extra that is not installed."""
    if path.suffix == SUFFIX:
        _pyarrow()


def table(file: OutputFile, columns: Columns) -> Table:
    """The table that the file's name asks for."""
    return _Parquet(file, columns) if file.path.suffix == SUFFIX else _JsonLines(file, columns)


class _JsonLines:
    def __init__(self, file: OutputFile, columns: Columns) -> None:
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
    def __init__(self, file: OutputFile, columns: Columns) -> None:
        arrow, parquet = _pyarrow()
        types = {str: arrow.string(), float: arrow.float64(), int: arrow.int32()}
        self._file = file
        self._arrow = arrow
        self._schema = arrow.schema([(name, types[kind]) for name, kind in columns.items()])
        file.cut(0)
        self._writer = parquet.ParquetWriter(arrow.PythonFile(_Sink(file), mode="w"), self._schema, compression="zstd")

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._writer.write_table(self._arrow.table(dict(columns), schema=self._schema))

    def publish(self) -> None:
        self._writer.close()
        self._file.publish()


class _Sink:
    """What pyarrow wants of a file; `OutputFile` opens and closes it."""

    closed = False

    def __init__(self, file: OutputFile) -> None:
        self.write = file.write

    def flush(self) -> None:
        """Nothing: `publish` brings it to the disk."""

    close = flush


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(
            'writing .parquet needs pyarrow: pip install "stream-dedup[parquet]", or name a file .jsonl'
        ) from None
    return pyarrow, parquet
