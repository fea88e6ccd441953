"""What core/candidates.c takes to find the candidates of each item of a batch: earlier items that share a key with it.
At most MAX_CANDIDATES of them (core.h) are compared.

One rule holds wherever a batch begins; core/candidates.c applies it, item by item:

1. A key gives the newest 24 remembered items that have it and lie within the item's window. The
   originals among all earlier items are remembered, those of this batch included.
2. The `MAX_CANDIDATES` with the highest scores are compared; ties go to the newest. The score is the sum of 1 / (items
   that the key gave) over the shared keys, since a rare key says more than one of a form or a menu. An item with the
   same id comes first. If more than four have the id, it names no article, and counts like any other key.

Which items of this batch are remembered is known only as they are judged. So one lookup in the index serves all items,
and the items of the batch are linked by their keys; the core skips links to items that are not remembered.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stream_dedup import core
from stream_dedup.fingerprint.fingerprint import key_of
from stream_dedup.index.hybrid import MAX_ITEMS, HybridIndex
from stream_dedup.index.rows import RowStore
from stream_dedup.index.runs import ITEM_SHIFT, Nearness
from stream_dedup.index.times import FORGOTTEN

MAX_CANDIDATES = core.call("max_candidates")
"""Most candidates that an item is compared with: 12. This bounds the cost of a burst of copies. On the labelled streams
12, 16 and 24 give the same rates."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_NO_LIMIT = 2**31 - 1
# Rows whose signatures are read at once: 4 MB.
_AT_ONCE = 1 << 13


def versions_of(signatures: NDArray[np.void]) -> NDArray[np.uint64]:
    """Return the names of versions of an id, (n,): 64 bits, made of the hash of the id and the digest of the words.

    The upper half is that of the id, so one key of the index finds both. A deletion of the id deletes all items with
    it, a deletion of a version those with its words.
    """
    names: NDArray[np.uint64] = signatures["row_id"] ^ (signatures["digest"] * _GOLDEN >> np.uint64(32))
    return names


def links_of(keys: NDArray[np.uint32], nearness: Nearness) -> NDArray[np.int32]:
    """Return for each key the newest earlier item that has it in the same table, or -1.

    For keys (m, C) these are (m, C) int32: item << ROW_SHIFT | column. Raises InputError for 2^19 items or more.

    >>> from stream_dedup.index.runs import nearness_of
    >>> links_of(np.array([[7, 1], [7, 2], [0, 2], [7, 0]], np.uint32), nearness_of([], [0, 1], 0)).tolist()
    [[-1, -1], [0, -1], [-1, 4097], [4096, -1]]
    """
    links, columns = np.empty(keys.shape, np.int32), nearness.first_columns
    core.call("link_items", core.arena(), keys, len(keys), columns, len(columns) - 1, nearness.dont_care_bits, links)
    return links


def bounds_of(hits: NDArray[np.int64], items: int) -> NDArray[np.int64]:
    """Return where the hits of each item begin in `index.hybrid.Found.hits`, (items + 1,)."""
    return np.searchsorted(hits, np.arange(items + 1) << ITEM_SHIFT)


def named_rows(deletions: NDArray[np.void], index: HybridIndex, rows: RowStore) -> Iterator[NDArray[np.int64]]:
    """Return the rows of the index that DELETIONs delete, in parts; `before` is a row number.

    All versions of an id share one key, so keys are looked up once, and rows compared with the last deletion of their
    name. O(d log d) for d deletions, and O(r log d) for r rows with one of their keys.
    """
    last = deletions[np.lexsort((deletions["before"], deletions["name"]))]
    names, before = last["name"], last["before"]
    distinct = np.unique(key_of(names))
    for start in range(0, len(distinct), MAX_ITEMS):
        keys = np.zeros((len(distinct[start : start + MAX_ITEMS]), len(index.nearness.table_of)), np.uint32)
        keys[:, -1] = distinct[start : start + MAX_ITEMS]
        _, found = index.lookup(keys, np.full(len(keys), FORGOTTEN), limit=_NO_LIMIT)
        for first in range(0, len(found), _AT_ONCE):
            part = found[first : first + _AT_ONCE]
            known, is_meant = rows.take(part), np.zeros(len(part), np.bool_)
            for name in (known["row_id"], versions_of(known)):
                place = np.searchsorted(names, name, side="right") - 1  # the last deletion of the name, if there is any
                is_meant |= (place >= 0) & (names[place] == name) & (part < before[place])
            yield part[is_meant]
