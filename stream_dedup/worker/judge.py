"""Judge the records of a task: decode and fingerprint them, then ask the index for verdicts.

In: Kafka records. Out: their items, and the `Batch` from `Deduplicator.judge`; warnings of times that cannot be right.
A thread fingerprints the next batch while this one is judged: fingerprints depend on no other item and are most of the
work, much of it without the interpreter's lock. This saves the worker 9 µs an item (98 instead of 107).

No item stops those after it: one that cannot be sent, or on which the code fails, becomes a bad item. `FailedRecords`
finds a record that makes transactions fail: after three failures in a row it halves the batch until the record is
alone. In: each failed and each committed batch of a task. Out: a message for the log (`failed`), the largest batch
allowed meanwhile (`batch_limit`), and the records that Kafka has refused (`refusals`), which become dead letters. The
search outlives an open task, which is closed after each failure.

The same search finds a record on which the work takes so long that the group removes this member: it becomes a dead
letter once it has cost the membership by itself. During a search nothing is fingerprinted ahead, so that no batch
is blamed for the next one.

A record may also end the process: it takes more memory than there is, or holds the interpreter for so long that the
probes fail and the container is started anew. So work that may do this is written down beside the group's offsets
before it begins, with its number of records: the first batch of each opening, and every batch of a search. A
member that opens the task next and finds such a note of another process counts it as a failure, goes on with the
search, and in the end leaves that record to the dead letters. A note costs a transaction without records, some 20 ms.

Of the errors only lasting ones count: answers of the broker or the client that may come again for the same records. An
outage, a time-out or a rebalance says nothing about the records, however long the work on them took; the worker waits
for its end, however long it takes. Nor does a fence, unless the work took longer than a session just before it.

A record that Kafka refuses by name becomes a dead letter at the next try. A single record that fails while Kafka does
not blame it stays: the cause would hit every other record too, and they must not end as dead letters one by one.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

from stream_dedup.dedup.batch import Batch, Prepared
from stream_dedup.dedup.clocks import Odd
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem, Fenced, Refused, StreamDedupError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.records import REFUSED, TOO_LARGE, TOO_SLOW, OutgoingRecords, trace_fields

log = logging.getLogger(__name__)

Items = list[Item | Tombstone | BadItem]
REFUSED_DETAIL = "Kafka refused it as output or as duplicate; the worker's log has its answer"
_HARMLESS_ITEM = Item("1", "A plain headline", "And a plain text of some ten words, as there are many.", "", 0)
SECONDS = "seconds"
# March 1973 in milliseconds, the year 5138 in seconds. news/dates.py separates the two at the same number.
_FIRST_NEWS_MS = 10**11
_ODD_TIMES = {
    "missing": "is missing; the item counts as of the usual time of its partition.",
    "future": "is ahead of this machine's clock by more than [window] future; the item counts as of the usual time of "
    "its partition. Is the producer's clock right, or this machine's?",
    "alone": "is further than [window] length from its neighbours' in the partition; the item is compared with recent "
    "items as well. Is the producer's clock right? Does it write seconds for milliseconds, or send an archive?",
    "late": "is behind the stream by more than [window] length, as its neighbours' are, or too few records precede it "
    "to tell; the item is compared within its own window, with recent items. Is a backlog being processed, or does a "
    "producer write seconds for milliseconds?",
    # Such a feed looks steady to the clocks: it stands still in January 1970, and items expire by number only.
    SECONDS: "is in the first months of 1970, as its neighbours' are: the producer writes seconds for milliseconds, or "
    "no time. All items then lie within one [window] length, and copies of any age are held back until the index is "
    "full.",
}

# One failure may be chance, and a second one the tail of the same trouble.
IN_A_ROW = 3
_LISTED = 5  # records named in a message

Place = tuple[int, int]  # partition, offset


class Judge:
    """Judges the records of one task against its index. `failed`: names those that Kafka has refused."""

    def __init__(
        self,
        task: str,
        context: WorkerContext,
        outgoing: OutgoingRecords,
        dedup: Deduplicator,
        failed: "FailedRecords",
    ) -> None:
        self._task, self._context, self._outgoing, self._dedup = task, context, outgoing, dedup
        self._failed = failed
        self._decode = Decoder(context.settings.item, context.settings.registry)
        self._is_timed_by_record = context.settings.item.time == "record"
        self._thread = context.thread(f"{task}-preparer")
        self._ahead: tuple[Sequence[Any], Future[tuple[Items, Prepared | None]]] | None = None

    def close(self) -> None:
        """End the thread."""
        self._thread.end()

    def __call__(self, records: Sequence[Any], next_records: Sequence[Any] = ()) -> tuple[Items, Batch]:
        """Judge records in order, and begin to fingerprint those of the next call.

        If the code fails on the batch, each item is tried by itself, which is safe because `judge` changes nothing. An
        item that fails becomes a bad item. A failure on a harmless item too, or only on all items together, is not the
        fault of an item, and ends the worker.
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
        """How many records of each shape were decoded since the last call, also those decoded ahead."""
        taken, self._decode.shapes = self._decode.shapes, Counter()
        return taken

    def odd_times(self, items: Items, batch: Batch, records: Sequence[Any] = ()) -> dict[str, int]:
        """The number of items whose time is not usable as it is, by kind. The first of each kind is logged, with the
        trace of its record, and so is a full index.
        """
        found: dict[str, list[Item | Tombstone]] = {kind: [] for kind in _ODD_TIMES}
        for item, odd in zip(items, batch.odd.tolist(), strict=True):
            if isinstance(item, BadItem) or (isinstance(item, Tombstone) and odd == Odd.MISSING):
                continue  # a tombstone has no date of its own, and its time decides nothing
            if odd:
                found[Odd(odd).name.lower()].append(item)
            elif self._is_timed_by_record and 0 <= item.time < _FIRST_NEWS_MS:
                found[SECONDS].append(item)
        for kind, some in found.items():
            if some and self._context.is_first(kind):
                place = some[0].partition, some[0].offset
                traces = (trace_fields(record) for record in records if (record.partition, record.offset) == place)
                log.warning(
                    "task %s: the time of the record at partition %d, offset %d (%d ms) %s Logged once; counted as "
                    'stream_dedup_odd_times_total{reason="%s"}',
                    self._task, *place, some[0].time, _ODD_TIMES[kind], kind,
                    extra={"task": self._task, "partition": place[0], "offset": place[1], **next(traces, {})},
                )  # fmt: skip
        if self._dedup.evicted and self._context.is_first("full"):
            log.warning(
                "task %s holds %d originals, the most that [window] max_originals allows, or, if it is not set, "
                "[worker] memory: the oldest are forgotten before they expire, and their late copies will be let "
                "through. Shorten [window] length, or provide more memory and raise both. Logged once; counted as "
                "stream_dedup_evicted_originals_total",
                self._task, self._dedup.max_originals, extra={"task": self._task},
            )  # fmt: skip
        return {kind: len(some) for kind, some in found.items()}

    def _take(self, records: Sequence[Any]) -> tuple[Items, Prepared | None]:
        """Items and fingerprints of these records; made now unless they were made ahead."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            wait([ahead[1]])  # even if it is of no use: no two threads may do the work at the same time
            if ahead[0] is records:
                return ahead[1].result()
        return self._prepare(records)

    def _prepare(self, records: Sequence[Any]) -> tuple[Items, Prepared | None]:
        """Decode and fingerprint, in any thread. Without fingerprints: the code fails on one of the items."""
        items = [self._item(record) for record in records]
        try:
            return items, self._dedup.prepare(items)
        except Exception:  # noqa: BLE001
            return items, None

    def _item(self, record: Any) -> Item | Tombstone | BadItem:
        if (record.partition, record.offset) in self._failed.refusals:
            return BadItem(REFUSED, REFUSED_DETAIL)
        if cost := self._failed.too_slow.get((record.partition, record.offset)):
            return BadItem(TOO_SLOW, f"the work on it {cost}")
        return self._outgoing.refuse(record) or item_of(record, self._decode)


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


class Begun(NamedTuple):
    """Work that was begun: what the group has beside an offset."""

    offset: int
    size: int  # records; 0: none
    tries: int  # at this offset, with this one


class FailedRecords:
    """The search of one task. `refusals`: how often Kafka has refused a record. `too_slow`: records on which the work
    takes too long, and what it has cost.
    """

    def __init__(self) -> None:
        self.refusals: dict[Place, int] = {}
        self.too_slow: dict[Place, str] = {}
        self._announced: set[tuple[int, Begun]] = set()  # by this process, whether or not the group has it
        self._deaths = 0  # of processes in a row, at work that they had announced
        self._is_first = False  # whether the next batch is the first one of an opening
        self._suspects: dict[Place, int] = {}  # records not committed since -> the smallest batch that failed with them
        self._failures = 0  # in a row, each with suspects of the one before
        self._reported: tuple[int, bool] | None = None

    @property
    def batch_limit(self) -> int | None:
        """How many records a transaction may hold; None: no limit. O(suspects)."""
        return max(1, min(self._suspects.values()) // 2) if self._suspects and self._failures >= IN_A_ROW else None

    def failed(
        self, records: Sequence[Any], error: TransactionFailed | Fenced, too_long: float = 0.0
    ) -> tuple[str, bool] | None:
        """Count a failed batch. Once it is more than chance: a message, and whether it says something new.

        `too_long`: seconds of the work on the batch, if they may have cost the membership, which a fence then confirms.
        """
        if isinstance(error, Fenced):
            message = self._lost(records, too_long) if too_long else None
            return (message, True) if message else None
        if not error.lasting:
            return None
        blamed = [records[i] for i in error.sources] if error.sources else records
        places = sorted((record.partition, record.offset) for record in blamed)
        if isinstance(error, Refused):
            self.refusals.update({place: self.refusals.get(place, 0) + 1 for place in places})
        if not self._is_found_out(places):
            return None
        # Kafka may refuse the dead letter too, and then even the dead letter without the record's bytes.
        is_dead_letter = isinstance(error, Refused) and max(self.refusals[place] for place in places) < IN_A_ROW
        before, self._reported = self._reported, (len(places), is_dead_letter)
        return self._message(places, error, is_dead_letter), self._reported != before

    def _lost(self, records: Sequence[Any], seconds: float) -> str | None:
        """Count a batch on which the work took so long that this member lost its place. A message, once it is more
        than chance.
        """
        places = sorted((record.partition, record.offset) for record in records)
        if not self._is_found_out(places):
            return None
        partition, offset = places[0]
        if len(places) > 1:
            return (
                f"the work on {len(places)} records has cost this member its place in the group {self._failures} times "
                f"in a row, the last time after {seconds:.0f} s, from partition/offset {partition}/{offset} on. "
                f"Transactions now hold {self.batch_limit} records, and fewer each time, until the record is found"
            )
        self.too_slow[places[0]] = f"took {seconds:.0f} s, and cost the member its place in the group"
        return (
            f"the work on the record at offset {offset} of input partition {partition} took {seconds:.0f} s by itself, "
            f"and cost this member its place in the group, the {self._failures}th time in a row. The record becomes a "
            f"dead letter ({TOO_SLOW}); please report it with its bytes"
        )

    def _is_found_out(self, places: Sequence[Place]) -> bool:
        """Count a failure of these records. Returns whether it is more than chance."""
        self._failures = self._failures + 1 if self._suspects.keys() & places else 1
        for place in places:
            self._suspects[place] = min(len(places), self._suspects.get(place, len(places)))
        return self._failures >= IN_A_ROW

    def opened(self, begun: Mapping[int, "Begun"]) -> list[str]:
        """Count what other processes have begun and not ended. Messages, once it is more than chance.

        `begun`: what stands beside the group's offsets, by partition.
        """
        self._is_first = True
        messages = []
        for partition, work in begun.items():
            if not work.size or (partition, work) in self._announced:
                continue
            self._deaths = max(self._deaths, work.tries)
            if work.tries < IN_A_ROW:
                continue
            self._failures = max(self._failures, work.tries)
            self._suspects |= {(partition, work.offset + i): work.size for i in range(work.size)}
            what = f"work on {work.size} records from offset {work.offset} of input partition {partition} on"
            if work.size == 1 and work.tries >= 2 * IN_A_ROW:
                self.too_slow[partition, work.offset] = f"has ended {work.tries} processes in a row"
                then = f"The record becomes a dead letter ({TOO_SLOW}); please report it with its bytes"
            else:
                then = f"Transactions now hold {self.batch_limit} records, and fewer each time, until it is found"
            messages.append(f"{work.tries} processes in a row were ended at their work, the last one at {what}. {then}")
        return messages

    def to_announce(self, records: Sequence[Any]) -> tuple[int, int] | None:
        """What to write beside the group's offsets before the work on these records begins: their number, and the
        tries. None: nothing.
        """
        if not self._is_first and self.batch_limit is None:
            return None
        self._is_first = False
        size, tries = len(records), self._deaths + 1
        first = {record.partition: record.offset for record in reversed(records)}
        self._announced |= {(partition, Begun(offset, size, tries)) for partition, offset in first.items()}
        return size, tries

    def committed(self, positions: Mapping[int, int]) -> None:
        """Clear all records before these positions, whichever member has committed them."""
        if self._suspects or self.refusals:
            for places in (self._suspects, self.refusals, self.too_slow):
                for partition, offset in list(places):
                    if offset < positions.get(partition, 0):
                        del places[partition, offset]
        self._announced = {
            (partition, one) for partition, one in self._announced if one.offset >= positions.get(partition, 0)
        }
        if not self._suspects:
            self._failures, self._deaths, self._reported = 0, 0, None

    def _message(self, places: Sequence[Place], error: TransactionFailed, is_dead_letter: bool) -> str:
        listed = ", ".join(f"{partition}/{offset}" for partition, offset in places[:_LISTED])
        if is_dead_letter:
            return (
                f"found after {self._failures} failures in a row: {error}. It becomes a dead letter; partition/offset: "
                f"{listed}"
            )
        if len(places) == 1:
            [(partition, offset)] = places
            return (
                f"the record at offset {offset} of input partition {partition} has failed {self._failures} times in a "
                f"row, now by itself ({error}). It is tried again, and blocks its partition. If you cannot remove the "
                "cause, save the record's bytes and skip it: stop every member and run kafka-consumer-groups.sh with "
                f"--reset-offsets --to-offset {offset + 1} for this partition alone"
            )
        return (
            f"{len(places)} records have failed {self._failures} times in a row ({error}), from partition/offset "
            f"{listed} on. Transactions now hold {self.batch_limit} records, and fewer each time, until they go "
            "through or the record is found"
        )
