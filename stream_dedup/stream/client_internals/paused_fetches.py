"""Resume a paused partition without leaving it stuck.

The client parks what it has fetched of a paused partition. It takes the parked records up again only while it has no
current partition. Once it has returned records of another partition that is never the case again (3.0.12: the drained
partition stays current), and it does not fetch a partition of which it has parked records. Under load a resumed
partition then stands still forever.
"""

from typing import Any


def forget_parked(consumer: Any, place: Any) -> None:
    """Drop what this KafkaConsumer has parked of a partition. The caller seeks in it and resumes it."""
    consumer._fetcher._paused_partition_records.pop(place, None)
    consumer._fetcher._paused_completed_fetches.pop(place, None)
