"""Judge the records of a task: decode and fingerprint them, then ask the index for verdicts; count and log odd times.

A thread fingerprints the next batch while this one is judged: fingerprints depend on no other item and are most of the
work, much of it without the interpreter's lock. This saves the worker 9 µs an item (98 instead of 107).

No item stops those after it: one that cannot be sent, or on which the code fails, becomes a bad item.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from stream_dedup.dedup.batch import Batch, Prepared
from stream_dedup.dedup.clocks import Odd
from stream_dedup.errors import BadItem, StreamDedupError
from stream_dedup.kafka import client
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.worker.failed_records import FailedRecords
from stream_dedup.worker.outgoing import REFUSED, TOO_LARGE, TOO_SLOW, OutgoingRecords, trace_fields
from stream_dedup.worker.state_store import StateStore

log = logging.getLogger(__name__)

Items = list[Item | Tombstone | BadItem]
_REFUSED_DETAIL = "Kafka refused it as output or as duplicate; the worker's log has its answer"
_HARMLESS_ITEM = Item("1", "A plain headline", "And a plain text of some ten words, as there are many.", "", 0)
SECONDS = "seconds"
# March 1973 in milliseconds, the year 5138 in seconds. news/dates.py separates the two at the same number.
_FIRST_NEWS_MS = 10**11
_ODD_TIMES = {
    "missing": "is missing; the item counts as of the usual time of its partition.",
    "future": "is ahead of this machine's clock by more than an hour; the item counts as of the usual time of "
    "its partition. Is the producer's clock right, or this machine's?",
    "alone": "is further than [window] length from its neighbours' in the partition; the item is compared with recent "
    "items as well. Is the producer's clock right? Does it write seconds for milliseconds, or send an archive?",
    "late": "is behind the stream by more than [window] length, as its neighbours' are, or too few records precede it "
    "to tell; the item is compared within its own window, with recent items. Is a backlog being processed, or does a "
    "producer write seconds for milliseconds?",
    # To the clocks such a feed stands still in January 1970: no time is odd, and items expire by number only.
    SECONDS: "is in the first months of 1970, as its neighbours' are: the producer writes seconds for milliseconds, or "
    "no time. All items then lie within one [window] length, and copies of any age are held back until the index is "
    "full.",
}


class Judge:
    """Judges the records of one task against the index in its store. `failed` names those known to be at fault."""

    def __init__(self, store: StateStore, outgoing: OutgoingRecords, failed: FailedRecords) -> None:
        self._task, self._context, self._dedup, self._outgoing = store.name, store.context, store.dedup, outgoing
        self._failed = failed
        self._decode = Decoder(self._context.settings.item, self._context.settings.registry)
        self._is_timed_by_record = self._context.settings.item.time == "record"
        self._thread = self._context.thread(f"{self._task}-preparer")
        self._ahead: tuple[Sequence[Any], Future[tuple[Items, Prepared | None]]] | None = None

    def close(self, *, wait: bool = False) -> None:
        """End the thread; `wait` for what it still makes, as long as the worker's end allows."""
        self._thread.end()
        if wait and self._ahead is not None:
            self._context.runtime.wait([self._ahead[1]], min(self._context.call_timeout, self._context.remaining()))

    def __call__(self, records: Sequence[Any], next_records: Sequence[Any] = ()) -> tuple[Items, Batch]:
        """Judge records in order, and begin to fingerprint those of the next call.

        If the code fails on the batch, each item is tried by itself, which is safe because `judge` changes nothing. An
        item that fails becomes a bad item. If a harmless item fails too, or only all items together, no item is at
        fault, and the error ends the worker.
        """
        items, prepared = self._take(records)
        if next_records and self._failed.batch_limit is None:
            self._ahead = next_records, self._thread.start("fingerprinting", lambda: self._prepare(next_records))
        latest = self._context.latest_event_time()
        try:
            return items, self._dedup.judge(items if prepared is None else prepared, latest)
        except (StreamDedupError, MemoryError):
            raise
        except Exception:
            log.exception("judging %d items failed; trying them one by one", len(items))
        self._dedup.judge([_HARMLESS_ITEM])
        for i, item in enumerate(items):
            try:
                self._dedup.judge([item], latest)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - any error here is caused by this item
                items[i] = BadItem("internal", f"judging it failed: {error!r}")
        return items, self._dedup.judge(items, latest)

    def take_shapes(self) -> Mapping[str, int]:
        """Return how many records of each shape were decoded since the last call, including those decoded ahead."""
        taken, self._decode.shapes = self._decode.shapes, Counter()
        return taken

    def count_odd_times(self, items: Items, batch: Batch, records: Sequence[Any] = ()) -> dict[str, int]:
        """Count the items whose time is not usable as it is, by kind.

        The first of each kind is logged with the trace of its record.
        """
        by_kind: dict[str, list[Item | Tombstone]] = {kind: [] for kind in _ODD_TIMES}
        for item, odd in zip(items, batch.odd.tolist(), strict=True):
            if isinstance(item, BadItem) or (isinstance(item, Tombstone) and odd == Odd.MISSING):
                continue  # a tombstone has no date of its own, and its time decides nothing
            if odd:
                by_kind[Odd(odd).name.lower()].append(item)
            elif self._is_timed_by_record and 0 <= item.time < _FIRST_NEWS_MS:
                by_kind[SECONDS].append(item)
        for kind, odd_items in by_kind.items():
            if odd_items and self._context.once(kind):
                first = odd_items[0]
                place = first.partition, first.offset
                traces = (trace_fields(record) for record in records if (record.partition, record.offset) == place)
                log.warning(
                    "task %s: the time of the record at partition %d, offset %d (%d ms) %s Logged once; counted as "
                    'stream_dedup_odd_times_total{reason="%s"}',
                    self._task, *place, first.time, _ODD_TIMES[kind], kind,
                    extra={"task": self._task, "partition": place[0], "offset": place[1], **next(traces, {})},
                )  # fmt: skip
        return {kind: len(odd_items) for kind, odd_items in by_kind.items()}

    def warn_if_full(self) -> None:
        """Log once that the index forgets originals that have not expired."""
        if self._dedup.evicted and self._context.once("full"):
            log.warning(
                "task %s holds %d originals, the most that [window] max_originals allows, or, if it is not set, "
                "[worker] memory: the oldest are forgotten before they expire, and their late copies will be let "
                "through. Shorten [window] length, or provide more memory and raise both. Logged once; counted as "
                "stream_dedup_evicted_originals_total",
                self._task, self._dedup.max_originals, extra={"task": self._task},
            )  # fmt: skip

    def _take(self, records: Sequence[Any]) -> tuple[Items, Prepared | None]:
        """Return items and fingerprints of these records; make them now unless they were made ahead."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            # Wait even if its result is of no use: two threads may not do the work at the same time.
            self._context.runtime.wait([ahead[1]])
            if ahead[0] is records:
                return ahead[1].result()
        return self._prepare(records)

    def _prepare(self, records: Sequence[Any]) -> tuple[Items, Prepared | None]:
        """Decode and fingerprint, in any thread. The fingerprints are None if the code fails on one of the items."""
        items = [self._item(record) for record in records]
        try:
            return items, self._dedup.prepare(items)
        except Exception:  # noqa: BLE001
            return items, None

    def _item(self, record: Any) -> Item | Tombstone | BadItem:
        place = record.partition, record.offset
        if place in self._failed.refusals:
            return BadItem(REFUSED, _REFUSED_DETAIL)
        if cost := self._failed.too_slow.get(place):
            return BadItem(TOO_SLOW, f"the work on it {cost}")
        return self._outgoing.refusal_of(record) or item_of(record, self._decode)


def item_of(record: Any, decode: Decoder) -> Item | Tombstone | BadItem:
    """Decode a record; a bad item if it cannot be read or its id is too long."""
    if cut := record.cut:
        return BadItem(TOO_LARGE, f"the record takes {cut} bytes, more than [worker] max_record_bytes; it was not read")
    item = decode(record.value, record.key, record.timestamp, record.partition, record.offset, record.headers)
    if not isinstance(item, BadItem) and len(item.id) * 4 > client.MAX_ID_BYTES:
        size = len(item.id.encode("utf-8", "replace"))
        if size > client.MAX_ID_BYTES:
            return BadItem("id", f"the id has {size} bytes; at most {client.MAX_ID_BYTES} are allowed")
    return item
