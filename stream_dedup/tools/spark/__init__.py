"""All pairs of an archive on Apache Spark: `Archive` and `deduplicate`. Without PySpark it says what to install."""

from stream_dedup.extras import require

for _name in ("pyarrow", "pyspark"):
    require(_name, "stream_dedup.tools.spark", "use the command without --engine spark")

from stream_dedup.tools.spark.archive import Archive, deduplicate  # noqa: E402 - it imports both

__all__ = ["Archive", "deduplicate"]
