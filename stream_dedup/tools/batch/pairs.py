"""Find all near-duplicate pairs and clusters of a corpus: run the steps, with the limits of memory and of items per key
(`BUCKET_LIMIT`), and write the rows.

In: lines of files and pipes (lines.py). Out:

- the *pairs*: a row {"a", "b", "stage", "body", "containment", "headline", "distance"} for each two items that are one
  article, the earlier one as `a`, ordered by (b, a);
- the *clusters*: a row (`CLUSTER_COLUMNS`) for each item in input order. Its `story`, as in the stream, is the id of
  the first item of its cluster; if an earlier cluster has that id, the number of the item follows in brackets, so that
  each cluster has a name of its own.

Whether `b` has something new for a reader does not count for a pair; it counts for what is kept. There is no window. An
id is no evidence: an id that occurs twice is two items. Bad lines are reported, counted and left out.

Unlike the stream, nothing is looked up: the keys of all items are sorted table by table, and equal neighbours are
candidates (pair_search.py), which are compared as pages and then as articles (articles.py). Fingerprints, texts and
codes of pairs are in temporary files beside the pairs. So the run uses no more than `memory` bytes plus some 80 bytes
an item and 40 bytes a near pair for the clusters (clusters.py). A killed run is repeated; its outputs grow under
temporary names, so nothing of them is left.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.rule import rule_of
from stream_dedup.errors import InputError, UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.articles import FOUND, Arrays
from stream_dedup.tools.batch.clusters import (
    CLUSTER_COLUMNS,
    LARGEST,
    Chunk,
    Clusters,
    Keep,
    Large,
    clusters_of,
    large,
    of_one_article,
    parse_keep,
    published,
    row_columns,
)
from stream_dedup.tools.batch.corpus import BadLine, BatchMaker, Corpus, Growing, map_in_order, read_corpus
from stream_dedup.tools.batch.output_files import Columns, Output, TableWriter, check_free, checked_outputs, file_errors
from stream_dedup.tools.batch.pair_search import (
    Codes,
    article_pairs,
    bucket_pairs,
    learn,
    near_pairs,
    pair_rows,
    row_ranges,
    rows_of,
    sorted_ranges,
)
from stream_dedup.tools.batch.shown import PairsReport, check_files, shown_clusters
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.inputs.lines import LINE_FORMATS, LineReader
from stream_dedup.tools.inputs.packing import files_of
from stream_dedup.tools.survey.summary import Summary

# A whole corpus has larger families of copies than a window, and no reader waits for a single item.
BUCKET_LIMIT = 1024
DEFAULT_MEMORY = 2**30
"""Bytes; some 400,000 news items then need only one pass."""

PAIR_COLUMNS: Columns = {
    "a": str, "b": str, "stage": str, "body": float, "containment": float, "headline": float,
    "distance": int,
}  # fmt: skip
# Of a pair code while its table is sorted: the entry of the key, the code, and the copies that sorting makes.
_BYTES_PER_CODE = 32
# Of a pair while its pages are compared: two signatures of 267 bytes, two word sets of 4 KB, and thirty numbers.
_BYTES_PER_PAIR = 2**13
# While its articles are: also the parts of two texts, of 8 KB each and twice while they are joined.
_BYTES_PER_ARTICLE = 2**15
# With whole bodies: a packed body of 1,000 shingles.
_BYTES_PER_BODY = 2**13
# Rows of an output that are made at a time; 2^16 rows of JSON are some 10 MB.
OUTPUT_ROWS = 2**16


# -- the run ----------------------------------------------------------------------------------------------------------


class PairsStep(Enum):
    """The long steps of a run: items are fingerprinted, tables are sorted, pages are compared, then articles."""

    PART = auto()
    TABLE = auto()
    COMPARE = auto()
    ARTICLE = auto()


class PairsProgress(NamedTuple):
    """How far a step is. PART counts bytes of the inputs, TABLE tables, the others rows. `total` None: unknown."""

    step: PairsStep
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a run, on either engine.

    clusters: those of two items or more, with `clustered` items in them, of which `new` have something new beside the
    representative. compared: candidate pairs. hot, left_out: buckets over the limit, and the pairs that it left out,
    summed over the tables.
    """

    items: int
    bad: int
    pairs: int
    clusters: int
    clustered: int
    new: int
    compared: int
    hot: int
    left_out: int


@dataclass(frozen=True, slots=True)
class PairsResult(Counts):
    """The counts of a run.

    summary: how the records were understood; None if there were none. absent_sources: sources of `keep` that no item
    has. largest: the largest clusters. doubtful: some items with something new: their headlines, and those of their
    representatives.
    """

    seconds: float
    summary: Summary | None
    absent_sources: tuple[str, ...] = ()
    largest: list[Large] = field(default_factory=list)
    doubtful: list[tuple[str, str]] = field(default_factory=list)


def find_pairs(
    inputs: Sequence[str | Path],
    pairs: str | Path,
    clusters: str | Path | None,
    *,
    settings: Settings,
    keep: str | None = None,
    drop_new: bool = False,
    memory: int = DEFAULT_MEMORY,
    bucket_limit: int = BUCKET_LIMIT,
    file_format: FileFormat | None = None,
    threads: int | None = None,
    force: bool = True,
    progress: Callable[[PairsProgress], None] = lambda _: None,
    bad_line: Callable[[str, BadLine], None] = lambda *_: None,
    report: PairsReport | None = None,
) -> PairsResult:
    """Find the near-duplicates among the inputs: files, directories of them, pipes, or "-" for standard input.

    pairs, clusters: JSON Lines, or what the suffix .csv, .tsv or .parquet says; "-" is standard output. An existing
    file is replaced at the very end; without `force` it is refused at the beginning. Without `clusters` their rows are
    not written. keep: how the representative of each cluster is chosen (`parse_keep`), by default the earliest.
    drop_new: only representatives stay.
    memory: bytes. bucket_limit: each item is compared with at most this many of the earlier items that share a key, the
    newest ones (it replaces the settings' limit, which is for the stream). file_format: overrides what the names of the
    inputs say. threads: all processors by default. `bad_line(input, line)` receives each bad line. Temporary files are
    beside the pairs, or in the system's directory if these go to a stream. report: makes a page of clusters, for which
    the inputs are read twice. Raises InputError, ConfigError, UsageError,
    and BrokenPipeError if an output has no reader any more.
    """
    started = time.monotonic()
    names, scheme = files_of(inputs), Scheme(settings.fingerprint)
    chosen = requested_keep(keep, drop_new, clusters, scheme, report)
    wanted = {"--output": (pairs, LINE_FORMATS), "--clusters": (clusters, LINE_FORMATS)}
    targets = checked_outputs(names, {**wanted, "--report": (report.path if report else None, ())})
    if report:
        check_files(names)
    if not force:
        check_free(targets)
    for_report = targets.pop("--report", None)
    to = targets["--output"]
    temporary = Path(tempfile.gettempdir()) if to.is_stream else to.path.parent
    threads = threads or os.cpu_count() or 1
    ahead = 2 * threads
    share = max(1, memory // ahead)  # bytes for each piece of work that is in memory
    bad = 0
    with file_errors(), ExitStack() as files, ThreadPoolExecutor(threads) as executor:
        make = BatchMaker(settings, scheme, lambda number, line: f"{names[number]}:{line}")
        lines = partial(
            LineReader, names, file_format, most=settings.worker.max_record_bytes, query=settings.item.query
        )
        reader = lines()
        make.notes = reader.notes
        bytes_total = reader.bytes_total

        def count_bad(lines: list[BadLine]) -> None:
            nonlocal bad
            bad += len(lines)
            for line in lines:
                bad_line(names[line.input], line)
            progress(PairsProgress(PairsStep.PART, reader.bytes_read, bytes_total))

        def new_file() -> IO[bytes]:
            """A file without a name: the system frees it, however the process ends."""
            return files.enter_context(tempfile.TemporaryFile(dir=temporary))

        columns, codes, near, verified = (Growing(new_file) for _ in range(4))
        corpus = read_corpus(reader, make, executor, ahead, max(1, share // 4), columns, scheme, count_bad)
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

        compared = 0
        near.append({"codes": np.empty(0, np.uint64), "is_copy": np.empty(0, np.bool_)})  # also without any item
        rule = rule_of(settings.decision, has_words=scheme.has_bodies)
        exact_bytes = _BYTES_PER_BODY if scheme.is_exact else 0
        all_codes = codes.mapped()["codes"]
        runs = [all_codes[first:end] for first, end in pairwise(ends)]
        ranges = list(row_ranges(runs, corpus.size, max(1, share // (_BYTES_PER_PAIR + exact_bytes))))
        found = map_in_order(executor, partial(near_pairs, corpus, rule), (slices for _, slices in ranges), ahead)
        for (end, _), (candidates, some) in zip(ranges, found, strict=True):
            compared += candidates
            near.append(some)
            progress(PairsProgress(PairsStep.COMPARE, end, corpus.size))

        pages = near.mapped()
        boilerplate = None if rule.is_plain else learn(corpus, pages["codes"][pages["is_copy"]], memory)
        per_range = max(1, share // (_BYTES_PER_ARTICLE + exact_bytes))

        def compare(codes: Codes) -> Iterator[tuple[int, Arrays]]:
            """The rows done, and these pairs as articles, by ranges of rows."""
            ranges = list(row_ranges([codes], corpus.size, per_range))
            task = partial(article_pairs, corpus, rule, boilerplate)
            found = map_in_order(executor, task, (one for _, one in ranges), ahead)
            return zip((end for end, _ in ranges), found, strict=True)

        for end, some in compare(pages["codes"]):
            verified.append(some)
            progress(PairsProgress(PairsStep.ARTICLE, end, corpus.size))

        def found_of(codes: Codes) -> NDArray[np.void]:
            return np.concatenate([np.empty(0, FOUND), *(some["found"] for _, some in compare(codes))])

        articles = _chunks(verified)
        grouped, absent = _clustered(corpus, articles, chosen, scheme, found_of)
        pairs_found, sizes = [of_one_article(chunk) for chunk in articles], grouped.sizes
        with ExitStack() as stack:
            # The pairs are published last: once they are there, everything is.
            outputs = [stack.enter_context(Output(to, in_place=False)) for to in reversed(targets.values())]
            if clusters is not None:
                _write_clusters(outputs[0], corpus, grouped, drop_new)
            if report and for_report:
                page = stack.enter_context(Output(for_report, in_place=False))
                shown = shown_clusters(corpus, grouped, lines(), Decoder(settings.item))
                page.write_whole(report.html(shown, sizes[sizes > 1].tolist(), int(grouped.is_new.sum())))
            _write_pairs(outputs[-1], corpus, pairs_found)
        largest, doubtful = _largest(corpus, grouped), _doubtful(corpus, grouped)
    of_clusters = int(np.count_nonzero(sizes > 1)), int(sizes[sizes > 1].sum()), int(grouped.is_new.sum())
    count = sum(len(chunk[0]) for chunk in pairs_found)
    counts = corpus.size, bad, count, *of_clusters, compared, hot, left_out
    return PairsResult(*counts, time.monotonic() - started, make.summary(), absent, largest, doubtful)


def requested_keep(
    keep: str | None, drop_new: bool, clusters: object, scheme: Scheme, report: PairsReport | None = None
) -> Keep:
    """Parse `keep`. Raises UsageError if an option would have no effect, or if the scheme does not allow it."""
    if keep is not None and clusters is None and report is None:
        raise UsageError("--keep says what the rows of --clusters keep; give --clusters FILE, too (or --report FILE)")
    if drop_new and clusters is None:
        raise UsageError("--drop-new says what the rows of --clusters keep; give --clusters FILE, too")
    return parse_keep(keep or "earliest", scheme)


def _chunks(verified: Growing) -> list[Chunk]:
    """All near pairs, in chunks of rows of an output."""
    arrays = verified.mapped()
    if not arrays:
        return []
    cuts = range(0, len(arrays["codes"]), OUTPUT_ROWS)
    return [(arrays["codes"][cut : cut + OUTPUT_ROWS], arrays["found"][cut : cut + OUTPUT_ROWS]) for cut in cuts]


def _write_pairs(output: Output, corpus: Corpus, chunks: Sequence[Chunk]) -> None:
    writer = TableWriter(output, PAIR_COLUMNS)
    for codes, found in chunks:
        later, earlier = rows_of(codes)
        writer.write(pair_rows(found, corpus.read(earlier), corpus.read(later)))
    writer.publish()


def _parts(size: int) -> list[NDArray[np.int64]]:
    """The rows of a corpus, some at a time."""
    return np.split(np.arange(size), range(OUTPUT_ROWS, size, OUTPUT_ROWS))


def _clustered(
    corpus: Corpus, chunks: Sequence[Chunk], keep: Keep, scheme: Scheme, compare: Callable[[Codes], NDArray[np.void]]
) -> tuple[Clusters, tuple[str, ...]]:
    """The clusters, and the sources of `keep` that no item has."""
    merits = [keep.merits(corpus.signatures(rows), rows, scheme) for rows in _parts(corpus.size)]
    joined = {name: np.concatenate([some[name] for some in merits]) for name in merits[0]}
    absent = keep.absent(set(np.unique(joined["rank"]).tolist()) if keep.sources else set())
    return clusters_of(chunks, joined, compare), absent


def _largest(corpus: Corpus, clusters: Clusters) -> list[Large]:
    """The largest clusters, with their headlines."""
    sizes = clusters.sizes
    first = np.argsort(-sizes, kind="stable")[:LARGEST]
    found = []
    for row in first[sizes[first] > 1].tolist():
        titles = corpus.read(np.flatnonzero(clusters.representatives == row), "title")
        found.append(large(titles, corpus.read(np.array([row]), "title")[0]))
    return found


def _doubtful(corpus: Corpus, clusters: Clusters) -> list[tuple[str, str]]:
    """The first items with something new: their headlines, and those of their representatives."""
    rows = np.flatnonzero(clusters.is_new)[:LARGEST]
    return list(zip(corpus.read(rows, "title"), corpus.read(clusters.representatives[rows], "title"), strict=True))


def _later_of_one_id(corpus: Corpus, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the ascending rows whose id an earlier one of them has."""
    is_later = np.ones(len(rows), np.bool_)
    is_later[np.unique(corpus.id_hashes(rows), return_index=True)[1]] = False
    return rows[is_later]


def _write_clusters(output: Output, corpus: Corpus, clusters: Clusters, drop_new: bool) -> None:
    """Write a row for each item."""
    writer = TableWriter(output, CLUSTER_COLUMNS)
    kept, firsts = clusters.representatives, clusters.firsts
    renamed = set(_later_of_one_id(corpus, np.flatnonzero(firsts == np.arange(corpus.size))).tolist())
    for rows in _parts(corpus.size):
        named = zip(corpus.read(firsts[rows]), firsts[rows].tolist(), strict=True)
        stories = [f"{name} ({row + 1})" if row in renamed else name for name, row in named]
        stays, adds = clusters.keeps(rows, drop_new).tolist(), clusters.is_new[rows].tolist()
        read = [corpus.read(rows, name) for name in ("title", "source", "url")]
        dates = published(corpus.times(rows))
        writer.write(row_columns(corpus.read(rows), stories, corpus.read(kept[rows]), stays, adds, *read, dates))
    writer.publish()
