"""Find all near-duplicate pairs and clusters of a corpus.

In: lines of files and pipes (lines.py). Out: the *pairs*, a row {"a", "b", "stage", "body", "containment", "lead",
"headline", "distance"} for each two items that the decision calls one article, the earlier as `a`, ordered by (b, a);
and the *clusters*, a row {"id", "cluster"} for each item in input order, where a cluster is a connected component of
the pairs and carries the id of its first item. With a choice of what to keep (keep.py), such a row also has
"representative", the id of the item that stays, and "keep", whether it is this one. The decision is the stream's: same
fingerprints and rule, as if `b` arrived at an index that remembers every item before it. But there is no
window, an id is no evidence (an id that occurs twice is two items), and a cluster may hold two items that are no pair:
a copy of a copy. Bad lines are reported, counted and left out.

Unlike the stream, nothing is looked up: the keys of all items are sorted table by table, and equal neighbours are
candidates (candidates.py). What does not fit in memory is in temporary files (spill.py) beside the pairs. So the run
uses no more than `memory` bytes plus eight bytes an item. A killed run is repeated; the outputs grow under temporary
names, so it leaves none.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.candidates import RunHead, spilled_runs
from stream_dedup.batch.clusters import cluster_of, unite
from stream_dedup.batch.compare import STAGES, PairComparer, VerifiedHead, bytes_per_pair, row_ranges
from stream_dedup.batch.keep import Keep, Merits, parse_keep, representatives
from stream_dedup.batch.line_reader import LineReader
from stream_dedup.batch.outputs import check_free
from stream_dedup.batch.parallel import map_in_order
from stream_dedup.batch.parts import BadLine, PartWriter, SpilledCorpus
from stream_dedup.batch.resumable import FileRun, OutputOption
from stream_dedup.batch.rows import FileFormat
from stream_dedup.batch.spill import Arrays, spill
from stream_dedup.batch.table_writers import Columns, TableWriter, table_writer
from stream_dedup.errors import InputError, UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.survey import Summary
from stream_dedup.settings import Settings

# A whole corpus has larger families of copies than a window, and no reader waits for a single item.
BUCKET_LIMIT = 1024
DEFAULT_MEMORY = 2**30
"""Bytes; some 400,000 news items then need only one pass."""

PAIR_COLUMNS: Columns = {
    "a": str, "b": str, "stage": str, "body": float, "containment": float, "headline": float,
    "distance": int,
}  # fmt: skip
CLUSTER_COLUMNS: Columns = {"id": str, "cluster": str}
KEEP_COLUMNS: Columns = {**CLUSTER_COLUMNS, "representative": str, "keep": bool}
"""The same with a choice of what to keep."""
# A pair code while its table is sorted: the entry of the key, the code, and the copies that sorting makes.
_BYTES_PER_CODE = 32
# Rows of an output that are made at a time; 2^16 rows of JSON are some 10 MB.
_OUTPUT_ROWS = 2**16


class PairsStep(Enum):
    """The long steps of a run: items are fingerprinted, tables are sorted, pairs are decided."""

    PART = auto()
    TABLE = auto()
    COMPARE = auto()


class PairsProgress(NamedTuple):
    """How far a step is. PART counts bytes of the inputs, the others tables or rows; `total` None: unknown."""

    step: PairsStep
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of an archive, by whichever engine.

    clusters: those of two items or more, with `clustered` items in them. compared: candidate pairs. hot, left_out:
    buckets over the limit, and the pairs that were not compared because of it, summed over the tables.
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

    summary: how the records were understood; None if there were none. absent_sources: those of `keep` that no item has.
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
    """Find the near-duplicates among the inputs: files, pipes, or "-" for standard input.

    pairs, clusters: JSON Lines, or Parquet by the suffix .parquet; an existing file is replaced at the very end, or
    refused at the beginning without `force`; "-" is standard output. Without `clusters` their rows are not written.
    keep: how the representative of each cluster is chosen, which the rows of the clusters then name: see `parse_keep`.
    memory: bytes. bucket_limit: with how many of the earlier items that share its key an item is compared, the newest
    ones (it replaces the settings' limit, which is the stream's). file_format: overrides what the names of the inputs
    say. threads: all processors by default. `bad_line(input, line)` receives each bad line. Temporary files are beside
    the pairs, or in a system directory if they go to a stream. Raises InputError, ConfigError, UsageError, and
    BrokenPipeError where no reader reads an output any more.
    """
    chosen = requested_keep(keep, clusters, settings)
    index = settings.index.model_copy(update={"bucket_limit": bucket_limit})
    run = _PairsRun(
        inputs=inputs,
        outputs={"--output": OutputOption(pairs), "--clusters": OutputOption(clusters)},
        force=force,
        file_format=file_format,
        settings=settings.model_copy(update={"index": index}),
        progress=progress,
        memory=memory,
        threads=threads or os.cpu_count() or 1,
        bad_line=bad_line,
        keep=chosen,
    )
    run.execute()
    return run.result()


def requested_keep(keep: str | None, clusters: object, settings: Settings) -> Keep | None:
    """Parse `keep`. Raises UsageError if it would have no effect, or if the settings do not allow it."""
    if keep is None:
        return None
    if clusters is None:
        raise UsageError("--keep names representatives in the rows of --clusters; give --clusters FILE, too")
    chosen = parse_keep(keep)
    chosen.check(Scheme(settings.fingerprint))
    return chosen


@dataclass(kw_only=True)
class _PairsRun(FileRun):
    """One run of `find_pairs`."""

    memory: int
    threads: int
    bad_line: Callable[[str, BadLine], None]
    keep: Keep | None
    progress: Callable[[PairsProgress], None]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ahead = 2 * self.threads
        self._share = max(1, self.memory // self._ahead)  # bytes for each piece of work that is in memory
        self._scheme = Scheme(self.settings.fingerprint)
        self._corpus = SpilledCorpus(self._scheme)
        self._bad = 0
        self._runs: list[NDArray[np.uint64]] = []
        self._hot = self._left_out = 0
        self._verified: list[tuple[VerifiedHead, Arrays]] = []
        self._absent: tuple[str, ...] = ()

    def result(self) -> PairsResult:
        verified = self._verified
        sizes = np.bincount(self._roots, minlength=1)
        return PairsResult(
            items=self._corpus.size,
            bad=self._bad,
            pairs=sum(len(arrays["later"]) for _, arrays in verified),
            clusters=int(np.count_nonzero(sizes > 1)),
            clustered=int(sizes[sizes > 1].sum()),
            compared=sum(head.compared for head, _ in verified),
            hot=self._hot,
            left_out=self._left_out,
            seconds=self._seconds(),
            summary=self._summary,
            absent_sources=self._absent,
        )

    def _run(self, stack: ExitStack) -> None:
        self._describe_inputs()
        if not self.force:
            check_free(self._targets)
        pairs = self._targets["--output"]
        self._temporary = Path(tempfile.gettempdir()) if pairs.is_stream else pairs.path.parent
        self._executor = stack.enter_context(ThreadPoolExecutor(self.threads))
        self._make_parts()
        self._make_runs()
        self._compare()
        self._write()

    def _make_parts(self) -> None:
        """Fingerprint the items."""
        most = self.settings.worker.max_record_bytes
        reader = LineReader(self._names, self.file_format, sources=self._sources, most=most)

        def report(bad: list[BadLine]) -> None:
            self._bad += len(bad)
            for line in bad:
                self.bad_line(self._names[line.input], line)
            self.progress(PairsProgress(PairsStep.PART, reader.bytes_read, self._total_bytes))

        part_bytes = max(1, self._share // 4)
        writer = PartWriter(self._names, self.settings, self._scheme, self._temporary, part_bytes=part_bytes)
        for part in writer.run(reader, self._executor, self._ahead, report):
            self._corpus.append(part)
        self._summary = writer.summary()

    def _make_runs(self) -> None:
        """Find the candidate pairs of each table."""
        capacity = max(1, self._share // _BYTES_PER_CODE)
        limit = self.settings.index.bucket_limit
        if self._corpus.size >= 2**32:
            raise InputError(f"{self._corpus.size:,} items are too many; at most 4,294,967,295 can be compared")

        def make(table: int) -> list[tuple[RunHead, NDArray[np.uint64]]]:
            return spilled_runs(self._corpus, table, limit, capacity, self._temporary)

        tables = range(self._corpus.tables)
        for done, runs in enumerate(map_in_order(self._executor, make, tables, self._ahead), 1):
            self._runs += [codes for _, codes in runs]
            self._hot += runs[-1][0].hot
            self._left_out += runs[-1][0].left_out
            self.progress(PairsProgress(PairsStep.TABLE, done, len(tables)))

    def _compare(self) -> None:
        """Decide the candidate pairs."""
        size = self._corpus.size
        compare = PairComparer(self._corpus, self._runs, self.settings.decision, self._scheme.settings.hamming)
        ranges = row_ranges(self._runs, 0, size, max(1, self._share // bytes_per_pair(self._scheme)))
        for head, arrays in map_in_order(self._executor, compare, ranges, self._ahead):
            self._verified.append((head, spill(arrays, self._temporary)))
            self.progress(PairsProgress(PairsStep.COMPARE, head.end, size))

    def _write(self) -> None:
        """Write both outputs and put them in place."""
        roots = np.arange(self._corpus.size)
        for _, arrays in self._verified:
            unite(roots, arrays["later"], arrays["earlier"])
        self._roots = cluster_of(roots)
        columns = (PAIR_COLUMNS, KEEP_COLUMNS if self.keep else CLUSTER_COLUMNS)
        with ExitStack() as stack:
            writers = [table_writer(*each) for each in zip(self._open_outputs(stack), columns, strict=False)]
            for rows in self._pair_rows():
                writers[0].write(rows)
            for writer in writers[1:]:
                self._write_clusters(writer)
            for writer in reversed(writers):
                writer.publish()  # the pairs last: once they are there, everything is

    def _write_clusters(self, writer: TableWriter) -> None:
        kept = self._representatives(self.keep) if self.keep else None
        for rows in self._chunks():
            columns: dict[str, list[Any]] = {
                "id": self._corpus.ids(rows),
                "cluster": self._corpus.ids_of(self._roots[rows]),
            }
            if kept is not None:
                columns |= {
                    "representative": self._corpus.ids_of(kept[rows]),
                    "keep": (kept[rows] == rows).tolist(),
                }
            writer.write(columns)

    def _representatives(self, keep: Keep) -> NDArray[np.int64]:
        """The row of each row's representative."""
        size = self._corpus.size
        merits = Merits(np.empty(size, np.int64), np.empty(size, np.int64))
        for rows in self._chunks():
            merits.rank[rows], merits.time[rows] = keep.merits(self._corpus.signatures(rows), self._scheme)
        self._absent = keep.absent(set(np.unique(merits.rank).tolist()))
        return representatives(self._roots, merits)

    def _chunks(self) -> Iterator[NDArray[np.int64]]:
        """All rows, some at a time."""
        for start in range(0, self._corpus.size, _OUTPUT_ROWS):
            yield np.arange(start, min(start + _OUTPUT_ROWS, self._corpus.size))

    def _pair_rows(self) -> Iterator[dict[str, list[Any]]]:
        for _, arrays in self._verified:
            for start in range(0, len(arrays["later"]), _OUTPUT_ROWS):
                chunk = {name: column[start : start + _OUTPUT_ROWS] for name, column in arrays.items()}
                yield pair_rows(chunk, self._corpus.ids_of)


def pair_rows(pairs: Arrays, ids_of: Callable[[NDArray[np.int64]], list[str]]) -> dict[str, list[Any]]:
    """The columns of `PAIR_COLUMNS` for pairs as `PairComparer` returns them; `ids_of(rows)`: the ids of these rows."""
    return {
        "a": ids_of(pairs["earlier"]),
        "b": ids_of(pairs["later"]),
        "stage": [str(STAGES[stage]) for stage in pairs["stage"].tolist()],
        **{name: _rounded(pairs[name]) for name in ("body", "containment", "headline")},
        "distance": [None if bits is None else int(bits) for bits in _rounded(pairs["distance"])],
    }


def _rounded(column: NDArray[np.float32]) -> list[float | None]:
    """Four digits, as in a verdict; NaN becomes None."""
    rounded = np.round(column.astype(np.float64), 4).tolist()
    return [None if x != x else x for x in rounded]
