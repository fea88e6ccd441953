"""The state of a task: an index, and a reader that restores it from the task's changelog partitions.

The active member fences the former owner, then reads the whole changelog (`complete`). A standby reads entries as they
arrive (`follow`), so that a take-over has only the last ones left to read. A standby reads committed entries only, so
its index is never wrong, only late. It writes nothing and owns nothing.

A state store outlives every failure of its task. While the task is open the store reads nothing; the task's own batches
are applied, and stay pending until they are confirmed. A confirmation also says where the batch's entries end. After a
failure the pending batches are rolled back with their sequence numbers, whatever became of their transactions. The
reader resumes behind the last confirmed entries: if a transaction was committed after all, its entries are there.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from stream_dedup.changelog.block import encode
from stream_dedup.changelog.entries import BuilderSnapshot, EntryBuilder
from stream_dedup.changelog.headers import RestoreResult, blocks_header
from stream_dedup.dedup.batch import Batch, Delta
from stream_dedup.errors import Outdated
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.record_batch import Outgoing
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.restore import ChangelogReader, index_partitions

# `follow` lengthens an iteration of the worker's loop, which keeps up the group membership, by at most this (seconds).
_SLICE = 0.2
# Originals that a standby leaves unsorted, for the first batch after a take-over to sort: 0.6 µs each on an idle core,
# so a million would delay that batch by more than half a second.
_MAX_UNSORTED = 20_000
# How often a standby asks where the changelog ends, to report its lag; a request takes some milliseconds.
_LAG_SECONDS = 1.0


class _PendingBatch(NamedTuple):
    """The builder's state before the batch's entries were made, and their headers."""

    before: BuilderSnapshot
    headers: tuple[tuple[str, bytes], ...]


class StateStore:
    """The state of the task `name`, whose index has this number in the changelog.

    `topic_id`: of the changelog topic, "" while it is unknown. Entries of another topic of the same name are worthless.
    """

    def __init__(self, context: WorkerContext, name: str, number: int, topic_id: str = "") -> None:
        self.name, self.context, self.topic_id = name, context, topic_id
        self.topic = context.settings.topics.changelog
        self.places = index_partitions(self.topic, number)
        self.owner = f"{context.settings.kafka.group_id}-{name}"  # also its producer's transactional id
        self._monotonic = context.runtime.monotonic
        self.dedup = context.deduplicator(context.settings)
        self._builder = EntryBuilder()
        self._pending: deque[_PendingBatch] = deque()  # oldest first
        self._caught_up_at = self._monotonic()  # when nothing was left to read
        self._offsets_behind, self._lag_asked_at = 0, 0.0  # 0.0: not yet
        self.reader = ChangelogReader(
            context, name, self.places, self.owner, self.dedup, self._builder, lambda: self.topic_id
        )

    def __len__(self) -> int:
        """Originals in the index."""
        return len(self.dedup)

    @property
    def lag(self) -> tuple[int, float]:
        """Offsets of the changelog that were not yet read when last asked, and the seconds since none were left."""
        return self._offsets_behind, self._monotonic() - self._caught_up_at

    @property
    def all_read(self) -> RestoreResult | None:
        """What the changelog holds, if the store had read all of it when it last asked."""
        is_all = self._lag_asked_at and not self._offsets_behind and self.reader.has_no_gap
        return self.reader.restored if is_all else None

    def check_topic(self, topic_id: str) -> None:
        """Set the id of the changelog topic. Raises Outdated if entries of another topic were read."""
        if self.topic_id and topic_id and self.topic_id != topic_id:
            raise Outdated(f"{self.topic} was deleted and created anew since it was read")
        self.topic_id = topic_id or self.topic_id

    def follow(self) -> None:
        """Read new entries for at most a fifth of a second; once there are no more, sort the index if much is unsorted.

        Raises StreamError or ChangelogError. After Outdated the store is useless; after other errors it can go on.
        """
        deadline = self._monotonic() + _SLICE
        while self._monotonic() < deadline:
            if not self.reader.advance():  # to wait for new ones is the job of the group's poll
                if self.dedup.index.unsorted_rows > _MAX_UNSORTED:
                    self.dedup.catch_up()
                break
        if self._monotonic() - self._lag_asked_at > _LAG_SECONDS:
            self._offsets_behind, self._lag_asked_at = self.reader.lag(), self._monotonic()
            if not self._offsets_behind:
                self._caught_up_at = self._lag_asked_at

    def complete(self, progress: Callable[[int, int], None]) -> RestoreResult:
        """Read everything that was written before the call; the former writer must be fenced.

        Calls `progress(done, total)` with numbers of offsets; it may raise. Raises what `follow` raises.
        """
        self.reader.read_to_end(progress)
        self.reader.release()
        return self.reader.restored

    def take_records(self, delta: Delta, *headers: tuple[str, bytes]) -> list[Outgoing]:
        """Return the changelog records of a delta, each with these headers.

        They use up sequence numbers, so the caller must apply the batch, then confirm it or roll it back.
        """
        self._pending.append(_PendingBatch(self._builder.state, headers))
        # The record's time is the time of writing, never the items': retention depends on it.
        now, owner, scheme = self.context.now_ms(), self.owner.encode(), self.dedup.scheme_id
        records = []
        for entry in self._builder.build(delta):
            partition = (self.places.merged if entry.is_merged else self.places.blocks).partition
            all_headers = [*headers, entry.span.header()]
            if entry.is_merged:
                all_headers.append(blocks_header(self.reader.blocks_start, self.topic_id))
            records.append(Outgoing(self.topic, partition, owner, encode(entry.delta, scheme), all_headers, now))
        return records

    # -- the task's own batches ----------------------------------------------------------------------------

    def apply(self, batch: Batch) -> None:
        """Apply a batch that is about to be committed; it is pending until `confirm`."""
        self.dedup.apply(batch, pending=True)

    def confirm(self, ends: Mapping[TopicPartition, int]) -> None:
        """Make the oldest pending batch final: it was committed.

        `ends`: where its records end, for each changelog partition that has some, as far as it is known.
        """
        self.dedup.confirm()
        oldest = self._pending.popleft()
        number = self._pending[0].before.next if self._pending else self._builder.next
        self.reader.mark_read(ends, number, oldest.headers)

    def rollback(self) -> None:
        """Roll all pending batches back."""
        self.dedup.rollback()
        if self._pending:
            self._builder.state = self._pending[0].before
            self._pending.clear()

    def close(self) -> None:
        """Close the reader and the index."""
        self.reader.release()
        self.dedup.close()
