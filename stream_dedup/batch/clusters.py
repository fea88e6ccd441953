"""Group pairs into clusters: connected components, each named by its first row.

Source: union-find with path halving, Tarjan, van Leeuwen, "Worst-case analysis of set union algorithms", JACM 1984.
The smaller row becomes the root instead of the larger tree's, so the name of a cluster does not depend on the order of
the pairs.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray


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
