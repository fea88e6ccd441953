"""The part of judging that depends on the items alone: which of them have a fingerprint, and that.

In: a batch of items. Out: `Prepared`, for `Deduplicator.judge`. It is apart because it is most of the work and
knows nothing of what came before, so that it can run while an earlier batch is still under way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.resolve import ITEM, NO_ITEM, TOMBSTONE
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import Fingerprinter, Fingerprints
from stream_dedup.news.item import Item, Tombstone


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch before it meets the index.

    items: all, in order; subjects, prints and kinds speak of those that are no BadItem, m of them; kinds: (m,) int8,
    what each is, as resolve.py calls it: an item without anything to judge by is none.
    """

    items: Sequence[Item | Tombstone | BadItem]
    subjects: list[Item]
    prints: Fingerprints
    kinds: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.items)


def prepare(items: Sequence[Item | Tombstone | BadItem], fingerprint: Fingerprinter) -> Prepared:
    """Fingerprints of the items; pure. O(bytes)."""
    readable = [item for item in items if not isinstance(item, BadItem)]
    subjects = [_as_item(item) for item in readable]
    prints = fingerprint(subjects)
    is_tombstone = np.array([isinstance(item, Tombstone) for item in readable], np.bool_)
    kinds = np.where(is_tombstone, TOMBSTONE, np.where(prints.is_empty, NO_ITEM, ITEM)).astype(np.int8)
    prints.keys[kinds == TOMBSTONE, :-1] = 0  # it is looked up by its id alone
    prints.keys[kinds == NO_ITEM] = 0
    return Prepared(items, subjects, prints, kinds)


def _as_item(item: Item | Tombstone) -> Item:
    if isinstance(item, Item):
        return item
    return Item(item.id, "", "", "", item.time, item.partition, item.offset)
