"""Find and decide the pairs of an archive, and unite them: the tasks that Spark's executors call.

In: items (items.py). Entries (bucket, row) go to the task of their bucket, which pairs each item with the newest
`bucket_limit` items before it, so a bucket is never squared. The distinct pairs meet the signatures of their earlier
items, then the later item with its words; there `decide` (batch/comparer.py) is asked. So an item is sent once for each
pair as the earlier one (300 bytes, with `verify = "exact"` its body, too) and once as the later one. Each task reduces
its pairs to a forest, so a family of a thousand copies is a thousand edges and not half a million pairs, and the driver
unites the forests (batch/clusters.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.candidates import bucket_pairs, distinct
from stream_dedup.batch.clusters import cluster_of, unite
from stream_dedup.batch.comparer import Candidates, codes_of, decide, pair_rows, rows_of
from stream_dedup.batch.corpus import word_sets
from stream_dedup.batch.tables import pyarrow
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import FingerprintSettings, Settings
from stream_dedup.spark.items import matrix, record_batch

ENTRY_TYPES = {"bucket": "bigint", "row": "bigint"}
CODE_TYPES = {"later": "bigint", "earlier": "bigint", "hot": "bigint", "left_out": "bigint"}
PAIR_TYPES = {
    "b_row": "bigint", "a_row": "bigint", "a": "string", "b": "string", "stage": "string", "body": "double",
    "containment": "double", "headline": "double", "distance": "int",
}  # fmt: skip
LABEL_TYPES = {"row": "bigint", "root": "bigint"}
ITSELF = -1
"""The earlier row of the later item's own row, so that it comes before its candidates."""
# Pair codes that a task has in hand before it passes them on: 8 MB.
_CODES = 2**20


def whole_groups(record_batches: Iterable[Any], name: str) -> Iterator[Any]:
    """Tables of whole groups, from batches that are sorted by the group's number in the column `name`."""
    arrow, _ = pyarrow()
    held: Any = None
    for batch in chain(record_batches, [None]):
        if batch is None:
            table, cut = held, held.num_rows if held else 0
        else:
            new = arrow.Table.from_batches([batch])
            table = arrow.concat_tables([held, new]) if held else new
            numbers = table[name].to_numpy()
            cut = int(np.searchsorted(numbers, numbers[-1])) if len(numbers) else 0
        if cut:
            yield table.slice(0, cut)
        held = table.slice(cut) if table else None


@dataclass(frozen=True)
class EmitEntries:
    """The entries of items: a bucket is a table and a key."""

    fingerprint: FingerprintSettings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        tables = np.array(Scheme(self.fingerprint).table_of[:-1], np.int64) << 32  # not that of the ids
        for batch in record_batches:
            keys = matrix(batch["keys"], np.uint32)
            rows, columns = np.nonzero(keys)
            buckets = tables[columns] | keys[rows, columns].astype(np.int64)
            yield record_batch({"bucket": buckets, "row": batch["row"].to_numpy()[rows]}, ENTRY_TYPES)


@dataclass(frozen=True)
class PairBuckets:
    """The candidate pairs of each bucket, and rows without one that count what the limit left out."""

    bucket_limit: int

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        for table in whole_groups(record_batches, "bucket"):
            buckets = table["bucket"].to_numpy()
            dense = np.cumsum(np.diff(buckets, prepend=buckets[:1]) != 0)  # 32 bits, as `bucket_pairs` takes them
            entries = distinct(codes_of(dense, table["row"].to_numpy()))
            for run in bucket_pairs([entries], self.bucket_limit, _CODES):
                later, earlier = rows_of(run.codes)
                yield record_batch({"later": later, "earlier": earlier}, CODE_TYPES)
                yield record_batch({"hot": [run.hot], "left_out": [run.left_out]}, CODE_TYPES)


@dataclass(frozen=True)
class ComparePairs:
    """The near-duplicates. In: each later item (`ITSELF`), followed by its candidates; sorted by both."""

    settings: Settings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        scheme = Scheme(self.settings.fingerprint)
        for table in whole_groups(record_batches, "later"):
            is_item = table["earlier"].to_numpy() == ITSELF
            if not is_item.all():
                yield self._compared(table, is_item, scheme)

    def _compared(self, table: Any, is_item: NDArray[np.bool_], scheme: Scheme) -> Any:
        with_pairs, of_later = np.unique((np.cumsum(is_item) - 1)[~is_item], return_inverse=True)
        items, pairs = table.take(np.flatnonzero(is_item)[with_pairs]), table.take(np.flatnonzero(~is_item))
        new = Fingerprints(
            matrix(items["signature"], scheme.signature_dtype).ravel(),
            np.empty((items.num_rows, 0), np.uint32),
            word_sets(items["words"].to_pylist()),
            scheme.settings.hamming,
            items["body"].to_pylist() if scheme.is_exact else [],
        )
        signatures = matrix(pairs["signature"], scheme.signature_dtype).ravel()
        bodies = pairs["body"].to_pylist() if scheme.is_exact else []
        candidates = Candidates(new, signatures, of_later, np.arange(pairs.num_rows), bodies)
        is_pair, found = decide(candidates, self.settings.decision, has_words=not scheme.layout)
        pairs = pairs.filter(is_pair)
        columns = pair_rows(found, pairs["id"].to_pylist(), items["id"].take(of_later[is_pair]).to_pylist())
        rows = {"b_row": pairs["later"].to_numpy(), "a_row": pairs["earlier"].to_numpy()}
        return record_batch(columns | rows, PAIR_TYPES)


def roots_of(later: NDArray[np.int64], earlier: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of pairs that are not the first of their cluster, and the first ones.

    >>> [rows.tolist() for rows in roots_of(np.array([9, 7]), np.array([7, 3]))]
    [[7, 9], [3, 3]]
    """
    rows, positions = np.unique(np.concatenate([later, earlier]), return_inverse=True)
    roots = np.arange(len(rows))
    unite(roots, positions[: len(later)], positions[len(later) :])
    first = rows[cluster_of(roots)]
    return rows[first != rows], first[first != rows]


def reduce_pairs(record_batches: Iterable[Any]) -> Iterator[Any]:
    """A forest with the components of each batch's pairs (`LABEL_TYPES`)."""
    for batch in record_batches:
        rows, roots = roots_of(batch["b_row"].to_numpy(), batch["a_row"].to_numpy())
        yield record_batch({"row": rows, "root": roots}, LABEL_TYPES)
