"""Role `fingerprint`: fingerprint the records of one input partition, and write blocks of fingerprints.

In: records of input partition p. Out: blocks for partition p of the fingerprints topic (split/fingerprints.py). A block
names the range of offsets that it covers, control records included, so that consecutive blocks leave no gap: who reads
them can tell a lost block from an offset that never had a record. What could not be written whatever its verdict is a
bad item from here on, as in role `all`.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from stream_dedup.dedup.prepared import Prepared, prepare
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.split.fingerprints import encode_fingerprints
from stream_dedup.split.frame import InputRange
from stream_dedup.stream import client
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.judge import Items, Preparer
from stream_dedup.stream.records import TOO_LARGE, Router
from stream_dedup.stream.roles.processor import Processed
from stream_dedup.stream.roles.sizes import size_headers
from stream_dedup.stream.topics import TopicMetadata
from stream_dedup.stream.transaction import Outgoing

# Some 300 articles. Larger blocks pack no better, and a reader holds a whole block in memory.
_BLOCK_BYTES = 2**19


class FingerprintProcessor:
    """Fingerprints records; `thread` works on the next batch while this one is committed."""

    def __init__(self, context: WorkerContext, metadata: TopicMetadata, thread: Bounded) -> None:
        settings = context.settings
        self._context = context
        self._scheme = Scheme(settings.fingerprint)
        self._topic, self._input = settings.topics.fingerprints, settings.topics.input
        self._input_id = metadata.ids.get(self._input, "")
        self._limit = min(metadata.limits[self._topic], settings.worker.max_record_bytes) - client.HEADER_ROOM
        self._fingerprinter = Fingerprinter(self._scheme)
        self._router = Router(settings, metadata, self._scheme.id)
        self._preparer = Preparer(context, self._router, self._prepare, thread)
        self.topics = self._router.topics

    def process(
        self, records: Sequence[Any], next_records: Sequence[Any], begins: Mapping[int, int], ends: Mapping[int, int]
    ) -> Processed:
        items, prepared = self._preparer.take(records)
        self._preparer.begin(next_records)
        if prepared is None:
            items, prepared = self._preparer.without_failures(items)
        [partition] = begins
        where = self._range(partition, begins, ends)
        offsets = [record.offset for record in records]
        blocks = encode_fingerprints(prepared, offsets, where, self._scheme, _BLOCK_BYTES)
        if any(len(block) > self._limit for _, block in blocks):
            items, prepared = self._without_giants(items)
            blocks = encode_fingerprints(prepared, offsets, where, self._scheme, _BLOCK_BYTES)
        outgoing, first = [], 0
        for covered, block in blocks:
            end = bisect_left(offsets, covered.next)
            outgoing.append(self._outgoing(partition, block, records[first:end]))
            first = end
        shapes = self._preparer.take_shapes()
        return Processed(outgoing, None, records, items, shapes=shapes)

    def pass_over(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> Processed:
        [partition] = begins
        where = self._range(partition, begins, ends)
        if where.first == where.next:
            return Processed([], None, [])
        blocks = encode_fingerprints(self._prepare([]), [], where, self._scheme, _BLOCK_BYTES)
        return Processed([self._outgoing(partition, block, ()) for _, block in blocks], None, [])

    def update_partitions(self, partitions: Mapping[str, int]) -> None:
        self._router.update_partitions(partitions)

    def close(self) -> None:
        """Nothing to release: the task owns the thread."""

    def _prepare(self, items: Items) -> Prepared:
        return prepare(items, self._fingerprinter)

    def _range(self, partition: int, begins: Mapping[int, int], ends: Mapping[int, int]) -> InputRange:
        return InputRange(self._input, self._input_id, partition, begins[partition], ends[partition])

    def _outgoing(self, partition: int, block: bytes, records: Sequence[Any]) -> Outgoing:
        return Outgoing(self._topic, partition, None, block, size_headers(records), self._context.now_ms())

    def _without_giants(self, items: Items) -> tuple[Items, Prepared]:
        """Make bad items of those whose fingerprint alone is too large for a record."""
        where = InputRange(self._input, self._input_id, 0, 0, 1)
        for i, item in enumerate(items):
            if isinstance(item, BadItem):
                continue
            [(_, block), *_] = encode_fingerprints(self._prepare([item]), [0], where, self._scheme, _BLOCK_BYTES)
            if len(block) > self._limit:
                items[i] = BadItem(
                    TOO_LARGE,
                    f"its fingerprint has {len(block)} bytes, and {self._topic} takes {self._limit}",
                    item.id[: client.MAX_ID_BYTES],
                )
        return items, self._prepare(items)
