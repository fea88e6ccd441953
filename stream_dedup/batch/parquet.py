"""JSON rows -> a Parquet file, and what else touches pyarrow (extra `parquet`).

In: rows of JSON, any number, in any order of fields. Out: a Parquet file whose columns are the fields that were met, in
the order in which they came: text, whole numbers, numbers, true and false, objects as structs, lists as lists. What was
met as several of these is a column of JSON texts, and so is an object with very many different members (its keys are
data). Types are known only at the end, so rows wait in a temporary file beside the output.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import msgspec

from stream_dedup.errors import ConfigError, InputError
from stream_dedup.news.values import BOM

# More different members are no columns but keys of a dictionary: an item has some dozen.
_MOST_MEMBERS = 200
# Rows that are Python objects at a time.
_ROWS = 1024

Write = Callable[[bytes], int]


def pyarrow(for_what: str = "writing .parquet", instead: str = "name a file .jsonl") -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet; raises ConfigError where they are not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ConfigError(f'{for_what} needs pyarrow: pip install "stream-dedup[parquet]", or {instead}') from None
    return pyarrow, parquet


class ParquetFile:
    """A Parquet file that is being written by `write`, a piece at a time."""

    def __init__(self, write: Write, schema: Any) -> None:
        self._arrow, parquet = pyarrow()
        self.schema = schema
        self._sink = _Sink(write)
        self._writer = parquet.ParquetWriter(self._arrow.PythonFile(self._sink, mode="w"), schema, compression="zstd")

    def columns(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Rows as columns of plain values."""
        self._writer.write_table(self._arrow.table(dict(columns), schema=self.schema))

    def batch(self, batch: Any) -> None:
        """Rows as pyarrow has them."""
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        """Nothing more is written, if it is not closed; pyarrow would write the end when it is collected."""
        self._sink.write = len
        self._writer.close()


class _Sink:
    """What pyarrow wants of a file; whoever gave `write` opens and closes it."""

    closed = False

    def __init__(self, write: Write) -> None:
        self.write = write

    def flush(self) -> None:
        """Nothing: whoever gave `write` brings it to the disk."""

    close = flush


class JsonToParquet:
    """Rows of JSON that become a Parquet file at the end. Close it."""

    def __init__(self, beside: Path) -> None:
        pyarrow()
        self._spool: IO[bytes] = tempfile.TemporaryFile(dir=beside)  # noqa: SIM115 - closed by `close`
        self._decode = msgspec.json.Decoder().decode
        self._members: dict[str, _Kind] = {}

    def append(self, rows: Sequence[bytes]) -> None:
        for row in rows:
            try:
                for name, value in self._object(row).items():
                    self._members.setdefault(name, _Kind()).meet(value)
            except RecursionError:
                raise _no_row(row, "nested too deeply") from None
            self._spool.write(row.replace(b"\n", b" ") + b"\n")  # JSON has line feeds only between its tokens

    def write(self, write: Write) -> None:
        """The whole file."""
        arrow, _ = pyarrow()
        # Parquet knows no table without columns.
        members = self._members or {"id": _Kind()}
        schema = arrow.schema([(name, _arrow_type(arrow, kind)) for name, kind in members.items()])
        file = ParquetFile(write, schema)
        for rows in self._read():
            columns = {name: [kind.value(row.get(name)) for row in rows] for name, kind in members.items()}
            file.columns(columns)
        file.close()

    def close(self) -> None:
        self._spool.close()

    def _read(self) -> Iterator[list[dict[str, Any]]]:
        self._spool.seek(0)
        while rows := [self._object(line) for line in islice(self._spool, _ROWS)]:
            yield rows

    def _object(self, row: bytes) -> dict[str, Any]:
        try:
            found = self._decode(row.removeprefix(BOM))
        except msgspec.DecodeError as error:
            raise _no_row(row, str(error)) from None
        if not isinstance(found, dict):
            raise _no_row(row, f"a {type(found).__name__}")
        return found


def _no_row(row: bytes, why: str) -> InputError:
    return InputError(
        f"this line is no object, so it cannot be a row of a Parquet file ({why}): {row[:80]!r}; name the output .jsonl"
    )


class _Kind:
    """What was met at one place: its type, as narrow as all that was met allows."""

    def __init__(self) -> None:
        self._met: set[type] = set()
        self.members: dict[str, _Kind] = {}
        self._element: _Kind | None = None

    def meet(self, value: Any) -> None:
        if value is None:
            return
        self._met.add(type(value))
        if isinstance(value, dict):
            for name, member in value.items():
                if name in self.members or len(self.members) < _MOST_MEMBERS:
                    self.members.setdefault(name, _Kind()).meet(member)
                else:
                    self._met.add(object)  # no type of JSON: it can only be text
        elif isinstance(value, list):
            self._element = self._element or _Kind()
            for one in value:
                self._element.meet(one)
        elif isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
            self._met.add(object)

    @property
    def type(self) -> type:
        """`object` where only JSON text can hold it all."""
        if not self._met:
            return str  # only nulls: any type would do
        if self._met <= {int, float}:
            return float if float in self._met else int
        kind = next(iter(self._met)) if len(self._met) == 1 else object
        return object if kind is dict and not self.members else kind  # Parquet knows no struct without members

    @property
    def element(self) -> "_Kind":
        return self._element or _Kind()

    def value(self, value: Any) -> Any:
        """A value of this place as pyarrow takes it."""
        if value is None:
            return None
        kind = self.type
        if kind is object:
            return msgspec.json.encode(value).decode()
        if kind is dict:
            return {name: member.value(value.get(name)) for name, member in self.members.items()}
        if kind is list:
            return [self.element.value(one) for one in value]
        return value


def _arrow_type(arrow: Any, kind: _Kind) -> Any:
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
