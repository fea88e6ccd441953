"""All pairs of an archive on Apache Spark: `Archive` and `deduplicate`. Without PySpark it says what to install."""

from stream_dedup.errors import ConfigError
from stream_dedup.phrases import install_command

try:
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401
except ImportError:
    raise ConfigError(
        f"stream_dedup.tools.spark needs PySpark: {install_command('spark')}, or use the command without --engine spark"
    ) from None

from stream_dedup.tools.spark.archive import Archive, deduplicate

__all__ = ["Archive", "deduplicate"]
