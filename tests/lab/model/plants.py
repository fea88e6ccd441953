"""Bugs to plant in the worker: five that each break the commit protocol in one place, one that ends the worker, and one
of a rule for sources.

Each is a context manager; within it the worker has the bug. The model must find them all, or it proves nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from kafka.structs import ConsumerGroupMetadata
from msgspec import structs

from stream_dedup.dedup.batch import Batch
from stream_dedup.kafka import client, errors
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.settings import Settings
from stream_dedup.worker import opening, resume
from stream_dedup.worker.group import Group
from tests.lab.model import world
from tests.lab.model.world import Index


@contextmanager
def commit_before_flush() -> Iterator[None]:
    """The transaction is committed before every record is known to be acknowledged (P1)."""

    class Hasty(TaskProducer):
        def flush(self) -> None:
            super().commit()
            super().flush()

        def commit(self) -> None: ...

    with patch.object(opening, "TaskProducer", Hasty):
        yield


class _WithoutRollback(Index):
    """Pending batches survive a failure: nothing is rolled back, and the next index of the process has the last one."""

    def __init__(self, settings: Settings, before: Index | None = None) -> None:
        super().__init__(settings)
        self.last: Batch | None = None
        if isinstance(before, _WithoutRollback) and before.last is not None:
            self.restore(before.last.delta)

    def apply(self, batch: Batch, *more: Any, **options: Any) -> None:
        self.last = batch
        super().apply(batch, *more, **options)

    def rollback(self) -> None:
        """Do nothing."""


class _AppliesLate(Index):
    """Each batch is applied one batch too late, so the next one is judged without it."""

    _waiting: tuple[Any, Any] | None = None

    def __init__(self, settings: Settings, before: Index | None = None) -> None:
        super().__init__(settings)

    def apply(self, batch: Batch, *more: Any, **options: Any) -> None:
        waiting, self._waiting = self._waiting, (batch, (more, options))
        if waiting is not None:
            earlier, (arguments, keywords) = waiting
            super().apply(earlier, *arguments, **keywords)

    def confirm(self) -> None:
        if self._pending:  # the confirmed batch may not be applied yet
            super().confirm()


def _indexes(kind: type[Index]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(world.World, "index", kind)


@contextmanager
def stale_offsets() -> Iterator[None]:
    """Offsets from before the fence are used: they are read once, and not again when a task opens; nor are the
    changelog's, which would take their place.
    """
    read = Group.committed
    cache: dict[Any, Any] = {}

    def committed(self: Group, partitions: Any) -> Any:
        key = id(self), frozenset(partitions) if not isinstance(partitions, int) else partitions
        if key not in cache:
            cache[key] = self, read(self, partitions)  # keeps the group alive, so that no other has its id
        return cache[key][1]

    with patch.object(Group, "committed", committed), patch.object(resume, "_belongs", lambda *_: False):
        yield


@contextmanager
def no_fencing() -> Iterator[None]:
    """Each producer has its own transactional id and commits under no generation: no member is ever fenced."""
    configured, send_offsets = client.producer, TaskProducer.send_offsets
    count = 0

    def producer(settings: Settings, transactional_id: str) -> dict[str, Any]:
        nonlocal count
        count += 1
        return configured(settings, f"{transactional_id}-{count}")

    def anonymous(self: TaskProducer, offsets: Mapping[Any, int], membership: Any) -> None:
        send_offsets(self, offsets, ConsumerGroupMetadata(membership.group_id))

    with patch.object(client, "producer", producer), patch.object(TaskProducer, "send_offsets", anonymous):
        yield


@contextmanager
def young_partition_ends_worker() -> Iterator[None]:
    """The KeyError of the library about a partition that a broker does not know yet is not taken for a retry."""

    with patch.object(errors, "unknown_partition", lambda error, doing: error):
        yield


class _PrefersAgain(Index):
    """Each item is judged as if no preferred copy had come, so another one goes out."""

    def __init__(self, settings: Settings, before: Index | None = None) -> None:
        super().__init__(settings, before)
        self._preferred = self._preferred[:0]

    def prepare(self, items: Any) -> Any:
        return super().prepare([self._elsewhere(item) for item in items])

    @staticmethod
    def _elsewhere(item: Any) -> Any:
        """The item, from another host of its site: no copy of it has come from there."""
        return (
            structs.replace(item, source=f"{item.id}.1.example") if getattr(item, "source", "") == "1.example" else item
        )


# Name -> the bug, the themes in which it shows, and the guarantee that it breaks.
PLANTS: Mapping[str, tuple[Callable[[], AbstractContextManager[Any]], tuple[str, ...], str]] = {
    "commit before flush": (commit_before_flush, ("broker errors", "crashes"), "lost"),
    "apply kept after an abort": (_indexes(_WithoutRollback), ("broker errors", "zombies"), "original"),
    "stale offsets": (stale_offsets, ("crashes", "zombies"), "twice"),
    "no fencing": (no_fencing, ("zombies",), "twice"),
    "preferred again": (_indexes(_PrefersAgain), ("calm", "crashes"), "verdict"),
    "overlay missing": (_indexes(_AppliesLate), ("crashes",), "verdict"),
    "young partition ends the worker": (young_partition_ends_worker, ("partitions added",), "ended"),
}
