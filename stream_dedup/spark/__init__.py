"""Near-duplicates of a whole archive on Apache Spark (extra `spark`), with the decision of the single process.

In: a DataFrame of news. Its columns are the fields of an item, as in a Parquet file; or there is the one column
`value`, a JSON object in each row. Out: DataFrames of fingerprints, pairs, clusters, or the rows to keep. Settings,
scheme, candidates, rule and clusters are those of `stream-dedup pairs` (batch/pairs.py): the same modules decide, on
rows that Spark moves. `Archive` (archive.py) does the work of several results once.

    from stream_dedup.spark import deduplicate
    deduplicate(spark.read.parquet("s3a://bucket/news/")).write.parquet("s3a://bucket/unique/")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_dedup.spark.archive import Archive, deduplicate

__all__ = ["Archive", "deduplicate"]


def __dir__() -> list[str]:
    """List the public names for completion, imported or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("stream_dedup.spark.archive"), name)
