"""Fingerprint an archive in parts, and number its items.

In: the rows of a DataFrame, partition by partition. Out: *parts*, rows of blocks with the arrays of up to 4,096 items
(batch/parts.py), and their `Layout` on the driver. A task knows neither how many lines nor which dates come before it.
So a part counts its lines from a provisional number, and the layout, made of the heads of all parts, says what must be
added: then lines, ids of items without one, and missing dates are those of the single process.

The order of items is that of files, of blocks within a file, and of lines; otherwise that of the partitions.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.judge import Line
from stream_dedup.batch.lines import is_blank
from stream_dedup.batch.parquet import pyarrow
from stream_dedup.batch.parts import SIGNATURES, BadLine, BatchMaker, joined
from stream_dedup.batch.rows import objects_of
from stream_dedup.batch.spill import Arrays
from stream_dedup.batches import batches
from stream_dedup.dedup.clocks import START, fill_missing_times
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings
from stream_dedup.spark.blocks import BlockRow, record_batch

INPUT, FILE, BLOCK = "_stream_dedup_input", "_stream_dedup_file", "_stream_dedup_block"
"""Columns that name the place of a row in files; without them the partition is the place."""
VALUE = "value"
"""The column of a DataFrame that holds whole records."""

# Items of a part. With 1.2 KB an item, a part is 5 MB: large beside the costs of a row, small beside a task's memory.
_PART_ITEMS = 4096
_PART_BYTES = 2**24
_BATCH_ITEMS, _BATCH_BYTES = 1000, 2**22
# Provisional line numbers begin here, so an id made of one ("0:2305843009213693953") is no id of a feed.
_PROVISIONAL = 2**61
# Parts that one task makes at most: the number of a part is that of its task * 2^24 + its own.
_PART_BITS = 24
# Bad lines of a part that are reported; all are counted.
_MOST_REASONS = 5

HEAD_TYPES = {
    "part": "int64", "input": "int32", "file": "string", "block": "int64", "lines": "int64", "items": "int64",
    "bad": "int64", "highest": "int64", "reasons": "binary",
}  # fmt: skip
DATA_DTYPES: dict[str, str] = {
    SIGNATURES: "u1", "ids": "u1", "id_ends": "i8", "words": "u2", "word_ends": "i8", "bodies": "u1", "body_ends": "i8",
}  # fmt: skip
"""The arrays that comparing needs; the keys are apart, because only the candidates need them."""
PART_TYPES = HEAD_TYPES | {"keys": "binary"} | dict.fromkeys(DATA_DTYPES, "binary")


class _Place(NamedTuple):
    input: int
    file: str
    block: int


@dataclass(frozen=True)
class MakeParts:
    """Turns the rows of a partition into parts."""

    settings: Settings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        make = BatchMaker(self.settings, Scheme(self.settings.fingerprint))
        part = _Part(partition << _PART_BITS, _Place(0, "", partition))
        for place, values in _runs(record_batches, part.place):
            for batch in batches(values, len, _BATCH_ITEMS, _BATCH_BYTES):
                if part.is_full or (place != part.place and part.lines):
                    yield part.finished()
                    part = _Part(part.number + 1, place)
                part.place = place
                part.append(batch, make)
        if part.lines:
            yield part.finished()


class _Part:
    """A part in the making: the arrays of successive lines of one place."""

    def __init__(self, number: int, place: _Place) -> None:
        self.number = number
        self.place = place
        self.lines = 0
        self._arrays: list[Arrays] = []
        self._bad: list[BadLine] = []

    @property
    def is_full(self) -> bool:
        return self.lines >= _PART_ITEMS or sum(a.nbytes for part in self._arrays for a in part.values()) >= _PART_BYTES

    def append(self, values: Sequence[bytes], make: BatchMaker) -> None:
        numbered = enumerate(values, _PROVISIONAL + self.lines + 1)
        arrays, bad = make([Line(value, 0, number) for number, value in numbered if not is_blank(value)])
        self._arrays.append(arrays)
        self._bad += bad
        self.lines += len(values)

    def finished(self) -> Any:
        """The record batch with the one row of the part."""
        arrays = joined(self._arrays)
        times = np.concatenate([part["times"] for part in self._arrays])
        reasons = [(line.number - _PROVISIONAL, line.reason) for line in self._bad[:_MOST_REASONS]]
        head = {
            "part": self.number, **self.place._asdict(), "lines": self.lines, "items": len(times),
            "bad": len(self._bad), "highest": int(times.max(initial=START)), "reasons": msgspec.json.encode(reasons),
        }  # fmt: skip
        blocks = {name: np.ascontiguousarray(arrays[name]).tobytes() for name in ("keys", *DATA_DTYPES)}
        return record_batch({name: [value] for name, value in (head | blocks).items()}, PART_TYPES)


def _runs(record_batches: Iterable[Any], partition: _Place) -> Iterator[tuple[_Place, Iterator[bytes]]]:
    """The records of neighbouring rows of one place, each row as JSON; `partition`: the place of rows without one."""
    arrow, _ = pyarrow("stream_dedup.spark", "use `stream-dedup pairs` without --engine spark")
    for batch in record_batches:
        if FILE not in batch.schema.names:
            yield partition, _records(arrow, batch)
            continue
        places = [_Place(*row) for row in zip(*(batch[name].to_pylist() for name in (INPUT, FILE, BLOCK)), strict=True)]
        batch = batch.drop_columns([INPUT, FILE, BLOCK])
        cuts = [0, *(i for i in range(1, len(places)) if places[i] != places[i - 1]), len(places)]
        for start, end in pairwise(cuts):
            if end > start:
                yield places[start], _records(arrow, batch.slice(start, end - start))


def _records(arrow: Any, batch: Any) -> Iterator[bytes]:
    if batch.schema.names != [VALUE]:
        return objects_of(arrow, batch)
    return (value.encode() if isinstance(value, str) else value or b"" for value in batch[VALUE].to_pylist())


class Head(NamedTuple):
    """The head of a part; see `HEAD_TYPES`."""

    part: int
    input: int
    file: str
    block: int
    lines: int
    items: int
    bad: int
    highest: int
    reasons: bytes


@dataclass(frozen=True)
class Layout:
    """The order of all parts, and what stands before each.

    `indexes`: the index of a part by its number. Part i has the rows starts[i]:starts[i + 1]. It belongs to input
    inputs[i] (from 0), the file files[inputs[i]]. Before it come lines[i] lines of this input; watermarks[i] is the
    latest event time before it, ms.
    """

    indexes: dict[int, int]
    starts: NDArray[np.int64]
    inputs: NDArray[np.int64]
    lines: NDArray[np.int64]
    watermarks: NDArray[np.int64]
    files: list[str]
    bad: int
    examples: list[tuple[int, int, str]]
    """Some bad lines: input, line, reason."""

    @classmethod
    def of(cls, heads: Iterable[Head]) -> "Layout":
        ordered = sorted(heads, key=lambda head: (head.input, head.file, head.block, head.part))
        inputs, lines, watermarks, examples = list[int](), list[int](), list[int](), list[tuple[int, int, str]]()
        files = [head.file for head in ordered[:1]]
        number, line, watermark = 0, 0, START
        for i, head in enumerate(ordered):
            before = ordered[i - 1] if i else head
            if (head.input, head.file) != (before.input, before.file):
                number, line = number + 1, 0
                files.append(head.file)
            inputs.append(number)
            lines.append(line)
            watermarks.append(watermark)
            if len(examples) < _MOST_REASONS:
                reasons = msgspec.json.decode(head.reasons, type=list[tuple[int, str]])
                examples += [(number, line + at, reason) for at, reason in reasons]
            line, watermark = line + head.lines, max(watermark, head.highest)
        return cls(
            {head.part: i for i, head in enumerate(ordered)},
            np.cumsum([0, *(head.items for head in ordered)], dtype=np.int64),
            np.array(inputs, np.int64),
            np.array(lines, np.int64),
            np.array(watermarks, np.int64),
            [re.sub("^file:/*", "/", file) for file in files],
            sum(head.bad for head in ordered),
            examples[:_MOST_REASONS],
        )

    @property
    def size(self) -> int:
        """The number of items."""
        return int(self.starts[-1])

    def start(self, part: int) -> int:
        """The first row of a part, given by its number."""
        return int(self.starts[self.indexes[part]])

    def lines_before(self, partition: int) -> int:
        """The lines before a partition of a DataFrame without files; 0 for one without lines."""
        parts = (index for part, index in self.indexes.items() if part >> _PART_BITS == partition)
        return min((int(self.lines[index]) for index in parts), default=0)

    def read(self, row: BlockRow, scheme: Scheme) -> Arrays:
        """The arrays of a part (`DATA_DTYPES`), placed: true lines, ids and times."""
        index = self.indexes[row.value("part")]
        arrays: Arrays = {name: row.array(name, dtype) for name, dtype in DATA_DTYPES.items()}
        signatures = arrays[SIGNATURES].view(scheme.signature_dtype).copy()
        fill_missing_times(signatures["time"], int(self.watermarks[index]))
        provisional = [b"0:%d" % offset for offset in signatures["offset"].tolist()]
        signatures["partition"] = self.inputs[index]
        signatures["offset"] += self.lines[index] - _PROVISIONAL
        if b"0:23058430" in arrays["ids"].tobytes():
            self._place_ids(arrays, signatures, provisional, scheme)
        arrays[SIGNATURES] = signatures.view(np.uint8).reshape(len(signatures), scheme.signature_dtype.itemsize)
        return arrays

    @staticmethod
    def _place_ids(arrays: Arrays, signatures: NDArray[np.void], provisional: list[bytes], scheme: Scheme) -> None:
        """Name the items without an id by their lines, in place."""
        data, ends = arrays["ids"].tobytes(), arrays["id_ends"].tolist()
        ids = [data[start:end] for start, end in pairwise([0, *ends])]
        for i, name in enumerate(ids):
            if name == provisional[i]:
                ids[i] = b"%d:%d" % (signatures["partition"][i], signatures["offset"][i])
                signatures["row_id"][i] = scheme.identity(ids[i].decode())
        arrays["ids"] = np.frombuffer(b"".join(ids), np.uint8)
        arrays["id_ends"] = np.cumsum([len(name) for name in ids], dtype=np.int64)


def keys_of(row: BlockRow, scheme: Scheme) -> NDArray[np.uint32]:
    """The keys of a part, (columns, items), without those of ids."""
    keys: NDArray[np.uint32] = row.array("keys", np.uint32).reshape(scheme.key_columns - 1, -1)
    return keys
