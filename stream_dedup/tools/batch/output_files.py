"""Write the outputs of all commands in every format, to files and streams; and check the outputs before a run.

A file is written in one of two ways. With a journal it grows under its final name; after a kill it is cut to the length
in the journal. Without one, nothing may show until all is done: the file grows under a temporary name and takes the
final name at the end, in one step. The next run deletes what a killed run leaves. A stream (standard output, a pipe, a
device) passes each write on at once, and cannot be cut. If the name ends in .gz or .zst, the output is packed; each
`sync` ends a member or frame, so that a file can be cut there.

The name of an output says its format. `LineWriter` writes the lines of `filter`: to JSON Lines the bytes of each line,
and each row of a table as its JSON object; to a table only rows of one header or schema, unchanged (CSV and TSV: their
bytes). `TableWriter` writes the rows of `pairs`, to all formats alike; an unknown value is null, in CSV an empty cell.
"""

import csv
import io
import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, groupby
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import msgspec
import zstandard

from stream_dedup.errors import InputError, UsageError
from stream_dedup.files import new_file, open_locked, sync_directory
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.inputs.lines import UNWRITABLE, Line, format_of
from stream_dedup.tools.inputs.packing import GZIP_BITS, STDIN, CsvRow, Packing, ParquetRow, check_inputs, packing_of
from stream_dedup.tools.inputs.tables import pyarrow

_DELIMITERS = {FileFormat.CSV: ",", FileFormat.TSV: "\t"}
Columns = Mapping[str, type[str] | type[float] | type[int] | type[bool]]


@dataclass(frozen=True, slots=True)
class Target:
    """Where an output goes. `is_stream`: it cannot be cut or replaced; standard output is one."""

    path: Path
    is_stdout: bool = False
    is_stream: bool = False

    def __str__(self) -> str:
        return "standard output" if self.is_stdout else str(self.path)


def packer(packing: Packing) -> Any:
    """A packer of one member or frame: call `compress` any number of times, then `flush` once.

    It has the default level of the tools. Equal input gives equal bytes.
    """
    if packing is Packing.GZIP:
        return zlib.compressobj(6, wbits=GZIP_BITS)
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compressobj()


def target(path: Path) -> Target:
    """The target that a name stands for. Links are followed, so a link stays one and its target is replaced.

    >>> str(target(Path("-"))), target(Path("/dev/null")).is_stream
    ('standard output', True)
    """
    if str(path) in ("-", "/dev/stdout"):
        return Target(path, is_stdout=True, is_stream=True)
    if path.exists() and not path.is_file() and not path.is_dir():
        return Target(path, is_stream=True)
    return Target(path.resolve())


@contextmanager
def file_errors(to: Target | None = None) -> Iterator[None]:
    """Raise InputError if a file cannot be read or written; BrokenPipeError passes."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write {to}: {error.strerror}" if to else f"cannot read or write: {error}") from None


class Output:
    """An open output. An open file is locked. `in_place`: it grows under its final name.

    If the context ends with an error before `publish`, a file under a temporary name is deleted. Raises InputError if
    the output cannot be written, BrokenPipeError if a stream has no reader any more.
    """

    def __init__(self, to: Target, *, in_place: bool) -> None:
        self.path = to.path
        self.length = 0
        """Its packed bytes up to the last `sync`."""
        self._to = to
        self._packing = packing_of(to.path)
        self._packer: Any = None
        self._grows_at = to.path
        with file_errors(to):
            if to.is_stream:
                # Unbuffered: when the reader is gone, Python would complain at exit about what is left in a buffer.
                self._file: Any = os.fdopen(os.dup(1) if to.is_stdout else os.open(to.path, os.O_WRONLY), "wb", 0)
            elif in_place:
                self._file = open_locked(to.path)
                self.length = os.fstat(self._file.fileno()).st_size
            else:
                self._grows_at, self._file = new_file(to.path)

    def cut(self, length: int) -> None:
        """Drop everything after the first `length` bytes, and continue there; a stream has nothing to drop."""
        if self._to.is_stream:
            return
        if length > self.length:
            raise InputError(
                f"{self.path} has {self.length} bytes, but the journal knows of {length}: it was changed since. "
                "Bring it back, or start over with another state directory (which remembers nothing)"
            )
        self._file.truncate(length)
        self._file.seek(length)
        self.length = length

    def write(self, data: bytes) -> int:
        """Append the bytes, and return their number. After the end of the context they are dropped."""
        if self._packing and data:
            self._packer = self._packer or packer(self._packing)
        self._append(self._packer.compress(data) if self._packer else data)
        return len(data)

    def sync(self) -> None:
        """Return when all that was appended is on the disk."""
        if self._packer:
            self._append(self._packer.flush())
            self._packer = None
        if self._to.is_stream:
            return
        with file_errors(self._to):
            self._file.flush()
            os.fsync(self._file.fileno())

    def complete(self) -> None:
        """End the output. An empty packed one gets an empty member: the tools call a file without bytes truncated."""
        if self._packing and not self._packer and not self.length:
            self._packer = packer(self._packing)
        self.sync()

    def publish(self) -> None:
        """Give the complete file its final name; a former file of that name is replaced."""
        self.complete()
        if not self._to.is_stream:
            self._grows_at = self._grows_at.replace(self.path)
            sync_directory(self.path.parent)

    def write_whole(self, text: str) -> None:
        """Make this text the content, and publish it."""
        self.cut(0)
        self.write(text.encode("utf-8", "replace"))  # a lone surrogate of a broken record becomes a question mark
        self.publish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and self._grows_at != self.path:  # it was never published
            self._grows_at.unlink(missing_ok=True)
        try:
            self._file.close()
        except OSError:
            if kind is None:
                raise

    def _append(self, data: bytes) -> None:
        if self._file.closed:  # after a failed run pyarrow writes the end of a table when it is collected
            return
        with file_errors(self._to), memoryview(data) as left:
            done = 0
            while done < len(data):  # a pipe may take only a part
                done += self._file.write(left[done:]) or 0
        self.length += len(data)


class LineWriter:
    """Writes lines, which are on the disk after the output's `sync`.

    A table begins with the header of the first input; a resumed run finds it there.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self._format = format_of(output.path)
        self._header: Any = None  # what all rows have in common: the header, or the schema
        self._parquet: Any = None

    def start_input(self, first: Line) -> None:
        """Write the header if the output has none. `first`: a line of the next input, forwarded or not.

        Raises InputError if the lines of that input do not fit into this output.
        """
        if self._format is FileFormat.JSONL:
            return
        row, header = first.source_row, None
        if isinstance(row, CsvRow) and row.file_format == self._format:
            header = row.header.strip()
            if row.header and self._header is None and self.output.length == 0:
                self.output.write(row.header + b"\n")
        elif isinstance(row, ParquetRow) and self._format is FileFormat.PARQUET:
            header = row.batch.schema
            self._parquet = self._parquet or parquet_writer(self.output, header)
        if header is None or self._header not in (None, header):
            raise InputError(
                f"{self.output.path} can hold only rows of .{self._format} inputs that all have the same columns; "
                "name it .jsonl for one JSON object a row"
            )
        self._header = header

    def write(self, lines: Sequence[Line]) -> None:
        """Append the lines."""
        if self._format is FileFormat.PARQUET:
            rows = [line.source_row for line in lines if isinstance(line.source_row, ParquetRow)]
            for _, group in groupby(rows, key=lambda row: id(row.batch)):
                rows_of_batch = list(group)
                self._parquet.write_batch(rows_of_batch[0].batch.take([row.position for row in rows_of_batch]))
        else:
            values = [line.value for line in lines]
            if self._format is not FileFormat.JSONL:
                values = [line.source_row.raw for line in lines if isinstance(line.source_row, CsvRow)]
            self.output.write(b"".join(part for value in values for part in (value, b"\n")))

    def publish(self) -> None:
        """Write what follows the last line, and give the file its final name."""
        if self._format is FileFormat.PARQUET:
            # Without any input row there is no schema, and a table needs a column.
            arrow, _ = pyarrow()
            (self._parquet or parquet_writer(self.output, arrow.schema([("id", arrow.string())]))).close()
        self.output.publish()


class TableWriter:
    """Writes a table, as JSON Lines, CSV, TSV or Parquet."""

    def __init__(self, output: Output, columns: Columns) -> None:
        self._output = output
        self._row = msgspec.defstruct("Row", [(name, Any) for name in columns], gc=False)
        self._names = list(columns)
        self._encode = msgspec.json.Encoder().encode_lines
        self._parquet: Any = None
        output.cut(0)
        self._delimiter = _DELIMITERS.get(format_of(output.path))
        if self._delimiter:
            self._write_cells([self._names])
        if format_of(output.path) is FileFormat.PARQUET:
            arrow, _ = pyarrow()
            types = {str: arrow.string(), float: arrow.float64(), int: arrow.int32(), bool: arrow.bool_()}
            self._schema = arrow.schema([(name, types[kind]) for name, kind in columns.items()])
            self._parquet = parquet_writer(output, self._schema)

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows; all columns have the same length."""
        if self._parquet:
            arrow, _ = pyarrow()
            self._parquet.write_table(arrow.table(dict(columns), schema=self._schema))
        elif self._delimiter:
            self._write_cells(zip(*(columns[name] for name in self._names), strict=True))
        else:
            self._output.write(self._encode(list(map(self._row, *(columns[name] for name in self._names)))))

    def _write_cells(self, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO()
        write = csv.writer(text, delimiter=self._delimiter or ",", lineterminator="\n").writerow
        for row in rows:
            write([str(cell).lower() if isinstance(cell, bool) else cell for cell in row])
        self._output.write(text.getvalue().encode())

    def publish(self) -> None:
        """Complete the file and give it its final name."""
        if self._parquet:
            self._parquet.close()
        self._output.publish()


def parquet_writer(output: Output, schema: Any) -> Any:
    """A pyarrow.parquet.ParquetWriter on an output, which syncs and closes the real file."""
    arrow, parquet = pyarrow()
    sink = SimpleNamespace(write=output.write, flush=lambda: None, close=lambda: None, closed=False)
    return parquet.ParquetWriter(arrow.PythonFile(sink, mode="w"), schema, compression="zstd")


# -- checks before a run -------------------------------------------------------------------------------------


def checked_outputs(
    inputs: Sequence[str],
    wanted: Mapping[str, tuple[str | Path | None, Sequence[FileFormat]]],
    state: Path | None = None,
) -> dict[str, Target]:
    """Check inputs and outputs before a run, and return the targets of the outputs. Nothing is written.

    An input must be readable; an output must be writable, and must not destroy anything. `wanted`: path (None: not
    wanted) and allowed formats by the names of their options; an output without formats, such as a report, is written
    whole at the end, under any name. Files are compared by identity, so links do not matter. `state`: the directory of
    a run whose outputs are cut after a kill. Raises InputError, UsageError, and ConfigError if an extra is missing.
    """
    check_inputs(inputs)
    outputs = {option: target(Path(path)) for option, (path, _) in wanted.items() if path is not None}
    for (option, to), (other, other_to) in combinations(outputs.items(), 2):
        is_same = to.path == other_to.path or _is_same(to.path, other_to.path)
        if (to.is_stdout and other_to.is_stdout) or (not to.is_stream and is_same):
            raise UsageError(f"{option} and {other} are both {to}; write one of them elsewhere, or leave {other} out")
    for option, to in outputs.items():
        allowed, file_format = wanted[option][1], format_of(to.path)
        if allowed and (file_format not in allowed or to.path.suffix.lower() in UNWRITABLE):
            names = " or ".join(f".{name}" for name in allowed)
            raise UsageError(
                f"{option} cannot be written as {to}; name it {names}; all but .parquet also packed (.gz, .zst)"
            )
        if allowed and file_format is FileFormat.PARQUET:
            pyarrow()
            if packing_of(to.path):
                raise UsageError(f"{to} would be packed twice: Parquet packs its columns itself; name it .parquet")
        if state is not None and allowed and (to.is_stream or file_format is FileFormat.PARQUET):
            raise UsageError(
                f"{to} cannot be cut after a kill, so a run with --state cannot write it: name a .jsonl, .jsonl.zst or "
                f".csv file for {option}, or leave --state out"
            )
        if to.is_stream:
            continue
        if to.path.is_dir():
            raise InputError(f"{to} is a directory; name a file in it")
        if not to.path.parent.is_dir():
            raise InputError(f"cannot write {to}: there is no directory {to.path.parent}")
        if state is not None and to.path.parent == state.resolve():
            raise UsageError(
                f"{to} lies in the state directory, which the program keeps for itself; name another place"
            )
        for name in inputs:
            if name != STDIN and _is_same(Path(name), to.path):
                raise UsageError(f"{to} is an input ({name}); writing to it would destroy it")
    return outputs


def check_free(outputs: Mapping[str, Target], own: Collection[str] = ()) -> None:
    """Raise UsageError for an output that would replace a file with content. `own`: paths that a killed run fills."""
    for option, to in outputs.items():
        if not to.is_stream and str(to.path) not in own and to.path.is_file() and to.path.stat().st_size:
            raise UsageError(f"{to.path} exists; name another file for {option}, or let --force replace it")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
