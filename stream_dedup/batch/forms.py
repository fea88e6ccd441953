"""Judged lines -> an output in the form that its name asks for: JSON Lines, CSV, TSV or Parquet.

In: lines as they were read, each with its row as it came (rows.py). Out, on an `Output`: *JSON Lines*, the lines'
bytes, untouched, and of tables each row as its JSON object. *CSV* and *TSV*: the rows' bytes, untouched, under their
header; there every input must be a table of the same columns and delimiter. *Parquet*: rows of Parquet inputs under
their schema, untouched; of other inputs one column for each field, see parquet.py.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Protocol

from stream_dedup.batch.judge import Line
from stream_dedup.batch.outputs import Output, Target
from stream_dedup.batch.packing import UNKNOWN
from stream_dedup.batch.parquet import JsonToParquet, ParquetFile, pyarrow
from stream_dedup.batch.rows import CsvRow, Form, ParquetRow, form_of
from stream_dedup.errors import InputError


class Lines(Protocol):
    """An output of lines. What is written is safe only after the output's `sync`."""

    def head(self, like: Line) -> None:
        """What stands before the first line; `like`: the first line of each input, whether it is let through or not.

        Raises InputError where this output cannot hold lines of that input beside those of the inputs before.
        """

    def append(self, lines: Sequence[Line]) -> None:
        """These lines."""

    def finish(self) -> None:
        """What stands behind the last one."""

    def close(self) -> None:
        """Releases what is held, finished or not."""


def check_form(option: str, to: Target, allowed: Sequence[Form]) -> None:
    """Raises InputError where this output has not the form its name asks for, ConfigError where an extra is missing."""
    if to.path.suffix.lower() in UNKNOWN:
        names = ", ".join(f".{one}" for one in allowed)
        raise InputError(
            f"cannot write {to.path.suffix} ({to}); name it {names}; all but .parquet also packed: .gz, .zst"
        )
    form = form_of(to.path)
    if form is Form.PARQUET:
        pyarrow()
        if to.path.suffix.lower() != ".parquet":
            raise InputError(f"{to} would be packed twice: Parquet is packed within; name it .parquet")
    if form not in allowed:
        raise InputError(f"{option} has no form .{form}; name it " + " or ".join(f".{one}" for one in allowed))


def lines_to(output: Output) -> Lines:
    """Lines in the form that the output's name asks for."""
    form = form_of(output.path)
    if form is Form.PARQUET:
        return _Parquet(output)
    return _JsonLines(output) if form is Form.JSONL else _Csv(output, form)


class _JsonLines:
    def __init__(self, output: Output) -> None:
        self._output = output

    def head(self, like: Line) -> None:
        pass

    def append(self, lines: Sequence[Line]) -> None:
        self._output.write(b"".join(part for line in lines for part in (line.value, b"\n")))

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Csv:
    """`head` comes again in a run that is taken up: the header stands where nothing stood before."""

    def __init__(self, output: Output, form: Form) -> None:
        self._output = output
        self._form = form
        self._first: CsvRow | None = None

    def head(self, like: Line) -> None:
        row = self._row(like)
        if self._first is None and self._output.length == 0:
            self._output.write(row.header + b"\n")
        self._first = row

    def append(self, lines: Sequence[Line]) -> None:
        rows = [line.kept for line in lines if isinstance(line.kept, CsvRow)]
        self._output.write(b"".join(part for row in rows for part in (row.raw, b"\n")))

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _row(self, line: Line) -> CsvRow:
        row = line.kept
        if not isinstance(row, CsvRow):
            raise InputError(f"{self._output.path} can hold only rows of CSV inputs, {_NAME_IT}")
        if (row.shape.delimiter == "\t") != (self._form is Form.TSV):
            other = Form.CSV if self._form is Form.TSV else Form.TSV
            raise InputError(
                f"{self._output.path} would hold rows of a .{other} input, which stay as they are; name it .{other}, "
                "or .jsonl for one JSON object a row"
            )
        if self._first is not None and row.shape != self._first.shape:
            raise InputError(
                f"{self._output.path} can have only one header, and the inputs' columns differ: "
                f"{_columns(self._first)}, then {_columns(row)}; {_NAME_IT}"
            )
        return row


_NAME_IT = "name it .jsonl for one JSON object a row"


def _columns(row: CsvRow) -> str:
    return row.shape.delimiter.join(row.shape.names)


class _Parquet:
    def __init__(self, output: Output) -> None:
        self._output = output
        self._rows: ParquetFile | None = None
        self._objects: JsonToParquet | None = None

    def head(self, like: Line) -> None:
        row = like.kept
        if not isinstance(row, ParquetRow):
            if self._rows:
                raise self._mixed()
            self._spool()
        elif self._objects:
            raise self._mixed()
        elif self._rows is None:
            self._rows = ParquetFile(self._output.write, row.batch.schema)
        elif row.batch.schema != self._rows.schema:
            raise InputError(
                f"{self._output.path} can have only one schema, and the inputs' columns differ: "
                f"{', '.join(self._rows.schema.names)}, then {', '.join(row.batch.schema.names)}; {_NAME_IT}"
            )

    def append(self, lines: Sequence[Line]) -> None:
        if self._rows is None:
            self._spool().append([line.value for line in lines])
            return
        rows = [line.kept for line in lines if isinstance(line.kept, ParquetRow)]
        for _, of_one in groupby(rows, key=lambda row: id(row.batch)):
            taken = list(of_one)
            self._rows.batch(taken[0].batch.take([row.place for row in taken]))

    def finish(self) -> None:
        if self._rows:
            self._rows.close()
        else:
            self._spool().write(self._output.write)

    def close(self) -> None:
        if self._objects:
            self._objects.close()
        if self._rows:
            self._rows.abandon()

    def _spool(self) -> JsonToParquet:
        self._objects = self._objects or JsonToParquet(self._output.path.parent)
        return self._objects

    def _mixed(self) -> InputError:
        return InputError(f"{self._output.path} would mix rows of Parquet and of other inputs; {_NAME_IT}")
