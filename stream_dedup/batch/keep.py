"""Choose the representative of each cluster: the one item that stays in an archive.

In: the clusters and the signatures of their items. Out: a row for each cluster. Whatever the choice, ties are broken by
time, then by the order of the input. An item without a date counts as of the latest date before it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.errors import UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import site_of


class Choice(StrEnum):
    """What the representative is chosen by."""

    EARLIEST = "earliest"  # its date
    FIRST = "first"  # the order of the input, whatever the dates are
    LONGEST = "longest"  # the distinct shingles of its body
    SOURCE = "source"  # the place of its source in a list; sources that are not in it come last


class Merits(NamedTuple):
    """What items are compared by, (n,) int64 each, smaller is better: rank, then time, then row."""

    rank: NDArray[np.int64]
    time: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Keep:
    """A choice as a user names it; `sources` are sites, the preferred one first."""

    choice: Choice
    sources: tuple[str, ...] = ()

    def check(self, scheme: Scheme) -> None:
        """Raise UsageError if the scheme's signatures lack what the choice needs."""
        if self.choice is Choice.LONGEST and scheme.is_given:
            raise UsageError("keep = 'longest' compares texts, which family = 'given' does not read; keep 'earliest'")

    def merits(self, signatures: NDArray[np.void], scheme: Scheme) -> Merits:
        """What the items with these signatures are compared by. O(n · sources)."""
        rank = np.zeros(len(signatures), np.int64)
        time = signatures["time"].astype(np.int64)
        if self.choice is Choice.FIRST:
            time[:] = 0
        elif self.choice is Choice.LONGEST:
            rank -= signatures["body_size"]
        elif self.choice is Choice.SOURCE:
            rank[:] = len(self.sources)
            for place, name in enumerate(self.sources):
                rank[signatures["source"] == np.uint64(scheme.identity(name))] = place
        return Merits(rank, time)

    def absent(self, ranks: set[int]) -> tuple[str, ...]:
        """The listed sources that no item has, given all ranks that occur: misspelt, perhaps."""
        return tuple(name for place, name in enumerate(self.sources) if place not in ranks)


def parse_keep(text: str) -> Keep:
    """Parse "earliest", "first", "longest", or "source:NAME,NAME,..."; a name is a site, as in `Item.source`.

    >>> parse_keep("source:www.Reuters.com, Elm Valley Wire").sources
    ('reuters.com', 'elm valley wire')
    """
    name, colon, names = text.partition(":")
    sources = tuple(dict.fromkeys(site for one in names.split(",") if (site := site_of(one))))
    if name not in set(Choice) or bool(colon) != (name == Choice.SOURCE) or bool(sources) != (name == Choice.SOURCE):
        raise UsageError(f"keep = {text!r} is none of 'earliest', 'first', 'longest' and 'source:NAME,NAME,...'")
    return Keep(Choice(name), sources)


def representatives(roots: NDArray[np.int64], merits: Merits) -> NDArray[np.int64]:
    """The row of each row's representative, (n,). roots: as `clusters.cluster_of` returns them. O(n).

    >>> representatives(np.array([0, 0, 2]), Merits(np.array([0, 0, 0]), np.array([9, 5, 7]))).tolist()
    [1, 1, 2]
    """
    best: NDArray[np.int64] = np.arange(len(roots))
    _find_best(roots, merits.rank, merits.time, best)
    return best[roots]


@njit(nogil=True, cache=True)
def _find_best(roots, rank, time, best):  # type: ignore[no-untyped-def]
    # A root is the first row of its cluster, so of equal items the first one stays.
    for row in range(roots.size):
        root = roots[row]
        now = best[root]
        if rank[row] < rank[now] or (rank[row] == rank[now] and time[row] < time[now]):
            best[root] = row
