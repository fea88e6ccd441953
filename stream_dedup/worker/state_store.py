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
# How often at most a standby asks where the changelog ends; a request takes some milliseconds.
_ASK_SECONDS = 1.0


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
        self.dedup = context.decider(context.settings)
        self._builder = EntryBuilder()
        self._pending: deque[_PendingBatch] = deque()  # oldest first
        self._ends: Mapping[TopicPartition, int] | None = None  # of the changelog, when last asked
        self._asked_at = self._complete_until = self._monotonic()  # all that was there then is read
        self.reader = ChangelogReader(
            context, name, self.places, self.owner, self.dedup, self._builder, lambda: self.topic_id
        )

    def __len__(self) -> int:
        """Originals in the index."""
        return len(self.dedup)

    @property
    def behind_seconds(self) -> float:
        """How long ago the changelog ended where the store has read to, as far as it knows."""
        return self._monotonic() - self._complete_until

    @property
    def all_read(self) -> RestoreResult | None:
        """What the changelog holds, if the store has read all that it held when last asked."""
        return self.reader.restored if self._reaches_ends and self.reader.has_no_gap else None

    @property
    def _reaches_ends(self) -> bool:
        return self._ends is not None and not self.reader.remaining(self._ends)

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
        # Under load the changelog has always grown since the last read, so what counts is the end of a moment before.
        is_due = self._reaches_ends and self._monotonic() - self._asked_at > _ASK_SECONDS
        if self._ends is None or is_due:
            self._asked_at, self._ends = self._monotonic(), self.reader.committed_ends()
        if self._reaches_ends:
            self._complete_until = self._asked_at

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
