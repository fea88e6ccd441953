"""Restore an index from its changelog in Kafka, in the order of commit; report gaps, foreign records and stalls.

The worker writes changelog records in the transaction of the batch, so a block exists exactly if its batch was
committed. An index has two partitions, of blocks and of merged blocks (changelog/entries.py). Each record has headers
(changelog/headers.py) and its owner as key, because two owners in one partition would mix two indexes. Records of other
programs are skipped.

A restore reads all merged blocks first. The last one says where the blocks begin that are not merged yet
(`BLOCKS_HEADER`), and blocks are read from there on. So a restore reads what is remembered, not what was written.

The next writer fences the previous one before it reads (P8). The end is the last offset, committed or not, and a
read_committed consumer reads until its position has passed that end. So it waits for a transaction of the previous
writer that is still being completed, and cannot miss it. A standby reads entries as they come, and has only the last
ones left to read.

A damaged block, a block of another owner and a missing entry that cannot have expired raise ChangelogError, whose
message names the place and the cure; nothing is forgotten in silence. A standby that misses an entry raises Outdated
first, to read all of it again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from stream_dedup.changelog import MOST_BYTES, PARTITIONS
from stream_dedup.changelog.block import decode
from stream_dedup.changelog.entries import MAX_BLOCKS, EntryBuilder, Resequencer
from stream_dedup.changelog.headers import CURE, RestoreResult, blocks_start, is_block, placed, span_of
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import ChangelogError, CorruptBlock, Outdated, Stalled, StreamError
from stream_dedup.kafka import client, patches
from stream_dedup.kafka.client import KafkaAdminClient, TopicPartition
from stream_dedup.kafka.errors import kafka_errors
from stream_dedup.kafka.fetch import UNKNOWN, LeaderEpochs
from stream_dedup.kafka.runtime import Bounded, make_consumer
from stream_dedup.kafka.topics import log_end_offsets
from stream_dedup.worker.context import WorkerContext

log = logging.getLogger(__name__)

# A poll that meets only aborted records and markers waits for all of this time, although it has read them: with 200 ms,
# a task was open again .5 s after an aborted transaction instead of .3 s.
_POLL_MS = 20
# Another program's open transaction in the partition would block the reading until its time-out; brokers allow 15
# minutes.
_STALL_SECONDS = 60.0
# The two partitions are fetched one after the other; a number missing for this long is looked for.
_GAP_SECONDS = 5.0
# The previous writer's own commit takes less than a second; log a wait that is longer.
_LOG_SECONDS = 2.0
_KEY_BYTES = 100  # of another program's record, in the log


class IndexPartitions(NamedTuple):
    """The partition of blocks and the partition of merged blocks (entries.py)."""

    blocks: TopicPartition
    merged: TopicPartition


def index_partitions(topic: str, index: int) -> IndexPartitions:
    """Return the partitions of the index with this number: two neighbours, so that the input topic can gain partitions.

    >>> [one.partition for one in index_partitions("news.dedup-changelog", 3)]
    [6, 7]
    """
    return IndexPartitions(TopicPartition(topic, PARTITIONS * index), TopicPartition(topic, PARTITIONS * index + 1))


class ChangelogReader:
    """Restores every delta of an index into `dedup`, oldest first, as far as it is asked to read.

    `task` names the thread in which the client works. `release` gives the client up; the next use makes another one and
    goes on from the same position. `builder` learns the state that the next writer needs. `topic_id()`: of the
    changelog. `restored`: what has been read so far. Raises ChangelogError for blocks that are damaged or of another
    owner, Outdated if the changelog no longer has the next entries, other StreamErrors of the client.
    """

    def __init__(
        self,
        context: WorkerContext,
        task: str,
        partitions: IndexPartitions,
        owner: str,
        dedup: Decider,
        builder: EntryBuilder,
        topic_id: Callable[[], str] = lambda: "",
    ) -> None:
        self.restored = RestoreResult()
        self.partitions = partitions
        self._resequencer = Resequencer()
        self._context, self._task, self._owner = context, task, owner
        self._runtime, self._monotonic = context.runtime, context.runtime.monotonic
        self._dedup, self._builder, self._topic_id = dedup, builder, topic_id
        self._thread: Bounded | None = None
        self._consumer: Any = None
        self._positions: dict[TopicPartition, int] = {}  # empty before the first connection
        self._epochs = LeaderEpochs()
        self._blocks_start = 0  # the offset of blocks, as the last merged block says, behind those that are merged
        # The number of the oldest block, where older ones were deleted; -1: that of the next block read; 0: none were.
        self._oldest_number = 0
        self._gap_since: float | None = None
        self._gap_ends: Mapping[TopicPartition, int] = {}
        self._merged_end = 0  # of the merged blocks, when the reading began
        self._is_following = False  # both partitions are read, not the merged blocks alone

    def connect(self) -> None:
        """Make the consumer, if there is none, and seek to the next offsets to read."""
        if self._consumer is not None:
            return
        config = client.changelog_reader(self._context.settings)
        self._consumer = consumer = self._call(lambda: make_consumer(config, MOST_BYTES, self._epochs, self._runtime))
        first_offsets = self._call(lambda: consumer.beginning_offsets(list(self.partitions)))
        if not self._positions:
            self._positions = dict(first_offsets)
            self.restored.begin = max(first_offsets.values())
        for place, first in first_offsets.items():
            if self._positions[place] < first:
                raise Outdated(
                    f"{place.topic}-{place.partition} begins at offset {first} now, and {self._positions[place]} was "
                    "to be read next"
                )
        ends = self._assign()
        if not self._is_following:
            self._merged_end = ends[self.partitions.merged]
            self._follow_once_merged_are_read()

    def advance(self) -> int:
        """Poll once, for some milliseconds: entries that are there arrive at once. Returns the number of records read.

        Raises Outdated if an entry is missing although everything was read: read the changelog again from the start.
        """
        self.connect()
        polled = self._poll()
        for place, records in polled.items():
            self._accept(place, records)
        self._restore_ready()
        self._follow_once_merged_are_read()
        self._check_gap()
        return sum(map(len, polled.values()))

    def read_to_end(self, progress: Callable[[int, int], None]) -> None:
        """Read everything that was written before the call. `progress(done, total)` is called with numbers of offsets
        several times a second, and may raise to stop the reading.

        Raises Stalled when reading makes no progress, Outdated if more was read than the partition has, ChangelogError
        if an entry is missing.
        """
        ends = self._ends()
        self.connect()
        for place, end in ends.items():
            if self._positions[place] > end:
                raise Outdated(
                    f"{place.topic}-{place.partition} ends at offset {end}, and {self._positions[place]} was to be "
                    "read next"
                )
        total, moved_at, is_logged = 0, self._monotonic(), False
        while (remaining := self.remaining(ends)) or not self._is_following:
            total = max(total, remaining)
            progress(total - remaining, total)
            former = self._is_following, dict(self._positions)
            self.advance()
            if former != (self._is_following, self._positions):
                moved_at, is_logged = self._monotonic(), False
                continue
            seconds = self._monotonic() - moved_at
            if seconds > _STALL_SECONDS:
                raise Stalled(self._stall_message(ends))
            if seconds > _LOG_SECONDS and not is_logged:
                log.warning("%s; waiting for its end", self._stall_message(ends))
                is_logged = True
        if self._resequencer.has_gap:
            self._close_gap()
        # A standby may know entries that have expired, so the next writer uses none of their numbers. None was ever
        # higher than the offsets used so far, since each entry takes one.
        self._builder.use_none_before(sum(ends.values()) + 1)
        progress(total, total)

    def mark_read(self, ends: Mapping[TopicPartition, int], number: int, headers: Iterable[tuple[str, bytes]]) -> None:
        """Take everything before these ends as read: the task itself wrote it, last with these headers.

        A partition that is not named has nothing new, or its end is unknown. An entry that is read twice is recognised
        by its number. `number`: of the next entry.
        """
        self._positions |= ends
        for place, end in ends.items():  # a producer does not learn the epoch of what it wrote
            self._epochs.begin(place, end, UNKNOWN)
        self._resequencer.mark_read(number)
        self.restored.add_block(headers)

    def committed_ends(self) -> Mapping[TopicPartition, int]:
        """Ask the broker where the committed entries end."""
        self.connect()
        consumer = self._consumer
        ends: Mapping[TopicPartition, int] = self._call(lambda: consumer.end_offsets(list(self.partitions)))
        return ends

    def remaining(self, ends: Mapping[TopicPartition, int]) -> int:
        """Return the number of offsets still to read up to these ends."""
        blocks, merged = (max(0, ends[place] - self._positions[place]) for place in self.partitions)
        if not self._is_following and merged:
            blocks = min(blocks, 2 * MAX_BLOCKS)  # each with the marker of its transaction
        return blocks + merged

    def release(self) -> None:
        """Give the client up, and close it in its thread. The state stays."""
        consumer, self._consumer = self._consumer, None
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end(lambda: consumer and consumer.close(autocommit=False))

    @property
    def has_no_gap(self) -> bool:
        """Whether all entries that were read are restored."""
        return self._is_following and not self._resequencer.has_gap

    @property
    def blocks_start(self) -> int:
        """An offset of blocks before all those that the task has not confirmed yet, for its next merged block."""
        return self._positions[self.partitions.blocks]

    # -- reading -----------------------------------------------------------------------------------------

    def _call(self, function: Callable[[], Any]) -> Any:
        """Make a call of the client. A failure closes it; the next call makes a new one."""
        if self._thread is None:
            self._thread = self._context.thread(f"{self._task}-reader")
        try:
            return self._context.call(self._thread, "reading the changelog", function)
        except StreamError as error:
            self.release()
            if isinstance(error.__cause__, (kafka_errors.OffsetOutOfRangeError, kafka_errors.LogTruncationError)):
                raise Outdated(f"{self.partitions.blocks.topic}: {error}") from error
            if isinstance(error.__cause__, kafka_errors.CorruptRecordError):
                raise CorruptBlock(f"{error}; its bytes on the broker are damaged. {CURE}") from error
            raise

    def _ends(self) -> Mapping[TopicPartition, int]:
        """Return the log end offsets of both partitions, committed or not."""

        def ends() -> Mapping[TopicPartition, int]:
            with closing(
                self._runtime.make_client(KafkaAdminClient, client.connection(self._context.settings))
            ) as admin:
                return log_end_offsets(admin, self.partitions)

        return self._context.call_once("looking for the changelog's end", ends)

    @property
    def _assigned(self) -> Sequence[TopicPartition]:
        return self.partitions if self._is_following else [self.partitions.merged]

    def _assign(self) -> Mapping[TopicPartition, int]:
        """Read on from the positions; returns the present ends of the partitions that are read."""
        consumer, places = self._consumer, self._assigned

        def assign() -> Any:
            # Not by pause and resume: kafka-python 3.0.12 may never fetch a resumed partition again.
            consumer.assign(places)
            for place in places:
                patches.seek(
                    consumer, place, self._positions[place], self._epochs.before(place, self._positions[place])
                )
            return consumer.end_offsets(places)

        ends: Mapping[TopicPartition, int] = self._call(assign)
        return ends

    def _poll(self) -> Mapping[TopicPartition, Sequence[Any]]:
        consumer, assigned = self._consumer, self._assigned
        polled: Mapping[TopicPartition, Sequence[Any]]
        polled, positions = self._call(
            lambda: (consumer.poll(_POLL_MS), {place: consumer.position(place) for place in assigned})
        )
        self._positions |= positions
        return polled

    def _follow_once_merged_are_read(self) -> None:
        """Once the merged blocks are read, read the blocks too, from where the last merged block says."""
        blocks, merged = self.partitions
        if self._is_following or self._positions[merged] < self._merged_end:
            return
        first = self._positions[blocks]  # nothing of it has been read
        consumer = self._consumer
        end = self._call(lambda: consumer.end_offsets([blocks]))[blocks]
        # If the noted start is beyond the end, or belongs to a topic that this one was copied from, read all blocks,
        # which costs time only.
        start = self._blocks_start if self._blocks_start <= end else 0
        if start < first:
            start, self._oldest_number = first, -1
        self._positions[blocks] = start
        self._is_following = True
        self._assign()

    # -- records -----------------------------------------------------------------------------------------

    def _accept(self, place: TopicPartition, records: Iterable[Any]) -> None:
        for record in records:
            if not is_block(record):
                self._report_foreign(record)
                continue
            self._check_owner(record)
            with placed(record):
                span = span_of(record)
                if place == self.partitions.merged:
                    self._blocks_start = blocks_start(record, self._topic_id())
            if place == self.partitions.merged:
                self._resequencer.add_merged(span, record)
                continue
            if self._oldest_number < 0:
                self._oldest_number = span.first
            self._resequencer.add_block(span, record)

    def _report_foreign(self, record: Any) -> None:
        """Log the first record of another program."""
        if self._context.once("foreign"):
            log.warning(
                "%s-%d has a record of another program at offset %d, with the key %r: it is skipped, and so are others "
                "like it. Only workers should have the right to write there; `stream-dedup state verify` lists them",
                record.topic, record.partition, record.offset, (record.key or b"")[:_KEY_BYTES],
            )  # fmt: skip

    def _check_owner(self, record: Any) -> None:
        if record.key != self._owner.encode():
            raise ChangelogError(
                f"the changelog {record.topic}-{record.partition} has a block of "
                f"{(record.key or b'').decode(errors='replace')!r} at offset {record.offset}, and this is "
                f"{self._owner!r}; each group needs a changelog of its own, in scope partition one with two "
                "partitions per index: set [topics] changelog, or the former [kafka] group_id"
            )

    def _restore_ready(self) -> None:
        """Restore the entries that follow without a gap."""
        # A redundant entry is merged, so a block below always has its delta.
        for span, is_merged, is_redundant, record in self._resequencer.ready():
            if not is_redundant:
                with placed(record):
                    delta = decode(record.value or b"", self._dedup.scheme_id, self._dedup.scheme.signature_dtype)
                    self._dedup.restore(delta)
                    self.restored.add_block(record.headers)
            if is_merged:
                self._builder.read_merged(span)
            else:
                self._builder.read_block(span, delta)

    # -- stalls and gaps ---------------------------------------------------------------------------------

    def _stall_message(self, ends: Mapping[TopicPartition, int]) -> str:
        unread = (place for place in self._assigned if self._positions[place] < ends[place])
        place = next(unread, self.partitions.blocks)
        return (
            f"the changelog {place.topic}-{place.partition} stands still at offset {self._positions[place]} of "
            f"{ends[place]}: an open transaction begins there, or the brokers do not answer. Does another program "
            "write to it? If not, the brokers have lost track of a transaction: `kafka-transactions.sh find-hanging` "
            "names it"
        )

    def _check_gap(self) -> None:
        """Notice a lasting gap: an entry may arrive before its predecessor in the other partition, but not for long."""
        if not self._is_following or not self._resequencer.has_gap:
            self._gap_since, self._gap_ends = None, {}
        elif self._gap_since is None:
            self._gap_since = self._monotonic()
        elif not self._gap_ends:
            if not self._resequencer.next or self._monotonic() - self._gap_since > _GAP_SECONDS:
                self._gap_ends = self._ends()
        elif all(self._positions[place] >= end for place, end in self._gap_ends.items()):
            try:
                self._close_gap()
            except ChangelogError as error:
                raise Outdated(f"{error} (it is read again from the beginning, to see whether this persists)") from None
            self._gap_since, self._gap_ends = None, {}

    def _close_gap(self) -> None:
        """Skip a gap before the oldest entry, whose predecessors have expired; raise for any other. All was read."""
        waiting = self._resequencer.first_waiting
        if not self._resequencer.next or (waiting is not None and waiting.first == self._oldest_number):
            self._resequencer.skip_gap()
            self._restore_ready()
        if self._resequencer.has_gap:
            blocks, merged = self.partitions
            raise ChangelogError(
                f"the changelog {blocks.topic} lacks the entries from {self._resequencer.next} on, and has later ones, "
                f"in its partitions {blocks.partition} and {merged.partition}: records were deleted, or a partition "
                f"was lost. {CURE}"
            )
