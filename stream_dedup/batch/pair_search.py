"""The steps of `pairs`: fingerprint a corpus, sort keys into candidates, decide. pairs.py gives memory and limits.

1. The corpus. Several threads decode and fingerprint batches of lines side by side (the core releases the GIL). The
   batches are put together in input order, in temporary files, one for each column. The result is a `Corpus`: the
   items by row number (0, 1, 2, ... through all inputs), with signatures, keys by table, ids, words, whole bodies.
2. Candidates, by sorting instead of look-ups. The keys of a table, of all its columns together, are sorted with their
   rows; equal neighbours are candidates. The result is one or more *runs* for each table: ascending pair codes, later
   row * 2^32 + earlier row. If the keys of a table do not fit in memory, they are sorted in ranges, and the columns are
   read once for each range. If the pairs do not fit, they make several runs.
3. The decision, by ranges of rows. The codes of a range are contiguous in each run, so one sort merges the runs and
   removes repeated pairs. The result is the near-duplicates of the range, ordered by (later, earlier): two items that
   the stream would call one article. Whether the later one has something new does not count.

A bucket of n equal keys has n(n-1)/2 pairs, and a template of a million pages would fill every disk. So each item is
paired with the newest `bucket_limit` items before it in its bucket, as in the stream. A pair is missed only if that
many items lie between the two in every table that they share. Each of those is paired with its own neighbours, so a
cluster of copies stays connected. The result counts the pairs that were left out.

Source: bands as buckets, Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4; here sorted instead of
hashed.
"""

import mmap
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from itertools import chain, pairwise
from operator import attrgetter
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.lines import Line, LineReader, item_of
from stream_dedup.dedup.batch import batches
from stream_dedup.dedup.clocks import START, fill_missing_times
from stream_dedup.dedup.rule import judge_pairs, strongest, thresholds
from stream_dedup.dedup.similarity import compare
from stream_dedup.dedup.verdict import Stage
from stream_dedup.fingerprint.fingerprint import WORD_SET_BYTES, Fingerprinter, Fingerprints
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.probe import nearness_of
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.news.summary import Summary
from stream_dedup.news.survey import Survey
from stream_dedup.settings import DecisionSettings, Settings

In = TypeVar("In")
Out = TypeVar("Out")
Arrays = dict[str, NDArray[Any]]
Codes = NDArray[np.uint64]

SIGNATURES = "records"
BYTES = ("ids", "words", "bodies")
"""The columns of bytes of any length: an array of all bytes, and as name + "_ends" where those of each row end."""
# A nonzero byte of a word set. A text of 300 words has 900 bytes of these instead of 4,096.
_WORD_BYTE = np.dtype([("at", "<u2"), ("bits", "u1")])
_STAGES = list(Stage)
# Ranges begin at multiples of this row count, so a run is searched for n / 256 rows instead of n.
_STEP = 256
# Steps in a range at most: the word set of a row takes 4 KB.
_MOST_STEPS = 16
_SHIFT, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_NO_CODES = np.empty(0, np.uint64)
# Bins in which keys are counted before a table is cut into ranges; keys are hashes, so they fill the bins evenly.
_BINS = 2**12


# -- the corpus -------------------------------------------------------------------------------------------------------


class BadLine(NamedTuple):
    """A line that holds no item: the index of its input (from 0), its number (from 1), and the reason."""

    input: int
    number: int
    reason: str


class Growing:
    """Flat arrays on the disk that grow at their ends, in files that `new_file` makes."""

    def __init__(self, new_file: Callable[[], IO[bytes]]) -> None:
        self._new_file = new_file
        self._files: dict[str, tuple[IO[bytes], np.dtype[Any]]] = {}

    def append(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Raises OSError."""
        for name, array in arrays.items():
            if name not in self._files:
                self._files[name] = self._new_file(), array.dtype
            self._files[name][0].write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def mapped(self) -> Arrays:
        """All arrays, read-only, mapped into memory, where the system keeps as much of them as it can."""
        return {name: _mapped(file, dtype) for name, (file, dtype) in self._files.items()}


def _mapped(file: IO[bytes], dtype: np.dtype[Any]) -> NDArray[Any]:
    file.flush()
    whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.tell() else b""
    return np.frombuffer(whole, dtype)


class Corpus:
    """The corpus by row number. Callers ask for rows in ascending order, so the pages are read in sequence.

    blocks: the number of rows in each block of keys; in a block the keys of a column are contiguous.
    """

    def __init__(self, scheme: Scheme, arrays: Arrays, blocks: Sequence[int]) -> None:
        self._is_exact = scheme.is_exact
        self.has_words = not scheme.layout
        self.hamming = scheme.settings.hamming
        self._table_of = np.array(scheme.table_of[:-1])
        self.tables = int(self._table_of[-1]) + 1
        self._arrays, self._blocks = arrays, blocks
        self.size = len(arrays[SIGNATURES])

    def signatures(self, rows: NDArray[np.int64]) -> NDArray[np.void]:
        """Copies of the signatures of rows, in their order."""
        signatures: NDArray[np.void] = self._arrays[SIGNATURES][rows]
        return signatures

    def id_hashes(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The hashes of the ids of rows."""
        hashes: NDArray[np.uint64] = self._arrays[SIGNATURES]["row_id"][rows]
        return hashes

    def words(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The word sets of rows as in `Fingerprints.words`, (rows, 4096) uint8."""
        return word_sets(self._slices(rows, "words"))

    def ids(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids of rows in any order."""
        distinct_rows, indices = np.unique(rows, return_inverse=True)
        ids = [str(name, "utf-8") for name in self._slices(distinct_rows, "ids")]
        return [ids[index] for index in indices.tolist()]

    def bodies(self, rows: NDArray[np.int64]) -> list[bytes]:
        """The packed bodies of rows; empty if the scheme keeps only sketches."""
        return self._slices(rows, "bodies") if self._is_exact else []

    def keys(self, table: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """The keys of one table, block by block: the first row of the block, and the keys (columns, rows)."""
        first, end = np.searchsorted(self._table_of, [table, table + 1])
        start, columns = 0, len(self._table_of)
        for rows in self._blocks:
            block = self._arrays["keys"][start * columns : (start + rows) * columns].reshape(columns, rows)
            yield start, block[first:end]
            start += rows

    def _slices(self, rows: NDArray[np.int64], name: str) -> list[bytes]:
        ends = self._arrays[f"{name}_ends"]
        starts, stops = np.where(rows > 0, ends[rows - 1], 0).tolist(), ends[rows].tolist()
        with memoryview(self._arrays[name].data) as data:
            return [bytes(data[start:stop]) for start, stop in zip(starts, stops, strict=True)]


class BatchMaker:
    """Decodes and fingerprints a batch of lines, and returns its arrays and the lines that hold no item.

    `place` names a line of an input in the survey of the lines; without it there is no survey. Several threads may call
    it at once.
    """

    def __init__(self, settings: Settings, scheme: Scheme, place: Callable[[int, int], str] | None = None) -> None:
        self._decode = Decoder(settings.item)
        self._fingerprint = Fingerprinter(scheme)
        # Equal neighbours are candidates even in the index's near tables: verification counts the bits.
        self._buckets = nearness_of(scheme.dont_care_bits, scheme.table_of, 0)
        self._with_words = settings.decision.rule == "novelty"  # words swapped in a template
        self._empty_reason = str(scheme.empty_item)
        self._survey = Survey(self._decode.read, settings, in_order=False, place=place) if place else None
        self._survey_lock = threading.Lock()
        self.notes: Sequence[str] = ()  # how the inputs were read, for the summary

    def summary(self) -> Summary | None:
        """How the lines so far were understood; None if there were none. Call it while no batch is being made."""
        if not self._survey:
            return None
        self._survey.notes = self.notes
        return summary if (summary := self._survey.summary()).items else None

    def __call__(self, lines: Sequence[Line]) -> tuple[Arrays, list[BadLine]]:
        """The arrays of the lines' items, in their order."""
        bad: list[BadLine] = []
        items: list[Item] = []
        for line in lines:
            item = item_of(self._decode, line)
            if self._survey:
                with self._survey_lock:
                    self._survey.add(item, line.value, line.input, line.number)
            if isinstance(item, Item):
                items.append(item)
            else:
                bad.append(BadLine(line.input, line.number, str(item)))
        prints = self._fingerprint(items)
        bad += [
            BadLine(items[i].partition, items[i].offset, self._empty_reason) for i in np.flatnonzero(prints.is_empty)
        ]
        bad.sort()
        kept = np.flatnonzero(~prints.is_empty)
        words = prints.words[kept] if self._with_words else np.empty((len(kept), 0), np.uint8)
        arrays: Arrays = {
            SIGNATURES: prints.signatures[kept],
            "keys": self._buckets.buckets(prints.keys[kept].T)[:-1],  # the last column: ids, which are no evidence here
            **_joined_bytes("ids", [items[i].id.encode() for i in kept.tolist()]),
            **_word_bytes(words),
            **_joined_bytes("bodies", [prints.bodies[i] for i in kept.tolist()] if prints.bodies else []),
        }
        return arrays, bad


def rows_of_bytes(arrays: Arrays, name: str) -> list[bytes]:
    """The bytes of each row in one of the columns `BYTES`."""
    data, ends = arrays[name].tobytes(), arrays[f"{name}_ends"].tolist()
    return [data[start:end] for start, end in pairwise([0, *ends])]


def _joined_bytes(name: str, values: Sequence[bytes]) -> Arrays:
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    return {name: np.frombuffer(b"".join(values), np.uint8), f"{name}_ends": ends}


def _word_bytes(words: NDArray[np.uint8]) -> Arrays:
    """The nonzero bytes of word sets (n, 4096)."""
    rows, at = np.nonzero(words != 0)
    found = np.empty(len(rows), _WORD_BYTE)
    found["at"], found["bits"] = at, words[rows, at]
    ends = np.cumsum(np.bincount(rows, minlength=len(words)), dtype=np.int64) * _WORD_BYTE.itemsize
    return {"words": found.view(np.uint8), "words_ends": ends}


def word_sets(packed: Sequence[bytes]) -> NDArray[np.uint8]:
    """The inverse of `_word_bytes`, for the bytes of each row: (rows, 4096)."""
    words = np.frombuffer(b"".join(packed), _WORD_BYTE)
    lengths = [len(of_row) // _WORD_BYTE.itemsize for of_row in packed]
    out = np.zeros((len(packed), WORD_SET_BYTES), np.uint8)
    out[np.repeat(np.arange(len(packed)), lengths), words["at"]] = words["bits"]
    return out


def read_corpus(
    reader: LineReader,
    make: BatchMaker,
    executor: Executor,
    ahead: int,
    block_bytes: int,
    columns: Growing,
    scheme: Scheme,
    report: Callable[[list[BadLine]], None],
) -> Corpus:
    """Fingerprint all lines; `report(bad)` follows each batch. At most `ahead` batches are made at once."""
    # A batch takes half of a block at most: while it is made, a word set takes 4 KB.
    batch_items = max(1, min(1000, block_bytes // (2 * WORD_SET_BYTES)))
    lines = batches(reader, attrgetter("size"), batch_items, min(2**22, block_bytes // 2))

    def keys_of_batches() -> Iterator[NDArray[np.uint32]]:
        watermark, ends = START, Counter[str]()
        # A corpus without items has columns, too.
        for arrays, bad in chain([make([])], map_in_order(executor, make, lines, ahead)):
            watermark = fill_missing_times(arrays[SIGNATURES]["time"], watermark)
            for name in BYTES:  # ends within the batch become ends within the column
                arrays[f"{name}_ends"] += ends[name]
                ends[name] += len(arrays[name])
            yield arrays.pop("keys")
            columns.append(arrays)
            report(bad)

    blocks = []
    for keys in batches(keys_of_batches(), attrgetter("nbytes"), 2**20, block_bytes):
        columns.append({"keys": np.concatenate(keys, axis=1)})
        blocks.append(sum(one.shape[1] for one in keys))
    return Corpus(scheme, columns.mapped(), blocks)


def map_in_order(executor: Executor, function: Callable[[In], Out], inputs: Iterable[In], ahead: int) -> Iterator[Out]:
    """Yield function(value) for each input, in order. At most `ahead` results are being made or wait to be taken.

    `Executor.map` would read all inputs at once. After an error, calls that have started still run to their end.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     list(map_in_order(pool, str, range(4), 3))
    ['0', '1', '2', '3']
    """
    pending: deque[Future[Out]] = deque()
    try:
        for value in inputs:
            pending.append(executor.submit(function, value))
            if len(pending) >= ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


# -- candidate pairs --------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """Ascending, distinct pair codes; and of the buckets behind them, how many are hot and how many pairs they omit."""

    codes: Codes
    hot: int
    left_out: int


def bucket_pairs(ranges: Iterable[Codes], bucket_limit: int, capacity: int) -> Iterator[Run]:
    """The pair codes of equal neighbours, about `capacity` at a time; the last run may be empty.

    ranges: entries, key * 2^32 + row, ascending within a range; each bucket lies in one range. O(pairs log pairs).
    """
    most, waiting, filled, hot, left_out = max(capacity, bucket_limit), list[Codes](), 0, 0, 0
    for entries in ranges:
        keys = entries >> _SHIFT
        before = np.arange(len(keys)) - np.searchsorted(keys, keys)  # the entries before each one in its bucket
        hot += int(np.count_nonzero(before == bucket_limit + 1))
        left_out += int(np.maximum(before - bucket_limit, 0).sum())
        later = np.flatnonzero(before)
        for back in range(1, min(int(before.max(initial=0)), bucket_limit) + 1):
            later = later[before[later] >= back]
            if filled + len(later) > most:
                yield Run(distinct(np.concatenate([_NO_CODES, *waiting])), hot, left_out)
                waiting, filled, hot, left_out = [], 0, 0, 0
            waiting.append(entries[later] << _SHIFT | entries[later - back] & _LOW)
            filled += len(later)
    yield Run(distinct(np.concatenate([_NO_CODES, *waiting])), hot, left_out)


def sorted_ranges(corpus: Corpus, table: int, capacity: int) -> Iterator[Codes]:
    """The entries of a table, key * 2^32 + row, ascending and distinct, about `capacity` at a time.

    Each bucket lies in one range. O(n log n) time, and some 4 * `capacity` * 8 bytes.
    """
    for low, high in _ranges(corpus, table, capacity):
        entries = []
        for start, keys in corpus.keys(table):
            columns, rows = np.nonzero((keys >= low) & (keys <= high))
            entries.append(codes_of(keys[columns, rows], rows + start))
        yield distinct(np.concatenate(entries))


def _ranges(corpus: Corpus, table: int, capacity: int) -> list[tuple[int, int]]:
    """The (first, last) keys of ranges of about `capacity` entries; 0 is no key."""
    if sum(keys.size for _, keys in corpus.keys(table)) <= capacity:
        return [(1, 2**32 - 1)]
    width = 2**32 // _BINS
    counts = sum(np.bincount(keys.ravel() // np.uint32(width), minlength=_BINS) for _, keys in corpus.keys(table))
    before = np.cumsum(np.asarray(counts)) - counts
    cuts = np.flatnonzero(np.diff(before // capacity, prepend=-1)).tolist()
    return [(max(1, first * width), last * width - 1) for first, last in pairwise([*cuts, _BINS])]


def distinct(codes: Codes) -> Codes:
    """The distinct entries or codes, ascending. Sorts in place. `np.unique` hashes first, which takes twice as long."""
    codes.sort()
    first = np.ones(len(codes), np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=first[1:])
    return codes[first]


def rows_of(codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The later and the earlier row of each pair code."""
    return (codes >> _SHIFT).astype(np.int64), (codes & _LOW).astype(np.int64)


def codes_of(later: NDArray[np.integer[Any]], earlier: NDArray[np.integer[Any]]) -> Codes:
    """The inverse of `rows_of`: the high and the low 32 bits."""
    return later.astype(np.uint64) << _SHIFT | earlier.astype(np.uint64)


def row_ranges(runs: Sequence[Codes], size: int, capacity: int) -> Iterator[tuple[int, list[Codes]]]:
    """Cut the rows 0 to `size` into ranges of about `capacity` codes: the end of each, and its slice of each run."""
    edges = np.append(np.arange(0, size, _STEP), size).astype(np.uint64)
    positions = np.array([np.searchsorted(run, edges << _SHIFT) for run in runs]).reshape(len(runs), len(edges))
    codes = positions.sum(axis=0)
    start = 0
    while start < len(edges) - 1:
        end = int(np.searchsorted(codes, codes[start] + capacity, side="right")) - 1
        end = min(max(end, start + 1), start + _MOST_STEPS, len(edges) - 1)
        yield int(edges[end]), [run[at[start] : at[end]] for run, at in zip(runs, positions, strict=True)]
        start = end


def near_duplicates(corpus: Corpus, decision: DecisionSettings, slices: Sequence[Codes]) -> tuple[int, Arrays]:
    """The number of distinct candidates in `slices`, and the near-duplicates among them.

    O(candidates · bytes of a signature). Several threads may call it at once.
    """
    codes = distinct(np.concatenate([_NO_CODES, *slices]))
    later, earlier = rows_of(codes)
    later, of_later = np.unique(later, return_inverse=True)
    earlier, of_earlier = np.unique(earlier, return_inverse=True)
    no_keys = np.empty((len(later), 0), np.uint32)
    new = Fingerprints(corpus.signatures(later), no_keys, corpus.words(later), corpus.hamming, corpus.bodies(later))
    similar = compare(new, corpus.signatures(earlier), of_later, of_earlier, corpus.bodies(earlier))
    is_pair, found = decide(similar, decision, has_words=corpus.has_words)
    found |= {"later": later[of_later[is_pair]], "earlier": earlier[of_earlier[is_pair]]}
    return len(codes), found


def decide(
    similar: NDArray[np.void], decision: DecisionSettings, *, has_words: bool
) -> tuple[NDArray[np.bool_], Arrays]:
    """Which candidates are near-duplicates, and the stages and measures of these. similar: as `compare` returns it."""
    judged = judge_pairs(similar, thresholds(decision, has_words=has_words))
    is_pair = judged.is_repeat | judged.is_same
    similar, is_exact = similar[is_pair], judged.is_repeat[is_pair]
    stages = [_STAGES.index(stage) for stage in strongest(similar)]
    return is_pair, {
        "stage": np.where(is_exact, _STAGES.index(Stage.EXACT), stages).astype(np.uint8),
        **{name: similar[name] for name in ("body", "containment", "headline", "distance")},
    }


def pair_rows(pairs: Arrays, a: list[str], b: list[str]) -> dict[str, list[Any]]:
    """The columns of the output for pairs as `decide` returns them, with the ids of the earlier and the later items."""
    return {
        "a": a,
        "b": b,
        "stage": [str(_STAGES[stage]) for stage in pairs["stage"].tolist()],
        **{name: _rounded(pairs[name]) for name in ("body", "containment", "headline")},
        "distance": [None if bits is None else int(bits) for bits in _rounded(pairs["distance"])],
    }


def _rounded(column: NDArray[np.float32]) -> list[float | None]:
    """Four digits, as in a verdict; NaN becomes None."""
    rounded = np.round(column.astype(np.float64), 4).tolist()
    return [None if x != x else x for x in rounded]
