"""Two simpler rules that most feeds use, as baselines for the decision: body Jaccard and exact copies.

In: the items in order of arrival, and their exact sets. Out: the ids that a rule holds back, with the original of each.
First seen wins and nothing is forgotten, so a rule may find a copy that is older than the decision's window.
"""

from collections.abc import Sequence

import numpy as np

from stream_dedup.evaluate.oracle import first_seen_wins
from stream_dedup.evaluate.sets import ShingleSets
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.news.item import Item

PEERS_JACCARD = 0.8
"""The near-duplicate threshold of text-dedup, datasketch's guide and the papers behind them."""
_BATCH = 500


def held_by_jaccard(items: Sequence[Item], sets: ShingleSets) -> dict[str, str]:
    """Map each item whose body has an exact Jaccard >= PEERS_JACCARD to an original to that original's id."""
    found = first_seen_wins(sets, PEERS_JACCARD)
    return {items[i].id: items[found.original[i]].id for i in np.flatnonzero(found.held).tolist()}


def held_as_exact(items: Sequence[Item], make: Fingerprinter) -> dict[str, str]:
    """Map each item with the same words in headline and text (after folding) as an earlier one to its id. O(items).

    >>> from stream_dedup.fingerprint.scheme import Scheme
    >>> from stream_dedup.settings import FingerprintSettings
    >>> items = [Item("a", "Bridge opens", "At noon.", "", 0), Item("b", "BRIDGE OPENS!", "at noon", "", 0)]
    >>> held_as_exact(items, Fingerprinter(Scheme(FingerprintSettings())))
    {'b': 'a'}
    """
    held: dict[str, str] = {}
    first: dict[int, str] = {}
    for start in range(0, len(items), _BATCH):
        part = items[start : start + _BATCH]
        for item, digest in zip(part, make(part).signatures["digest"].tolist(), strict=True):
            if digest in first:
                held[item.id] = first[digest]
            else:
                first[digest] = item.id
    return held
