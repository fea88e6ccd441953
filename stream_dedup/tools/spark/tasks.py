"""What Spark's executors do with record batches, step by step: items, keys, pairs, decisions, forests of clusters.

1. Records, each with its place (input, file, block), become *items*: row, place, id, signature, keys, words, body. A
   line that holds no item has the reason instead. The row of an item is the number of its line in the whole archive
   (from 0), which is the order of arrival: of files, of blocks in a file, of lines; without files, of the partitions.
   The driver counts the lines before each place (`Places`), so lines, and ids of items without one, have the numbers of
   the single process. A task does not know the dates before its own, so items without a date get theirs later
   (`date_items`).
2. Entries (bucket, row) go to the task of their bucket. It pairs each item with the newest `bucket_limit` items before
   it, so a bucket is never squared.
3. The distinct pairs meet the signatures and words of their earlier items (1.2 KB each), then the later item, and are
   compared as pages.
4. Each article names its passages once; those of three articles are boilerplate, which the driver sends to all tasks.
5. The near pairs meet the texts of their items (8 KB each), and are compared as articles.
6. The driver has 40 bytes of each near pair and the merits of its items, and finds clusters (tools/batch/clusters.py).

Comparing is the work of tools/batch/articles.py in both engines.
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

from stream_dedup.dedup.batch import batches
from stream_dedup.dedup.clocks import START
from stream_dedup.dedup.rule import SAME_ARTICLE, rule_of
from stream_dedup.errors import InputError
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.articles import (
    FOUND,
    HEADLINES,
    PARTS,
    boilerplate_of,
    compare_articles,
    compare_pages,
    joined_texts,
)
from stream_dedup.tools.batch.clusters import MERITS, Keep
from stream_dedup.tools.batch.corpus import READ, SIGNATURES, BatchMaker, fill_missing_times, rows_of_bytes, word_sets
from stream_dedup.tools.batch.pair_search import bucket_pairs, cluster_of, codes_of, distinct, pair_rows, rows_of, unite
from stream_dedup.tools.inputs.lines import Line, is_blank
from stream_dedup.tools.inputs.tables import objects_of

INPUT, FILE, BLOCK = PLACE = "_stream_dedup_input", "_stream_dedup_file", "_stream_dedup_block"
"""Columns that name the place of a record."""
VALUE = "value"
"""The column of a DataFrame that holds whole records."""
ROW = "_stream_dedup_row"
"""The column of the row number in a DataFrame of the user."""

_BATCH_ITEMS, _BATCH_BYTES = 1000, 2**22

PAGE = {"signature": "binary", "words": "binary", "body": "binary"}
TEXT = {"headlines": "binary", **dict.fromkeys(PARTS, "binary")}
"""Columns by which pages are compared, and by which articles are."""
ITEM_TYPES = {
    "row": "bigint", "place": "bigint", "reason": "string", **dict.fromkeys(READ, "string"), "time": "bigint",
    "keys": "binary", **PAGE, **TEXT,
}  # fmt: skip
MERIT_TYPES = {"row": "bigint", **dict.fromkeys(MERITS, "bigint")}
ENTRY_TYPES = {"bucket": "bigint", "row": "bigint"}
CODE_TYPES = {"later": "bigint", "earlier": "bigint", "hot": "bigint", "left_out": "bigint"}
NEAR_TYPES = {
    "later": "bigint", "earlier": "bigint", "is_copy": "boolean", "later_digest": "bigint", "earlier_digest": "bigint",
}  # fmt: skip
PASSAGE_TYPES = {"hash": "bigint"}
PAIR_TYPES = {
    "b_row": "bigint", "a_row": "bigint", "a": "string", "b": "string", "stage": "string", "body": "double",
    "containment": "double", "headline": "double", "distance": "int", "is_pair": "boolean", "found": "binary",
}  # fmt: skip
CLUSTER_TYPES = {"row": "bigint", "kept": "bigint", "first": "bigint", "new": "boolean"}
ITSELF = -1
"""Stands for the earlier row in the row of the later item itself, which is thus sorted before its candidates."""
# Pair codes that a task collects before it passes them on: 8 MB.
_CODES = 2**20


def record_batch(columns: Mapping[str, Any], types: Mapping[str, str]) -> Any:
    """An Arrow record batch; missing columns are null."""
    kinds = {
        "bigint": pa.int64(), "int": pa.int32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(),
        "boolean": pa.bool_(),
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
                **{name: [value.decode() for value in rows_of_bytes(arrays, name)] for name in READ},
                "time": np.ascontiguousarray(signatures["time"]),
                "signature": [signature.tobytes() for signature in signatures],
                "keys": [keys.tobytes() for keys in arrays["keys"].T],
                "words": rows_of_bytes(arrays, "words"),
            }
            if "headlines" in arrays:
                columns["headlines"] = [headline.tobytes() for headline in arrays["headlines"]]
                columns |= {name: rows_of_bytes(arrays, name) for name in PARTS}
            if len(arrays["bodies_ends"]):
                columns["body"] = rows_of_bytes(arrays, "bodies")
            yield record_batch(columns, ITEM_TYPES)
            reasons = {"row": [line.number + first_row for line in bad], "reason": [line.reason for line in bad]}
            yield record_batch(reasons, ITEM_TYPES)


def _records(batch: Any) -> Iterator[bytes]:
    if batch.schema.names != [VALUE]:
        return iter(objects_of(pa, batch))
    return (value.encode() if isinstance(value, str) else value or b"" for value in batch[VALUE].to_pylist())


def date_items(watermarks: Sequence[int], settings: Settings, record_batches: Iterable[Any]) -> Iterator[Any]:
    """The items with a time each: one without gets the highest before it. watermarks: the highest before each place."""
    scheme, highest = Scheme(settings.fingerprint), list(watermarks)
    for batch in record_batches:
        signatures = matrix(batch["signature"], scheme.signature_dtype).ravel().copy()
        places = batch["place"].to_numpy()
        for place in np.unique(places).tolist():
            times = signatures["time"][places == place]
            highest[place] = fill_missing_times(times, highest[place])
            signatures["time"][places == place] = times
        dated = pa.array([one.tobytes() for one in signatures], pa.binary())
        yield batch.set_column(batch.schema.get_field_index("signature"), "signature", dated)


def list_merits(settings: Settings, keep: Keep, record_batches: Iterable[Any]) -> Iterator[Any]:
    """The merits by which the representative of a cluster is chosen."""
    scheme = Scheme(settings.fingerprint)
    for batch in record_batches:
        signatures = matrix(batch["signature"], scheme.signature_dtype).ravel()
        rows = batch["row"].to_numpy()
        yield record_batch({"row": rows, **keep.merits(signatures, rows, scheme)}, MERIT_TYPES)


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


def _numbered(table: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the later and the earlier item of each pair, in a table that has each later item (`ITSELF`),
    followed by its candidates."""
    is_item = table["earlier"].to_numpy() == ITSELF
    pairs, items = np.flatnonzero(~is_item), np.flatnonzero(is_item)
    return items[np.cumsum(is_item)[pairs] - 1], pairs


def _prints(table: Any, scheme: Scheme, with_texts: bool) -> Fingerprints:
    bodies = table["body"].to_pylist() if scheme.has_bodies else []
    texts = None
    if with_texts:
        texts = joined_texts(_headlines(table), {name: table[name].to_pylist() for name in PARTS})
    signatures, no_keys = (
        matrix(table["signature"], scheme.signature_dtype).ravel(),
        np.empty((len(table), 0), np.uint32),
    )
    return Fingerprints(
        signatures, no_keys, word_sets(table["words"].to_pylist()), scheme.settings.hamming, bodies, texts
    )


def _headlines(table: Any) -> NDArray[np.void]:
    headlines: NDArray[np.void] = np.frombuffer(b"".join(table["headlines"].to_pylist()), HEADLINES)
    return headlines


def near_pairs(settings: Settings, record_batches: Iterable[Any]) -> Iterator[Any]:
    """The candidates that are near, as pages."""
    scheme = Scheme(settings.fingerprint)
    rule = rule_of(settings.decision, has_words=scheme.has_bodies)
    for table in whole_groups(record_batches, "later"):
        later, earlier = _numbered(table)
        prints, rows = _prints(table, scheme, False), table["later"].to_numpy()[earlier]
        near = compare_pages(prints, later, earlier, rule)
        digests = prints.signatures["digest"].view(np.int64) if len(rows) else np.empty(0, np.int64)
        columns = rows, table["earlier"].to_numpy()[earlier], near.is_copy, digests[later], digests[earlier]
        yield record_batch(dict(zip(NEAR_TYPES, (one[near.is_near] for one in columns), strict=True)), NEAR_TYPES)


def not_counted(copies: Any) -> NDArray[np.int64]:
    """The rows of copies (`NEAR_TYPES`) whose passages do not count, because those of another one do."""
    ends = [
        (copies[side].to_numpy(), copies[f"{side}_digest"].to_numpy().view(np.uint64)) for side in ("later", "earlier")
    ]
    rows, first = np.unique(np.concatenate([one[0] for one in ends]), return_index=True)
    by_digest = np.argsort(np.concatenate([one[1] for one in ends])[first], kind="stable")
    place = np.argsort(by_digest)
    joined = (place[np.searchsorted(rows, one[0])] for one in ends)
    roots = cluster_of(unite(np.arange(len(rows)), *joined))
    others: NDArray[np.int64] = rows[by_digest[roots != np.arange(len(rows))]]
    return others


def list_passages(record_batches: Iterable[Any]) -> Iterator[Any]:
    """The hashes of the passages of each item, each once."""
    for batch in record_batches:
        for part in batch["passages"].to_pylist():
            yield record_batch(
                {"hash": np.unique(np.frombuffer(part, PARTS["passages"])["hash"]).astype(np.int64)}, PASSAGE_TYPES
            )


def article_pairs(
    settings: Settings, passages: NDArray[np.uint32] | None, record_batches: Iterable[Any]
) -> Iterator[Any]:
    """Near pairs as articles. passages: that recur; None: pages are compared."""
    scheme = Scheme(settings.fingerprint)
    rule = rule_of(settings.decision, has_words=scheme.has_bodies)
    boilerplate = None if passages is None else boilerplate_of(passages)
    for table in whole_groups(record_batches, "later"):
        later, earlier = _numbered(table)
        prints = _prints(table, scheme, boilerplate is not None)
        corrects = None if boilerplate is None else np.ascontiguousarray(_headlines(table)["corrects"])
        found = compare_articles(prints, later, earlier, rule, boilerplate, corrects)
        ids, rows = table["id"], table["later"].to_numpy()[earlier]
        columns: dict[str, Any] = {"b_row": rows, "a_row": table["earlier"].to_numpy()[earlier]}
        columns |= pair_rows(found, ids.take(earlier).to_pylist(), ids.take(later).to_pylist())
        columns |= {"is_pair": found["score"] >= SAME_ARTICLE, "found": [one.tobytes() for one in found]}
        yield record_batch(columns, PAIR_TYPES)


def found_of(column: Any) -> NDArray[np.void]:
    """The inverse of the column `found`."""
    found: NDArray[np.void] = np.frombuffer(b"".join(column.to_pylist()), FOUND)
    return found
