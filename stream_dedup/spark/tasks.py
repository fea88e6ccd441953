"""What Spark's executors do with record batches, step by step: items, keys, pairs, decisions, forests of clusters.

1. Records, each with its place (input, file, block), become *items*: row, place, id, signature, keys, words, body. A
   line that holds no item has the reason instead. The row of an item is the number of its line in the whole archive
   (from 0), which is the order of arrival: of files, of blocks in a file, of lines; without files, of the partitions.
   The driver counts the lines before each place (`Places`), so lines, and ids of items without one, have the numbers of
   the single process. A task does not know the dates before its own, so items without a date get theirs later
   (`list_merits`).
2. Entries (bucket, row) go to the task of their bucket. It pairs each item with the newest `bucket_limit` items before
   it, so a bucket is never squared.
3. The distinct pairs meet the signatures of their earlier items, then the later item with its words, and are decided
   (`decide` in batch/pair_search.py). So an item is sent once for each pair as the earlier one (300 bytes; with
   `verify = "exact"` its body, too), and once as the later one.
4. Each task reduces its pairs to a forest: a family of a thousand copies is a thousand edges and not half a million
   pairs. The driver unites the forests (batch/pairs.py).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dedup.batch.lines import Line, is_blank
from stream_dedup.batch.pair_search import (
    SIGNATURES,
    BatchMaker,
    bucket_pairs,
    codes_of,
    decide,
    distinct,
    pair_rows,
    rows_of,
    rows_of_bytes,
    word_sets,
)
from stream_dedup.batch.pairs import Keep, cluster_of, unite
from stream_dedup.batch.tables import objects_of
from stream_dedup.dedup.batch import batches
from stream_dedup.dedup.clocks import START, fill_missing_times
from stream_dedup.dedup.similarity import compare
from stream_dedup.errors import InputError
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings

INPUT, FILE, BLOCK = PLACE = "_stream_dedup_input", "_stream_dedup_file", "_stream_dedup_block"
"""Columns that name the place of a record."""
VALUE = "value"
"""The column of a DataFrame that holds whole records."""
ROW = "_stream_dedup_row"
"""The column of the row number in a DataFrame of the user."""

_BATCH_ITEMS, _BATCH_BYTES = 1000, 2**22

ITEM_TYPES = {
    "row": "bigint", "place": "bigint", "reason": "string", "id": "string", "time": "bigint", "signature": "binary",
    "keys": "binary", "words": "binary", "body": "binary",
}  # fmt: skip
MERIT_TYPES = {"row": "bigint", "rank": "bigint", "merit_time": "bigint"}
ENTRY_TYPES = {"bucket": "bigint", "row": "bigint"}
CODE_TYPES = {"later": "bigint", "earlier": "bigint", "hot": "bigint", "left_out": "bigint"}
PAIR_TYPES = {
    "b_row": "bigint", "a_row": "bigint", "a": "string", "b": "string", "stage": "string", "body": "double",
    "containment": "double", "headline": "double", "distance": "int",
}  # fmt: skip
LABEL_TYPES = {"row": "bigint", "root": "bigint"}
ITSELF = -1
"""Stands for the earlier row in the row of the later item itself, which is thus sorted before its candidates."""
# Pair codes that a task collects before it passes them on: 8 MB.
_CODES = 2**20


def record_batch(columns: Mapping[str, Any], types: Mapping[str, str]) -> Any:
    """An Arrow record batch; missing columns are null."""
    kinds = {
        "bigint": pa.int64(), "int": pa.int32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(),
    }  # fmt: skip
    size = len(next(iter(columns.values())))
    arrays = [pa.array(columns.get(name, [None] * size), kinds[kind]) for name, kind in types.items()]
    return pa.record_batch(arrays, names=list(types))


def matrix(column: Any, dtype: Any) -> NDArray[Any]:
    """A column of binary values of one length as a matrix, a row each."""
    values = column.to_pylist()
    return np.frombuffer(b"".join(values), dtype).reshape(len(values), -1 if values else 0)


@dataclass(frozen=True)
class Places:
    """The places in order. For each: its index, the number of its file, and the lines of the file before it."""

    places: dict[tuple[int, str, int], tuple[int, int, int]]
    starts: NDArray[np.int64]
    """The first row of each file, and the end of the last."""
    files: list[str]

    @classmethod
    def of(cls, counts: Iterable[Sequence[Any]]) -> "Places":
        """From rows (input, file, block, lines). Raises InputError for more lines than pair codes can name."""
        places: dict[tuple[int, str, int], tuple[int, int, int]] = {}
        starts, files = list[int](), list[tuple[int, str]]()
        row = 0
        for index, (number, file, block, lines) in enumerate(sorted(map(tuple, counts))):
            if not files or files[-1] != (number, file):
                files.append((number, file))
                starts.append(row)
            places[number, file, block] = index, len(files) - 1, row - starts[-1]
            row += lines
        if row >= 2**32:
            raise InputError(f"{row:,} lines are too many; at most 4,294,967,295 can be compared")
        return cls(places, np.array([*starts, row], np.int64), [re.sub("^file:/*", "/", file) for _, file in files])

    def line(self, row: int) -> tuple[int, int]:
        """The number of the file and of the line (from 1) of a row."""
        number = int(np.searchsorted(self.starts[:-1], row, side="right")) - 1
        return number, row - int(self.starts[number]) + 1


def _runs(record_batches: Iterable[Any]) -> Iterator[tuple[tuple[int, str, int], Any]]:
    """Split batches into rows of one place, without the columns of the place."""
    for batch in record_batches:
        places = list(zip(*(batch[name].to_pylist() for name in PLACE), strict=True))
        cuts = [0, *(i for i in range(1, len(places)) if places[i] != places[i - 1]), len(places)]
        for start, end in pairwise(cuts):
            if end > start:
                yield places[start], batch.drop_columns(list(PLACE)).slice(start, end - start)


def make_items(places: Places, settings: Settings, record_batches: Iterable[Any]) -> Iterator[Any]:
    """Turn records into items (`ITEM_TYPES`)."""
    scheme, done = Scheme(settings.fingerprint), Counter[Any]()
    make = BatchMaker(settings, scheme)
    for place, batch in _runs(record_batches):
        index, number, before = places.places[place]
        first_row = int(places.starts[number]) - 1  # lines count from 1
        values = enumerate(_records(batch), before + done[place] + 1)
        done[place] += batch.num_rows
        lines = (Line(value, number, line) for line, value in values if not is_blank(value))
        for chunk in batches(lines, attrgetter("size"), _BATCH_ITEMS, _BATCH_BYTES):
            arrays, bad = make(chunk)
            signatures = arrays[SIGNATURES]
            columns: dict[str, Any] = {
                "row": signatures["offset"].astype(np.int64) + first_row,
                "place": [index] * len(signatures),
                "id": [name.decode() for name in rows_of_bytes(arrays, "ids")],
                "time": np.ascontiguousarray(signatures["time"]),
                "signature": [signature.tobytes() for signature in signatures],
                "keys": [keys.tobytes() for keys in arrays["keys"].T],
                "words": rows_of_bytes(arrays, "words"),
            }
            if len(arrays["bodies_ends"]):
                columns["body"] = rows_of_bytes(arrays, "bodies")
            yield record_batch(columns, ITEM_TYPES)
            reasons = {"row": [line.number + first_row for line in bad], "reason": [line.reason for line in bad]}
            yield record_batch(reasons, ITEM_TYPES)


def _records(batch: Any) -> Iterator[bytes]:
    if batch.schema.names != [VALUE]:
        return iter(objects_of(pa, batch))
    return (value.encode() if isinstance(value, str) else value or b"" for value in batch[VALUE].to_pylist())


def list_merits(
    watermarks: Sequence[int], settings: Settings, keep: Keep, record_batches: Iterable[Any]
) -> Iterator[Any]:
    """The ranks and times by which the representative of a cluster is chosen.

    watermarks: the highest time before each place. An item without a time gets the highest one before it.
    """
    scheme, highest = Scheme(settings.fingerprint), list(watermarks)
    for batch in record_batches:
        signatures = matrix(batch["signature"], scheme.signature_dtype).ravel().copy()
        places = batch["place"].to_numpy()
        for place in np.unique(places).tolist():
            times = signatures["time"][places == place]
            highest[place] = fill_missing_times(times, highest[place])
            signatures["time"][places == place] = times
        rank, time = keep.merits(signatures, scheme)
        yield record_batch({"row": batch["row"], "rank": rank, "merit_time": time}, MERIT_TYPES)


def highest_before(highest: Mapping[int, int], places: int) -> list[int]:
    """The highest time before each place, given that of each place with items."""
    times = [START, *(highest.get(place, START) for place in range(places))]
    return [int(time) for time in np.maximum.accumulate(times)[:-1]]


def number_rows(places: Places, record_batches: Iterable[Any]) -> Iterator[Any]:
    """The original records with a column of row numbers instead of the columns of the place."""
    done = Counter[Any]()
    for place, batch in _runs(record_batches):
        _, number, before = places.places[place]
        first = int(places.starts[number]) + before + done[place]
        done[place] += batch.num_rows
        rows = pa.array(np.arange(first, first + batch.num_rows))
        yield pa.record_batch([*batch.columns, rows], names=[*batch.schema.names, ROW])


# -- pairs -------------------------------------------------------------------------------------------------------------


def whole_groups(record_batches: Iterable[Any], name: str) -> Iterator[Any]:
    """Cut batches, sorted by the group's number in the column `name`, into tables of whole groups."""
    held: Any = None
    for batch in chain(record_batches, [None]):
        if batch is None:
            table, cut = held, held.num_rows if held else 0
        else:
            new = pa.Table.from_batches([batch])
            table = pa.concat_tables([held, new]) if held else new
            numbers = table[name].to_numpy()
            cut = int(np.searchsorted(numbers, numbers[-1])) if len(numbers) else 0
        if cut:
            yield table.slice(0, cut)
        held = table.slice(cut) if table else None


def emit_entries(settings: Settings, record_batches: Iterable[Any]) -> Iterator[Any]:
    """The entries of items: a bucket is a table and a key."""
    tables = np.array(Scheme(settings.fingerprint).table_of[:-1], np.int64) << 32  # not that of the ids
    for batch in record_batches:
        keys = matrix(batch["keys"], np.uint32)
        rows, columns = np.nonzero(keys)
        buckets = tables[columns] | keys[rows, columns].astype(np.int64)
        yield record_batch({"bucket": buckets, "row": batch["row"].to_numpy()[rows]}, ENTRY_TYPES)


def pair_buckets(bucket_limit: int, record_batches: Iterable[Any]) -> Iterator[Any]:
    """The candidate pairs of each bucket, and rows without a pair that count what the limit left out."""
    for table in whole_groups(record_batches, "bucket"):
        buckets = table["bucket"].to_numpy()
        dense = np.cumsum(np.diff(buckets, prepend=buckets[:1]) != 0)  # 32 bits, as `bucket_pairs` takes them
        entries = distinct(codes_of(dense, table["row"].to_numpy()))
        for run in bucket_pairs([entries], bucket_limit, _CODES):
            later, earlier = rows_of(run.codes)
            yield record_batch({"later": later, "earlier": earlier}, CODE_TYPES)
            yield record_batch({"hot": [run.hot], "left_out": [run.left_out]}, CODE_TYPES)


def compare_pairs(settings: Settings, record_batches: Iterable[Any]) -> Iterator[Any]:
    """The near-duplicates. The batches have each later item (`ITSELF`), followed by its candidates."""
    scheme = Scheme(settings.fingerprint)
    for table in whole_groups(record_batches, "later"):
        is_item = table["earlier"].to_numpy() == ITSELF
        if is_item.all():
            continue
        with_pairs, of_later = np.unique((np.cumsum(is_item) - 1)[~is_item], return_inverse=True)
        items, pairs = table.take(np.flatnonzero(is_item)[with_pairs]), table.take(np.flatnonzero(~is_item))
        later = Fingerprints(
            matrix(items["signature"], scheme.signature_dtype).ravel(),
            np.empty((items.num_rows, 0), np.uint32),
            word_sets(items["words"].to_pylist()),
            scheme.settings.hamming,
            items["body"].to_pylist() if scheme.is_exact else [],
        )
        signatures = matrix(pairs["signature"], scheme.signature_dtype).ravel()
        bodies = pairs["body"].to_pylist() if scheme.is_exact else []
        similar = compare(later, signatures, of_later, np.arange(pairs.num_rows), bodies)
        is_pair, found = decide(similar, settings.decision, has_words=not scheme.layout)
        pairs = pairs.filter(is_pair)
        columns = pair_rows(found, pairs["id"].to_pylist(), items["id"].take(of_later[is_pair]).to_pylist())
        rows = {"b_row": pairs["later"].to_numpy(), "a_row": pairs["earlier"].to_numpy()}
        yield record_batch(columns | rows, PAIR_TYPES)


def roots_of(later: NDArray[np.int64], earlier: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that are not the first of their cluster, and the first row of each one's cluster.

    >>> [rows.tolist() for rows in roots_of(np.array([9, 7]), np.array([7, 3]))]
    [[7, 9], [3, 3]]
    """
    rows, positions = np.unique(np.concatenate([later, earlier]), return_inverse=True)
    roots = np.arange(len(rows))
    unite(roots, positions[: len(later)], positions[len(later) :])
    first = rows[cluster_of(roots)]
    return rows[first != rows], first[first != rows]


def reduce_pairs(record_batches: Iterable[Any]) -> Iterator[Any]:
    """Reduce the pairs of each batch to a forest (`LABEL_TYPES`)."""
    for batch in record_batches:
        rows, roots = roots_of(batch["b_row"].to_numpy(), batch["a_row"].to_numpy())
        yield record_batch({"row": rows, "root": roots}, LABEL_TYPES)
