"""Judge the records of a task: decode and fingerprint them, then ask the index for verdicts.

In: Kafka records. Out: their items, and the `Batch` from `Deduplicator.judge`. A thread fingerprints the next batch
while this one is judged: fingerprints depend on no other item and are most of the work, much of it without the
interpreter's lock. This saves the worker 9 µs an item (98 instead of 107).

No item stops those after it: one that cannot be sent, or on which the code fails, becomes a bad item.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from stream_dedup.dedup.batch import Batch, Prepared
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem, StreamDedupError
from stream_dedup.kafka import client
from stream_dedup.kafka.bounded import Bounded
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.worker.ahead import Ahead
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.records import REFUSED, TOO_LARGE, Router

log = logging.getLogger(__name__)

Items = list[Item | Tombstone | BadItem]
REFUSED_DETAIL = "Kafka refused it as output or as duplicate; the worker's log has its answer"
_HARMLESS_ITEM = Item("1", "A plain headline", "And a plain text of some ten words, as there are many.", "", 0)


class Judge:
    """Judges the records of one task against its index. `thread` decodes and fingerprints those of the next batch."""

    def __init__(self, context: WorkerContext, router: Router, dedup: Deduplicator, thread: Bounded) -> None:
        self._context, self._router, self._dedup = context, router, dedup
        self._decode = Decoder(context.settings.item)
        self._ahead = Ahead(thread, "fingerprinting", self._prepared)

    def __call__(self, records: Sequence[Any], next_records: Sequence[Any] = ()) -> tuple[Items, Batch]:
        """Judge records in order, and begin to fingerprint those of the next call.

        If the code fails on the batch, each item is tried by itself, which is safe because `judge` changes nothing. An
        item that fails becomes a bad item. A failure on a harmless item too, or only on all items together, is not the
        fault of an item, and ends the worker.
        """
        items, prepared = self._ahead.take(records)
        self._ahead.begin(next_records)
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

    def _prepared(self, records: Sequence[Any]) -> tuple[Items, Prepared | None]:
        """Decode and fingerprint, in any thread. Without fingerprints: the code fails on one of the items."""
        items = [self._item(record) for record in records]
        try:
            return items, self._dedup.prepare(items)
        except Exception:  # noqa: BLE001
            return items, None

    def _item(self, record: Any) -> Item | Tombstone | BadItem:
        if (record.partition, record.offset) in self._context.poison.refusals:
            return BadItem(REFUSED, REFUSED_DETAIL)
        refusal = self._router.refuse(record)
        if refusal is not None:
            return refusal
        return item_of(record, self._decode)


def item_of(record: Any, decode: Decoder) -> Item | Tombstone | BadItem:
    """Decode a record; a bad item if it cannot be read or its id is too long."""
    if cut := record.cut:
        return BadItem(TOO_LARGE, f"the record takes {cut} bytes, more than [worker] max_record_bytes; it was not read")
    item = decode(record.value, record.key, record.timestamp, record.partition, record.offset)
    if not isinstance(item, BadItem) and len(item.id) * 4 > client.MAX_ID_BYTES:
        size = len(item.id.encode("utf-8", "replace"))
        if size > client.MAX_ID_BYTES:
            return BadItem("id", f"the id has {size} bytes; at most {client.MAX_ID_BYTES} are allowed")
    return item
