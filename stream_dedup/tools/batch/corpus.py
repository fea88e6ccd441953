"""The corpus of `pairs`: fingerprints of all items by row number, in columns on the disk.

Several threads decode and fingerprint batches of lines side by side (the core releases the GIL). The batches are put
together in input order, in temporary files, one for each column. The result is a `Corpus`: the items by row number
(0, 1, 2, ... through all inputs), with signatures, keys by table, words, the parts of their texts, and what people
read.
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

from stream_dedup.dedup.batch import batches
from stream_dedup.dedup.clocks import START
from stream_dedup.dedup.corrections import corrections
from stream_dedup.fingerprint.fingerprint import WORD_SET_BYTES, Fingerprinter, Fingerprints
from stream_dedup.fingerprint.kernel import Texts
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.runs import nearness_of
from stream_dedup.news.decode import Beside, Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.articles import HEADLINES, PARTS, Arrays, Rows, cut_texts, joined_texts
from stream_dedup.tools.inputs.lines import Line, LineReader, item_of
from stream_dedup.tools.survey.summary import Summary
from stream_dedup.tools.survey.survey import Survey

In = TypeVar("In")
Out = TypeVar("Out")

SIGNATURES = "records"
READ = ("id", "title", "source", "url")
"""What people read of an item."""
BYTES = (*READ, "words", "bodies", *PARTS)
"""The columns of bytes of any length: an array of all bytes, and as name + "_ends" where those of each row end."""
# A nonzero byte of a word set. A text of 300 words has 900 bytes of these instead of 4,096.
_WORD_BYTE = np.dtype([("at", "<u2"), ("bits", "u1")])
# Characters of a headline or a URL that are kept.
_MOST_READ = 1000


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
        self._has_bodies = scheme.has_bodies
        self.hamming = scheme.settings.hamming
        self._table_of = np.array(scheme.table_of[:-1])
        self.tables = int(self._table_of[-1]) + 1
        self._arrays, self._blocks = arrays, blocks
        self.size = len(arrays[SIGNATURES])
        self.passage_count = len(arrays.get("passages", ())) // PARTS["passages"].itemsize

    def prints(self, rows: Rows, with_texts: bool = False) -> Fingerprints:
        """The fingerprints of rows, without their keys."""
        no_keys = np.empty((len(rows), 0), np.uint32)
        words = word_sets(self._slices(rows, "words"))
        bodies = self._slices(rows, "bodies") if self._has_bodies else []
        parts = {name: self._slices(rows, name) for name in PARTS if with_texts}
        texts = joined_texts(self._arrays["headlines"][rows], parts) if with_texts else None
        return Fingerprints(self.signatures(rows), no_keys, words, self.hamming, bodies, texts)

    def corrects(self, rows: Rows) -> NDArray[np.int8]:
        """Where the items of rows say that they are corrections."""
        return np.ascontiguousarray(self._arrays["headlines"]["corrects"][rows])

    def times(self, rows: Rows) -> NDArray[np.int64]:
        """The times of rows as their records state them, ms; negative if they do not."""
        times: NDArray[np.int64] = self._arrays["times"][rows]
        return times

    def passages(self, rows: Rows) -> tuple[NDArray[np.uint32], Rows]:
        """The hashes of the passages of rows, and the row of each."""
        parts = self._slices(rows, "passages")
        hashes = np.frombuffer(b"".join(parts), PARTS["passages"])["hash"]
        return hashes, np.repeat(rows, [len(part) // PARTS["passages"].itemsize for part in parts])

    def signatures(self, rows: NDArray[np.int64]) -> NDArray[np.void]:
        """Copies of the signatures of rows, in their order."""
        signatures: NDArray[np.void] = self._arrays[SIGNATURES][rows]
        return signatures

    def id_hashes(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The hashes of the ids of rows."""
        hashes: NDArray[np.uint64] = self._arrays[SIGNATURES]["row_id"][rows]
        return hashes

    def read(self, rows: Rows, name: str = "id") -> list[str]:
        """What people read (`READ`) of rows in any order."""
        distinct_rows, indices = np.unique(rows, return_inverse=True)
        values = [str(value, "utf-8") for value in self._slices(distinct_rows, name)]
        return [values[index] for index in indices.tolist()]

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
        # What novelty and kinship ask for beside the signatures.
        self._with_words = settings.decision.jaccard is None and not scheme.layout
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
        beside: list[Beside] = []
        for line in lines:
            item = item_of(self._decode, line, beside)
            if self._survey:
                with self._survey_lock:
                    read = beside[-1] if isinstance(item, Item) else None
                    self._survey.add(item, line.value, line.input, line.number, beside=read)
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
        words = prints.word_sets[kept] if self._with_words else np.empty((len(kept), 0), np.uint8)
        alive = [items[i] for i in kept.tolist()]
        shown = (item.id for item in alive), (item.title for item in alive), (item.source for item in alive)
        columns = zip(READ, (*shown, (beside[i].url for i in kept.tolist())), strict=True)
        arrays: Arrays = {
            SIGNATURES: prints.signatures[kept],
            "keys": self._buckets.buckets(prints.keys[kept].T)[:-1],  # the last column: ids, which are no evidence here
            **{key: part for name, values in columns for key, part in _read_bytes(name, values).items()},
            **_word_bytes(words),
            **_joined_bytes("bodies", [prints.bodies[i] for i in kept.tolist()] if prints.bodies else []),
        }
        if self._with_words and prints.texts:
            arrays |= _text_arrays(prints.texts, kept, corrections(items, prints.hints))
        return arrays, bad


def _text_arrays(texts: Texts, kept: Rows, corrects: NDArray[np.int8]) -> Arrays:
    """The columns of what novelty asks for, of some items."""
    headlines = np.empty(len(kept), HEADLINES)
    headlines["words"], headlines["numbers"] = texts.headline_words[kept], texts.headline_numbers[kept]
    headlines["corrects"] = corrects[kept]
    parts, sizes = cut_texts(texts, kept)
    data = {name: np.ascontiguousarray(part).view(np.uint8) for name, part in parts.items()}
    ends = {f"{name}_ends": np.cumsum(sizes[name]) * PARTS[name].itemsize for name in PARTS}
    return {"headlines": headlines, **data, **ends}


def _read_bytes(name: str, values: Iterable[str]) -> Arrays:
    """Whole ids; of what else people read, the beginning. A lone surrogate of a broken record is a question mark."""
    most = None if name == "id" else _MOST_READ
    return _joined_bytes(name, [value[:most].encode("utf-8", "replace") for value in values])


def rows_of_bytes(arrays: Arrays, name: str) -> list[bytes]:
    """The bytes of each row in one of the columns `BYTES`."""
    data, ends = arrays[name].tobytes(), arrays[f"{name}_ends"].tolist()
    return [data[start:end] for start, end in pairwise([0, *ends])]


def _joined_bytes(name: str, values: Sequence[bytes]) -> Arrays:
    ends = np.cumsum([len(value) for value in values], dtype=np.int64)
    return {name: np.frombuffer(b"".join(values), np.uint8), f"{name}_ends": ends}


def _word_bytes(words: NDArray[np.uint8]) -> Arrays:
    """The nonzero bytes of word sets (n, 4096)."""
    places = np.flatnonzero(words != 0)  # in one dimension: twice as fast
    rows, at = places // WORD_SET_BYTES, places % WORD_SET_BYTES
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
            arrays["times"] = arrays[SIGNATURES]["time"].copy()
            watermark = fill_missing_times(arrays[SIGNATURES]["time"], watermark)
            for name in BYTES:  # ends within the batch become ends within the column
                if name not in arrays:
                    continue
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


def fill_missing_times(times: NDArray[np.int64], before: int) -> int:
    """Replace missing times (negative) in place by the highest time before them; return the highest time of all.

    `before`: the highest time of earlier items. For a corpus that is compared as a whole, without a window.

    >>> times = np.array([5, -1, 3, -1])
    >>> fill_missing_times(times, START), times.tolist()
    (5, [5, 5, 3, 5])
    """
    highest = np.maximum.accumulate(np.append(before, np.where(times < 0, START, times)))[1:]
    times[times < 0] = np.maximum(highest[times < 0], 0)
    return int(highest[-1]) if len(times) else before
