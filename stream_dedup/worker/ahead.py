"""Work on the records of the next batch in a thread, while this batch is judged and committed."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

from stream_dedup.kafka.bounded import Bounded

T = TypeVar("T")


class Ahead(Generic[T]):
    """Calls `work` for a batch of records, in `thread` for the next one. `what` names the work in messages."""

    def __init__(self, thread: Bounded, what: str, work: Callable[[Sequence[Any]], T]) -> None:
        self._thread, self._what, self._work = thread, what, work
        self._begun: tuple[Sequence[Any], Future[T]] | None = None

    def begin(self, next_records: Sequence[Any]) -> None:
        """Begin with the records of the next `take`, if there are any."""
        if next_records:
            self._begun = next_records, self._thread.start(self._what, lambda: self._work(next_records))

    def take(self, records: Sequence[Any]) -> T:
        """The result for these records; computed now unless they are those of `begin`."""
        begun, self._begun = self._begun, None
        if begun is not None:
            wait([begun[1]])  # even if it is of no use: no two threads may do the work at the same time
            if begun[0] is records:
                return begun[1].result()
        return self._work(records)
