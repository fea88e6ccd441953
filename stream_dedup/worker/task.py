"""An open partition task: some partitions, one transactional producer, and one index with its changelog.

In: records of its partitions. Out: committed transactions. Scope global has one task of all partitions, scope partition
one task for each; the code is the same, and so is the fence: a member that opens a task takes its transactional id, and
no former owner can commit any more.

A task always opens in the same order, at a start, at a take-over and after any failure, and the order makes it safe:

- Check the topics.
- Create a producer. This fences the former owner and aborts its open transaction; one that is committing completes.
- Read what the state store lacks of the changelog, which no other process can write from now on. It is little if the
  store has followed the changelog as a standby, or belonged to this task before a failure (state_store.py).
- Read the committed input offsets, stable since the fence; offsets known before are not used. resume.py decides whether
  they can be trusted, and whether the index is complete.

This happens in a thread of its own (task_slot.py), while the worker's loop keeps up the membership of the group.

From then on the task alone keeps the positions of its partitions: they advance when a batch is committed, and past
control records and aborted records when there is nothing else (`skip_to`). Positions that are not committed yet (at a
first start, or after such records) are committed with the next batch, or without one (`commit_positions`). Batches
overlap: while one is committed, the next is judged (commit.py says why that is safe), and the one after it is
fingerprinted, which does not depend on the others.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from stream_dedup.changelog.records import RestoreResult, TaskSummary, offsets_header
from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import ChangelogError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.record_batch import Outgoing
from stream_dedup.kafka.topics import TopicMetadata, has_had_records
from stream_dedup.phrases import counted
from stream_dedup.worker import resume
from stream_dedup.worker.commit import CommitStep, StepClock, commit
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.group import Group
from stream_dedup.worker.judge import Judge
from stream_dedup.worker.observer import BatchReport
from stream_dedup.worker.records import OutgoingRecords
from stream_dedup.worker.refused import FailedRecords
from stream_dedup.worker.state_store import StateStore

T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A batch that is being committed."""

    records: Sequence[Any]  # the input's, which an error of Kafka may blame; none: it commits positions only
    positions: dict[int, int]  # of the task's partitions once it is committed
    report: BatchReport | None
    offsets_sent: Future[None]  # step 5
    done: Future[dict[CommitStep, float]]  # step 9; seconds of each step


class PartitionTask:
    """A task that is open, from its constructor to `close` (see the module docstring).

    The constructor takes long; it calls `check` often, which may raise to cancel it. `store` and `failed` are borrowed:
    their owner has them back when the constructor fails or the task is closed.
    """

    def __init__(
        self,
        name: str,
        partitions: frozenset[int],
        group: Group,
        context: WorkerContext,
        check: Callable[[], None],
        store: StateStore,
        failed: FailedRecords,
    ) -> None:
        self.name, self.partitions = name, partitions
        self.opened_in = 0.0  # seconds
        self.positions: dict[int, int] = {}
        self._committed: dict[int, int] = {}  # positions that the group has, or that are being committed
        self._context, self._store, self._failed = context, store, failed
        self._topics = context.settings.topics
        self._packer = context.thread(f"{name}-packer")
        self._threads = ExitStack()
        self._threads.callback(self._packer.end)
        self._close_producer: Callable[[], None] = lambda: None
        self._producer: TaskProducer
        self._outgoing: OutgoingRecords
        self._judge: Judge
        self._in_flight: _InFlight | None = None
        try:
            self._open(group, check)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Originals in the index."""
        return len(self._store)

    @property
    def is_busy(self) -> bool:
        """Whether a batch is being committed, or waits for `finish` to report it."""
        return self._in_flight is not None

    @property
    def has_uncommitted_positions(self) -> bool:
        """Whether `positions` are ahead of the group's offsets; False while a batch is being committed."""
        return self._in_flight is None and self.positions != self._committed

    @property
    def lacks_offsets(self) -> bool:
        """Whether the group has no offset at all of a partition. It must have one before anything goes out: records in
        the output without offsets of the group are the sign of a stop that was too long.
        """
        return any(partition not in self._committed for partition in self.positions)

    def close(self, *, wait: bool = True) -> None:
        """Close the producer. A transaction in flight may be committed or not; the next opening finds out. Its batch
        stays pending in the state store until the owner rolls it back.

        Without `wait` the producer is closed in the background, since without a broker this takes seconds.
        """
        self._threads.close()
        if wait:
            self._close_producer()
        else:
            self._context.thread(f"{self.name}-closing").end(self._close_producer)

    # -- opening -----------------------------------------------------------------------------------------

    def _open(self, group: Group, check: Callable[[], None]) -> None:
        settings, began, before = self._context.settings, time.monotonic(), len(self)
        # Connecting takes some 60 ms. Done meanwhile, so that the store can read as soon as the fence stands.
        connected = self._packer.start("connecting to the changelog", self._store.connect)
        try:
            metadata = self._fence(check)
        finally:
            wait([connected])  # it has a time limit; no two threads may use the store
        connected.result()

        def progress(done: int, total: int) -> None:
            check()
            self._context.observer.restore_progress(self.name, done, total)

        check()
        restored = self._store.complete(progress)
        if restored.migration is not None and not restored.migration.complete:
            raise ChangelogError(
                f"a migration is filling {self._store.topic} and is not complete: run `stream-dedup migrate` "
                "with these settings again, or delete the topic to begin with an empty index"
            )
        facts = self._resume_facts(group, restored, metadata)
        self.positions = resume.resume_offsets(settings, facts)
        self._committed = {partition: committed.offset for partition, committed in facts.committed.items()}
        loss = resume.state_loss(settings, facts)
        if loss is not None:
            log.error("%s", loss, extra={"task": self.name})
            self._context.observer.state_lost(loss)
        self._failed.committed(self.positions)
        self.opened_in = seconds = time.monotonic() - began
        log.info(
            "task %s is open: partitions %s, %s (%s before) from %s, %.1f s",
            self.name, sorted(self.partitions), counted(len(self), "original"), f"{before:,}",
            counted(restored.blocks, "changelog block"), seconds,
            extra={"task": self.name, "originals": len(self), "seconds": round(seconds, 3)},
        )  # fmt: skip

    def _fence(self, check: Callable[[], None]) -> TopicMetadata:
        """Check the topics, and create the producer."""
        context, dedup = self._context, self._store.dedup
        metadata = context.topic_metadata()
        self._topic_ids = metadata.ids
        self._store.check_topic(metadata.ids.get(self._topics.changelog, ""))
        self._outgoing = OutgoingRecords(context.settings, metadata, dedup.scheme_id)
        self._judge = Judge(self.name, context, self._outgoing, dedup, self._failed)
        self._threads.callback(self._judge.close)
        check()
        self._producer = TaskProducer(
            client.producer(context.settings, self._store.owner),
            context.call_timeout,
            context.remaining,
            topics=self._outgoing.topics,
        )
        self._close_producer = self._producer.close
        self._producer.note = self._note
        return metadata

    def _resume_facts(self, group: Group, restored: RestoreResult, metadata: TopicMetadata) -> resume.ResumeFacts:
        """Collect what resume.py decides by. Other partitions and the output matter only if an offset is missing."""
        committed = group.committed(self.partitions)
        others, output_has_records = {}, False
        if self.partitions - committed.keys():
            others = group.committed(group.partitions() - self.partitions)
            output_has_records = self._context.call_once(
                "looking at the output", lambda: has_had_records(self._context.settings, self._topics.output)
            )
        input_id = metadata.ids.get(self._topics.input, "")
        return resume.ResumeFacts(
            partitions=self.partitions,
            committed=committed,
            group_has_others=any(commit.note is None or commit.note.input_id == input_id for commit in others.values()),
            beginnings=group.beginnings(self.partitions),
            restored=restored,
            originals=len(self),
            topic_ids=metadata.ids,
            output_has_records=output_has_records,
            now_ms=self._context.now_ms(),
            changelog_retention_ms=metadata.changelog_retention_ms,
        )

    def _note(self) -> str:
        ids, topics, now = self._topic_ids, self._topics, self._context.now_ms()
        return resume.Note(ids.get(topics.input, ""), ids.get(topics.changelog, ""), now, topics.output).text()

    # -- working -----------------------------------------------------------------------------------------

    def process(
        self,
        records: Sequence[Any],
        membership: Any,
        ends: Mapping[int, int],
        next_records: Sequence[Any] = (),
        consumer_positions: Mapping[int, int] | None = None,
    ) -> bool:
        """Judge records in order, wait for the previous batch, and start to commit this one.

        Returns whether a batch was committed. The group must not be polled again before `wait_for_offsets` has
        returned. After an error, of this batch or of the previous one, the caller closes the task and rolls the store
        back. `ends`: ends of the partitions, as far as known. `next_records`: those of the next call, if they are there
        already. `consumer_positions`: the consumer's positions, if no earlier record is left to process.
        """
        clock = StepClock(lambda step: self._context.observer.step(step, self.name))
        clock(CommitStep.JUDGE)
        before = self._in_flight.positions if self._in_flight is not None else self.positions
        after = {**before, **{record.partition: record.offset + 1 for record in records}}
        positions = _advanced(after, consumer_positions or {})
        items, batch = self._judge(records, next_records)
        refusals = self._failed.refusals
        outgoing = [
            one
            for i, (record, verdict) in enumerate(zip(records, batch.verdicts, strict=True))
            for one in self._outgoing.of(record, verdict, i, refusals.get((record.partition, record.offset), 0) < 2)
        ]
        odd_times = self._judge.odd_times(items, batch)
        changelog = self._change_index(batch, positions, lambda: clock(CommitStep.APPLY))
        report = BatchReport(
            task=self.name,
            items=items,
            verdicts=batch.verdicts,
            counts=dict.fromkeys(Kind, 0) | Counter(verdict.kind for verdict in batch.verdicts),
            seconds=clock.seconds(),
            remembered=len(self),
            watermark=max(batch.delta.watermark, 0),
            odd_times=odd_times,
            records=records,
            shapes=self._judge.take_shapes(),
            lag={partition: max(0, end - positions[partition]) for partition, end in ends.items()},
        )
        return self._commit(records, outgoing, changelog, positions, membership, report)

    def skip_to(self, consumer_positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Advance past control records and aborted records: the consumer stands here, and every record before was
        processed. Otherwise the task would resume at offsets that retention may have deleted.
        """
        positions = _advanced(self.positions, consumer_positions)
        if self._in_flight is None and self.positions != positions:
            self.positions = positions
            lag = {partition: max(0, ends[partition] - positions[partition]) for partition in positions.keys() & ends}
            self._context.observer.positions_advanced(self.name, lag)

    def commit_positions(self, membership: Any) -> bool:
        """As `process`, but without records: commit the positions to the group and to the changelog."""
        self.finish()
        changelog = self._change_index(self._store.dedup.judge([]), self.positions)
        return self._commit([], [], changelog, dict(self.positions), membership, None)

    def _change_index(
        self, batch: Batch, positions: Mapping[int, int], announce: Callable[[], None] = lambda: None
    ) -> list[Outgoing]:
        """Make the changelog records of a judged batch, and apply it, pending."""
        source = self._topics.input
        summary = TaskSummary(source, self._topic_ids.get(source, ""), len(self) + len(batch.delta))
        changelog = self._store.records(batch.delta, summary.header(), offsets_header(positions))
        announce()
        self._store.apply(batch)
        return changelog

    # -- committing --------------------------------------------------------------------------------------

    def _commit(
        self,
        records: Sequence[Any],
        outgoing: Sequence[Outgoing],
        changelog: Sequence[Outgoing],
        positions: dict[int, int],
        membership: Any,
        report: BatchReport | None,
    ) -> bool:
        """Pack the records beside the previous batch's commit, wait for that, and begin the transaction."""
        producer = self._producer
        packed = self._packer.start("packing", lambda: (producer.pack(outgoing), producer.pack(changelog)))
        finished = self.finish()
        offsets = {
            TopicPartition(self._topics.input, partition): offset
            for partition, offset in sorted(positions.items())
            if self._committed.get(partition) != offset
        }
        self._committed = positions
        # Only the steps of a batch are announced; a transaction without one is not counted.
        observer = self._context.observer
        clock = StepClock((lambda step: observer.step(step, self.name)) if report is not None else (lambda step: None))
        offsets_sent: Future[None] = Future()
        transaction = partial(commit, producer, packed, offsets, membership, offsets_sent, clock)
        done = producer.start("committing", transaction)
        self._in_flight = _InFlight(records, positions, report, offsets_sent, done)
        return finished

    def wait_for_offsets(self) -> None:
        """Wait until the group has the offsets of every batch so far (step 5). Raises the error if that failed."""
        if self._in_flight is not None:
            self._wait("sending the offsets", self._in_flight.offsets_sent, self._in_flight)

    def finish(self) -> bool:
        """Wait for the batch in flight and report it. Returns whether a batch was committed. Raises its error."""
        if self._in_flight is None:
            return False
        batch, self._in_flight = self._in_flight, None
        seconds = self._wait("committing", batch.done, batch)
        self.positions = batch.positions
        self._store.confirm(self._producer.ends_in(self._store.topic))
        self._failed.committed(self.positions)
        self._outgoing.update_partitions(self._producer.partitions)
        if batch.report is not None:
            self._context.observer.batch(replace(batch.report, seconds={**batch.report.seconds, **seconds}))
        return batch.report is not None

    def _wait(self, what: str, step: Future[T], batch: _InFlight) -> T:
        try:
            return self._producer.wait(what, step)
        except TransactionFailed as error:
            failure = self._failed.failed(batch.records, error) if batch.records else None
            if failure is not None:
                message, is_new = failure
                log.log(logging.ERROR if is_new else logging.DEBUG, message, extra={"task": self.name})
                self._context.observer.batch_stuck(self.name)
            raise


def _advanced(positions: Mapping[int, int], others: Mapping[int, int]) -> dict[int, int]:
    """The higher offset of each partition.

    >>> _advanced({0: 5, 1: 7}, {0: 6, 1: 0, 2: 9})
    {0: 6, 1: 7}
    """
    return {partition: max(offset, others.get(partition, offset)) for partition, offset in positions.items()}
