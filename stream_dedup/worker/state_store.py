"""The state of a partition task: an index, and a reader that restores it from the task's changelog partitions.

In: the committed entries of the changelog, and the task's own batches. Out: a `Deduplicator` that remembers
their originals. The active member fences the former owner, then reads the whole changelog (`complete`). A standby reads
entries as they arrive (`follow`), so that only the last ones are left to read at a take-over. A standby reads committed
entries only, so its index is never wrong, only late. It writes nothing and owns nothing.

A state store outlives its task and every failure. While the task is open the store reads nothing: the task's own
batches are applied, pending until they are confirmed; a confirmation also says where the batch's entries end. After a
failure the pending batches are rolled back, whatever became of their transactions, and so are their sequence numbers.
The reader resumes behind the last confirmed entries: if a transaction was committed after all, its entries are there.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from stream_dedup.changelog.block import encode
from stream_dedup.changelog.entries import BuilderSnapshot, EntryBuilder
from stream_dedup.changelog.reader import ChangelogReader
from stream_dedup.changelog.records import CURE, RestoreResult, blocks_header, index_partitions
from stream_dedup.dedup.batch import Batch, Delta
from stream_dedup.errors import CorruptBlock, Outdated, StreamError
from stream_dedup.kafka import client
from stream_dedup.kafka.bounded import Bounded
from stream_dedup.kafka.client import KafkaAdminClient, TopicPartition
from stream_dedup.kafka.errors import CorruptRecordError, LogTruncationError, OffsetOutOfRangeError
from stream_dedup.kafka.record_batch import MOST_BYTES, Outgoing
from stream_dedup.kafka.topics import log_end_offsets
from stream_dedup.worker.context import WorkerContext

log = logging.getLogger(__name__)

# `follow` lengthens an iteration of the worker's loop, which keeps up the group membership, by at most this (seconds).
_SLICE = 0.2
# Entries that are there arrive at once; to wait for new ones is the job of the group's poll.
_POLL_MS = 20
# Originals that a standby leaves unsorted, for the first batch after a take-over to sort: 0.6 µs each on an idle core,
# so a million would delay that batch by more than half a second.
_MAX_UNSORTED = 20_000
_KEY_BYTES = 100  # of another program's record, in the log
# How often a standby asks where the changelog ends, to report its lag; a request takes some milliseconds.
_LAG_SECONDS = 1.0


class _PendingBatch(NamedTuple):
    """The builder's state before the batch's entries were made, and their headers."""

    before: BuilderSnapshot
    headers: tuple[tuple[str, bytes], ...]


class StateStore:
    """The state of the task `name`, whose index has the number `index` in the changelog.

    `topic_id`: of the changelog topic, "" while it is unknown. Entries of another topic of the same name are worthless.
    """

    def __init__(self, context: WorkerContext, name: str, index: int, topic_id: str = "") -> None:
        self.topic_id = topic_id
        self.topic = context.settings.topics.changelog
        self.places = index_partitions(self.topic, index)
        self.owner = context.transactional_id(name)
        self._context, self._name = context, name
        self._thread: Bounded | None = None
        self.dedup = context.deduplicator(context.settings)
        self._builder = EntryBuilder()
        self._pending: deque[_PendingBatch] = deque()  # oldest first
        self._caught_up_at = time.monotonic()  # when nothing was left to read
        self._offsets_behind, self._lag_asked_at = 0, 0.0
        self._reader = ChangelogReader(
            lambda: client.make_consumer(client.changelog_reader(context.settings), MOST_BYTES),
            self.places,
            self.owner.encode(),
            self.dedup.scheme_id,
            self.dedup.scheme.signature_dtype,
            self.dedup.restore,
            self._builder,
            self._ends,
            self._call,
            self._skipped,
        )

    def __len__(self) -> int:
        """Originals in the index."""
        return len(self.dedup)

    @property
    def restored(self) -> RestoreResult:
        """What has been read of the changelog so far."""
        return self._reader.restored

    @property
    def lag(self) -> tuple[int, float]:
        """Offsets of the changelog that were not yet read when last asked, and the seconds since none were left."""
        return self._offsets_behind, time.monotonic() - self._caught_up_at

    def connect(self) -> None:
        """Connect the reader and seek to its position. Raises what `follow` raises."""
        self._reader.connect()

    def check_topic(self, topic_id: str) -> None:
        """Set the id of the changelog topic. Raises Outdated if entries of another topic were read."""
        if self.topic_id and topic_id and self.topic_id != topic_id:
            raise Outdated(f"{self.topic} was deleted and created anew since it was read")
        self.topic_id = topic_id or self.topic_id

    def follow(self) -> None:
        """Read new entries for at most a fifth of a second; once there are no more, sort the index if much is unsorted.

        Raises StreamError or ChangelogError. After Outdated the store is useless; after other errors it can go on.
        """
        until = time.monotonic() + _SLICE
        while time.monotonic() < until:
            if not self._reader.advance(_POLL_MS):
                if self.dedup.index.unsorted_rows > _MAX_UNSORTED:
                    self.dedup.catch_up()
                break
        if time.monotonic() - self._lag_asked_at > _LAG_SECONDS:
            self._offsets_behind, self._lag_asked_at = self._reader.lag(), time.monotonic()
            if not self._offsets_behind:
                self._caught_up_at = self._lag_asked_at

    def complete(self, progress: Callable[[int, int], None]) -> RestoreResult:
        """Read everything that was written before the call; the former writer must be fenced.

        Calls `progress(done, total)` with numbers of offsets; it may raise. Raises what `follow` raises.
        """
        self._reader.read_to(self._ends(), progress)
        self._release()
        return self._reader.restored

    def records(self, delta: Delta, *headers: tuple[str, bytes]) -> list[Outgoing]:
        """The changelog records of a delta, each with these headers.

        They use up sequence numbers, so the caller must apply the batch, then confirm it or roll it back.
        """
        self._pending.append(_PendingBatch(self._builder.state, headers))
        # The record's time is the time of writing, never the items': retention depends on it.
        now, owner, scheme = self._context.now_ms(), self.owner.encode(), self.dedup.scheme_id
        records = []
        for entry in self._builder.build(delta):
            partition = (self.places.merged if entry.is_merged else self.places.blocks).partition
            all_headers = [*headers, entry.span.header()]
            if entry.is_merged:
                all_headers.append(blocks_header(self._reader.blocks_start))
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
        self._reader.skip_to(ends, number, oldest.headers)

    def rollback(self) -> None:
        """Roll all pending batches back."""
        self.dedup.rollback()
        if self._pending:
            self._builder.state = self._pending[0].before
            self._pending.clear()

    def _skipped(self, record: Any) -> None:
        """Log the first record of another program."""
        if self._context.is_first("foreign"):
            log.warning(
                "%s-%d has a record of another program at offset %d, with the key %r: it is skipped, and so are others "
                "like it. Only workers should have the right to write there; `stream-dedup state verify` lists them",
                record.topic, record.partition, record.offset, (record.key or b"")[:_KEY_BYTES],
            )  # fmt: skip

    def _ends(self) -> Mapping[TopicPartition, int]:
        def ends() -> Mapping[TopicPartition, int]:
            with closing(client.make(KafkaAdminClient, client.connection(self._context.settings))) as admin:
                return log_end_offsets(admin, self.places)

        return self._context.call_once("looking for the changelog's end", ends)

    def close(self) -> None:
        """Close the reader and the index."""
        self._release()
        self.dedup.close()

    def _call(self, function: Callable[[], Any]) -> Any:
        """Make a call of the reader's client. A failure closes the client; the next call makes a new one."""
        if self._thread is None:
            self._thread = self._context.thread(f"{self._name}-reader")
        try:
            return self._context.call(self._thread, "reading the changelog", function)
        except StreamError as error:
            self._release()
            if isinstance(error.__cause__, (OffsetOutOfRangeError, LogTruncationError)):
                raise Outdated(f"{self.topic}: {error}") from error
            if isinstance(error.__cause__, CorruptRecordError):
                raise CorruptBlock(f"{error}; its bytes on the broker are damaged. {CURE}") from error
            raise

    def _release(self) -> None:
        thread, self._thread = self._thread, None
        close = self._reader.release()
        if thread is not None:
            thread.end(close)
