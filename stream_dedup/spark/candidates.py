"""Find the candidate pairs of an archive: the buckets of batch/candidates.py, each sorted by one task.

In: parts. Out: *chunks*, rows with the distinct candidate pairs of a range of later rows, and the counts of what the
bucket limit left out. Two exchanges: entries (key, row) go to the task of their table and range of keys; pair codes go
to the task of their range of later rows, which removes those that several tables found. A bucket is never squared: each
item is paired with the newest `bucket_limit` items before it, as in the single process.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.candidates import bucket_pairs, distinct
from stream_dedup.batch.compare import bytes_per_pair, row_ranges
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import FingerprintSettings
from stream_dedup.spark.blocks import block_rows, groups, packed_codes, record_batch, unpacked_codes
from stream_dedup.spark.parts import Layout, keys_of

ENTRY_TYPES = {"range": "int64", "entries": "binary"}
CODE_TYPES = {"range": "int64", "codes": "binary", "hot": "int64", "left_out": "int64"}
CHUNK_TYPES = {
    "chunk": "int64", "end": "int64", "codes": "binary", "count": "int64", "hot": "int64", "left_out": "int64"
}  # fmt: skip

# Entries of a range of keys: 32 MB, and as much again while they are sorted.
_RANGE_ENTRIES = 2**22
# Pair codes that a task has in hand before it passes them on: 8 MB.
_CODES = 2**20
# Bytes of the pairs that one call compares, in a process beside others that share 4 GB.
_COMPARE_BYTES = 2**27
# Later rows of a range: at least as many as `row_ranges` puts together, and at most 16,384 ranges.
_LEAST_WIDTH, _MOST_RANGES = 4096, 2**14


def later_width(size: int) -> int:
    """Rows in a range of later rows.

    >>> later_width(1_000_000), later_width(1_000_000_000)
    (4096, 65536)
    """
    width = _LEAST_WIDTH
    while width * _MOST_RANGES < size:
        width *= 2
    return width


@dataclass(frozen=True)
class EmitEntries:
    """The entries (key * 2^32 + row) of parts, by table and range of keys."""

    layout: Layout
    fingerprint: FingerprintSettings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        scheme = Scheme(self.fingerprint)
        widest = max(Counter(scheme.table_of).values())  # columns of a table
        per_table = np.uint64(-(-self.layout.size * widest // _RANGE_ENTRIES))
        for row in block_rows(record_batches):
            numbers: list[int] = []
            blocks: list[bytes] = []
            start = self.layout.start(row.value("part"))
            for table, keys in zip(scheme.table_of, keys_of(row, scheme), strict=False):  # not the ids' table
                rows = np.flatnonzero(keys)
                entries = keys[rows].astype(np.uint64) << np.uint64(32) | (rows + start).astype(np.uint64)
                # Keys are hashes, so equal ranges of keys hold about the same number of entries.
                ranges = (entries >> np.uint64(32)) * per_table >> np.uint64(32)
                for number in np.unique(ranges):
                    numbers.append(table * int(per_table) + int(number))
                    blocks.append(entries[ranges == number].tobytes())
            yield record_batch({"range": numbers, "entries": blocks}, ENTRY_TYPES)


@dataclass(frozen=True)
class PairBuckets:
    """The pair codes of each bucket, by range of later rows. In: entries, sorted by range."""

    bucket_limit: int
    width: int

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        for _, rows in groups(record_batches, "range"):
            entries = np.concatenate([row.array("entries", np.uint64) for row in rows])
            for head, codes in bucket_pairs([distinct(entries)], self.bucket_limit, _CODES):
                ranges, blocks = self._cut(codes)
                zeros = [0] * len(ranges)
                yield record_batch({"range": ranges, "codes": blocks, "hot": zeros, "left_out": zeros}, CODE_TYPES)
                if head.last:  # the counts so far go with no codes, to any range
                    counts = {"hot": [head.hot], "left_out": [head.left_out]}
                    yield record_batch({"range": [0], "codes": [b""]} | counts, CODE_TYPES)

    def _cut(self, codes: NDArray[np.uint64]) -> tuple[list[int], list[bytes]]:
        ranges = (codes >> np.uint64(32)) // np.uint64(self.width)
        numbers, starts = np.unique(ranges, return_index=True)
        parts = np.split(codes, starts[1:])[: len(numbers)]
        return [int(number) for number in numbers], [packed_codes(part) for part in parts]


@dataclass(frozen=True)
class MakeChunks:
    """The distinct codes of each range of later rows, cut for comparing. In: codes, sorted by range."""

    size: int
    width: int
    fingerprint: FingerprintSettings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        capacity = _COMPARE_BYTES // bytes_per_pair(Scheme(self.fingerprint))
        for number, rows in groups(record_batches, "range"):
            codes, hot, left_out = self._distinct(rows)
            first = number * self.width
            columns: dict[str, list[Any]] = {name: [] for name in CHUNK_TYPES}
            for part in row_ranges([codes], first, min(first + self.width, self.size), capacity):
                low, high = part.bounds[0]
                values = (part.first, part.end, packed_codes(codes[low:high]), high - low, hot, left_out)
                if high > low or hot:
                    for column, value in zip(columns.values(), values, strict=True):
                        column.append(value)
                    hot = left_out = 0
            yield record_batch(columns, CHUNK_TYPES)

    @staticmethod
    def _distinct(rows: Iterable[Any]) -> tuple[NDArray[np.uint64], int, int]:
        merged, new, count, hot, left_out = np.empty(0, np.uint64), list[NDArray[np.uint64]](), 0, 0, 0
        for row in rows:
            codes = unpacked_codes(row, "codes")
            new.append(codes)
            count += len(codes)
            hot, left_out = hot + row.value("hot"), left_out + row.value("left_out")
            if count > max(_CODES, len(merged)):  # so each code is sorted a few times only
                merged, new, count = distinct(np.concatenate([merged, *new])), [], 0
        return distinct(np.concatenate([merged, *new])), hot, left_out
