"""What a person must be told of times that do not count, and of a memory that is full: a line of log each, once.

In: a judged batch. Out: a warning at the first item of each kind since the worker began, with its place and the cure,
and how many there are, for the metric (catalogue.py) and the status page.

A feed whose times are all seconds looks steady to the clocks: it stands still in January 1970, and nothing is ever
forgotten but for its number. Nobody's news are of that time, so it is told apart here.
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

_MEANINGS = {
    Odd.MISSING: "states no time; it counts as of the usual time of its partition",
    Odd.FUTURE: "is ahead of this clock by more than [window] future; it counts as of the usual time of its partition. "
    "Is the producer's clock right, or this machine's?",
    Odd.ALONE: "is further than [window] length from those around it in its partition; it is compared with what came "
    "lately as well. Is the producer's clock right? Does it write seconds for milliseconds, or send an archive?",
    Odd.LATE: "is behind the stream by more than [window] length, as others around it are, or too few came before it "
    "to tell; it is compared within its own window, with what came lately. Is a backlog worked off, or does a producer "
    "write seconds for milliseconds?",
}
SECONDS = "seconds"
_SECONDS_MEAN = (
    "is in the first months of 1970, as those around it are: the producer writes seconds for milliseconds, or no time. "
    "All items lie within one [window] length then, and copies of any age are held back until memory is full"
)
# Milliseconds of March 1973; as seconds the year 5138. Where news/dates.py parts the two as well.
_FIRST_OF_NEWS = 10**11
_FULL = "full"


def odd_times(items: Sequence[Item | Tombstone | BadItem], batch: Batch) -> dict[str, int]:
    """How many items had an odd time, by reason; each counts once."""
    return batch.odd_times() | {SECONDS: len(_in_seconds(items, batch))}


def _in_seconds(items: Sequence[Item | Tombstone | BadItem], batch: Batch) -> list[Item | Tombstone]:
    return [
        item
        for item, odd in zip(items, batch.odd.tolist(), strict=True)
        if not odd and not isinstance(item, BadItem) and 0 <= item.time < _FIRST_OF_NEWS
    ]


def tell(
    task: str,
    items: Sequence[Item | Tombstone | BadItem],
    batch: Batch,
    counts: Mapping[str, int],
    dedup: Deduplicator,
    said: set[str],
) -> None:
    """Logs what is seen for the first time; `counts` are its `odd_times`, `said` is what was logged before, and grows.

    What does not occur is not looked for: this runs with every batch.
    """
    for kind, meaning in _MEANINGS.items():
        if kind.name in said or not counts[kind.name.lower()]:
            continue
        item = items[int(np.argmax(batch.odd == kind))]
        if isinstance(item, BadItem):
            continue
        said.add(kind.name)
        _say(task, item, meaning, kind.name.lower())
    if SECONDS not in said and counts[SECONDS]:
        said.add(SECONDS)
        _say(task, _in_seconds(items, batch)[0], _SECONDS_MEAN, SECONDS)
    if dedup.evicted and _FULL not in said:
        said.add(_FULL)
        log.warning(
            "task %s holds %d originals, the most that [window] max_originals allows: those that came first are "
            "forgotten before their time, and their late copies will be let through. Shorten [window] length, or raise "
            "it and give memory. Said once; counted as stream_dedup_evicted_originals_total",
            task, dedup.settings.window.max_originals, extra={"task": task},
        )  # fmt: skip


def _say(task: str, item: Item | Tombstone, meaning: str, reason: str) -> None:
    log.warning(
        "task %s: the time of the record at partition %d, offset %d (%d ms) %s Said once; counted as "
        'stream_dedup_odd_times_total{reason="%s"}',
        task, item.partition, item.offset, item.time, meaning if meaning.endswith("?") else f"{meaning}.", reason,
        extra={"task": task, "partition": item.partition, "offset": item.offset},
    )  # fmt: skip
