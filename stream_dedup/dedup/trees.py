"""Boosted regression trees as a table: their sum for a pair, and what each feature adds to it.

In: the features of a pair. Out: log-odds. A tree asks `depth` questions, each whether one feature exceeds a threshold,
and ends at a leaf; the log-odds are the sum of the leaves. A full binary tree needs no pointers: the children of node k
are 2k+1 and 2k+2 (Williams 1964). The table is a file of numbers, read once; nothing in it is code.

What a feature adds is exact: at each question the expectation moves from that of the node to that of the child, and
the feature asked gets the difference (Saabas 2014). With the expectation of all roots the differences sum to the
log-odds.

Source: Friedman, "Greedy function approximation: a gradient boosting machine", 2001.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.compiled import njit


class Trees(NamedTuple):
    """T trees of one depth d. features: (T, 2^d - 1) uint8, the feature that each node asks for; thresholds: float32,
    of the same shape: a greater value goes to the right; values: (T, 2^(d+1) - 1) float32, the expected log-odds at
    each node, the leaves last.
    """

    features: NDArray[np.uint8]
    thresholds: NDArray[np.float32]
    values: NDArray[np.float32]

    @classmethod
    def nothing(cls) -> "Trees":
        """No tree: the log-odds are 0."""
        return cls(np.zeros((0, 1), np.uint8), np.zeros((0, 1), np.float32), np.zeros((0, 3), np.float32))


class _File(msgspec.Struct):
    names: list[str]
    features: list[list[int]]
    thresholds: list[list[float]]
    values: list[list[float]]


def read_trees(path: Path, names: list[str]) -> Trees:
    """Read a table that `tests/labels/fit.py` wrote. Raises ValueError if it asks for other features than `names`."""
    found = msgspec.json.decode(path.read_bytes(), type=_File)
    if found.names != names:
        raise ValueError(f"{path.name} was fitted to the features {found.names}, not {names}: fit it again")
    columns = np.uint8, np.float32, np.float32
    return Trees(*(np.array(part, kind) for part, kind in zip(_parts(found), columns, strict=True)))


def write_trees(path: Path, trees: Trees, names: list[str]) -> None:
    """Write a table, a tree a line, with four digits behind the point."""
    rounded = [np.round(part.astype(float), 4).tolist() for part in trees[1:]]
    lines = [",\n".join(msgspec.json.encode(row).decode() for row in part) for part in (trees[0].tolist(), *rounded)]
    parts = ",\n".join(f'"{name}": [\n{text}\n]' for name, text in zip(_File.__struct_fields__[1:], lines, strict=True))
    path.write_text(f'{{"names": {msgspec.json.encode(names).decode()},\n{parts}}}\n', "utf-8")


def _parts(found: _File) -> tuple[Any, ...]:
    return found.features, found.thresholds, found.values


@njit(nogil=True, cache=True)
def sum_of(trees, x):
    """The log-odds of a pair with features x, float32. O(trees · depth)."""
    inner, total = trees.features.shape[1], np.float32(0)
    nodes = np.zeros(trees.features.shape[0], np.int64)
    first = 1
    while first <= inner:  # a level of all trees: their questions do not wait for each other
        for tree in range(nodes.size):
            node = nodes[tree]
            nodes[tree] = 2 * node + 1 + (x[trees.features[tree, node]] > trees.thresholds[tree, node])
        first = 2 * first + 1
    for tree in range(nodes.size):
        total += trees.values[tree, nodes[tree]]
    return total


def parts_of(trees: Trees, x: NDArray[np.float32]) -> tuple[float, NDArray[np.float64]]:
    """The expectation of all roots, and what each feature of x adds to it, (features,); their sum is `sum_of`."""
    expected, adds = 0.0, np.zeros(len(x))
    for features, thresholds, values in zip(*trees, strict=True):
        expected += float(values[0])
        node = 0
        while node < len(features):
            child = 2 * node + 1 + bool(x[features[node]] > thresholds[node])
            adds[features[node]] += float(values[child]) - float(values[node])
            node = child
    return expected, adds
