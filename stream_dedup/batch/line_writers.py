"""Writers of `filter`: the forwarded lines as JSON Lines, CSV, TSV or Parquet, by the output's name.

In: lines, each with its row as it was read (rows.py). Out, on an `Output`: *JSON Lines*, the bytes of the lines
unchanged, and each row of a table as its JSON object. *CSV* and *TSV*: the bytes of the rows unchanged, under their
header; every input must be a table with the same columns and delimiter. *Parquet*: rows of Parquet inputs unchanged
under their schema; of other inputs one column for each field (parquet.py).
"""

from collections.abc import Sequence
from itertools import groupby

from stream_dedup.batch.judge import Line
from stream_dedup.batch.outputs import Output, Target
from stream_dedup.batch.packing import UNWRITABLE
from stream_dedup.batch.parquet import JsonToParquet, ParquetFile, pyarrow
from stream_dedup.batch.rows import CsvRow, FileFormat, ParquetRow, format_of
from stream_dedup.errors import InputError, UsageError

ROW_FORMATS = (FileFormat.JSONL, FileFormat.PARQUET)
"""The formats of rows that the program itself makes, such as pairs."""
_JSONL_CURE = "name it .jsonl for one JSON object a row"


def check_output_format(option: str, to: Target, allowed: Sequence[FileFormat] = ROW_FORMATS) -> None:
    """Raise UsageError where the output cannot have the format of its name, ConfigError where an extra is missing."""
    if to.path.suffix.lower() in UNWRITABLE:
        names = ", ".join(f".{name}" for name in allowed)
        raise UsageError(
            f"cannot write {to.path.suffix} ({to}); name it {names}; all but .parquet also packed: .gz, .zst"
        )
    file_format = format_of(to.path)
    if file_format is FileFormat.PARQUET:
        pyarrow()
        if to.path.suffix.lower() != ".parquet":
            raise UsageError(f"{to} would be packed twice: Parquet packs its columns itself; name it .parquet")
    if file_format not in allowed:
        names = " or ".join(f".{name}" for name in allowed)
        raise UsageError(f"{option} cannot be written as .{file_format}; name it {names}")


def line_writer(output: Output) -> "LineWriter":
    """The writer for the format that the output's name asks for."""
    file_format = format_of(output.path)
    if file_format is FileFormat.PARQUET:
        return _ParquetWriter(output)
    return LineWriter(output) if file_format is FileFormat.JSONL else _CsvWriter(output, file_format)


class LineWriter:
    """Writes lines to an output, as JSON Lines. They are on the disk after the output's `sync`."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def start_input(self, first: Line) -> None:
        """Write the header if none is there; `first`: a line of the next input, forwarded or not.

        Raises InputError where this output cannot hold lines of that input beside those of the inputs before.
        """

    def write(self, lines: Sequence[Line]) -> None:
        """Append the lines."""
        self._output.write(b"".join(part for line in lines for part in (line.value, b"\n")))

    def publish(self) -> None:
        """Write what follows the last line, and give the file its final name."""
        self._output.publish()

    def close(self) -> None:
        """Release all resources, after `publish` or without it."""


class _CsvWriter(LineWriter):
    """Writes the header where the output is still empty, so a resumed run does not repeat it."""

    def __init__(self, output: Output, file_format: FileFormat) -> None:
        super().__init__(output)
        self._format = file_format
        self._first: CsvRow | None = None

    def start_input(self, first: Line) -> None:
        row = self._checked_row(first)
        if self._first is None and self._output.length == 0:
            self._output.write(row.header + b"\n")
        self._first = row

    def write(self, lines: Sequence[Line]) -> None:
        rows = [line.source_row for line in lines if isinstance(line.source_row, CsvRow)]
        self._output.write(b"".join(part for row in rows for part in (row.raw, b"\n")))

    def _checked_row(self, line: Line) -> CsvRow:
        row = line.source_row
        if not isinstance(row, CsvRow):
            raise InputError(f"{self._output.path} can hold only rows of CSV inputs, {_JSONL_CURE}")
        if (row.shape.delimiter == "\t") != (self._format is FileFormat.TSV):
            suffix = FileFormat.CSV if self._format is FileFormat.TSV else FileFormat.TSV
            raise InputError(
                f"{self._output.path} would hold rows of a .{suffix} input, which are not converted; name it "
                f".{suffix}, or .jsonl for one JSON object a row"
            )
        if self._first is not None and row.shape != self._first.shape:
            raise InputError(
                f"{self._output.path} can have only one header, and the inputs' columns differ: "
                f"{_columns(self._first)}, then {_columns(row)}; {_JSONL_CURE}"
            )
        return row


def _columns(row: CsvRow) -> str:
    return row.shape.delimiter.join(row.shape.names)


class _ParquetWriter(LineWriter):
    """Writes rows of Parquet inputs at once, and rows of other inputs at the end, when their types are known."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._file: ParquetFile | None = None
        self._spool: JsonToParquet | None = None

    def start_input(self, first: Line) -> None:
        row = first.source_row
        if not isinstance(row, ParquetRow):
            if self._file:
                raise self._mixed()
            self._open_spool()
        elif self._spool:
            raise self._mixed()
        elif self._file is None:
            self._file = ParquetFile(self._output.write, row.batch.schema)
        elif row.batch.schema != self._file.schema:
            raise InputError(
                f"{self._output.path} can have only one schema, and the inputs' columns differ: "
                f"{', '.join(self._file.schema.names)}, then {', '.join(row.batch.schema.names)}; {_JSONL_CURE}"
            )

    def write(self, lines: Sequence[Line]) -> None:
        if self._file is None:
            self._open_spool().append([line.value for line in lines])
            return
        rows = [line.source_row for line in lines if isinstance(line.source_row, ParquetRow)]
        for _, group in groupby(rows, key=lambda row: id(row.batch)):
            rows_of_batch = list(group)
            self._file.write_batch(rows_of_batch[0].batch.take([row.index for row in rows_of_batch]))

    def publish(self) -> None:
        if self._file:
            self._file.close()
        else:
            self._open_spool().write(self._output.write)
        self._output.publish()

    def close(self) -> None:
        if self._spool:
            self._spool.close()
        if self._file:
            self._file.abandon()

    def _open_spool(self) -> JsonToParquet:
        self._spool = self._spool or JsonToParquet(self._output.path.parent)
        return self._spool

    def _mixed(self) -> InputError:
        return InputError(f"{self._output.path} would mix rows of Parquet and of other inputs; {_JSONL_CURE}")
