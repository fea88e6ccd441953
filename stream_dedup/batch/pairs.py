"""Find all near-duplicate pairs and clusters of a corpus: run the steps, with the limits of memory and of items per key
(`BUCKET_LIMIT`), and write the rows.

In: lines of files and pipes (lines.py). Out:

- the *pairs*: a row {"a", "b", "stage", "body", "containment", "headline", "distance"} for each two items that the
  decision calls one article, the earlier one as `a`, ordered by (b, a);
- the *clusters*: a row {"id", "story"} for each item in input order. A cluster is a connected component of the pairs.
  Its story, as in the stream, is the id of its first item; if an earlier cluster has that id, the number of the item
  follows in brackets, so that each cluster has a name of its own. With a choice of what to keep (`Keep`), the row
  also has "representative", the id of the item that stays, and "keep", whether it is this one.

Two items are a pair if the stream would call them one article (its second question), by the same fingerprints and the
same rule. Whether `b` has something new for a reader does not count. There is no window. An id is no evidence: an id
that occurs twice is two items. A cluster may hold two items that are no pair, such as a copy of a copy. Bad lines are
reported, counted and left out.

Unlike the stream, nothing is looked up: the keys of all items are sorted table by table, and equal neighbours are
candidates (pair_search.py). Fingerprints and codes of pairs are in temporary files beside the pairs. So the run uses no
more than `memory` bytes plus some 40 bytes an item for the clusters and their representatives. A killed run is
repeated; its outputs grow under temporary names, so nothing of them is left.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.file_format import FileFormat
from stream_dedup.batch.inputs import files_of
from stream_dedup.batch.lines import ROW_FORMATS, LineReader
from stream_dedup.batch.output_files import Columns, Output, TableWriter, check_free, checked_outputs, file_errors
from stream_dedup.batch.pair_search import (
    Arrays,
    BadLine,
    BatchMaker,
    Corpus,
    Growing,
    bucket_pairs,
    map_in_order,
    near_duplicates,
    pair_rows,
    read_corpus,
    row_ranges,
    sorted_ranges,
)
from stream_dedup.errors import InputError, UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import site_of
from stream_dedup.news.summary import Summary
from stream_dedup.settings import Settings

# A whole corpus has larger families of copies than a window, and no reader waits for a single item.
BUCKET_LIMIT = 1024
DEFAULT_MEMORY = 2**30
"""Bytes; some 400,000 news items then need only one pass."""

PAIR_COLUMNS: Columns = {
    "a": str, "b": str, "stage": str, "body": float, "containment": float, "headline": float,
    "distance": int,
}  # fmt: skip
CLUSTER_COLUMNS: Columns = {"id": str, "story": str}
KEEP_COLUMNS: Columns = {**CLUSTER_COLUMNS, "representative": str, "keep": bool}
"""The columns with a choice of what to keep."""
# Of a pair code while its table is sorted: the entry of the key, the code, and the copies that sorting makes.
_BYTES_PER_CODE = 32
# Of a pair while it is compared: two signatures of 267 bytes by default, and thirty numbers.
_BYTES_PER_PAIR = 1024
# With whole bodies: a packed body of 1,000 shingles.
_BYTES_PER_BODY = 2**13
# Rows of an output that are made at a time; 2^16 rows of JSON are some 10 MB.
OUTPUT_ROWS = 2**16


# -- clusters and their representatives -------------------------------------------------------------------------------


def unite(roots: NDArray[np.int64], a: NDArray[np.int64], b: NDArray[np.int64]) -> None:
    """Join the rows a[p] and b[p] for each p in the forest `roots` (n,) int64, which begins as arange(n).

    The smaller of two roots becomes the root of both, so the name of a cluster does not depend on the order of the
    pairs. Each pass halves the paths. Source: Shiloach, Vishkin, "An O(log n) parallel connectivity algorithm",
    Journal of Algorithms 1982.
    """
    rows = np.concatenate([a, b])
    while True:
        while (roots[rows] != (up := roots[roots[rows]])).any():
            roots[rows] = up
        x, y = roots[a], roots[b]
        if (x == y).all():
            return
        np.minimum.at(roots, np.maximum(x, y), np.minimum(x, y))


def cluster_of(roots: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row of each row's cluster, (n,). Flattens the forest in place and returns it. O(n log n)."""
    while (roots != (up := roots[roots])).any():
        roots[:] = up
    return roots


class Keep(NamedTuple):
    """How the representative of a cluster is chosen, the one item that stays in an archive.

    earliest: by its date. first: by the order of the input, whatever the dates are. longest: by the distinct shingles
    of its body. source: by its site's place in `sources`, the preferred site first; other sites come last. Ties go to
    the earlier date, then to the first in the input. An item without a date has the latest date before it.
    """

    choice: str
    sources: tuple[str, ...]

    def merits(self, signatures: NDArray[np.void], scheme: Scheme) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rank and the time of the items with these signatures, (n,) each.

        They are compared by rank, then time, then row; smaller is better. O(n · sources).
        """
        rank = np.zeros(len(signatures), np.int64)
        time = signatures["time"].astype(np.int64)
        if self.choice == "first":
            time[:] = 0
        elif self.choice == "longest":
            rank -= signatures["body_size"]
        elif self.choice == "source":
            rank[:] = len(self.sources)
            for place, name in enumerate(self.sources):
                rank[signatures["source"] == np.uint64(scheme.identity(name))] = place
        return rank, time

    def absent(self, ranks: set[int]) -> tuple[str, ...]:
        """The listed sources that no item has, perhaps misspelt. `ranks`: all that occur."""
        return tuple(name for place, name in enumerate(self.sources) if place not in ranks)


def parse_keep(text: str, scheme: Scheme) -> Keep:
    """Parse "earliest", "first", "longest", or "source:NAME,NAME,..."; a name is a site, as in `Item.source`.

    Raises UsageError for anything else, and where the scheme's signatures lack what the choice needs.
    """
    name, colon, names = text.partition(":")
    sources = tuple(dict.fromkeys(site for one in names.split(",") if (site := site_of(one))))
    is_known = name in ("earliest", "first", "longest", "source")
    if not is_known or not bool(colon) == bool(sources) == (name == "source"):
        raise UsageError(f"keep = {text!r} is none of 'earliest', 'first', 'longest' and 'source:NAME,NAME,...'")
    if name == "longest" and scheme.is_given:
        raise UsageError("keep = 'longest' compares texts, which family = 'given' does not read; keep 'earliest'")
    return Keep(name, sources)


def representatives(roots: NDArray[np.int64], rank: NDArray[np.int64], time: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row of each row's representative, (n,). roots: as `cluster_of` returns them. O(n log n).

    >>> representatives(np.array([0, 0, 2]), np.array([0, 0, 0]), np.array([9, 5, 7])).tolist()
    [1, 1, 2]
    """
    order = np.lexsort((time, rank, roots))  # stable, so of equal items the first one stays
    clusters, first = np.unique(roots[order], return_index=True)
    return order[first][np.searchsorted(clusters, roots)]


# -- the run ----------------------------------------------------------------------------------------------------------


class PairsStep(Enum):
    """The long steps of a run: items are fingerprinted, tables are sorted, pairs are decided."""

    PART = auto()
    TABLE = auto()
    COMPARE = auto()


class PairsProgress(NamedTuple):
    """How far a step is. PART counts bytes of the inputs, TABLE tables, COMPARE rows. `total` None: unknown."""

    step: PairsStep
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a run, on either engine.

    clusters: those of two items or more, with `clustered` items in them. compared: candidate pairs. hot, left_out:
    buckets over the limit, and the pairs that it left out, summed over the tables.
    """

    items: int
    bad: int
    pairs: int
    clusters: int
    clustered: int
    compared: int
    hot: int
    left_out: int


@dataclass(frozen=True, slots=True)
class PairsResult(Counts):
    """The counts of a run.

    summary: how the records were understood; None if there were none. absent_sources: sources of `keep` that no item
    has.
    """

    seconds: float
    summary: Summary | None
    absent_sources: tuple[str, ...] = ()


def find_pairs(
    inputs: Sequence[str | Path],
    pairs: str | Path,
    clusters: str | Path | None,
    *,
    settings: Settings,
    keep: str | None = None,
    memory: int = DEFAULT_MEMORY,
    bucket_limit: int = BUCKET_LIMIT,
    file_format: FileFormat | None = None,
    threads: int | None = None,
    force: bool = True,
    progress: Callable[[PairsProgress], None] = lambda _: None,
    bad_line: Callable[[str, BadLine], None] = lambda *_: None,
) -> PairsResult:
    """Find the near-duplicates among the inputs: files, directories of them, pipes, or "-" for standard input.

    pairs, clusters: JSON Lines, or Parquet by the suffix .parquet; "-" is standard output. An existing file is replaced
    at the very end; without `force` it is refused at the beginning. Without `clusters` their rows are not written.
    keep: how the representative of each cluster is chosen (`parse_keep`); the rows of the clusters then name it.
    memory: bytes. bucket_limit: each item is compared with at most this many of the earlier items that share a key, the
    newest ones (it replaces the settings' limit, which is for the stream). file_format: overrides what the names of the
    inputs say. threads: all processors by default. `bad_line(input, line)` receives each bad line. Temporary files are
    beside the pairs, or in the system's directory if these go to a stream. Raises InputError, ConfigError, UsageError,
    and BrokenPipeError if an output has no reader any more.
    """
    started = time.monotonic()
    names, scheme = files_of(inputs), Scheme(settings.fingerprint)
    chosen = requested_keep(keep, clusters, scheme)
    targets = checked_outputs(names, {"--output": (pairs, ROW_FORMATS), "--clusters": (clusters, ROW_FORMATS)})
    if not force:
        check_free(targets)
    to = targets["--output"]
    temporary = Path(tempfile.gettempdir()) if to.is_stream else to.path.parent
    threads = threads or os.cpu_count() or 1
    ahead = 2 * threads
    share = max(1, memory // ahead)  # bytes for each piece of work that is in memory
    bad = 0
    with file_errors(), ExitStack() as files, ThreadPoolExecutor(threads) as executor:
        make = BatchMaker(settings, scheme, lambda number, line: f"{names[number]}:{line}")
        reader = LineReader(names, file_format, most=settings.worker.max_record_bytes, query=settings.item.query)
        make.notes = reader.notes
        bytes_total = reader.bytes_total

        def report(lines: list[BadLine]) -> None:
            nonlocal bad
            bad += len(lines)
            for line in lines:
                bad_line(names[line.input], line)
            progress(PairsProgress(PairsStep.PART, reader.bytes_read, bytes_total))

        def new_file() -> IO[bytes]:
            """A file without a name: the system frees it, however the process ends."""
            return files.enter_context(tempfile.TemporaryFile(dir=temporary))

        columns, codes, verified = Growing(new_file), Growing(new_file), Growing(new_file)
        corpus = read_corpus(reader, make, executor, ahead, max(1, share // 4), columns, scheme, report)
        if corpus.size >= 2**32:
            raise InputError(f"{corpus.size:,} items are too many; at most 4,294,967,295 can be compared")

        ends = [0]  # of the runs of codes
        capacity = max(1, share // _BYTES_PER_CODE)
        hot = left_out = 0
        for table in range(corpus.tables):
            for run in bucket_pairs(sorted_ranges(corpus, table, capacity), bucket_limit, capacity):
                codes.append({"codes": run.codes})
                ends.append(ends[-1] + len(run.codes))
                hot, left_out = hot + run.hot, left_out + run.left_out
            progress(PairsProgress(PairsStep.TABLE, table + 1, corpus.tables))

        compared = count = 0
        compare = partial(near_duplicates, corpus, settings.decision)
        roots = np.arange(corpus.size)
        bytes_per_pair = _BYTES_PER_PAIR + (_BYTES_PER_BODY if scheme.is_exact else 0)
        all_codes = codes.mapped()["codes"]
        runs = [all_codes[first:end] for first, end in pairwise(ends)]
        ranges = list(row_ranges(runs, corpus.size, max(1, share // bytes_per_pair)))
        decided = map_in_order(executor, compare, (slices for _, slices in ranges), ahead)
        for (end, _), (candidates, found) in zip(ranges, decided, strict=True):
            compared, count = compared + candidates, count + len(found["later"])
            unite(roots, found["later"], found["earlier"])
            verified.append(found)
            progress(PairsProgress(PairsStep.COMPARE, end, corpus.size))
        cluster_of(roots)

        with ExitStack() as stack:
            # The pairs are published last: once they are there, everything is.
            outputs = [stack.enter_context(Output(to, in_place=False)) for to in reversed(targets.values())]
            absent = _write_clusters(outputs[0], corpus, roots, chosen, scheme) if clusters is not None else ()
            _write_pairs(outputs[-1], corpus, verified.mapped(), count)
    sizes = np.bincount(roots, minlength=1)
    of_clusters = int(np.count_nonzero(sizes > 1)), int(sizes[sizes > 1].sum())
    counts = corpus.size, bad, count, *of_clusters, compared, hot, left_out
    return PairsResult(*counts, time.monotonic() - started, make.summary(), absent)


def requested_keep(keep: str | None, clusters: object, scheme: Scheme) -> Keep | None:
    """Parse `keep`. Raises UsageError if it would have no effect, or if the scheme does not allow it."""
    if keep is None:
        return None
    if clusters is None:
        raise UsageError("--keep names representatives in the rows of --clusters; give --clusters FILE, too")
    return parse_keep(keep, scheme)


def _write_pairs(output: Output, corpus: Corpus, verified: Arrays, count: int) -> None:
    writer = TableWriter(output, PAIR_COLUMNS)
    for start in range(0, count, OUTPUT_ROWS):
        chunk = {name: column[start : start + OUTPUT_ROWS] for name, column in verified.items()}
        writer.write(pair_rows(chunk, corpus.ids(chunk["earlier"]), corpus.ids(chunk["later"])))
    writer.publish()


def _later_of_one_id(corpus: Corpus, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the ascending rows whose id an earlier one of them has."""
    is_later = np.ones(len(rows), np.bool_)
    is_later[np.unique(corpus.id_hashes(rows), return_index=True)[1]] = False
    return rows[is_later]


def _write_clusters(
    output: Output, corpus: Corpus, roots: NDArray[np.int64], keep: Keep | None, scheme: Scheme
) -> tuple[str, ...]:
    """Write a row for each item; return the sources of `keep` that no item has."""
    writer = TableWriter(output, KEEP_COLUMNS if keep else CLUSTER_COLUMNS)
    chunks = np.split(np.arange(corpus.size), range(OUTPUT_ROWS, corpus.size, OUTPUT_ROWS))
    kept, absent = roots, tuple[str, ...]()
    if keep:
        merits = [keep.merits(corpus.signatures(rows), scheme) for rows in chunks]
        rank, times = (np.concatenate(column) for column in zip(*merits, strict=True))
        kept, absent = representatives(roots, rank, times), keep.absent(set(np.unique(rank).tolist()))
    renamed = set(_later_of_one_id(corpus, np.flatnonzero(roots == np.arange(corpus.size))).tolist())
    for rows in chunks:
        named = zip(corpus.ids(roots[rows]), roots[rows].tolist(), strict=True)
        stories = [f"{name} ({root + 1})" if root in renamed else name for name, root in named]
        columns: dict[str, list[Any]] = {"id": corpus.ids(rows), "story": stories}
        if keep:
            columns |= {"representative": corpus.ids(kept[rows]), "keep": (kept[rows] == rows).tolist()}
        writer.write(columns)
    writer.publish()
    return absent
