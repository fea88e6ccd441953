"""Connected components of the pairs of an archive: each clustered row, and the first row of its cluster.

In: verified rows. Out: *labels*, a DataFrame (row, root) of all rows but the roots themselves. Each chunk's pairs are
first reduced to a forest, so a family of a thousand copies is a thousand edges and not half a million pairs. Up to
`DRIVER_EDGES` edges are united on the driver (batch/clusters.py); more are joined by DataFrames. Both name a cluster by
its first row, so they give the same labels.

Source of the second way: Kiveris, Lattanzi, Mirrokni, Rastogi, Vassilvitskii, "Connected components in MapReduce and
beyond", SoCC 2014: large-star connects a row's later neighbours to its first one, small-star its earlier ones and
itself. The two in turn end with stars around the first rows.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stream_dedup.batch.clusters import cluster_of, unite
from stream_dedup.batch.parquet import pyarrow
from stream_dedup.spark.blocks import block_rows, record_batch, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DRIVER_EDGES = 2**22
"""Edges that the driver unites by itself: some 400 MB of its memory. tests/results/spark.json compares both ways."""
LABEL_TYPES = {"row": "int64", "root": "int64"}


def roots_of(later: NDArray[np.int64], earlier: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of pairs that are not the first of their cluster, and the first ones.

    >>> [rows.tolist() for rows in roots_of(np.array([9, 7]), np.array([7, 3]))]
    [[7, 9], [3, 3]]
    """
    rows, positions = np.unique(np.concatenate([later, earlier]), return_inverse=True)
    roots = np.arange(len(rows))
    unite(roots, positions[: len(later)], positions[len(later) :])
    first = rows[cluster_of(roots)]
    return rows[first != rows], first[first != rows]


def reduce_pairs(record_batches: Iterable[Any]) -> Iterator[Any]:
    """A forest with the components of each verified row's pairs (`LABEL_TYPES`)."""
    for row in block_rows(record_batches):
        rows, roots = roots_of(row.array("later", np.int64), row.array("earlier", np.int64))
        yield record_batch({"row": rows, "root": roots}, LABEL_TYPES)


def label(verified: "DataFrame", driver_edges: int = DRIVER_EDGES) -> "DataFrame":
    """The labels of verified rows."""
    edges = verified.mapInArrow(reduce_pairs, schema_of(LABEL_TYPES)).localCheckpoint()
    return label_on_driver(edges) if edges.count() <= driver_edges else label_by_stars(edges)


def label_on_driver(edges: "DataFrame") -> "DataFrame":
    """The labels of edges (row, root), united in the memory of the driver: some 100 bytes an edge."""
    arrow, _ = pyarrow()
    table = edges.toArrow()
    rows, roots = roots_of(table["row"].to_numpy(), table["root"].to_numpy())
    return edges.sparkSession.createDataFrame(arrow.table({"row": rows, "root": roots}))


def label_by_stars(edges: "DataFrame") -> "DataFrame":
    """The labels of edges (row, root) in DataFrames, for any number of them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    around = Window.partitionBy("row")
    before = None
    while True:
        # Large-star: each row gives its later neighbours its first neighbour.
        both = edges.union(edges.select(f.col("root").alias("row"), f.col("row").alias("root")))
        first = f.least(f.col("row"), f.min("root").over(around))
        large = (
            both.withColumn("first", first).where("root > row").selectExpr("root AS row", "first AS root").distinct()
        )
        # Small-star: each row gives its earlier neighbours and itself its first neighbour.
        stars = large.withColumn("first", f.min("root").over(around))
        edges = (
            stars.where("root > first").selectExpr("root AS row", "first AS root")
            .union(stars.select("row", f.col("first").alias("root")))
            .distinct()
            .localCheckpoint()
        )  # fmt: skip
        now = edges.agg(f.count("*"), f.sum(f.xxhash64("row", "root").cast("decimal(38,0)"))).first()
        if now == before:
            return edges
        before = now
