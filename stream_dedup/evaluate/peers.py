"""Two simpler rules that most feeds use, as baselines for the decision: body Jaccard and exact copies.

In: the items in order of arrival, and their exact sets. Out: the ids that a rule holds back at their first delivery,
with the original of each. First seen wins and nothing is forgotten, so a rule may find a copy that is older than the
decision's window.
"""

from collections.abc import Iterable, Sequence

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
    return _by_id(items, np.where(found.held, found.original, -1).tolist())


def held_as_exact(items: Sequence[Item], make: Fingerprinter) -> dict[str, str]:
    """Map each item with the same words in headline and text (after folding) as an earlier one to its id. O(items).

    >>> from stream_dedup.fingerprint.scheme import Scheme
    >>> from stream_dedup.settings import FingerprintSettings
    >>> items = [Item("a", "Bridge opens", "At noon.", "", 0), Item("b", "BRIDGE OPENS!", "at noon", "", 0)]
    >>> held_as_exact(items, Fingerprinter(Scheme(FingerprintSettings())))
    {'b': 'a'}
    """
    first: dict[int, int] = {}
    original = []
    for start in range(0, len(items), _BATCH):
        digests = make(items[start : start + _BATCH]).signatures["digest"].tolist()
        original += [first.setdefault(digest, i) for i, digest in enumerate(digests, start)]
    return _by_id(items, [-1 if j == i else j for i, j in enumerate(original)])


def _by_id(items: Sequence[Item], original: Iterable[int]) -> dict[str, str]:
    """Map the ids whose first delivery has an original (the place of one, not -1) to the original's id."""
    found: dict[str, str | None] = {}
    for item, place in zip(items, original, strict=True):
        found.setdefault(item.id, items[place].id if place >= 0 else None)
    return {name: other for name, other in found.items() if other is not None}
