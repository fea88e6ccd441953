"""Five bugs to be planted in the worker, each of which breaks the commit protocol in one place.

In: nothing. Out: context managers; within one the worker has the bug. A model that does not find them proves nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from kafka.structs import ConsumerGroupMetadata

from stream_dedup.dedup.batch import Batch
from stream_dedup.settings import Settings
from stream_dedup.stream import client, task
from stream_dedup.stream.group import Group
from stream_dedup.stream.producer import TaskProducer
from stream_dedup.stream.transaction import CommitStep, Producer
from tests.model import world
from tests.model.world import Index


@contextmanager
def commit_before_flush() -> Iterator[None]:
    """The transaction is committed before every record is known to be acknowledged (P1)."""

    def commit(producer: Producer, records: Any, changelog: Any, announce: Callable[[CommitStep], None]) -> None:
        announce(CommitStep.SEND)
        producer.send(records)
        announce(CommitStep.CHANGELOG)
        producer.send(changelog)
        announce(CommitStep.COMMIT)
        producer.commit()
        announce(CommitStep.FLUSH)
        producer.flush()

    with patch.object(task, "commit", commit):
        yield


class _Keeping(Index):
    """What was pending when a task failed stays: nothing is taken back, and the process's next index has it too."""

    def __init__(self, settings: Settings, before: Index | None = None) -> None:
        super().__init__(settings)
        self.last: Batch | None = None
        if isinstance(before, _Keeping) and before.last is not None:
            self.restore(before.last.delta)

    def apply(self, batch: Batch, *more: Any, **options: Any) -> None:
        self.last = batch
        super().apply(batch, *more, **options)

    def rollback(self) -> None:
        """Takes nothing back."""


class _Late(Index):
    """Takes in each batch one batch later: the one between is judged without it."""

    _waiting: tuple[Any, Any] | None = None

    def __init__(self, settings: Settings, before: Index | None = None) -> None:
        super().__init__(settings)

    def apply(self, batch: Batch, *more: Any, **options: Any) -> None:
        waiting, self._waiting = self._waiting, (batch, (more, options))
        if waiting is not None:
            before, (others, told) = waiting
            super().apply(before, *others, **told)

    def confirm(self) -> None:
        if self._pending:  # the batch that is confirmed may not be applied yet
            super().confirm()


def _indexes(kind: type[Index]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(world.World, "index", kind)


@contextmanager
def stale_offsets() -> Iterator[None]:
    """What the offsets were before the fence counts: they are asked for once, and not again when a task opens."""
    asked = Group.committed
    known: dict[Any, Any] = {}

    def committed(self: Group, what: Any) -> Any:
        key = id(self), frozenset(what) if not isinstance(what, int) else what
        if key not in known:
            known[key] = self, asked(self, what)  # the group is kept, or another one could have its id
        return known[key][1]

    with patch.object(Group, "committed", committed):
        yield


@contextmanager
def no_fencing() -> Iterator[None]:
    """Each producer has a transactional id of its own, and vouches for no generation: nobody is ever fenced."""
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


PLANTS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "commit before flush": commit_before_flush,
    "apply kept after an abort": _indexes(_Keeping),
    "stale offsets": stale_offsets,
    "no fencing": no_fencing,
    "overlay missing": _indexes(_Late),
}
