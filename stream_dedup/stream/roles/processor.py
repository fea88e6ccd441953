"""What a partition task asks of its role: make outgoing records, and the change of the index, of a batch of records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.stream.transaction import Outgoing


@dataclass(frozen=True, slots=True)
class Processed:
    """A batch that a role has processed; nothing is committed yet.

    outgoing: the records to write; batch: the change of the index, None for a role without one; inputs: the records
    that `Outgoing.source` counts: Kafka may refuse what was made of one of them; items and verdicts: for
    reports, in the same order, each empty if the role does not have them.
    """

    outgoing: list[Outgoing]
    batch: Batch | None
    inputs: Sequence[Any]
    items: Sequence[Item | Tombstone | BadItem] = ()
    verdicts: Sequence[Verdict] = ()
    odd_times: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, int] = field(default_factory=dict)


class Processor(Protocol):
    """The work of a role on the records of one partition task.

    `begins` and `ends`: for each partition of the task, the offsets between which everything belongs to this
    transaction: records, control records and aborted ones.
    """

    @property
    def topics(self) -> Sequence[str]:
        """The topics whose partition counts decide where a record goes."""

    def process(
        self, records: Sequence[Any], next_records: Sequence[Any], begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> Processed:
        """Process records in order; begin in the background with those of the next call."""

    def pass_over(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> Processed:
        """As `process`, for a transaction without records, which only commits positions."""

    def update_partitions(self, partitions: Mapping[str, int]) -> None:
        """Update the partition counts of `topics`."""

    def close(self) -> None:
        """Release threads and clients."""
