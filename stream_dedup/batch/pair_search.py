"""Fingerprint a whole corpus, find its candidate pairs, and decide them.

In: lines (lines.py). Several threads decode and fingerprint batches of lines side by side (the kernels release the
GIL); the batches are put together in input order, and spilled to disk in parts, a temporary file each. So there is
`Corpus`, the items by row number (0, 1, 2, ... through all inputs): signatures, keys by table, ids, words, whole
bodies. Out: first *runs* of ascending pair codes, later row * 2^32 + earlier row, one or more for each table: all items
that share a key, found by sorting instead of lookups. The keys of a table are sorted, those of all its columns
together, each with its row, and equal neighbours are candidates. If the keys of a table do not fit in memory, they are
sorted in ranges, and the columns are read once for each range. If the pairs do not fit, they are written as several
runs. Then the near-duplicates of a range of rows, ordered by (later, earlier). The runs are merged range by range: the
codes of a range of rows are contiguous in each run, so one sort removes the repeated pairs. A pair is two items that
the stream would call one article; whether the later one has something new is not asked.

A bucket of n equal keys has n(n-1)/2 pairs, and a template of a million pages would fill every disk. So each item is
paired with the newest `bucket_limit` items before it in its bucket, as in the stream. A pair is missed only if that
many items lie between the two in every table that they share, and each of those is paired with its own neighbours, so a
cluster of copies stays connected. The result counts the pairs that were left out.

Source: bands as buckets, Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4; here sorted instead of
hashed.
"""

import mmap
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from stream_dedup.batch.lines import Line, LineReader, item_of
from stream_dedup.batches import batches
from stream_dedup.compiled import njit
from stream_dedup.dedup.clocks import START, fill_missing_times
from stream_dedup.dedup.rule import judge_pairs, strongest, thresholds
from stream_dedup.dedup.similarity import compare
from stream_dedup.dedup.verdict import Stage
from stream_dedup.fingerprint.fingerprint import WORD_SET_BYTES, Fingerprinter, Fingerprints
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.probe import nearness_of
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.news.survey import Summary, Survey
from stream_dedup.settings import DecisionSettings, Settings

In = TypeVar("In")
Out = TypeVar("Out")
Arrays = dict[str, NDArray[Any]]
Codes = NDArray[np.uint64]

SIGNATURES = "records"
BYTES = ("ids", "words", "bodies")
"""The columns of bytes of any length: an array of all bytes, and under the name + "_ends" where each row's end."""
# A byte of a word set that is not 0. A text of 300 words has 900 bytes of them instead of 4,096.
_WORD_BYTE = np.dtype([("at", "<u2"), ("bits", "u1")])
# A cache line; each spilled array begins at one.
_ALIGN = 64
_STAGES = list(Stage)
# Ranges begin at multiples of this row count, so a run is searched for n / 256 rows instead of n.
_STEP = 256
# Steps in a range at most: the word set of a row takes 4 KB.
_MOST_STEPS = 16
_SHIFT, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
# Key ranges that are counted before a table is cut into ranges; keys are hashes, so they fill them evenly.
_BINS = 2**12


# -- the corpus -------------------------------------------------------------------------------------------------------


class BadLine(NamedTuple):
    """A line that holds no item: the index of its input (from 0), its number (from 1), and the reason."""

    input: int
    number: int
    reason: str


class Corpus:
    """The corpus by row number. Callers ask for rows in ascending order, so each part's pages are read in sequence."""

    def __init__(self, scheme: Scheme) -> None:
        self._dtype = scheme.signature_dtype
        self._is_exact = scheme.is_exact
        self.has_words = not scheme.layout
        self.hamming = scheme.settings.hamming
        self._table_of = np.array(scheme.table_of[:-1])
        self._starts: list[int] = []
        self._parts: list[Arrays] = []
        self.size = 0

    def append(self, arrays: Arrays) -> None:
        self._starts.append(self.size)
        self._parts.append(arrays)
        self.size += len(arrays[SIGNATURES])

    def signatures(self, rows: NDArray[np.int64]) -> NDArray[np.void]:
        """Copies of the signatures of ascending rows, in their order."""
        out = np.empty(len(rows), self._dtype)
        for part, positions, local in self._split(rows):
            out[positions] = part[SIGNATURES].view(self._dtype)[local, 0]
        return out

    def words(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The word sets of ascending rows as in `Fingerprints.words`, (rows, 4096) uint8."""
        return word_sets(self._slices(rows, "words"))

    def ids(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids of rows in any order."""
        distinct_rows, indices = np.unique(rows, return_inverse=True)
        ids = [str(name, "utf-8") for name in self._slices(distinct_rows, "ids")]
        return [ids[index] for index in indices.tolist()]

    def bodies(self, rows: NDArray[np.int64]) -> list[bytes]:
        """The packed bodies of ascending rows; empty if the scheme keeps only sketches."""
        return self._slices(rows, "bodies") if self._is_exact else []

    def keys(self, table: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """The keys of one table, (its columns, items), part by part, each with its first row."""
        first, end = np.searchsorted(self._table_of, [table, table + 1])
        for start, part in zip(self._starts, self._parts, strict=True):
            yield start, part["keys"][first:end]

    @property
    def tables(self) -> int:
        return int(self._table_of[-1]) + 1 if self._parts else 0

    def _slices(self, rows: NDArray[np.int64], name: str) -> list[bytes]:
        out: list[bytes] = []
        for part, _, local in self._split(rows):
            ends = part[f"{name}_ends"]
            starts, stops = np.where(local > 0, ends[local - 1], 0).tolist(), ends[local].tolist()
            with memoryview(part[name].data) as data:
                out += [bytes(data[start:stop]) for start, stop in zip(starts, stops, strict=True)]
        return out

    def _split(self, rows: NDArray[np.int64]) -> Iterator[tuple[Arrays, slice, NDArray[np.int64]]]:
        """Each part with the positions of its rows in `rows`, and these rows counted from its first."""
        bounds = np.searchsorted(rows, [*self._starts, self.size])
        for part, start, (low, high) in zip(self._parts, self._starts, pairwise(bounds), strict=True):
            if high > low:
                yield part, slice(low, high), rows[low:high] - start


class BatchMaker:
    """Decodes and fingerprints batches of lines: the arrays of a part, and the lines that hold no item.

    `place`, if given, names a line of an input in the survey of the lines. Several threads may make batches.
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

    def summary(self) -> Summary | None:
        """How the lines so far were understood; None if there were none. Call it when no batch is in the making."""
        summary = self._survey.summary() if self._survey else None
        return summary if summary and summary.items else None

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
        signatures = prints.signatures[kept]
        words = prints.words[kept] if self._with_words else np.empty((len(kept), 0), np.uint8)
        arrays: Arrays = {
            SIGNATURES: signatures.view(np.uint8).reshape(len(kept), signatures.dtype.itemsize),
            "times": signatures["time"],
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
    """The bytes of word sets (n, 4096) that are not 0."""
    rows, at = np.nonzero(words != 0)
    found = np.empty(len(rows), _WORD_BYTE)
    found["at"], found["bits"] = at, words[rows, at]
    ends = np.cumsum(np.bincount(rows, minlength=len(words)), dtype=np.int64) * _WORD_BYTE.itemsize
    return {"words": found.view(np.uint8), "words_ends": ends}


def word_sets(packed: Sequence[bytes]) -> NDArray[np.uint8]:
    """The inverse for the bytes of each row: (rows, 4096)."""
    words = np.frombuffer(b"".join(packed), _WORD_BYTE)
    lengths = [len(of_row) // _WORD_BYTE.itemsize for of_row in packed]
    out = np.zeros((len(packed), WORD_SET_BYTES), np.uint8)
    out[np.repeat(np.arange(len(packed)), lengths), words["at"]] = words["bits"]
    return out


def spilled_parts(
    reader: LineReader,
    make: BatchMaker,
    executor: Executor,
    ahead: int,
    part_bytes: int,
    directory: Path,
    report: Callable[[list[BadLine]], None],
) -> Iterator[Arrays]:
    """Yield each part, as it is read back; `report(bad)` follows each batch. At most `ahead` are in the making."""
    pending: list[Arrays] = []
    size, watermark = 0, START
    # Half of a part at most, or batches would use more memory than parts: a word set in the making takes 4 KB.
    batch_items = max(1, min(1000, part_bytes // (2 * WORD_SET_BYTES)))
    lines = batches(reader, attrgetter("size"), batch_items, min(2**22, part_bytes // 2))
    for arrays, bad in map_in_order(executor, make, lines, ahead):
        watermark = fill_missing_times(arrays["times"], watermark)
        pending.append(arrays)
        size += sum(array.nbytes for array in arrays.values())
        report(bad)
        if size >= part_bytes:
            yield spill(joined(pending), directory)
            pending, size = [], 0
    if pending:
        yield spill(joined(pending), directory)


def joined(parts: Sequence[Arrays]) -> Arrays:
    """One part of several batches; ends within a batch become ends within the part."""
    out: Arrays = {name: np.concatenate([part[name] for part in parts]) for name in (SIGNATURES, *BYTES)}
    out["keys"] = np.concatenate([part["keys"] for part in parts], axis=1)
    for name in BYTES:
        before = np.cumsum([0, *(len(part[name]) for part in parts[:-1])], dtype=np.int64)
        ends = [part[f"{name}_ends"] + first for part, first in zip(parts, before, strict=True)]
        out[f"{name}_ends"] = np.concatenate(ends)
    return out


def spill(arrays: Mapping[str, NDArray[Any]], directory: Path) -> Arrays:
    """Write the arrays to an unnamed file in the directory; return them read-only, mapped into memory.

    So the system keeps in memory what it can, and frees the file whatever ends the process. Raises OSError.
    """
    starts, at = {}, 0
    with tempfile.TemporaryFile(dir=directory) as file:
        for name, array in arrays.items():
            at += file.write(bytes(-at % _ALIGN))
            starts[name] = at
            at += file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        file.flush()
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if at else b""
    return {
        # An empty array may lie at the very end, where nothing can be mapped.
        name: np.frombuffer(whole, array.dtype, array.size, starts[name] if array.size else 0).reshape(array.shape)
        for name, array in arrays.items()
    }


def map_in_order(executor: Executor, function: Callable[[In], Out], inputs: Iterable[In], ahead: int) -> Iterator[Out]:
    """Yield function(value) for each input, in order. At most `ahead` results are in the making or not yet taken.

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
    """Pair codes, ascending and distinct; and of what was paired for them, the hot buckets and the pairs left out."""

    codes: Codes
    hot: int
    left_out: int


def bucket_pairs(ranges: Iterable[Codes], bucket_limit: int, capacity: int) -> Iterator[Run]:
    """The pair codes of equal neighbours, about `capacity` at a time; the last run may be empty.

    ranges: entries, key * 2^32 + row, ascending within a range; no bucket lies in two ranges. O(pairs log pairs).
    """
    hot, left_out, filled = 0, 0, 0
    codes = np.empty(max(capacity, bucket_limit), np.uint64)
    for packed in ranges:
        at = bucket = 0
        while at < len(packed):
            filled, at, bucket, more_hot, more_left = pairs_of_buckets(packed, at, bucket, bucket_limit, codes, filled)
            hot, left_out = hot + more_hot, left_out + more_left
            if at < len(packed):
                yield Run(distinct(codes[:filled]), hot, left_out)
                hot = left_out = filled = 0
    yield Run(distinct(codes[:filled]), hot, left_out)


def sorted_ranges(corpus: Corpus, table: int, capacity: int) -> Iterator[Codes]:
    """The entries of a table, key * 2^32 + row, ascending and distinct, about `capacity` at a time.

    No bucket is cut in two. O(n log n), and some 4 * `capacity` * 8 bytes.
    """
    for low, high in _ranges(corpus, table, capacity):
        entries = []
        for start, keys in corpus.keys(table):
            columns, rows = np.nonzero((keys >= low) & (keys <= high))
            entries.append((keys[columns, rows].astype(np.uint64) << np.uint64(32)) | (rows + start).astype(np.uint64))
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


@njit(nogil=True, cache=True)
def pairs_of_buckets(packed, at, bucket, limit, codes, filled):  # type: ignore[no-untyped-def]
    """Write the pair codes of equal neighbours of packed[at:] to codes[filled:] until those of an entry do not fit.

    `bucket`: the index where the bucket of packed[at - 1] begins. Returns (filled, at, bucket, buckets that passed the
    limit, pairs left out); the first three go into the next call.
    """
    hot, left_out = 0, 0
    shift = uint64(32)
    while at < packed.size:
        if at == 0 or packed[at] >> shift != packed[at - 1] >> shift:
            bucket = at
        first = max(bucket, at - limit)
        if filled + at - first > codes.size:
            break
        hot += at - bucket == limit + 1
        left_out += first - bucket
        later = packed[at] << shift
        for j in range(first, at):
            codes[filled] = later | (packed[j] & uint64(0xFFFFFFFF))
            filled += 1
        at += 1
    return filled, at, bucket, hot, left_out


def rows_of(codes: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The later and the earlier row of each pair code."""
    return (codes >> _SHIFT).astype(np.int64), (codes & _LOW).astype(np.int64)


def codes_of(later: NDArray[np.int64], earlier: NDArray[np.int64]) -> Codes:
    """The inverse of `rows_of`."""
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
    """The number of distinct pairs in `slices`, and the near-duplicates among them.

    O(candidates · bytes of a signature). Several threads may call it at once.
    """
    codes = distinct(np.concatenate([np.empty(0, np.uint64), *slices]))
    later, earlier = rows_of(codes)
    later, of_later = np.unique(later, return_inverse=True)
    earlier, of_earlier = np.unique(earlier, return_inverse=True)
    no_keys = np.empty((len(later), 0), np.uint32)
    new = Fingerprints(corpus.signatures(later), no_keys, corpus.words(later), corpus.hamming, corpus.bodies(later))
    pairs = Candidates(new, corpus.signatures(earlier), of_later, of_earlier, corpus.bodies(earlier))
    is_pair, found = decide(pairs, decision, has_words=corpus.has_words)
    found |= {"later": later[of_later[is_pair]], "earlier": earlier[of_earlier[is_pair]]}
    return len(codes), found


class Candidates(NamedTuple):
    """Candidate pairs: the later items, the signatures of the earlier ones, which make pair p, and earlier bodies."""

    later: Fingerprints
    earlier: NDArray[np.void]
    of_later: NDArray[np.int64]
    of_earlier: NDArray[np.int64]
    bodies: list[bytes]


def decide(pairs: Candidates, decision: DecisionSettings, *, has_words: bool) -> tuple[NDArray[np.bool_], Arrays]:
    """Which candidates are near-duplicates, and their stages and measures."""
    similar = compare(*pairs)
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
