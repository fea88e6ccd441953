"""List the items of parts as plain rows: with their lines, with their fingerprints, and the original rows by line."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_dedup.batch.keep import Keep
from stream_dedup.batch.parquet import pyarrow
from stream_dedup.batch.parts import SIGNATURES, SpilledCorpus
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings
from stream_dedup.spark.blocks import BlockRow, block_rows, record_batch
from stream_dedup.spark.parts import Layout, keys_of

ITEM_TYPES = {"row": "int64", "id": "string", "time": "int64", "line": "int64"}
MERIT_TYPES = {"row": "int64", "rank": "int64", "merit_time": "int64"}
FINGERPRINT_TYPES = ITEM_TYPES | {"signature": "binary", "keys": "list"}
LINE = "_stream_dedup_line"
"""The column of the line of an original row."""


@dataclass(frozen=True)
class ListItems:
    """Row, id, time and line of each item; the line counts through all partitions of a DataFrame."""

    layout: Layout
    settings: Settings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        scheme = Scheme(self.settings.fingerprint)
        for row in block_rows(record_batches):
            yield record_batch(_columns(row, self.layout, scheme), ITEM_TYPES)


@dataclass(frozen=True)
class ListMerits:
    """What the items are compared by to choose the representative of a cluster."""

    layout: Layout
    settings: Settings
    keep: Keep

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        scheme = Scheme(self.settings.fingerprint)
        for row in block_rows(record_batches):
            corpus = SpilledCorpus(scheme)
            corpus.append(self.layout.read(row, scheme))
            local = np.arange(corpus.size)
            merits = self.keep.merits(corpus.signatures(local), scheme)
            rows = local + self.layout.start(row.value("part"))
            yield record_batch({"row": rows, "rank": merits.rank, "merit_time": merits.time}, MERIT_TYPES)


@dataclass(frozen=True)
class ListFingerprints:
    """The same with signature and keys."""

    layout: Layout
    settings: Settings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        scheme = Scheme(self.settings.fingerprint)
        for row in block_rows(record_batches):
            keys = list(keys_of(row, scheme).T.astype(np.int64))
            yield record_batch(_columns(row, self.layout, scheme) | {"keys": keys}, FINGERPRINT_TYPES)


def _columns(row: BlockRow, layout: Layout, scheme: Scheme) -> dict[str, Any]:
    arrays = layout.read(row, scheme)
    corpus = SpilledCorpus(scheme)
    corpus.append(arrays)
    local = np.arange(corpus.size)
    signatures = corpus.signatures(local)
    return {
        "row": local + layout.start(row.value("part")),
        "id": corpus.ids(local),
        "time": np.ascontiguousarray(signatures["time"]),
        "line": np.ascontiguousarray(signatures["offset"]),
        "signature": [signature.tobytes() for signature in arrays[SIGNATURES]],
    }


@dataclass(frozen=True)
class NumberRows:
    """The original rows with their lines, in the partitions that the parts were made of."""

    layout: Layout

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        arrow, _ = pyarrow()
        context = TaskContext.get()
        line = self.layout.lines_before(context.partitionId() if context is not None else 0)
        for batch in record_batches:
            lines = arrow.array(np.arange(line + 1, line + 1 + batch.num_rows))
            line += batch.num_rows
            yield arrow.record_batch([*batch.columns, lines], names=[*batch.schema.names, LINE])
