"""The part of judging that depends on the items alone: which of them have a fingerprint, and that.

In: a batch of items. Out: `Prepared`, for `Deduplicator.judge`. It is apart because it is most of the work and
knows nothing of what came before, so that it can run while an earlier batch is still under way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints
from stream_dedup.news.item import Item, Tombstone


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch before it meets the index.

    items: all, in order; at: the places of those that are no BadItem, m of them; subjects, prints, tombstone and
    empty (both (m,) bool; empty: nothing to judge by) speak of these m.
    """

    items: Sequence[Item | Tombstone | BadItem]
    at: list[int]
    subjects: list[Item]
    prints: Fingerprints
    tombstone: NDArray[np.bool_]
    empty: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.items)


def prepare(items: Sequence[Item | Tombstone | BadItem], fingerprint: Fingerprinter) -> Prepared:
    """Fingerprints of the items; pure. O(bytes)."""
    at = [i for i, item in enumerate(items) if not isinstance(item, BadItem)]
    subjects = [_as_item(items[i]) for i in at]
    tombstone = np.array([isinstance(items[i], Tombstone) for i in at], np.bool_)
    prints = fingerprint(subjects)
    empty = (prints.records["headline_size"] == 0) & (prints.records["body_size"] == 0) & ~tombstone
    prints.keys[tombstone, :-1] = 0  # a tombstone is looked up by its id alone
    prints.keys[empty] = 0
    return Prepared(items, at, subjects, prints, tombstone, empty)


def _as_item(item: Item | Tombstone | BadItem) -> Item:
    if isinstance(item, Item):
        return item
    if isinstance(item, Tombstone):
        return Item(item.id, "", "", "", item.time, item.partition, item.offset)
    raise TypeError(f"a bad item has no fingerprint: {item}")
