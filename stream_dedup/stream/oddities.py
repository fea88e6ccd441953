"""What a person must be told of times that do not count, and of a memory that is full: a line of log each, once.

In: a judged batch. Out: a warning at the first item of each kind since the worker began, with its place and the cure.
How many there are is a metric (catalogue.py) and stands on the status page.
"""

import logging
from collections.abc import Sequence

import numpy as np

from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.clocks import Odd
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone

log = logging.getLogger(__name__)

_MEANINGS = {
    Odd.MISSING: "states no time; it counts as of the usual time of its partition",
    Odd.FUTURE: "is ahead of this clock by more than [window] future; it counts as of the usual time of its partition. "
    "Is the producer's clock right, or this machine's?",
    Odd.ALONE: "is further than [window] length from those around it in its partition; it is compared with what came "
    "lately as well. Is the producer's clock right, does it write seconds for milliseconds, or sends it an archive?",
    Odd.LATE: "is behind the stream by more than [window] length, as others around it are; it is compared within its "
    "own window, with what came lately. Is a backlog worked off, or does a producer write seconds for milliseconds?",
}
_FULL = "full"


def tell(
    lane: str, items: Sequence[Item | Tombstone | BadItem], batch: Batch, dedup: Deduplicator, said: set[str]
) -> None:
    """Logs what is seen for the first time; `said` is what was logged before, and grows."""
    for kind, meaning in _MEANINGS.items():
        if kind.name in said or not (batch.odd == kind).any():
            continue
        item = items[int(np.argmax(batch.odd == kind))]
        if isinstance(item, BadItem):
            continue
        said.add(kind.name)
        log.warning(
            "lane %s: the time of the record at partition %d, offset %d (%d ms) %s. Said once; counted as "
            'stream_dedup_odd_times_total{reason="%s"}',
            lane, item.partition, item.offset, item.time, meaning, kind.name.lower(),
            extra={"lane": lane, "partition": item.partition, "offset": item.offset},
        )  # fmt: skip
    if dedup.evicted and _FULL not in said:
        said.add(_FULL)
        log.warning(
            "lane %s holds %d originals, the most that [window] max_originals allows: those that came first are "
            "forgotten before their time, and their late copies will be let through. Shorten [window] length, or raise "
            "it and give memory. Said once; counted as stream_dedup_evicted_originals_total",
            lane, dedup.settings.window.max_originals, extra={"lane": lane},
        )  # fmt: skip
