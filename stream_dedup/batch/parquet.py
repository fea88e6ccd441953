"""The Parquet format for the writers: JSON rows or columns to a file (extra `parquet`: pyarrow).

JSON rows may have any fields in any order. The columns of the file are all fields in order of appearance: texts, whole
numbers, numbers, booleans, objects as structs, lists as lists. A field with values of several types becomes a column of
JSON texts, and so does an object with very many different members (its keys are data). The types are known only at the
end, so rows wait in a temporary file beside the output.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO

import msgspec

from stream_dedup.errors import ConfigError, InputError
from stream_dedup.news.fields import BOM
from stream_dedup.phrases import install_command

# An item has some dozen members; with more, they are keys of a dictionary instead of columns.
_MOST_MEMBERS = 200
# Rows that are Python objects at the same time.
_ROWS = 1024
# A column that unpacks to more than this many times its bytes is not news: text shrinks to a third or a tenth.
_MOST_RATIO = 250
# A column of lists may unpack to this many of the largest records. The file does not say how long one list is.
_LISTS = 16
# Of a value in a list, as a Python object: a chunk holds equal numbers, and empty lists, in less than a bit each.
_VALUE_BYTES = 32

Write = Callable[[bytes], int]


def pyarrow(purpose: str = "writing .parquet", instead: str = "name a file .jsonl") -> tuple[Any, Any]:
    """Import pyarrow and pyarrow.parquet. Raises ConfigError where they are not installed."""
    try:
        import pyarrow
        import pyarrow.compute
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(f"{purpose} needs pyarrow: {install_command('parquet')}, or {instead}") from None
    return pyarrow, parquet


def bounded_batches(path: str, file: BinaryIO, most: int, report: Callable[[float], None]) -> Iterator[Any]:
    """Yield the rows of a Parquet file as RecordBatches of about `most` bytes, or of one row; `report`: the share read.

    A column chunk holds a repeated text once, in its dictionary, so the longest text there decides how many rows are
    read at a time. Raises InputError for a column that unpacks to far more than it has: it could not be read in parts.
    """
    arrow, parquet = pyarrow("reading .parquet", "give the items as .jsonl")
    source = parquet.ParquetFile(file)
    done = 0
    for group in range(source.metadata.num_row_groups):
        longest, chunks = 1, source.metadata.row_group(group)
        for index in range(chunks.num_columns):
            chunk, name, text = chunks.column(index), chunks.column(index).path_in_schema, 0
            limit, unpacked, usual = 2 * most, chunk.total_uncompressed_size, _MOST_RATIO * chunk.total_compressed_size
            if unpacked <= max(limit, usual) and chunk.physical_type == "BYTE_ARRAY":
                text = _longest_text(arrow, parquet.ParquetFile(file, read_dictionary=[name]), group, name)
                longest += text
            elif chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
                text = source.schema.column(index).length
                longest += text
            if source.schema.column(index).max_repetition_level:
                limit, unpacked = _LISTS * most, max(unpacked, max(text, _VALUE_BYTES) * chunk.num_values)
            if unpacked > max(limit, usual):
                raise InputError(
                    f"{path}: row group {group}, column {name}: {chunk.total_compressed_size:,} bytes unpack to "
                    f"{unpacked:,}. If that is right, give the items as .jsonl, or raise [worker] max_record_bytes"
                )
        if longest > _LISTS * most:
            raise InputError(
                f"{path}: row group {group}: a row may unpack to {longest:,} bytes. If that is right, give the "
                "items as .jsonl, or raise [worker] max_record_bytes"
            )
        for batch in source.iter_batches(batch_size=min(max(most // longest, 1), _ROWS), row_groups=[group]):
            done += batch.num_rows
            report(done / source.metadata.num_rows)
            yield batch


def _longest_text(arrow: Any, source: Any, group: int, column: str) -> int:
    """Bytes of the longest text in the dictionary of a column chunk; of a chunk without one, of its first row."""
    first = next(source.iter_batches(batch_size=1, row_groups=[group], columns=[column]), None)
    if first is None:
        return 0
    values = first.column(0)
    while arrow.types.is_nested(values.type):
        values = values.field(0) if arrow.types.is_struct(values.type) else values.values
    texts = values.dictionary if arrow.types.is_dictionary(values.type) else values
    return int(arrow.compute.max(arrow.compute.binary_length(texts)).as_py() or 0)


class ParquetFile:
    """A Parquet file in the making; its bytes go to `write`."""

    def __init__(self, write: Write, schema: Any) -> None:
        self._arrow, parquet = pyarrow()
        self.schema = schema
        self._sink = _Sink(write)
        self._writer = parquet.ParquetWriter(self._arrow.PythonFile(self._sink, mode="w"), schema, compression="zstd")

    def write_columns(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Append rows, given as columns of plain values."""
        self._writer.write_table(self._arrow.table(dict(columns), schema=self.schema))

    def write_batch(self, batch: Any) -> None:
        """Append rows, given as a pyarrow.RecordBatch."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        """Write nothing more unless it is closed; else pyarrow writes the footer at garbage collection."""
        self._sink.write = len
        self._writer.close()


class _Sink:
    """The file interface that pyarrow needs; the owner of `write` opens and closes the real file."""

    closed = False

    def __init__(self, write: Write) -> None:
        self.write = write

    def flush(self) -> None:
        """Do nothing: the owner of `write` syncs the file."""

    close = flush


class JsonToParquet:
    """Collects JSON rows and writes them as a Parquet file at the end. Close it."""

    def __init__(self, beside: Path) -> None:
        pyarrow()
        self._spool: IO[bytes] = tempfile.TemporaryFile(dir=beside)  # noqa: SIM115 - closed by `close`
        self._decode = msgspec.json.Decoder().decode
        self._fields: dict[str, _FieldType] = {}

    def append(self, rows: Sequence[bytes]) -> None:
        for row in rows:
            try:
                for name, value in self._object(row).items():
                    self._fields.setdefault(name, _FieldType()).add(value)
            except RecursionError:
                raise _row_error(row, "nested too deeply") from None
            self._spool.write(row.replace(b"\n", b" ") + b"\n")  # JSON has line feeds only between its tokens

    def write(self, write: Write) -> None:
        """Write the whole file."""
        arrow, _ = pyarrow()
        # A Parquet table needs at least one column.
        fields = self._fields or {"id": _FieldType()}
        schema = arrow.schema([(name, _arrow_type(arrow, kind)) for name, kind in fields.items()])
        file = ParquetFile(write, schema)
        for rows in self._read():
            columns = {name: [kind.convert(row.get(name)) for row in rows] for name, kind in fields.items()}
            file.write_columns(columns)
        file.close()

    def close(self) -> None:
        self._spool.close()

    def _read(self) -> Iterator[list[dict[str, Any]]]:
        self._spool.seek(0)
        while rows := [self._object(line) for line in islice(self._spool, _ROWS)]:
            yield rows

    def _object(self, row: bytes) -> dict[str, Any]:
        try:
            value = self._decode(row.removeprefix(BOM))
        except msgspec.DecodeError as error:
            raise _row_error(row, str(error)) from None
        if not isinstance(value, dict):
            raise _row_error(row, f"a {type(value).__name__}")
        return value


def _row_error(row: bytes, cause: str) -> InputError:
    return InputError(
        f"this line is not an object, so it cannot be a row of a Parquet file ({cause}): {row[:80]!r}; name the output "
        ".jsonl"
    )


class _FieldType:
    """The narrowest type that fits all values of one field."""

    def __init__(self) -> None:
        self._types: set[type] = set()
        self.members: dict[str, _FieldType] = {}
        self._element: _FieldType | None = None

    def add(self, value: Any) -> None:
        """Widen the type so that it fits the value."""
        if value is None:
            return
        self._types.add(type(value))
        if isinstance(value, dict):
            for name, member in value.items():
                if name in self.members or len(self.members) < _MOST_MEMBERS:
                    self.members.setdefault(name, _FieldType()).add(member)
                else:
                    self._types.add(object)  # only JSON text can hold it
        elif isinstance(value, list):
            self._element = self._element or _FieldType()
            for element in value:
                self._element.add(element)
        elif isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
            self._types.add(object)

    @property
    def type(self) -> type:
        """The type; `object` if only JSON text can hold all values."""
        if not self._types:
            return str  # only nulls, which fit any type
        if self._types <= {int, float}:
            return float if float in self._types else int
        kind = next(iter(self._types)) if len(self._types) == 1 else object
        return object if kind is dict and not self.members else kind  # a Parquet struct needs members

    @property
    def element(self) -> "_FieldType":
        return self._element or _FieldType()

    def convert(self, value: Any) -> Any:
        """A value of this field as pyarrow takes it."""
        if value is None:
            return None
        kind = self.type
        if kind is object:
            return msgspec.json.encode(value).decode()
        if kind is dict:
            return {name: member.convert(value.get(name)) for name, member in self.members.items()}
        if kind is list:
            return [self.element.convert(element) for element in value]
        return value


def _arrow_type(arrow: Any, kind: _FieldType) -> Any:
    plain = {
        str: arrow.string(),
        int: arrow.int64(),
        float: arrow.float64(),
        bool: arrow.bool_(),
        object: arrow.string(),
    }
    if kind.type in plain:
        return plain[kind.type]
    if kind.type is list:
        return arrow.list_(_arrow_type(arrow, kind.element))
    return arrow.struct([(name, _arrow_type(arrow, member)) for name, member in kind.members.items()])
