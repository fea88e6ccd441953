"""Group pairs into clusters: connected components, each named by its first row; and choose what stays of each.

Source: union-find with path halving, Tarjan, van Leeuwen, "Worst-case analysis of set union algorithms", JACM 1984.
The smaller row becomes the root instead of the larger tree's, so the name of a cluster does not depend on the order of
the pairs.

The representative of a cluster is the one item that stays in an archive. Whatever the choice, ties are broken by time,
then by the order of the input. An item without a date counts as of the latest date before it.
"""

from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_dedup.errors import UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import site_of


def unite(roots: NDArray[np.int64], a: NDArray[np.int64], b: NDArray[np.int64]) -> None:
    """Join the rows a[p] and b[p] for each p in the forest `roots` (n,), which begins as arange(n).

    >>> roots = np.arange(5)
    >>> unite(roots, np.array([4, 3]), np.array([3, 1])); cluster_of(roots).tolist()
    [0, 1, 2, 1, 1]
    """
    _unite(roots, a, b)


def cluster_of(roots: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row of each row's cluster, (n,). Flattens the forest in place and returns it. O(n)."""
    _flatten(roots)
    return roots


@njit(nogil=True, cache=True)
def _unite(roots, a, b):  # type: ignore[no-untyped-def]
    for p in range(a.size):
        x, y = a[p], b[p]
        while roots[x] != x:
            roots[x] = roots[roots[x]]
            x = roots[x]
        while roots[y] != y:
            roots[y] = roots[roots[y]]
            y = roots[y]
        if x < y:
            roots[y] = x
        else:
            roots[x] = y


@njit(nogil=True, cache=True)
def _flatten(roots):  # type: ignore[no-untyped-def]
    # A root is smaller than its descendants, so it is flattened before them.
    for row in range(roots.size):
        roots[row] = roots[roots[row]]


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


class Keep(NamedTuple):
    """A choice as a user names it; `sources` are sites, the preferred one first."""

    choice: Choice
    sources: tuple[str, ...]

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


def parse_keep(text: str, scheme: Scheme) -> Keep:
    """Parse "earliest", "first", "longest", or "source:NAME,NAME,..."; a name is a site, as in `Item.source`.

    Raises UsageError for anything else, and where the scheme's signatures lack what the choice needs.
    """
    name, colon, names = text.partition(":")
    sources = tuple(dict.fromkeys(site for one in names.split(",") if (site := site_of(one))))
    if name not in set(Choice) or bool(colon) != (name == Choice.SOURCE) or bool(sources) != (name == Choice.SOURCE):
        raise UsageError(f"keep = {text!r} is none of 'earliest', 'first', 'longest' and 'source:NAME,NAME,...'")
    if name == Choice.LONGEST and scheme.is_given:
        raise UsageError("keep = 'longest' compares texts, which family = 'given' does not read; keep 'earliest'")
    return Keep(Choice(name), sources)


def representatives(roots: NDArray[np.int64], merits: Merits) -> NDArray[np.int64]:
    """The row of each row's representative, (n,). roots: as `cluster_of` returns them. O(n log n).

    >>> representatives(np.array([0, 0, 2]), Merits(np.array([0, 0, 0]), np.array([9, 5, 7]))).tolist()
    [1, 1, 2]
    """
    order = np.lexsort((merits.time, merits.rank, roots))  # stable, so of equal items the first one stays
    clusters, first = np.unique(roots[order], return_index=True)
    return order[first][np.searchsorted(clusters, roots)]
