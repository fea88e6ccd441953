"""Fingerprint a whole corpus and spill it to disk, in parts.

In: lines (line_reader.py). Out: `SpilledCorpus`, the items by row number (0, 1, 2, ... through all inputs): signatures,
keys by table, ids, words, whole bodies. A part is one temporary file. Several threads decode and fingerprint batches of
lines side by side (the kernels release the GIL); the batches are put together in input order.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from stream_dedup.batch.judge import Line, item_of, line_bytes
from stream_dedup.batch.line_reader import LineReader
from stream_dedup.batch.parallel import map_in_order
from stream_dedup.batch.spill import Arrays, spill
from stream_dedup.batches import batches
from stream_dedup.dedup.clocks import START, fill_missing_times
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import WORD_SET_BYTES, Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.probe import nearness_of
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.news.survey import Summary, Survey
from stream_dedup.settings import Settings

SIGNATURES = "records"
_VARIABLE = (("id_ends", "ids"), ("word_ends", "words"), ("body_ends", "bodies"))


class BadLine(NamedTuple):
    """A line that holds no item: the index of its input (from 0), its number (from 1), and the reason."""

    input: int
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Batch:
    arrays: Arrays
    bad: list[BadLine]


class SpilledCorpus:
    """The corpus by row number. Callers ask for rows in ascending order, so each part's pages are read in sequence."""

    def __init__(self, scheme: Scheme) -> None:
        self._dtype = scheme.signature_dtype
        self._is_exact = scheme.is_exact
        self.has_words = not scheme.layout
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
        out = np.zeros((len(rows), WORD_SET_BYTES), np.uint8)
        for part, positions, local in self._split(rows):
            fill_bits(part["words"], part["word_ends"], local, out[positions])
        return out

    def ids(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids of ascending rows."""
        return [str(name, "utf-8") for name in self._slices(rows, "ids", "id_ends")]

    def ids_of(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids of rows in any order."""
        distinct, indices = np.unique(rows, return_inverse=True)
        ids = self.ids(distinct)
        return [ids[index] for index in indices.tolist()]

    def bodies(self, rows: NDArray[np.int64]) -> list[bytes]:
        """The packed bodies of ascending rows; empty if the scheme keeps only sketches."""
        return self._slices(rows, "bodies", "body_ends") if self._is_exact else []

    def keys(self, table: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """The keys of one table, (its columns, items), part by part, each with its first row."""
        first, end = np.searchsorted(self._table_of, [table, table + 1])
        for start, part in zip(self._starts, self._parts, strict=True):
            yield start, part["keys"][first:end]

    @property
    def tables(self) -> int:
        return int(self._table_of[-1]) + 1 if self._parts else 0

    def _slices(self, rows: NDArray[np.int64], name: str, name_of_ends: str) -> list[bytes]:
        out: list[bytes] = []
        for part, _, local in self._split(rows):
            ends = part[name_of_ends]
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
    """Decodes and fingerprints batches of lines: the arrays of a part, and the lines that hold no item."""

    def __init__(self, settings: Settings, scheme: Scheme) -> None:
        self.decode = Decoder(settings.item)
        self._fingerprint = Fingerprinter(scheme)
        # Equal neighbours are candidates even in the index's near tables: verification counts the bits.
        self._buckets = nearness_of(scheme.dont_care_bits, scheme.table_of, 0)
        self._with_words = settings.decision.rule == "novelty"  # words swapped in a template
        self._empty_reason = str(scheme.empty_item)

    def __call__(
        self, lines: Sequence[Line], survey: Callable[[Item | Tombstone | BadItem, Line], None] = lambda *_: None
    ) -> tuple[Arrays, list[BadLine]]:
        """The arrays of the lines' items, in their order. `survey` receives what each line was decoded to."""
        bad: list[BadLine] = []
        items: list[Item] = []
        for line in lines:
            item = item_of(self.decode, line)
            survey(item, line)
            if isinstance(item, Item):
                items.append(item)
            else:
                bad.append(BadLine(line.input, line.number, str(item)))
        prints = self._fingerprint(items)
        signatures, keys, words, bodies = prints.signatures, prints.keys, prints.words, prints.bodies
        empty = prints.is_empty
        if empty.any():
            bad += [BadLine(items[i].partition, items[i].offset, self._empty_reason) for i in np.flatnonzero(empty)]
            bad.sort()
            items = [items[i] for i in np.flatnonzero(~empty).tolist()]
            bodies = [bodies[i] for i in np.flatnonzero(~empty).tolist()] if bodies else []
            signatures, keys, words = signatures[~empty], keys[~empty], words[~empty]
        ids = [item.id.encode() for item in items]
        bits, word_ends = bit_positions(words.view("<u8") if self._with_words else np.empty((len(items), 0), np.uint64))
        arrays: Arrays = {
            SIGNATURES: signatures.view(np.uint8).reshape(len(items), signatures.dtype.itemsize),
            "times": signatures["time"],
            "keys": self._buckets.buckets(keys.T)[:-1],  # the last column holds ids, which are no evidence here
            "ids": np.frombuffer(b"".join(ids), np.uint8),
            "id_ends": np.cumsum([len(name) for name in ids], dtype=np.int64),
            "words": bits,
            "word_ends": word_ends,
            "bodies": np.frombuffer(b"".join(bodies), np.uint8),
            "body_ends": np.cumsum([len(body) for body in bodies], dtype=np.int64),
        }
        return arrays, bad


class PartWriter:
    """Turns lines into parts until no line is left."""

    def __init__(
        self,
        inputs: Sequence[str],
        settings: Settings,
        scheme: Scheme,
        directory: Path,
        *,
        part_bytes: int,
    ) -> None:
        self._batch = BatchMaker(settings, scheme)
        self._directory = directory
        self._part_bytes = part_bytes
        # Half of a part at most, or batches would use more memory than parts: a word set in the making takes 4 KB.
        self._batch_items = max(1, min(1000, part_bytes // (2 * WORD_SET_BYTES)))
        self._batch_bytes = min(2**22, part_bytes // 2)
        self._survey = Survey(
            self._batch.decode.read, settings, in_order=False, place=lambda number, line: f"{inputs[number]}:{line}"
        )
        self._survey_lock = threading.Lock()

    def summary(self) -> Summary | None:
        """How the lines so far were understood; None if there were none. Call it when no part is in the making."""
        return summary if (summary := self._survey.summary()).items else None

    def run(
        self, reader: LineReader, executor: Executor, ahead: int, report: Callable[[list[BadLine]], None]
    ) -> Iterator[Arrays]:
        """Yield each part, as it is read back; `report(bad)` follows each batch. At most `ahead` are in the making."""
        pending: list[Arrays] = []
        size, watermark = 0, START
        lines = batches(reader, line_bytes, self._batch_items, self._batch_bytes)
        for batch in map_in_order(executor, self._make, lines, ahead):
            watermark = fill_missing_times(batch.arrays["times"], watermark)
            pending.append(batch.arrays)
            size += sum(array.nbytes for array in batch.arrays.values())
            report(batch.bad)
            if size >= self._part_bytes:
                yield spill(joined(pending), self._directory)
                pending, size = [], 0
        if pending:
            yield spill(joined(pending), self._directory)

    def _make(self, lines: list[Line]) -> _Batch:
        return _Batch(*self._batch(lines, self._add_to_survey))

    def _add_to_survey(self, item: Item | Tombstone | BadItem, line: Line) -> None:
        with self._survey_lock:  # several threads make batches
            self._survey.add(item, line.value, line.input, line.number)


def joined(batches: Iterable[Arrays]) -> Arrays:
    """One part of several batches; ends within a batch become ends within the part."""
    parts = list(batches)
    out: Arrays = {}
    for name in (SIGNATURES, "ids", "words", "bodies"):
        out[name] = np.concatenate([part[name] for part in parts])
    out["keys"] = np.concatenate([part["keys"] for part in parts], axis=1)
    for name, values in _VARIABLE:
        before = np.cumsum([0, *(len(part[values]) for part in parts[:-1])], dtype=np.int64)
        out[name] = np.concatenate([part[name] + first for part, first in zip(parts, before, strict=True)])
    return out


def taken(part: Arrays, rows: NDArray[np.int64], with_words: NDArray[np.bool_]) -> Arrays:
    """A part that consists of some rows of another, ascending; it has no keys, so it serves only to compare.

    with_words: (rows,) whose words are kept, because only those of the later item of a pair are compared.

    >>> part = {"records": np.array([[1], [2]], "u1"), "ids": np.frombuffer(b"abc", "u1"), "id_ends": np.array([1, 3])}
    >>> for name, ends in (("words", "word_ends"), ("bodies", "body_ends")):
    ...     part |= {name: part["ids"], ends: part["id_ends"]}
    >>> taken(part, np.array([1]), np.ones(1, np.bool_))["ids"].tobytes()
    b'bc'
    """
    out: Arrays = {SIGNATURES: part[SIGNATURES][rows]}
    for name, values in _VARIABLE:
        ends = part[name]
        if not len(ends):  # bodies that the scheme does not keep
            out |= {name: ends, values: part[values]}
            continue
        starts = np.where(rows > 0, ends[rows - 1], 0)
        lengths = np.where(with_words | (values != "words"), ends[rows] - starts, 0)
        out[name] = np.cumsum(lengths, dtype=np.int64)
        # Position k of the result lies as far behind the start of its row as k behind the row's first position.
        shift = np.repeat(starts - (out[name] - lengths), lengths)
        out[values] = part[values][np.arange(len(shift)) + shift]
    return out


@njit(nogil=True, cache=True)
def bit_positions(words):  # type: ignore[no-untyped-def]
    """The positions of the bits that are set in each row of `words`, (n, m) uint64.

    Returns them one row after the other, (bits,) uint16, ascending within a row, and the end of each row among them,
    (n,) int64. A text of 300 words takes 600 bytes instead of 4,096.
    """
    ends = np.empty(words.shape[0], np.int64)
    capacity = 1024
    out = np.empty(capacity, np.uint16)
    count = 0
    for i in range(words.shape[0]):
        for j in range(words.shape[1]):
            left = words[i, j]
            if left == 0:
                continue
            if count + 64 > capacity:
                capacity *= 2
                longer = np.empty(capacity, np.uint16)
                longer[:count] = out[:count]
                out = longer
            position = 64 * j
            while left:
                while left & uint64(0xFF) == 0:
                    left >>= uint64(8)
                    position += 8
                while left & uint64(1) == 0:
                    left >>= uint64(1)
                    position += 1
                out[count] = position
                count += 1
                left >>= uint64(1)
                position += 1
        ends[i] = count
    return out[:count].copy(), ends


@njit(nogil=True, cache=True)
def fill_bits(positions, ends, rows, out):  # type: ignore[no-untyped-def]
    """The inverse of `bit_positions` for some rows, into `out` (rows, bytes) uint8, which holds zeros."""
    for i in range(rows.size):
        row = rows[i]
        start = ends[row - 1] if row else 0
        for k in range(start, ends[row]):
            out[i, positions[k] >> 3] |= np.uint8(1 << (positions[k] & 7))
