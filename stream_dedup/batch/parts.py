"""Lines of files -> parts: fingerprints of a whole corpus, spilled to disk in the order of the items.

Out: `Parts`, the corpus by row number (0, 1, 2, ... over all inputs): records, keys by table, ids, words, whole bodies.
A part is one temporary file; its head says which line it ends with, so a killed run goes on behind its last part. Lines
are decoded and fingerprinted in batches by several threads (the kernels run beside each other), and put together in
their order.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from stream_dedup.batch.judge import Line, bytes_of, item_of, line_of
from stream_dedup.batch.lines import InputLines, is_blank
from stream_dedup.batch.parallel import in_order
from stream_dedup.batch.rows import Form
from stream_dedup.batch.spill import Arrays, Spill
from stream_dedup.batches import batches
from stream_dedup.dedup.clocks import START, times_that_count
from stream_dedup.fingerprint.fingerprint import WORD_BYTES, Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.probe import nearness_of
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.news.summary import Summary
from stream_dedup.news.survey import Survey
from stream_dedup.settings import Settings


class BadLine(NamedTuple):
    """A line that is no item: its place among the inputs (from 0), its number (from 1), and what is wrong."""

    input: int
    number: int
    reason: str


class PartHead(msgspec.Struct, frozen=True):
    """The last line of a part, and the counts up to it; `watermark`: the latest event time so far, ms."""

    input: int = 0
    line: int = 0
    items: int = 0
    bad: int = 0
    watermark: int = START
    last: bool = False  # there are no lines behind it


@dataclass(frozen=True, slots=True)
class _Batch:
    arrays: Arrays
    bad: list[BadLine]
    last: Line


class Parts:
    """The corpus by row number; rows are asked for in ascending order, so a part's pages are read one after another."""

    def __init__(self, scheme: Scheme) -> None:
        self._dtype = scheme.signature_dtype
        self._is_exact = scheme.is_exact
        self._starts: list[int] = []
        self._parts: list[Arrays] = []
        self.size = 0

    def append(self, arrays: Arrays) -> None:
        self._starts.append(self.size)
        self._parts.append(arrays)
        self.size += len(arrays["records"])

    def signatures(self, rows: NDArray[np.int64]) -> NDArray[np.void]:
        """Copies of the records of ascending rows, in their order."""
        out = np.empty(len(rows), self._dtype)
        for part, where, local in self._split(rows):
            out[where] = part["records"].view(self._dtype)[local, 0]
        return out

    def words(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The texts' sets of words as `Fingerprints.words` has them, (rows, 4096) uint8."""
        out = np.zeros((len(rows), WORD_BYTES), np.uint8)
        for part, where, local in self._split(rows):
            mark(part["words"], part["word_ends"], local, out[where])
        return out

    def ids(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids of ascending rows."""
        return [str(name, "utf-8") for name in self._pieces(rows, "ids", "id_ends")]

    def bodies(self, rows: NDArray[np.int64]) -> list[bytes]:
        """The packed bodies of ascending rows; none where the scheme keeps only sketches."""
        return self._pieces(rows, "bodies", "body_ends") if self._is_exact else []

    def each_size(self) -> list[int]:
        """Rows of each part."""
        return [len(part["records"]) for part in self._parts]

    def keys(self, table: int) -> Iterator[tuple[int, NDArray[np.uint32]]]:
        """The keys of one table, part by part, each with its first row."""
        for start, part in zip(self._starts, self._parts, strict=True):
            yield start, part["keys"][table]

    @property
    def tables(self) -> int:
        return len(self._parts[0]["keys"]) if self._parts else 0

    def _pieces(self, rows: NDArray[np.int64], name: str, name_of_ends: str) -> list[bytes]:
        out: list[bytes] = []
        for part, _, local in self._split(rows):
            ends = part[name_of_ends]
            starts, stops = np.where(local > 0, ends[local - 1], 0).tolist(), ends[local].tolist()
            with memoryview(part[name].data) as whole:
                out += [bytes(whole[start:stop]) for start, stop in zip(starts, stops, strict=True)]
        return out

    def _split(self, rows: NDArray[np.int64]) -> Iterator[tuple[Arrays, slice, NDArray[np.int64]]]:
        bounds = np.searchsorted(rows, [*self._starts, self.size])
        for part, start, (low, high) in zip(self._parts, self._starts, pairwise(bounds), strict=True):
            if high > low:
                yield part, slice(low, high), rows[low:high] - start


class PartMaker:
    """Reads the inputs from behind the last part on, and writes parts until there is nothing more to read."""

    def __init__(
        self,
        inputs: Sequence[str],
        settings: Settings,
        scheme: Scheme,
        tables: list[int],
        *,
        part_bytes: int,
        form: Form | None = None,
    ) -> None:
        self._inputs = inputs
        self._form = form
        self._decode = Decoder(settings.item)
        self._fingerprint = Fingerprinter(scheme)
        # Equal neighbours are candidates here, in the index's near tables too: verification counts the bits.
        self._buckets = nearness_of(scheme.dont_care_bits, scheme.tables, 0)
        self._tables = tables
        self._with_words = settings.decision.rule == "views"  # the guard against templates asks for them
        self._lacking = str(scheme.empty_item)
        self._part_bytes = part_bytes
        # Half of a part at most, or it is not the parts that bound memory: a set of words takes 4 KB while it is made.
        self._batch_items = max(1, min(1000, part_bytes // (2 * WORD_BYTES)))
        self._batch_bytes = min(2**22, part_bytes // 2)
        self._bytes_before = 0
        self._reading: InputLines | None = None
        self._survey = Survey(
            self._decode.read, settings, in_order=False, place=lambda number, line: f"{inputs[number]}:{line}"
        )
        self._survey_lock = threading.Lock()

    def summary(self) -> Summary:
        """What the lines so far were understood to be; call it when no part is being made."""
        return self._survey.summary()

    def run(
        self,
        head: PartHead,
        number: int,
        spill: Spill,
        executor: Executor,
        ahead: int,
        tell: Callable[[PartHead, list[BadLine], int], None],
    ) -> Iterator[Arrays]:
        """Writes parts from `number` on; yields each as it is read back. `tell(head, bad, bytes)` after each batch."""
        held: list[Arrays] = []
        size = 0
        given = batches(self._lines(head), bytes_of, self._batch_items, self._batch_bytes)
        for batch in in_order(executor, self._make, given, ahead):
            watermark = times_that_count(batch.arrays["times"], head.watermark)
            head = PartHead(
                batch.last.input,
                batch.last.number,
                head.items + len(batch.arrays["times"]),
                head.bad + len(batch.bad),
                watermark,
            )
            held.append(batch.arrays)
            size += sum(one.nbytes for one in batch.arrays.values())
            tell(head, batch.bad, self._bytes_before + (self._reading.bytes_read if self._reading else 0))
            if size >= self._part_bytes:
                yield self._write(spill, number, head, held)
                held, size, number = [], 0, number + 1
        yield self._write(spill, number, msgspec.structs.replace(head, last=True), held)

    def _write(self, spill: Spill, number: int, head: PartHead, held: list[Arrays]) -> Arrays:
        name = part_name(number)
        spill.write(name, head, _joined(held or [self._make([]).arrays]))
        return spill.read_back(name, PartHead)[1]

    def _lines(self, start: PartHead) -> Iterator[Line]:
        for place in range(start.input, len(self._inputs)):
            with InputLines(self._inputs[place], self._form) as lines:
                self._reading = lines
                for value in lines:
                    behind = place > start.input or lines.number > start.line
                    if behind and not is_blank(value):
                        yield line_of(lines, value, place)
            self._reading = None
            self._bytes_before += lines.bytes_read

    def _make(self, lines: list[Line]) -> _Batch:
        bad: list[BadLine] = []
        items: list[Item] = []
        for line in lines:
            item = item_of(self._decode, line)
            with self._survey_lock:  # batches are made side by side
                self._survey.add(item, line.value, line.input, line.number)
            if isinstance(item, Item):
                items.append(item)
            else:
                bad.append(BadLine(line.input, line.number, str(item)))
        prints = self._fingerprint(items)
        records, keys, words, bodies = prints.signatures, prints.keys, prints.words, prints.bodies
        empty = prints.is_empty
        if empty.any():
            bad += [BadLine(items[i].partition, items[i].offset, self._lacking) for i in np.flatnonzero(empty).tolist()]
            bad.sort()
            items = [items[i] for i in np.flatnonzero(~empty).tolist()]
            bodies = [bodies[i] for i in np.flatnonzero(~empty).tolist()] if bodies else []
            records, keys, words = records[~empty], keys[~empty], words[~empty]
        names = [item.id.encode() for item in items]
        marked, word_ends = unmark(words.view("<u8") if self._with_words else np.empty((len(items), 0), np.uint64))
        arrays: Arrays = {
            "records": records.view(np.uint8).reshape(len(items), records.dtype.itemsize),
            "times": records["time"],
            "keys": self._buckets.buckets(keys.T)[self._tables],
            "ids": np.frombuffer(b"".join(names), np.uint8),
            "id_ends": np.cumsum([len(name) for name in names], dtype=np.int64),
            "words": marked,
            "word_ends": word_ends,
            "bodies": np.frombuffer(b"".join(bodies), np.uint8),
            "body_ends": np.cumsum([len(body) for body in bodies], dtype=np.int64),
        }
        return _Batch(arrays, bad, lines[-1] if lines else Line(b"", 0, 0))


def part_name(number: int) -> str:
    return f"part-{number:06}"


def _joined(batches: Iterable[Arrays]) -> Arrays:
    """One part of several batches; what ends within a batch is counted on."""
    held = list(batches)
    out: Arrays = {}
    for name in ("records", "ids", "words", "bodies"):
        out[name] = np.concatenate([one[name] for one in held])
    out["keys"] = np.concatenate([one["keys"] for one in held], axis=1)
    for name, of in (("id_ends", "ids"), ("word_ends", "words"), ("body_ends", "bodies")):
        before = np.cumsum([0, *(len(one[of]) for one in held[:-1])], dtype=np.int64)
        out[name] = np.concatenate([one[name] + first for one, first in zip(held, before, strict=True)])
    return out


@njit(nogil=True, cache=True)
def unmark(words):  # type: ignore[no-untyped-def]
    """Bit sets (n, m) uint64 -> the places of their bits, (bits,) uint16 ascending within a row, and each row's end in
    them, (n,) int64: a text of 300 words takes 600 bytes instead of 4,096.
    """
    ends = np.empty(words.shape[0], np.int64)
    capacity = 1024
    out = np.empty(capacity, np.uint16)
    found = 0
    for i in range(words.shape[0]):
        for j in range(words.shape[1]):
            left = words[i, j]
            if left == 0:
                continue
            if found + 64 > capacity:
                capacity *= 2
                longer = np.empty(capacity, np.uint16)
                longer[:found] = out[:found]
                out = longer
            place = 64 * j
            while left:
                while left & uint64(0xFF) == 0:
                    left >>= uint64(8)
                    place += 8
                while left & uint64(1) == 0:
                    left >>= uint64(1)
                    place += 1
                out[found] = place
                found += 1
                left >>= uint64(1)
                place += 1
        ends[i] = found
    return out[:found].copy(), ends


@njit(nogil=True, cache=True)
def mark(places, ends, rows, out):  # type: ignore[no-untyped-def]
    """The reverse of `unmark` for some rows, into `out` (rows, bytes) uint8, which holds zeros."""
    for i in range(rows.size):
        row = rows[i]
        start = ends[row - 1] if row else 0
        for k in range(start, ends[row]):
            out[i, places[k] >> 3] |= np.uint8(1 << (places[k] & 7))
