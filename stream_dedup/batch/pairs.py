"""All near-duplicate pairs and clusters of a corpus: lines (lines.py) -> rows of pairs, rows of clusters.

Out: the *pairs*, a row {"a", "b", "stage", "body", "containment", "lead", "headline", "distance"} for each two items
that the decision calls one article, the earlier as `a`, in the order of (b, a); and the *clusters*, a row
{"id", "cluster"} for each item in the order of the input: what hangs together by pairs, named by its first item. The
decision is the stream's: same fingerprints, same rule and guards, as if `b` came to an index that remembers every item
before it. There is no window here, ids are no evidence (the same id twice is two items), and a cluster may hold two
items that are no pair: a copy of a copy. Lines that are no items are told, counted and left out.

Unlike the stream nothing is looked up: all keys of all items are sorted table by table, and equal neighbours are
candidates (candidates.py). What does not fit in memory lies in numbered, checksummed files (spill.py) in a directory of
this run, so that it holds no more than `memory`, but for eight bytes an item, and a killed run goes on:

    step        what happens                                          killed before or in it
    1 BEGIN     the directory names the run, other work is dropped    the run never was
    2 PART      fingerprints of some items, numbered part by part     goes on behind the last part
    3 TABLE     one table is sorted, its pairs become runs            the table is sorted again
    4 COMPARE   the pairs of some rows are decided                    goes on behind the last file
    5 WRITE     both outputs grow under other names, then take theirs is done again
    6 CLEAR     the directory is emptied                              5 is done again, with the same rows

Work is taken up if inputs (path, size, time of change) and settings are those it was done for; else it is dropped. What
comes by standard input or a pipe cannot be known again, so such a run begins anew; and so does one whose pairs go to a
stream, unless it is given a directory of its own.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.candidates import RunHead, read_runs, write_runs
from stream_dedup.batch.clusters import cluster_of, unite
from stream_dedup.batch.compare import STAGES, Comparer, VerifiedHead, stretches, verified_name
from stream_dedup.batch.judge import check_items
from stream_dedup.batch.outputs import Target, check_paths, open_output, target
from stream_dedup.batch.parallel import in_order
from stream_dedup.batch.parts import BadLine, PartHead, PartMaker, Parts, part_name
from stream_dedup.batch.rows import Form
from stream_dedup.batch.spill import Arrays, Spill
from stream_dedup.batch.state import Source, describe, digest_of
from stream_dedup.batch.tables import Columns, check_format, table
from stream_dedup.changelog.files import open_locked
from stream_dedup.errors import InputError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.summary import Summary
from stream_dedup.settings import Settings

# A whole corpus has larger families of copies than a window, and nobody waits for a single item.
BUCKET_LIMIT = 1024
DEFAULT_MEMORY = 2**30
"""Bytes; some 400,000 news items are then worked on without a second pass."""

_PAIR_COLUMNS: Columns = {
    "a": str, "b": str, "stage": str, "body": float, "containment": float, "lead": float, "headline": float,
    "distance": int,
}  # fmt: skip
_CLUSTER_COLUMNS: Columns = {"id": str, "cluster": str}
_BEGIN = "begin"
_FILES = (_BEGIN, "part-", "run-", "verified-")
# A code while its table is sorted: the keys' entries, the codes, and what sorting copies of them.
_BYTES_A_CODE = 32
# A pair while it is compared: two records of 292 bytes by default, and fourteen numbers.
_BYTES_A_PAIR = 1024
# Where bodies are kept whole: one of 1,000 shingles, packed.
_BYTES_A_BODY = 2**13
# Rows of an output that are made at a time; 2^16 rows of JSON are some 10 MB.
_ROWS = 2**16


class PairsStep(IntEnum):
    """The steps of a run; see the module's first lines."""

    BEGIN = 1
    PART = 2
    TABLE = 3
    COMPARE = 4
    WRITE = 5
    CLEAR = 6


class PairsProgress(NamedTuple):
    """How far a step is; `total` None: not known. PART counts bytes of the inputs, the others tables or rows."""

    step: PairsStep
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class PairsResult:
    """What was found.

    clusters: of two items or more, and how many are `clustered` in them. compared: candidate pairs; guarded: those that
    a guard refused. hot, left_out: buckets over the limit, and the pairs that were therefore not looked at,
    counted table by table. resumed: items whose fingerprints a killed run had left. summary: what the others were
    understood to be; None: there were none.
    """

    items: int
    bad: int
    pairs: int
    clusters: int
    clustered: int
    compared: int
    guarded: int
    hot: int
    left_out: int
    resumed: int
    seconds: float
    summary: Summary | None


class _Begin(msgspec.Struct, frozen=True):
    """What the files of a directory were made for."""

    sources: list[Source]
    settings: str
    scheme: int
    form: str = ""
    version: int = 1


def find_pairs(
    inputs: Sequence[str | Path],
    pairs: str | Path,
    clusters: str | Path | None,
    *,
    settings: Settings,
    memory: int = DEFAULT_MEMORY,
    bucket_limit: int = BUCKET_LIMIT,
    state: str | Path | None = None,
    form: Form | None = None,
    threads: int | None = None,
    progress: Callable[[PairsProgress], None] = lambda _: None,
    bad_line: Callable[[str, BadLine], None] = lambda *_: None,
    announce: Callable[[PairsStep], None] = lambda _: None,
) -> PairsResult:
    """Finds the near-duplicates of the inputs (files, pipes, "-": standard input). See the module's first lines.

    pairs, clusters: JSON Lines, or Parquet by the suffix .parquet; what exists is overwritten, at the very end; "-" is
    standard output. Without `clusters` their rows are not written. memory: bytes. bucket_limit: of the items before it
    that share a key, each meets so many, the newest (the settings' own limit is the stream's). state: directory of the
    temporary files, by default `.NAME.state` beside the pairs, or one of the system's if they go to a stream. form: of
    all inputs, whatever their names say. threads: all processors by default. `bad_line(input, line)` is told each line
    that is no item. Raises InputError, ConfigError, and BrokenPipeError where nobody reads an output any more.
    """
    started = time.monotonic()
    index = settings.index.model_copy(update={"bucket_limit": bucket_limit})
    settings = settings.model_copy(update={"index": index})
    given = [str(one) for one in inputs]
    state = Path(state) if state is not None else None
    targets = {"--output": target(Path(pairs))}
    if clusters is not None:
        targets["--clusters"] = target(Path(clusters))
    check_paths(given, targets, state, cut=False)
    check_items(given, form, settings)
    for option, to in targets.items():
        check_format(option, to)
    workers = threads or os.cpu_count() or 1
    with ExitStack() as stack:
        directory = (state or _directory_for(targets["--output"], stack)).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        stack.callback(_remove_if_empty, directory)
        stack.enter_context(open_locked(directory / "lock"))
        stack.callback((directory / "lock").unlink, missing_ok=True)
        executor = stack.enter_context(ThreadPoolExecutor(workers))
        run = _Run(given, form, settings, Spill(directory), executor, workers, memory, progress, announce)
        run.begin()
        resumed = run.make_parts(bad_line)
        run.make_runs()
        run.compare()
        counts = run.write(*targets.values())
        run.clear()
    return PairsResult(**counts, resumed=resumed, seconds=time.monotonic() - started, summary=run.summary)


class _Run:
    """One run of `find_pairs`, step by step."""

    def __init__(
        self,
        inputs: list[str],
        form: Form | None,
        settings: Settings,
        spill: Spill,
        executor: Executor,
        workers: int,
        memory: int,
        progress: Callable[[PairsProgress], None],
        announce: Callable[[PairsStep], None],
    ) -> None:
        self._inputs = inputs
        self._form = form
        self._settings = settings
        self._spill = spill
        self._executor = executor
        self._ahead = 2 * workers
        self._memory = memory
        # The share of each of the pieces that are in memory at a time.
        self._share = max(1, memory // self._ahead)
        self._progress = progress
        self._announce = announce
        self._scheme = Scheme(settings.fingerprint)
        # All but the last, which holds ids.
        self._tables = list(range(self._scheme.tables - 1))
        self._parts = Parts(self._scheme)
        self._at = PartHead()
        self._runs: list[NDArray[np.uint64]] = []
        self._hot = self._left_out = 0
        self._verified: list[tuple[VerifiedHead, Arrays]] = []
        self.summary: Summary | None = None

    def begin(self) -> None:
        """Step 1."""
        sources = describe(self._inputs)
        wanted = _Begin(sources, digest_of(self._settings), self._scheme.id, str(self._form or ""))
        found = self._spill.read(_BEGIN, _Begin)
        if found is None or found[0] != wanted or any(source.size < 0 for source in sources):
            self._announce(PairsStep.BEGIN)
            self._spill.clear(*_FILES)
            self._spill.write(_BEGIN, wanted, {})
        sizes = [source.size for source in sources]
        self._bytes = None if min(sizes, default=0) < 0 else sum(sizes)

    def make_parts(self, bad_line: Callable[[str, BadLine], None]) -> int:
        """Step 2; how many items it found done."""
        number = 0
        while not self._at.last and (found := self._spill.read(part_name(number), PartHead)):
            self._at = found[0]
            self._parts.append(found[1])
            number += 1
        resumed = self._at.items
        if self._at.last:
            return resumed

        def tell(at: PartHead, bad: list[BadLine], done: int) -> None:
            self._at = at
            for line in bad:
                bad_line(self._inputs[line.input], line)
            self._progress(PairsProgress(PairsStep.PART, done, self._bytes))

        part_bytes = max(1, self._share // 4)
        maker = PartMaker(
            self._inputs, self._settings, self._scheme, self._tables, part_bytes=part_bytes, form=self._form
        )
        self._announce(PairsStep.PART)
        for part in maker.run(self._at, number, self._spill, self._executor, self._ahead, tell):
            self._parts.append(part)
            self._announce(PairsStep.PART)
        summary = maker.summary()
        self.summary = summary if summary.items else None
        return resumed

    def make_runs(self) -> None:
        """Step 3."""
        capacity = max(1, self._share // _BYTES_A_CODE)
        limit = self._settings.index.bucket_limit
        if self._parts.size >= 2**32:
            raise InputError(f"{self._parts.size:,} items are more than a pair's code can name, 4,294,967,295")

        def make(place: int) -> list[tuple[RunHead, Arrays]]:
            runs = read_runs(self._spill, place, check=True)
            if runs is None:
                self._announce(PairsStep.TABLE)
                write_runs(self._spill, self._parts, place, limit, capacity)
                runs = read_runs(self._spill, place, check=False)
            return runs or []

        places = range(self._parts.tables)
        for done, runs in enumerate(in_order(self._executor, make, places, self._ahead), 1):
            self._runs += [arrays["codes"] for _, arrays in runs]
            self._hot += runs[-1][0].hot
            self._left_out += runs[-1][0].left_out
            self._progress(PairsProgress(PairsStep.TABLE, done, len(places)))

    def compare(self) -> None:
        """Step 4."""
        while found := self._spill.read(verified_name(len(self._verified)), VerifiedHead):
            self._verified.append(found)
        first = self._verified[-1][0].end if self._verified else 0
        size = self._parts.size
        if first >= size:
            return
        compare = Comparer(self._parts, self._runs, self._settings.decision, self._scheme.settings.hamming)
        each = _BYTES_A_PAIR + (_BYTES_A_BODY if self._scheme.is_exact else 0)
        todo = stretches(self._runs, first, size, max(1, self._share // each))
        for head, arrays in in_order(self._executor, compare, todo, self._ahead):
            self._announce(PairsStep.COMPARE)
            name = verified_name(len(self._verified))
            self._spill.write(name, head, arrays)
            self._verified.append(self._spill.read_back(name, VerifiedHead))
            self._progress(PairsProgress(PairsStep.COMPARE, head.end, size))

    def write(self, pairs: Target, clusters: Target | None = None) -> dict[str, int]:
        """Step 5; the counts of all steps."""
        self._announce(PairsStep.WRITE)
        roots = np.arange(self._parts.size)
        for _, found in self._verified:
            unite(roots, found["later"], found["earlier"])
        roots = cluster_of(roots)
        with ExitStack() as stack:
            # The pairs take their name last: where they are, everything is.
            written = []
            if clusters is not None:
                cluster_table = table(stack.enter_context(open_output(clusters, in_place=False)), _CLUSTER_COLUMNS)
                written.append(cluster_table)
            pair_table = table(stack.enter_context(open_output(pairs, in_place=False)), _PAIR_COLUMNS)
            written.append(pair_table)
            for columns in self._pair_rows():
                pair_table.write(columns)
            if clusters is not None:
                for rows in _pieces(self._parts.size):
                    cluster_table.write({"id": self._parts.ids(rows), "cluster": self._names(roots[rows])})
            for one in written:
                one.publish()
        sizes = np.bincount(roots, minlength=1)
        return {
            "items": self._parts.size,
            "bad": self._at.bad,
            "pairs": sum(len(found["later"]) for _, found in self._verified),
            "clusters": int(np.count_nonzero(sizes > 1)),
            "clustered": int(sizes[sizes > 1].sum()),
            "compared": sum(head.compared for head, _ in self._verified),
            "guarded": sum(head.guarded for head, _ in self._verified),
            "hot": self._hot,
            "left_out": self._left_out,
        }

    def clear(self) -> None:
        """Step 6."""
        self._announce(PairsStep.CLEAR)
        self._spill.clear(*_FILES)

    def _pair_rows(self) -> Iterator[dict[str, list[Any]]]:
        for _, found in self._verified:
            for rows in _pieces(len(found["later"])):
                piece = {name: column[rows[0] : rows[-1] + 1] for name, column in found.items()}
                yield {
                    "a": self._names(piece["earlier"]),
                    "b": self._names(piece["later"]),
                    "stage": [str(STAGES[stage]) for stage in piece["stage"].tolist()],
                    **{name: _known(piece[name]) for name in ("body", "containment", "lead", "headline")},
                    "distance": [None if one is None else int(one) for one in _known(piece["distance"])],
                }

    def _names(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids of rows in any order."""
        distinct, places = np.unique(rows, return_inverse=True)
        names = self._parts.ids(distinct)
        return [names[place] for place in places.tolist()]


def _known(column: NDArray[np.float32]) -> list[float | None]:
    """Four digits, as in a verdict; None where it is unknown."""
    rounded = np.round(column.astype(np.float64), 4).tolist()
    return [None if x != x else x for x in rounded]


def _pieces(size: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, size, _ROWS):
        yield np.arange(start, min(start + _ROWS, size))


def _directory_for(pairs: Target, stack: ExitStack) -> Path:
    """Where temporary files lie by default: beside the pairs, or where nothing is beside them in one that goes with the
    run.
    """
    if not pairs.is_stream:
        return pairs.path.with_name(f".{pairs.path.name}.state")
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stream-dedup-pairs-")))


def _remove_if_empty(directory: Path) -> None:
    if not any(directory.iterdir()):
        directory.rmdir()
