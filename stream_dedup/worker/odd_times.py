"""Count items whose event time is not usable as it is, and log the first one of each kind.

In: a judged batch. Out: counts by kind, for the metric (catalogue.py) and the status page, and one warning a kind since
the worker started, with the record's place and the cure. A full index is logged here too.

A feed that writes seconds for milliseconds looks steady to the clocks: it stands still in January 1970, and items
expire by number only. No news is that old, so such times are recognised here.
"""

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.clocks import Odd
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone

log = logging.getLogger(__name__)

_EXPLANATIONS = {
    Odd.MISSING: "is missing; the item counts as of the usual time of its partition",
    Odd.FUTURE: "is ahead of this machine's clock by more than [window] future; the item counts as of the usual time "
    "of its partition. Is the producer's clock right, or this machine's?",
    Odd.ALONE: "is further than [window] length from its neighbours' in the partition; the item is compared with "
    "recent items as well. Is the producer's clock right? Does it write seconds for milliseconds, or send an archive?",
    Odd.LATE: "is behind the stream by more than [window] length, as its neighbours' are, or too few records precede "
    "it to tell; the item is compared within its own window, with recent items. Is a backlog being processed, or does "
    "a producer write seconds for milliseconds?",
}
SECONDS = "seconds"
_SECONDS_EXPLANATION = (
    "is in the first months of 1970, as its neighbours' are: the producer writes seconds for milliseconds, or no time. "
    "All items then lie within one [window] length, and copies of any age are held back until the index is full"
)
# March 1973 in milliseconds, the year 5138 in seconds. news/dates.py separates the two at the same number.
_FIRST_NEWS_MS = 10**11
_FULL = "full"


def odd_times(items: Sequence[Item | Tombstone | BadItem], batch: Batch) -> dict[str, int]:
    """The number of items with an odd time, by reason; each item counts once."""
    return batch.odd_times() | {SECONDS: len(_in_seconds(items, batch))}


def _in_seconds(items: Sequence[Item | Tombstone | BadItem], batch: Batch) -> list[Item | Tombstone]:
    return [
        item
        for item, kind in zip(items, batch.odd.tolist(), strict=True)
        if not kind and not isinstance(item, BadItem) and 0 <= item.time < _FIRST_NEWS_MS
    ]


def log_odd_times(
    task: str,
    items: Sequence[Item | Tombstone | BadItem],
    batch: Batch,
    counts: Mapping[str, int],
    dedup: Deduplicator,
    logged: set[str],
) -> None:
    """Log each kind when it first occurs. `counts`: the batch's `odd_times`; `logged`: kinds logged before, updated.

    This runs with every batch, so it searches only for kinds that occur.
    """
    for kind, explanation in _EXPLANATIONS.items():
        if kind.name in logged or not counts[kind.name.lower()]:
            continue
        item = items[int(np.argmax(batch.odd == kind))]
        if isinstance(item, BadItem):
            continue
        logged.add(kind.name)
        _warn(task, item, explanation, kind.name.lower())
    if SECONDS not in logged and counts[SECONDS]:
        logged.add(SECONDS)
        _warn(task, _in_seconds(items, batch)[0], _SECONDS_EXPLANATION, SECONDS)
    if dedup.evicted and _FULL not in logged:
        logged.add(_FULL)
        log.warning(
            "task %s holds %d originals, the most that [window] max_originals allows, or, if it is not set, [worker] "
            "memory: the oldest are forgotten before they expire, and their late copies will be let through. Shorten "
            "[window] length, or provide more memory and raise both. Logged once; counted as "
            "stream_dedup_evicted_originals_total",
            task, dedup.max_originals, extra={"task": task},
        )  # fmt: skip


def _warn(task: str, item: Item | Tombstone, explanation: str, reason: str) -> None:
    log.warning(
        "task %s: the time of the record at partition %d, offset %d (%d ms) %s Logged once; counted as "
        'stream_dedup_odd_times_total{reason="%s"}',
        task, item.partition, item.offset, item.time,
        explanation if explanation.endswith("?") else f"{explanation}.", reason,
        extra={"task": task, "partition": item.partition, "offset": item.offset},
    )  # fmt: skip
