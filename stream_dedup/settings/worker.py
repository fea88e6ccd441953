"""[worker]: one index for all partitions or one for each (scope), batches and time limits of the worker on Kafka."""

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from stream_dedup.settings.secrets import SecretTable
from stream_dedup.settings.values import Duration

# 128 bits in hexadecimal digits.
_SHORTEST_KEY = 32


class WorkerSettings(SecretTable):
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
    batch_bytes: int = Field(
        32 * 2**20, ge=2**16, description="Most bytes in a transaction (the client itself has no limit)."
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
    max_record_bytes: int = Field(
        32 * 2**20,
        ge=2**16,
        description="Largest record that the worker produces. At least the brokers' message.max.bytes.",
    )
    changelog_margin: Duration = Field(
        timedelta(days=1),
        description="The changelog's retention must exceed the window and the input topic's retention by this much.",
    )
    changelog_key: SecretStr | None = Field(
        None,
        description="Key that authenticates the changelog: each block gets a keyed hash, and blocks without a right "
        "one are refused. The same for all members. Of several lines, the first key signs and all verify.",
    )
    changelog_key_file: Path | None = Field(None, description="File with the key. Read at the start.")
    changelog_accept_unauthenticated: bool = Field(
        False,
        description="Also accept blocks without a keyed hash, until those from before the key have expired. Blocks "
        "with a wrong hash are refused anyway.",
    )

    @property
    def changelog_keys(self) -> list[str]:
        """The keys, the one that signs first; empty: the changelog is not authenticated."""
        return [line.strip() for line in (self.secret("changelog_key") or "").splitlines() if line.strip()]

    @model_validator(mode="after")
    def _keys_are_usable(self) -> "WorkerSettings":
        if any(len(key) < _SHORTEST_KEY for key in self.changelog_keys):
            raise ValueError(
                f"changelog_key has fewer than {_SHORTEST_KEY} characters; make one with: openssl rand -hex 32"
            )
        if self.changelog_accept_unauthenticated and not self.has_secret("changelog_key"):
            raise ValueError(
                "changelog_accept_unauthenticated would not be used: without changelog_key every block is accepted"
            )
        return self
