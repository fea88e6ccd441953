"""The items of an archive, a row each: number the lines, decode and fingerprint them, list what is asked for.

In: a DataFrame of records, each with its place (input, file, block). Out: *items*, a DataFrame with row, place, id,
signature, keys, words and body of each item; a line that holds none has its reason instead. `Places`, on the driver,
says how many lines come before a place, so the lines, and the ids of items without one, are those of the single
process. The row of an item is the number of its line through the whole archive (from 0), so it is the order of arrival:
that of files, of blocks within a file, and of lines; without files, of the partitions. A task does not know which dates
come before its own, so items without a date receive theirs when they are listed (`filled`).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.clusters import Keep
from stream_dedup.batch.corpus import SIGNATURES, BatchMaker, rows_of_bytes
from stream_dedup.batch.lines import Line, is_blank
from stream_dedup.batch.tables import objects_of, pyarrow
from stream_dedup.batches import batches
from stream_dedup.dedup.clocks import START, fill_missing_times
from stream_dedup.errors import InputError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings

INPUT, FILE, BLOCK = PLACE = "_stream_dedup_input", "_stream_dedup_file", "_stream_dedup_block"
"""Columns that name the place of a record."""
VALUE = "value"
"""The column of a DataFrame that holds whole records."""
ROW = "_stream_dedup_row"
"""The column of the row in a DataFrame of the user."""

_BATCH_ITEMS, _BATCH_BYTES = 1000, 2**22

ITEM_TYPES = {
    "row": "bigint", "place": "bigint", "reason": "string", "id": "string", "time": "bigint", "signature": "binary",
    "keys": "binary", "words": "binary", "body": "binary",
}  # fmt: skip
MERIT_TYPES = {"row": "bigint", "rank": "bigint", "merit_time": "bigint"}
FINGERPRINT_TYPES = {
    "row": "bigint", "id": "string", "time": "bigint", "line": "bigint", "signature": "binary", "keys": "array<bigint>"
}  # fmt: skip


def schema_of(types: Mapping[str, str]) -> str:
    """The schema of Spark.

    >>> schema_of({"row": "bigint", "keys": "binary"})
    'row bigint, keys binary'
    """
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def record_batch(columns: Mapping[str, Any], types: Mapping[str, str]) -> Any:
    """An Arrow record batch; columns that are missing are null."""
    arrow, _ = pyarrow("stream_dedup.spark", "use `stream-dedup pairs` without --engine spark")
    kinds = {
        "bigint": arrow.int64(), "int": arrow.int32(), "double": arrow.float64(), "string": arrow.string(),
        "binary": arrow.binary(), "array<bigint>": arrow.list_(arrow.int64()),
    }  # fmt: skip
    size = len(next(iter(columns.values())))
    arrays = [arrow.array(columns.get(name, [None] * size), kinds[kind]) for name, kind in types.items()]
    return arrow.record_batch(arrays, names=list(types))


def matrix(column: Any, dtype: Any) -> NDArray[Any]:
    """A column of binary values of one length, a row each."""
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
        """Of rows (input, file, block, lines). Raises InputError for more lines than pairs can name."""
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
    """The neighbouring rows of one place, without the columns of the place."""
    for batch in record_batches:
        places = list(zip(*(batch[name].to_pylist() for name in PLACE), strict=True))
        cuts = [0, *(i for i in range(1, len(places)) if places[i] != places[i - 1]), len(places)]
        for start, end in pairwise(cuts):
            if end > start:
                yield places[start], batch.drop_columns(list(PLACE)).slice(start, end - start)


@dataclass(frozen=True)
class MakeItems:
    """Turns records into items (`ITEM_TYPES`)."""

    places: Places
    settings: Settings

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        make, done = BatchMaker(self.settings, Scheme(self.settings.fingerprint)), Counter[Any]()
        for place, batch in _runs(record_batches):
            index, number, before = self.places.places[place]
            lines = enumerate(_records(batch), before + done[place] + 1)
            done[place] += batch.num_rows
            items = (Line(value, number, line) for line, value in lines if not is_blank(value))
            for chunk in batches(items, attrgetter("size"), _BATCH_ITEMS, _BATCH_BYTES):
                yield from self._batches(chunk, make, index, int(self.places.starts[number]) - 1)

    def _batches(self, lines: list[Line], make: BatchMaker, place: int, start: int) -> Iterator[Any]:
        arrays, bad = make(lines)
        signatures = arrays[SIGNATURES].view(Scheme(self.settings.fingerprint).signature_dtype).ravel()
        columns: dict[str, Any] = {
            "row": signatures["offset"].astype(np.int64) + start,
            "place": [place] * len(signatures),
            "id": [name.decode() for name in rows_of_bytes(arrays, "ids")],
            "time": np.ascontiguousarray(signatures["time"]),
            "signature": [signature.tobytes() for signature in arrays[SIGNATURES]],
            "keys": [keys.tobytes() for keys in arrays["keys"].T],
            "words": rows_of_bytes(arrays, "words"),
        }
        if len(arrays["bodies_ends"]):
            columns["body"] = rows_of_bytes(arrays, "bodies")
        yield record_batch(columns, ITEM_TYPES)
        yield record_batch(
            {"row": [line.number + start for line in bad], "reason": [line.reason for line in bad]}, ITEM_TYPES
        )


def _records(batch: Any) -> Iterator[bytes]:
    if batch.schema.names != [VALUE]:
        return iter(objects_of(pyarrow()[0], batch))
    return (value.encode() if isinstance(value, str) else value or b"" for value in batch[VALUE].to_pylist())


@dataclass(frozen=True)
class Listing:
    """What is listed of items. `watermarks`: the highest time before each place."""

    watermarks: list[int]
    settings: Settings

    def filled(self, record_batches: Iterable[Any]) -> Iterator[tuple[Any, NDArray[np.void]]]:
        """Each batch, with its signatures; a missing time is the highest one before it."""
        watermarks = list(self.watermarks)
        dtype = Scheme(self.settings.fingerprint).signature_dtype
        for batch in record_batches:
            signatures = matrix(batch["signature"], dtype).ravel().copy()
            places = batch["place"].to_numpy()
            for place in np.unique(places).tolist():
                here = places == place
                times = signatures["time"][here]
                watermarks[place] = fill_missing_times(times, watermarks[place])
                signatures["time"][here] = times
            yield batch, signatures


@dataclass(frozen=True)
class ListMerits(Listing):
    """What the items are compared by to choose the representative of a cluster."""

    keep: Keep

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        scheme = Scheme(self.settings.fingerprint)
        for batch, signatures in self.filled(record_batches):
            merits = self.keep.merits(signatures, scheme)
            yield record_batch({"row": batch["row"], "rank": merits.rank, "merit_time": merits.time}, MERIT_TYPES)


@dataclass(frozen=True)
class ListFingerprints(Listing):
    """The fingerprints of the items."""

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        for batch, signatures in self.filled(record_batches):
            columns = {
                "row": batch["row"],
                "id": batch["id"],
                "time": np.ascontiguousarray(signatures["time"]),
                "line": np.ascontiguousarray(signatures["offset"]).astype(np.int64),
                "signature": [signature.tobytes() for signature in signatures],
                "keys": list(matrix(batch["keys"], np.uint32).astype(np.int64)),
            }
            yield record_batch(columns, FINGERPRINT_TYPES)


def highest_before(highest: Mapping[int, int], places: int) -> list[int]:
    """The highest time before each place, given that of each place with items."""
    times = [START, *(highest.get(place, START) for place in range(places))]
    return [int(time) for time in np.maximum.accumulate(times)[:-1]]


@dataclass(frozen=True)
class NumberRows:
    """The original records with their rows, in the place of their columns of places."""

    places: Places

    def __call__(self, record_batches: Iterable[Any]) -> Iterator[Any]:
        arrow, _ = pyarrow()
        done = Counter[Any]()
        for place, batch in _runs(record_batches):
            _, number, before = self.places.places[place]
            first = int(self.places.starts[number]) + before + done[place]
            done[place] += batch.num_rows
            rows = arrow.array(np.arange(first, first + batch.num_rows))
            yield arrow.record_batch([*batch.columns, rows], names=[*batch.schema.names, ROW])
