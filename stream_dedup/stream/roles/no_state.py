"""Stands in for the state store in roles that remember nothing: fingerprint and publish."""

from collections.abc import Callable, Mapping

from kafka import TopicPartition

from stream_dedup.changelog.headers import RestoreResult
from stream_dedup.dedup.batch import Batch, Delta
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.transaction import Outgoing


class NoState:
    """The methods of `StateStore` that a partition task calls, without an index and without a changelog."""

    topic = ""
    lag = (0, 0.0)

    def __init__(self, context: WorkerContext, name: str) -> None:
        self.owner = context.role.transactional_id(name)

    def __len__(self) -> int:
        return 0

    def connect(self) -> None: ...
    def check_topic(self, topic_id: str) -> None: ...
    def follow(self) -> None: ...
    def close(self) -> None: ...
    def apply(self, batch: Batch) -> None: ...
    def confirm(self, ends: Mapping[TopicPartition, int | None]) -> None: ...

    def complete(self, progress: Callable[[int, int], None]) -> RestoreResult:
        """There is nothing to restore."""
        return RestoreResult()

    def records(self, delta: Delta, *headers: tuple[str, bytes]) -> list[Outgoing]:
        """There is no changelog to write to."""
        return []

    def rollback(self) -> bool:
        """There is nothing pending."""
        return True
