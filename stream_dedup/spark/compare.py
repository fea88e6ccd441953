"""Decide the candidate pairs of an archive with `PairComparer` (batch/compare.py).

In: chunks of candidate pairs, and parts. Out: *verified* rows, one for each chunk, with its near-duplicates. Two
exchanges: each chunk asks the parts for the distinct rows that it needs, and the parts send a chunk these rows and
nothing else: a signature, its id, and the words of later items. So what moves grows with the items, not with the pairs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.compare import PairComparer, RowRange
from stream_dedup.batch.pairs import pair_rows
from stream_dedup.batch.parquet import pyarrow
from stream_dedup.batch.parts import SIGNATURES, SpilledCorpus, taken
from stream_dedup.batch.spill import Arrays
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings
from stream_dedup.spark.blocks import block_rows, groups, record_batch, unpacked_codes
from stream_dedup.spark.parts import DATA_DTYPES, Layout

_DATA = dict.fromkeys(DATA_DTYPES, "binary")
NEED_TYPES = {"part": "int64", "chunk": "int64", "rows": "binary", "is_later": "binary"}
SENT_TYPES = {"chunk": "int64", "first": "int64", "rows": "binary"} | _DATA
VERIFIED_TYPES = {
    "chunk": "int64", "compared": "int64", "pairs": "int64", "later": "binary", "earlier": "binary",
    "table": "binary",
}  # fmt: skip
PAIR_TYPES = {
    "b_row": "int64", "a_row": "int64", "a": "string", "b": "string", "stage": "string", "body": "float64",
    "containment": "float64", "headline": "float64", "distance": "int32",
}  # fmt: skip
PART_ITSELF = -1
"""The chunk number of the row that holds a part, so that it comes before what the chunks ask of it."""
_SHIFT, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class AskForRows:
    """What each chunk needs of each part: rows of the part, and which of them are later items."""

    layout: Layout

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        numbers = np.array(sorted(self.layout.indexes, key=self.layout.indexes.__getitem__), np.int64)
        for row in block_rows(record_batches):
            rows, later = rows_of(unpacked_codes(row, "codes"))
            is_later = np.isin(rows, later, assume_unique=True)
            indexes = np.searchsorted(self.layout.starts, rows, side="right") - 1
            found, starts = np.unique(indexes, return_index=True)
            columns = {
                "part": numbers[found].tolist(),
                "chunk": [row.value("chunk")] * len(found),
                "rows": [part.tobytes() for part in np.split(rows - self.layout.starts[indexes], starts[1:])][
                    : len(found)
                ],
                "is_later": [part.tobytes() for part in np.split(is_later, starts[1:])][: len(found)],
            }
            yield record_batch(columns, NEED_TYPES)


def rows_of(codes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All distinct rows of pair codes, and those of later items, ascending."""
    later, earlier = np.unique((codes >> _SHIFT).astype(np.int64)), np.unique((codes & _LOW).astype(np.int64))
    return np.union1d(later, earlier), later


@dataclass(frozen=True)
class SendRows:
    """The rows that were asked for. In: each part, followed by what the chunks ask of it, sorted by part."""

    layout: Layout
    settings: Settings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        scheme = Scheme(self.settings.fingerprint)
        for part, rows in groups(record_batches, "part"):
            arrays: Arrays = {}
            start = self.layout.start(part)
            for row in rows:
                if row.value("chunk") == PART_ITSELF:
                    arrays = self.layout.read(row, scheme)
                    continue
                wanted = row.array("rows", np.int64)
                sent = taken(arrays, wanted, row.array("is_later", np.bool_))
                columns: dict[str, list[Any]] = {name: [sent[name].tobytes()] for name in DATA_DTYPES}
                columns |= {
                    "chunk": [row.value("chunk")],
                    "first": [start + int(wanted[0])],
                    "rows": [(wanted + start).tobytes()],
                }
                yield record_batch(columns, SENT_TYPES)


@dataclass(frozen=True)
class CompareChunks:
    """The near-duplicates of each chunk. In: a chunk's codes, then the rows that it needs, sorted by chunk and row."""

    settings: Settings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        scheme = Scheme(self.settings.fingerprint)
        for chunk, rows in groups(record_batches, "chunk"):
            codes, end = np.empty(0, np.uint64), chunk
            corpus = SpilledCorpus(scheme)
            numbers: list[NDArray[np.int64]] = []
            for row in rows:
                if row.value("first") == PART_ITSELF:
                    codes, end = unpacked_codes(row, "codes"), row.value("end")
                    continue
                arrays: Arrays = {name: row.array(name, dtype) for name, dtype in DATA_DTYPES.items()}
                arrays[SIGNATURES] = arrays[SIGNATURES].reshape(-1, scheme.signature_dtype.itemsize)
                corpus.append(arrays)
                numbers.append(row.array("rows", np.int64))
            if len(codes):
                yield self._compare(chunk, end, codes, corpus, np.concatenate(numbers), scheme)

    def _compare(
        self, chunk: int, end: int, codes: NDArray[np.uint64], corpus: SpilledCorpus, rows: NDArray[np.int64],
        scheme: Scheme,
    ) -> Any:  # fmt: skip
        arrow, _ = pyarrow()
        # The corpus holds these rows only, in the same order, so their positions replace them in the codes.
        later = np.searchsorted(rows, (codes >> _SHIFT).astype(np.int64)).astype(np.uint64)
        earlier = np.searchsorted(rows, (codes & _LOW).astype(np.int64)).astype(np.uint64)
        compare = PairComparer(corpus, [later << _SHIFT | earlier], self.settings.decision, scheme.settings.hamming)
        head, found = compare(RowRange(chunk, end, [(0, len(codes))]))
        b_rows, a_rows = rows[found["later"]], rows[found["earlier"]]
        columns = {**pair_rows(found, corpus.ids_of), "b_row": b_rows, "a_row": a_rows}
        sink = arrow.BufferOutputStream()
        table = record_batch(columns, PAIR_TYPES)
        with arrow.ipc.new_stream(sink, table.schema) as stream:
            stream.write_batch(table)
        values = {
            "chunk": chunk, "compared": head.compared, "pairs": table.num_rows,
            "later": b_rows.tobytes(), "earlier": a_rows.tobytes(),
            "table": sink.getvalue().to_pybytes(),
        }  # fmt: skip
        return record_batch({name: [value] for name, value in values.items()}, VERIFIED_TYPES)


def unpack_pairs(record_batches: Iterable[Any]) -> Iterator[Any]:
    """The rows of pairs (`PAIR_TYPES`) of verified rows."""
    arrow, _ = pyarrow()
    for row in block_rows(record_batches):
        with arrow.ipc.open_stream(row.batch["table"][row.position].as_buffer()) as stream:
            yield from stream
