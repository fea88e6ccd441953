"""Boosted regression trees as a table: their sum for a pair, and what each feature adds to it.

A tree compares one feature with a threshold, `TREE_DEPTH` times in a row, and ends at a leaf; the log-odds are the sum
of the leaves. A full binary tree needs no pointers: the children of node k are 2k+1 and 2k+2 (Williams 1964). The table
is a file of numbers, read once; nothing in it is code.

What a feature adds is exact: at each node the expectation moves from that of the node to that of the child, and the
feature of the node gets the difference (Saabas 2014). The differences and the expectation of all roots sum to the
log-odds.

Source: Friedman, "Greedy function approximation: a gradient boosting machine", 2001.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dedup.core import INT64, POINTER, Struct, fields

TREE_DEPTH = 4
"""Comparisons of a tree. With three, the same number of trees repeats .02 more at the same missed."""

_TREES_AT_ONCE = 6  # trees that the core walks together


class Trees(NamedTuple):
    """T trees.

    features: (T, 15) uint8, the feature of each node.
    thresholds: (T, 15) float32; a greater value goes to the right.
    values: (T, 31) float32, the expected log-odds at each node, the leaves last.
    """

    features: NDArray[np.uint8]
    thresholds: NDArray[np.float32]
    values: NDArray[np.float32]


def read_trees(path: Path, names: list[str]) -> Trees:
    """Read a table that `tests/lab/labels/fit.py` wrote. Raises ValueError if its features are not `names`."""
    table = msgspec.json.decode(path.read_bytes())
    if table["names"] != names:
        raise ValueError(f"{path.name} was fitted to the features {table['names']}, not {names}: fit it again")
    kinds = np.uint8, np.float32, np.float32
    return Trees(*(np.array(table[name], kind) for name, kind in zip(Trees._fields, kinds, strict=True)))


def write_trees(path: Path, trees: Trees, names: list[str]) -> None:
    """Write a table, one tree per line, with four digits after the point."""
    rounded = [np.round(part.astype(float), 4).tolist() for part in trees[1:]]
    lines = [",\n".join(msgspec.json.encode(row).decode() for row in part) for part in (trees[0].tolist(), *rounded)]
    parts = ",\n".join(f'"{name}": [\n{text}\n]' for name, text in zip(Trees._fields, lines, strict=True))
    path.write_text(f'{{"names": {msgspec.json.encode(names).decode()},\n{parts}}}\n', "utf-8")


class CoreTrees(Struct, name="trees"):
    """`Trees` as the core reads them: of the values only the leaves, so that both models fit into the first cache."""

    _fields_ = (
        *fields(POINTER, "features thresholds leaves"),
        ("count", INT64),
    )


def core_trees(trees: Trees, features: int) -> CoreTrees:
    """Pass trees of this many features to the core. Raises ValueError if a tree has another feature or depth."""
    nodes = (len(trees.values), 2**TREE_DEPTH - 1)
    if trees.features.max(initial=0) >= features or {trees.features.shape, trees.thresholds.shape} != {nodes}:
        raise ValueError(f"trees of depth {TREE_DEPTH} for {features} features are needed: fit them again")
    added = -len(trees.values) % _TREES_AT_ONCE  # trees that add 0
    parts: tuple[NDArray[Any], ...] = trees.features, trees.thresholds, trees.values[:, 2**TREE_DEPTH - 1 :]
    features_, thresholds, leaves = (np.pad(part, ((0, added), (0, 0))) for part in parts)
    return CoreTrees(features=features_, thresholds=thresholds, leaves=leaves, count=len(trees.values) + added)


def parts_of(trees: Trees, x: NDArray[np.float32]) -> tuple[float, NDArray[np.float64]]:
    """Return the expectation of all roots, and what each feature of x adds to it, (features,): in all the log-odds."""
    expected, adds = 0.0, np.zeros(len(x))
    for features, thresholds, values in zip(*trees, strict=True):
        expected += float(values[0])
        node = 0
        while node < len(features):
            child = 2 * node + 1 + bool(x[features[node]] > thresholds[node])
            adds[features[node]] += float(values[child]) - float(values[node])
            node = child
    return expected, adds
