"""Role `all`: judge the records of the input, and republish them."""

from collections.abc import Mapping, Sequence
from typing import Any

from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.judge import Judge
from stream_dedup.stream.odd_times import log_odd_times, odd_times
from stream_dedup.stream.records import Router
from stream_dedup.stream.roles.processor import Processed
from stream_dedup.stream.state_store import StateStore
from stream_dedup.stream.topics import TopicMetadata


class SingleProcessor:
    """Judges with the index of `store`; `thread` fingerprints the next batch meanwhile."""

    def __init__(
        self, context: WorkerContext, task: str, metadata: TopicMetadata, store: StateStore, thread: Bounded
    ) -> None:
        self._context, self._task, self._store = context, task, store
        self._router = Router(context.settings, metadata, store.dedup.scheme_id)
        self._judge = Judge(context, self._router, store.dedup, thread)
        self.topics = self._router.topics

    def process(
        self, records: Sequence[Any], next_records: Sequence[Any], begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> Processed:
        items, batch = self._judge(records, next_records)
        refusals = self._context.poison.refusals
        outgoing = [
            route
            for i, (record, verdict) in enumerate(zip(records, batch.verdicts, strict=True))
            for route in self._router.routes(record, verdict, i, refusals.get((record.partition, record.offset), 0) < 2)
        ]
        odd = odd_times(items, batch)
        log_odd_times(self._task, items, batch, odd, self._store.dedup, self._context.logged)
        return Processed(outgoing, batch, records, items, batch.verdicts, odd, self._judge.take_shapes())

    def pass_over(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> Processed:
        return Processed([], self._store.dedup.judge([]), [])

    def update_partitions(self, partitions: Mapping[str, int]) -> None:
        self._router.update_partitions(partitions)

    def close(self) -> None:
        """Nothing to release: the task owns the thread and the store."""
