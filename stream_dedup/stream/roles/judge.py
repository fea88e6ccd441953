"""Role `judge`: decide about the items of fingerprint blocks, and write blocks of verdicts.

In: fingerprint blocks of all partitions, in the order in which they are polled. Out: for each block of partition p one
block of verdicts in partition p of the verdicts topic, and the changes of the index. The decision is that of role
`all`: `Deduplicator.judge` on what `prepare` has made, in another process.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from stream_dedup.split.fingerprints import FingerprintBlock, decode_fingerprints, join_prepared
from stream_dedup.split.verdicts import encode_verdicts
from stream_dedup.stream.ahead import Ahead
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.odd_times import log_odd_times, odd_times
from stream_dedup.stream.roles.blocks import decoded
from stream_dedup.stream.roles.gaps import GapWatch
from stream_dedup.stream.roles.processor import Processed
from stream_dedup.stream.state_store import StateStore
from stream_dedup.stream.transaction import Outgoing


class JudgeProcessor:
    """Judges with the index of `store`; `thread` unpacks the next blocks meanwhile."""

    topics: Sequence[str] = ()

    def __init__(self, context: WorkerContext, task: str, store: StateStore, thread: Bounded) -> None:
        self._context, self._task, self._store = context, task, store
        self._topic = context.settings.topics.verdicts
        self._ahead = Ahead(thread, "unpacking", self._decoded)
        self._gaps = GapWatch(context)

    def process(
        self, records: Sequence[Any], next_records: Sequence[Any], begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> Processed:
        blocks = self._ahead.take(records)
        self._ahead.begin(next_records)
        for block in blocks:
            self._gaps.check(block.where)
        prepared = join_prepared([block.prepared for block in blocks])
        dedup = self._store.dedup
        batch = dedup.judge(prepared, self._context.latest_event_time())
        outgoing, first, now = [], 0, self._context.now_ms()
        for i, (record, block) in enumerate(zip(records, blocks, strict=True)):
            end = first + len(block.offsets)
            value = encode_verdicts(batch.verdicts[first:end], block.offsets, block.where, dedup.scheme_id)
            outgoing.append(Outgoing(self._topic, record.partition, None, value, record.headers, now, i))
            first = end
        items = list(prepared.items)
        odd = odd_times(items, batch)
        log_odd_times(self._task, items, batch, odd, dedup, self._context.logged)
        return Processed(outgoing, batch, records, items, batch.verdicts, odd)

    def pass_over(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> Processed:
        return Processed([], self._store.dedup.judge([]), [])

    def update_partitions(self, partitions: Mapping[str, int]) -> None:
        """Blocks stay in their partition."""

    def close(self) -> None:
        """Nothing to release: the task owns the thread and the store."""

    def _decoded(self, records: Sequence[Any]) -> list[FingerprintBlock]:
        return [
            decoded(record, lambda value: decode_fingerprints(value, self._store.dedup.scheme)) for record in records
        ]
