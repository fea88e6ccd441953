"""[worker]: the consume-judge-commit loop on Kafka."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from stream_dedup.settings.values import Duration, Table


class WorkerSettings(Table):
    """The loop on Kafka."""

    scope: Literal["global", "partition"] = Field(
        "global",
        description="global: one active member on all partitions, the others stand by; "
        "partition: each partition has its own index, members share the partitions.",
    )
    # A transaction's own cost, some 45 ms of round trips, is shared by its records. Of a backlog of 40,000 articles, in
    # turns, µs an item: 119 by 1,000, 96 by 2,000, 101 by 3,000.
    batch_items: int = Field(
        2000, ge=1, le=20_000, description="Most records in one transaction; a trickle makes small ones by itself."
    )
    batch_bytes: int = Field(
        32 * 2**20, ge=2**16, description="Most bytes in flight in one transaction (the client itself has no bound)."
    )
    transaction_timeout: Duration = Field(
        timedelta(seconds=30),
        ge=timedelta(seconds=5),
        description="The broker aborts a dead member's transaction after this; also our bound for one commit.",
    )
    session_timeout: Duration = Field(
        timedelta(seconds=10),
        ge=timedelta(seconds=1),
        description="A member silent for this long loses its partitions; the take-over starts then.",
    )
    max_record_bytes: int = Field(
        32 * 2**20, ge=2**16, description="Largest record that is produced; at least the brokers' message.max.bytes."
    )
    changelog_margin: Duration = Field(
        timedelta(days=1),
        description="The changelog's retention must reach this much beyond the window and the input topic's retention.",
    )
