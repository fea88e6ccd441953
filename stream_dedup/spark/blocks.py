"""Blocks: rows of Spark that hold whole arrays, and reading them group by group.

Spark moves one row for thousands of items, so the costs of a row do not count, and the kernels work on arrays. In:
Arrow record batches of such rows, sorted by the number of their group. Out: the groups, one at a time. Memory holds
the rows of one group at most, and one batch (Spark cuts batches at 64 MiB).
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.parquet import pyarrow


class BlockRow(NamedTuple):
    """One row of an Arrow record batch."""

    batch: Any
    position: int

    def value(self, name: str) -> Any:
        """A number or text."""
        return self.batch[name][self.position].as_py()

    def array(self, name: str, dtype: Any) -> NDArray[Any]:
        """The array in a binary column, read-only; an empty one if the cell is null."""
        buffer = self.batch[name][self.position].as_buffer()
        return np.frombuffer(buffer, dtype) if buffer is not None else np.empty(0, dtype)


def block_rows(batches: Iterable[Any]) -> Iterator[BlockRow]:
    """The rows of record batches."""
    for batch in batches:
        for index in range(batch.num_rows):
            yield BlockRow(batch, index)


def groups(batches: Iterable[Any], name: str) -> Iterator[tuple[int, Iterator[BlockRow]]]:
    """The rows with equal numbers in the column `name`, which are neighbours."""
    numbered = (
        (number, BlockRow(batch, index)) for batch in batches for index, number in enumerate(batch[name].to_pylist())
    )
    for number, rows in groupby(numbered, itemgetter(0)):
        yield number, (row for _, row in rows)


def record_batch(columns: Mapping[str, Any], types: dict[str, str]) -> Any:
    """A record batch; `types`: the Arrow type of each column by name, in the order of the schema."""
    arrow, _ = pyarrow("stream_dedup.spark", "use `stream-dedup pairs` without --engine spark")
    kinds = {name: arrow.list_(arrow.int64()) if kind == "list" else kind for name, kind in types.items()}
    arrays = [arrow.array(columns[name], kind) for name, kind in kinds.items()]
    return arrow.record_batch(arrays, names=list(types))


def schema_of(types: dict[str, str]) -> str:
    """The schema of Spark for Arrow types.

    >>> schema_of({"part": "int64", "keys": "binary"})
    'part bigint, keys binary'
    """
    names = {
        "int64": "bigint",
        "int32": "int",
        "float64": "double",
        "string": "string",
        "binary": "binary",
        "list": "array<bigint>",
    }
    return ", ".join(f"{name} {names[kind]}" for name, kind in types.items())


def packed_codes(codes: NDArray[np.uint64]) -> bytes:
    """Ascending pair codes as differences, which the compression of a shuffle makes small in runs of neighbours."""
    return np.diff(codes, prepend=np.uint64(0)).tobytes()


def unpacked_codes(row: BlockRow, name: str) -> NDArray[np.uint64]:
    """The inverse of `packed_codes`."""
    return np.cumsum(row.array(name, np.uint64), dtype=np.uint64)
