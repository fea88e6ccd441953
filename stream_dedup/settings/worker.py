"""[worker]: one index for all partitions or one for each (scope), batches and time limits of the worker on Kafka."""

from datetime import timedelta
from typing import Literal

from pydantic import Field, model_validator

from stream_dedup.settings.memory import available, batch_bytes, record_bytes, sized, work_bytes
from stream_dedup.settings.values import Duration, Size, Table


class WorkerSettings(Table):
    """The worker's loop on Kafka."""

    scope: Literal["global", "partition"] = Field(
        "global",
        description="global: one index for all partitions; one member is active and the others stand by. "
        "partition: one index for each partition; the members share the partitions.",
    )
    # The records of a transaction share its cost, some 45 ms of round trips. A backlog of 40,000 articles took, in µs
    # an item: 119 with 1,000, 96 with 2,000, 101 with 3,000.
    batch_items: int = Field(
        2000, ge=1, le=20_000, description="Most records in a transaction. A slow stream makes smaller transactions."
    )
    memory: Size = Field(
        default_factory=available,
        ge=2**20,
        description="Memory of this process in bytes, such as 1536M. batch_bytes, max_record_bytes and [window] "
        "max_originals follow from it, and are refused where they do not fit into it. Unset: the container's limit, "
        "or the machine's memory. Give all members of a group the same.",
    )
    batch_bytes: Size = Field(
        default_factory=lambda data: batch_bytes(data.get("memory", 0)),
        ge=2**16,
        description="Most bytes in a transaction. Unset: a 128th of memory, from 1M to 32M.",
    )
    transaction_timeout: Duration = Field(
        timedelta(seconds=30),
        ge=timedelta(seconds=5),
        description="After this time the broker aborts the transaction of a dead member. Also the time limit of a "
        "commit.",
    )
    session_timeout: Duration = Field(
        timedelta(seconds=10),
        ge=timedelta(seconds=1),
        description="A member that is silent for this long loses its partitions, and another one takes over.",
    )
    max_record_bytes: Size = Field(
        default_factory=lambda data: record_bytes(data.get("memory", 0)),
        ge=2**16,
        description="Largest record, unpacked, and largest line or row of a file. A larger record becomes a dead "
        "letter without its value. Unset: a 256th of memory, from 1M to 32M.",
    )

    @property
    def is_global(self) -> bool:
        """Whether one member has all partitions, in one task."""
        return self.scope == "global"

    @model_validator(mode="after")
    def _records_fit_into_memory(self) -> "WorkerSettings":
        """Check what is set by hand; `most_originals` (index/footprint.py) checks that originals fit, too."""
        takes = work_bytes(self.batch_bytes, self.max_record_bytes)
        if takes > self.memory and self.model_fields_set & {"memory", "batch_bytes", "max_record_bytes"}:
            raise ValueError(
                f"batch_bytes = {sized(self.batch_bytes)} and max_record_bytes = {sized(self.max_record_bytes)} take "
                f"up to {sized(takes)}, more than memory = {sized(self.memory)}; raise memory, and the container's "
                "limit with it, or lower the others"
            )
        return self
