"""Prepare a batch: the part of the decision that depends on the items alone, mostly their fingerprints.

In: a batch of items. Out: `Prepared`, for `Deduplicator.judge`. This is most of the work and needs no index, so another
thread can do it while the previous batch is judged and committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.corrections import are_corrections
from stream_dedup.dedup.resolve import EMPTY, ITEM, TOMBSTONE
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints
from stream_dedup.news.item import Item, Tombstone


@dataclass(frozen=True, slots=True)
class Prepared:
    """A fingerprinted batch.

    items: all, in order; subjects: the m items that are no BadItem, with their fingerprints (`prints`), kinds, (m,)
    int8 of resolve.py, and `is_correction`, (m,): the headline marks a correction. Nothing else is judged by: of the
    subjects, judging reads the ids only.
    """

    items: Sequence[Item | Tombstone | BadItem]
    subjects: list[Item]
    prints: Fingerprints
    kinds: NDArray[np.int8]
    is_correction: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.items)


def prepare(items: Sequence[Item | Tombstone | BadItem], fingerprint: Fingerprinter) -> Prepared:
    """Fingerprint the items; a pure function. O(bytes)."""
    readable = [item for item in items if not isinstance(item, BadItem)]
    subjects = [_as_item(item) for item in readable]
    prints = fingerprint(subjects)
    is_tombstone = np.array([isinstance(item, Tombstone) for item in readable], np.bool_)
    kinds = np.where(is_tombstone, TOMBSTONE, np.where(prints.is_empty, EMPTY, ITEM)).astype(np.int8)
    prints.keys[kinds == TOMBSTONE, :-1] = 0  # only the id is looked up
    prints.keys[kinds == EMPTY] = 0
    return Prepared(items, subjects, prints, kinds, are_corrections([item.title for item in subjects]))


def _as_item(item: Item | Tombstone) -> Item:
    if isinstance(item, Item):
        return item
    return Item(item.id, "", "", "", item.time, item.partition, item.offset)
