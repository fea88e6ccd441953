"""Role `publish`: join the records of one input partition with their verdicts, and republish them.

In: verdict blocks of partition p, and the records of input partition p that they name. Out: what role `all` writes, by
the same `Router`. Both sides come in the order of offsets, so this is a merge join. A block is complete: it names each
record of its range. A record of the range without a verdict is therefore an error, never a guess. A verdict without a
record is possible if the input is compacted, and then a newer record of the key follows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import StreamError, TopicError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.split.verdicts import VerdictBlock, decode_verdicts
from stream_dedup.stream.ahead import Ahead
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.judge import REFUSED_DETAIL
from stream_dedup.stream.records import REFUSED, Router
from stream_dedup.stream.roles.blocks import decoded
from stream_dedup.stream.roles.gaps import GapWatch
from stream_dedup.stream.roles.input_reader import InputReader
from stream_dedup.stream.roles.processor import Processed
from stream_dedup.stream.topics import TopicMetadata
from stream_dedup.stream.transaction import Outgoing


class _Joined(NamedTuple):
    """Records of the input, and the verdict about each."""

    records: list[Any]
    verdicts: list[Verdict]
    blocks: list[VerdictBlock]


class PublishProcessor:
    """Publishes one partition; `thread` joins the next blocks meanwhile."""

    def __init__(self, context: WorkerContext, partition: int, metadata: TopicMetadata, thread: Bounded) -> None:
        self._context = context
        self._scheme_id = Scheme(context.settings.fingerprint).id
        self._router = Router(context.settings, metadata, self._scheme_id)
        self._input = context.settings.topics.input
        self._input_id = metadata.ids.get(self._input, "")
        self._is_compacted = self._input in metadata.compacted
        self._reader = InputReader(context, partition)
        self._ahead = Ahead(thread, "joining", self._join)
        self._gaps = GapWatch(context)
        self.topics = self._router.topics

    def process(
        self, records: Sequence[Any], next_records: Sequence[Any], begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> Processed:
        joined = self._ahead.take(records)
        self._ahead.begin(next_records)
        for block in joined.blocks:
            self._gaps.check(block.where)
        refusals = self._context.poison.refusals
        outgoing: list[Outgoing] = []
        for i, (record, verdict) in enumerate(zip(joined.records, joined.verdicts, strict=True)):
            refused = refusals.get((record.partition, record.offset), 0)
            if refused:
                verdict = Verdict(verdict.id, Kind.BAD, Stage.NONE, False, reason=f"{REFUSED}: {REFUSED_DETAIL}")
            outgoing += self._router.routes(record, verdict, i, refused < 2)
        return Processed(outgoing, None, joined.records, (), joined.verdicts)

    def pass_over(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> Processed:
        return Processed([], None, [])

    def update_partitions(self, partitions: Mapping[str, int]) -> None:
        self._router.update_partitions(partitions)

    def close(self) -> None:
        self._reader.close()

    def _join(self, records: Sequence[Any]) -> _Joined:
        joined = _Joined([], [], [])
        for record in records:
            block = decoded(record, lambda value: decode_verdicts(value, self._scheme_id))
            self._join_block(record, block, joined)
        return joined

    def _join_block(self, place: Any, block: VerdictBlock, joined: _Joined) -> None:
        where, offsets = block.where, block.offsets.tolist()
        if where.topic_id and self._input_id and where.topic_id != self._input_id:
            raise TopicError(
                f"{place.topic}-{place.partition} has verdicts at offset {place.offset} about a former topic "
                f"{where.topic}: it was deleted and created anew. Delete {self._context.settings.topics.fingerprints} "
                f"and {place.topic} too, and create them with: stream-dedup topics create --split --config FILE"
            )
        verdicts = dict(zip(offsets, block.verdicts, strict=True))
        joined.blocks.append(block)
        for record in self._reader.read(where.first, where.next) if offsets else ():
            verdict = verdicts.pop(record.offset, None)
            if verdict is None:
                raise StreamError(
                    f"offset {record.offset} of {where.topic}-{where.partition} has no verdict, although "
                    f"{place.topic}-{place.partition} has one for each record from {where.first} to {where.next - 1}, "
                    f"at offset {place.offset}. Do all workers use the same [item] settings and the same brokers?"
                )
            joined.records.append(record)
            joined.verdicts.append(verdict)
        if verdicts and not self._is_compacted:
            raise StreamError(
                f"{place.topic}-{place.partition} has verdicts at offset {place.offset} about offsets that "
                f"{where.topic}-{where.partition} does not have: {sorted(verdicts)[:5]}. They were deleted before "
                "they were published, or are records of an aborted transaction"
            )
