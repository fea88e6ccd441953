"""Records of a task -> items and verdicts; while one batch is judged the next is fingerprinted.

In: records as they were read. Out: their items, and the `Batch` that `Deduplicator.judge` makes of them. Fingerprints
need nothing of what came before and are most of the work, much of it without the interpreter's lock: made ahead, in a
thread of their own, they cost the worker 98 µs an item instead of 107.

No item stops those that follow it: one that cannot go out, or on which the code fails, becomes a bad one.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.prepared import Prepared
from stream_dedup.errors import BadItem, StreamDedupError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.stream import client
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.records import REFUSED, Router

log = logging.getLogger(__name__)

Items = list[Item | Tombstone | BadItem]
_BEYOND_SUSPICION = Item("1", "A plain headline", "And a plain text of some ten words, as there are many.", "", 0)


class Judge:
    """Judges the records of one task by its index. `ahead`: the thread that makes fingerprints."""

    def __init__(self, context: WorkerContext, router: Router, dedup: Deduplicator, ahead: Bounded) -> None:
        self._context, self._router, self._dedup, self._thread = context, router, dedup, ahead
        self._decode = Decoder(context.settings.item)
        self._ahead: tuple[Sequence[Any], Future[tuple[Items, Prepared | None]]] | None = None

    def __call__(self, records: Sequence[Any], following: Sequence[Any] = ()) -> tuple[Items, Batch]:
        """The records' items and verdicts, in order; begins with `following`, the records of the next call.

        `judge` changes nothing, so each item can be tried by itself. What fails on an item beyond suspicion too,
        or only on all together, is no item's fault, and ends the worker.
        """
        items, prepared = self._prepared(records)
        if following:
            self._ahead = following, self._thread.start("fingerprinting", lambda: self._prepare(following))
        latest = self._context.latest()
        try:
            return items, self._dedup.judge(items if prepared is None else prepared, latest)
        except (StreamDedupError, MemoryError):
            raise
        except Exception:
            log.exception("judging %d items failed; trying them one by one", len(items))
        self._dedup.judge([_BEYOND_SUSPICION])
        for i, item in enumerate(items):
            try:
                self._dedup.judge([item], latest)
            except Exception as error:  # noqa: BLE001 - whatever it is, this item causes it
                items[i] = BadItem("internal", f"judging it failed: {error!r}")
        return items, self._dedup.judge(items, latest)

    def _prepared(self, records: Sequence[Any]) -> tuple[Items, Prepared | None]:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is records:
            return ahead[1].result()
        return self._prepare(records)

    def _prepare(self, records: Sequence[Any]) -> tuple[Items, Prepared | None]:
        """In any thread. None: it failed, as it will again when the items are judged, which asks whose fault it is."""
        items = [self._item(record) for record in records]
        try:
            return items, self._dedup.prepare(items)
        except Exception:  # noqa: BLE001
            return items, None

    def _item(self, record: Any) -> Item | Tombstone | BadItem:
        if (record.partition, record.offset) in self._context.poison.refused:
            return BadItem(REFUSED, "Kafka took it neither as output nor as duplicate; the worker's log has the answer")
        refusal = self._router.refuse(record)
        if refusal is not None:
            return refusal
        return item_of(record, self._decode)


def item_of(record: Any, decode: Decoder) -> Item | Tombstone | BadItem:
    """What a record says, whatever topics it could go to."""
    item = decode(record.value, record.key, record.timestamp, record.partition, record.offset)
    if not isinstance(item, BadItem) and len(item.id) * 4 > client.MAX_ID_BYTES:
        size = len(item.id.encode("utf-8", "replace"))
        if size > client.MAX_ID_BYTES:
            return BadItem("id", f"the id has {size} bytes, at most {client.MAX_ID_BYTES} make sense")
    return item
