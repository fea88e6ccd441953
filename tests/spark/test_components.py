"""Union-find on the driver and large-star/small-star in DataFrames: the same clusters for any graph."""

import random
from typing import TYPE_CHECKING

import pytest

from stream_dedup.spark.components import label_by_stars, label_on_driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The first test also starts a JVM and the executors' kernels.
pytestmark = pytest.mark.timeout(900)


def chain(length: int) -> list[tuple[int, int]]:
    """The longest paths that a component can have, in an unhelpful order."""
    edges = [(n + 1, n) for n in range(length)]
    random.Random(1).shuffle(edges)
    return edges


def scattered(rows: int, edges: int) -> list[tuple[int, int]]:
    choose = random.Random(2)
    pairs = [sorted(choose.sample(range(rows), 2)) for _ in range(edges)]
    return [(later, earlier) for earlier, later in pairs]


@pytest.mark.parametrize(
    "edges",
    [[], [*chain(20), *((1000 + later, 1000) for later in range(1, 50)), *scattered(900, 500)]],
    ids=["none", "mixed"],
)
def test_both_ways_give_the_same_labels(spark: "SparkSession", edges: list[tuple[int, int]]) -> None:
    frame = spark.createDataFrame(edges, "row bigint, root bigint")
    on_driver = sorted(map(tuple, label_on_driver(frame).collect()))
    assert sorted(map(tuple, label_by_stars(frame).collect())) == on_driver
    assert on_driver == expected(edges)


def expected(edges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The labels by a search through the graph, an independent way."""
    near: dict[int, set[int]] = {}
    for one, other in edges:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    labels = []
    seen: set[int] = set()
    for root in sorted(near):
        waiting = [] if root in seen else [root]
        while waiting:
            row = waiting.pop()
            if row not in seen:
                seen.add(row)
                waiting += near[row]
                labels += [(row, root)] if row != root else []
    return sorted(labels)
