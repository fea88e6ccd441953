"""A partition task: some partitions, one transactional producer, and one index with its changelog.

In: records of its partitions. Out: committed transactions. Scope global has one task of all partitions, scope partition
one task for each; the code is the same, and so is the fence: a member that opens a task takes its transactional id, and
no former owner can commit any more.

A task always opens in the same order, at a start, at a take-over and after any failure. The order makes it safe:

1. Check the topics.
2. Create a producer. This fences the former owner and aborts its open transaction; one that is committing completes.
3. Read what the state store lacks of the changelog, which no other process can write from now on. It is little if the
   store has followed the changelog as a standby, or belonged to this task before a failure (state_store.py).
4. Read the committed input offsets, stable since step 2; offsets known before the fence are not used. resume.py decides
   whether they can be trusted, and whether the index is complete.

This happens in a thread of its own (task_slot.py), while the worker's loop keeps up the membership of the group.

From then on the task alone keeps the positions of its partitions: they advance when a batch is committed, and past
control records and aborted records when there is nothing else (`skip_to`). Positions that are not committed yet (at a
first start, or after such records) are committed with the next batch, or without one (`commit_positions`). Batches
overlap: while one is committed, the next is judged (transaction.py says why that is safe), and the one after it is
fingerprinted, which does not depend on the others.
"""

import logging
import time
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any

from stream_dedup.changelog.records import RestoreResult, TaskSummary, offsets_header
from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import ChangelogError, StreamError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.record_batch import Outgoing
from stream_dedup.kafka.topics import TopicMetadata, has_had_records
from stream_dedup.kafka.transaction import CommitStep, begin, commit
from stream_dedup.phrases import counted
from stream_dedup.settings import Settings, TopicSettings
from stream_dedup.worker import resume
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.group import Group
from stream_dedup.worker.judge import Judge
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.odd_times import log_odd_times, odd_times
from stream_dedup.worker.records import Router
from stream_dedup.worker.state_store import StateStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A processed batch that is ready to be committed."""

    records: Sequence[Any]  # the input's, which an error of Kafka may blame
    outgoing: list[Outgoing]
    changelog: list[Outgoing]
    positions: dict[int, int]  # of the task's partitions once the batch is committed
    report: BatchReport | None  # None: the transaction commits positions only


@dataclass(frozen=True, slots=True)
class _CommitResult:
    """Seconds of each step, and where the batch's records end in each changelog partition; None: unknown."""

    seconds: dict[CommitStep, float]
    changelog_ends: dict[TopicPartition, int | None]


class PartitionTask:
    """A task that is open, from its constructor to `close` (see the module docstring).

    The constructor takes long; it calls `check` often, which may raise to cancel it. `store` is borrowed: its owner has
    it back when the constructor fails or the task is closed.
    """

    def __init__(
        self,
        name: str,
        partitions: frozenset[int],
        group: Group,
        context: WorkerContext,
        check: Callable[[], None],
        store: StateStore,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.positions: dict[int, int] = {}
        self._committed: dict[int, int] = {}  # positions that the group has, or that are being committed
        self._context = context
        self.opened_in = 0.0  # seconds
        self._store = store
        self._producer: TaskProducer | None = None
        self._router: Router
        self._judge: Judge
        self._committer = context.thread(f"{name}-committer")
        self._packer = context.thread(f"{name}-packer")
        self._preparer = context.thread(f"{name}-preparer")
        self._offsets: Future[None] | None = None
        self._in_flight: tuple[_Judged, Future[_CommitResult]] | None = None
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
        self._preparer.end()
        self._packer.end()
        self._committer.end()
        if self._producer is not None:
            if wait:
                self._producer.close()
            else:
                self._context.thread(f"{self.name}-closing").end(self._producer.close)
            self._producer = None

    # -- opening -----------------------------------------------------------------------------------------

    def _open(self, group: Group, check: Callable[[], None]) -> None:
        settings, began = self._context.settings, time.monotonic()
        before = len(self)
        # Connecting takes some 60 ms. Done meanwhile, so that the store can read as soon as the fence stands.
        connected = self._packer.start("connecting to the changelog", self._store.connect)
        try:
            metadata = self._fence(settings, check)
        finally:
            wait([connected])  # it has a time limit; no two threads may use the store
        connected.result()
        check()
        restored = self._store.complete(self._progress(check))
        if restored.migration is not None and not restored.migration.complete:
            raise ChangelogError(
                f"a migration is filling {self._store.topic} and is not complete: run `stream-dedup migrate` "
                "with these settings again, or delete the topic to begin with an empty index"
            )
        facts = self._resume_facts(group, restored, metadata)
        self.positions = resume.resume_offsets(settings, facts)
        self._committed = {partition: committed.offset for partition, committed in facts.committed.items()}
        self._report(facts)
        self._context.poison.forget_before(self.positions)
        self.opened_in = seconds = time.monotonic() - began
        log.info(
            "task %s is open: partitions %s, %s (%s before) from %s, %.1f s",
            self.name, sorted(self.partitions), counted(len(self), "original"), f"{before:,}",
            counted(restored.blocks, "changelog block"), seconds,
            extra={"task": self.name, "originals": len(self), "seconds": round(seconds, 3)},
        )  # fmt: skip

    def _fence(self, settings: Settings, check: Callable[[], None]) -> TopicMetadata:
        """Do steps 1 and 2."""
        metadata = self._context.topic_metadata()
        self._topic_ids = metadata.ids
        self._store.check_topic(metadata.ids.get(settings.topics.changelog, ""))
        dedup = self._store.dedup
        self._router = Router(settings, metadata, dedup.scheme_id)
        self._judge = Judge(self._context, self._router, dedup, self._preparer)
        check()
        self._producer = TaskProducer(
            client.producer(settings, self._store.owner),
            self._context.call_timeout,
            self._context.remaining,
            topics=self._router.topics,
        )
        self._producer.note = self._note
        return metadata

    def _progress(self, check: Callable[[], None]) -> Callable[[int, int], None]:
        """The callback of a restore: may cancel it, and reports how far it is."""

        def progress(done: int, total: int) -> None:
            check()
            self._context.observer.restore_progress(self.name, done, total)

        return progress

    def _resume_facts(self, group: Group, restored: RestoreResult, metadata: TopicMetadata) -> resume.ResumeFacts:
        """Collect what step 4 decides by. Other partitions and the output matter only if an offset is missing."""
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

    def _report(self, facts: resume.ResumeFacts) -> None:
        lost, unused = resume.offsets_from_changelog(facts)
        if lost:
            log.warning(
                "the group has no offsets of partitions %s (brokers drop those of a group without members, after seven "
                "days by default); resuming at the changelog's offsets: %s", lost,
                {partition: self.positions[partition] for partition in lost},
            )  # fmt: skip
        if unused:
            log.info("partitions %s have had no commit yet; resuming at %s", unused,
                     {partition: self.positions[partition] for partition in unused})  # fmt: skip
        loss = resume.state_loss(self._context.settings, facts)
        if loss is not None:
            log.error("%s", loss, extra={"task": self.name})
            self._context.observer.state_lost(loss)

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
        return self._commit(self._judged(records, ends, next_records, consumer_positions or {}), membership)

    def skip_to(self, consumer_positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Advance past control records and aborted records: the consumer stands here, and every record before was
        processed. Otherwise the task would resume at offsets that retention may have deleted.
        """
        before = self.positions
        if self._in_flight is None and before != (positions := _advanced(before, consumer_positions)):
            self.positions = positions
            lag = {
                partition: max(0, ends[partition] - offset)
                for partition, offset in positions.items()
                if partition in ends
            }
            self._context.observer.positions_advanced(self.name, lag)

    def commit_positions(self, membership: Any) -> bool:
        """As `process`, but without records: commit the positions to the group and to the changelog."""
        self.finish()
        changelog = self._change_index(self._store.dedup.judge([]), self.positions)
        return self._commit(_Judged([], [], changelog, dict(self.positions), None), membership)

    def _commit(self, judged: _Judged, membership: Any) -> bool:
        producer = self._producer
        if producer is None:
            raise StreamError(f"task {self.name} is closed")
        packed = self._packer.start(
            "packing", lambda: (producer.pack(judged.outgoing), producer.pack(judged.changelog))
        )
        finished = self.finish()
        topic = self._topics.input
        # Only the steps of a batch are announced; a transaction without one is not counted.
        clock = _Clock(self.name, self._context.observer if judged.report is not None else Observer())
        offsets = {
            TopicPartition(topic, partition): offset
            for partition, offset in sorted(judged.positions.items())
            if self._committed.get(partition) != offset
        }
        self._committed = judged.positions
        self._offsets = begun = self._committer.start(
            "sending the offsets", lambda: begin(producer, offsets, membership, clock.announce)
        )

        def send_and_commit() -> _CommitResult:
            begun.result()
            commit(producer, *packed.result(), clock.announce)
            return _CommitResult(clock.seconds(), producer.ends_in(self._store.topic))

        self._in_flight = judged, self._committer.start("committing", send_and_commit)
        return finished

    def wait_for_offsets(self) -> None:
        """Wait until the group has the offsets of every batch so far (step 5). Raises the error if that failed."""
        if self._offsets is not None:
            try:
                self._offsets.result()
            except TransactionFailed as error:
                if self._in_flight is not None:
                    self._count_failure(self._in_flight[0].records, error)
                raise
            self._offsets = None

    def finish(self) -> bool:
        """Wait for the batch in flight and report it. Returns whether a batch was committed. Raises its error."""
        if self._in_flight is None:
            return False
        (judged, done), self._in_flight = self._in_flight, None
        try:
            committed = done.result()
        except TransactionFailed as error:
            self._count_failure(judged.records, error)
            raise
        self.positions = judged.positions
        self._store.confirm(committed.changelog_ends)
        self._context.poison.committed(judged.records)
        if self._producer is not None:
            self._router.update_partitions(self._producer.partitions)
        if judged.report is not None:
            seconds = {**judged.report.seconds, **committed.seconds}
            self._context.observer.batch(replace(judged.report, seconds=seconds))
        return judged.report is not None

    def _count_failure(self, records: Sequence[Any], error: TransactionFailed) -> None:
        if not records:  # a transaction that commits positions only
            return
        stuck = self._context.poison.failed(records, error)
        if stuck is not None:
            log.log(logging.ERROR if stuck.is_new else logging.DEBUG, stuck.message, extra={"task": self.name})
            self._context.observer.batch_stuck(self.name)

    def _judged(
        self,
        records: Sequence[Any],
        ends: Mapping[int, int],
        next_records: Sequence[Any],
        consumer_positions: Mapping[int, int],
    ) -> _Judged:
        """Do steps 2 and 3, and make the outgoing records."""
        clock = _Clock(self.name, self._context.observer)
        clock.announce(CommitStep.JUDGE)
        before = self._in_flight[0].positions if self._in_flight else self.positions
        after = {**before, **{record.partition: record.offset + 1 for record in records}}
        positions = _advanced(after, consumer_positions)
        items, batch = self._judge(records, next_records)
        refusals = self._context.poison.refusals
        outgoing = [
            route
            for i, (record, verdict) in enumerate(zip(records, batch.verdicts, strict=True))
            for route in self._router.routes(record, verdict, i, refusals.get((record.partition, record.offset), 0) < 2)
        ]
        odd = odd_times(items, batch)
        log_odd_times(self.name, items, batch, odd, self._store.dedup, self._context.logged)
        changelog = self._change_index(batch, positions, lambda: clock.announce(CommitStep.APPLY))
        report = BatchReport(
            task=self.name,
            items=items,
            verdicts=batch.verdicts,
            counts=dict.fromkeys(Kind, 0) | Tally(verdict.kind for verdict in batch.verdicts),
            seconds=clock.seconds(),
            remembered=len(self),
            watermark=max(batch.delta.watermark, 0),
            odd_times=odd,
            records=records,
            shapes=self._judge.take_shapes(),
            lag={partition: max(0, end - positions[partition]) for partition, end in ends.items()},
        )
        return _Judged(records, outgoing, changelog, positions, report)

    @property
    def _topics(self) -> TopicSettings:
        return self._context.settings.topics

    def _change_index(
        self, batch: Batch, positions: Mapping[int, int], announce: Callable[[], None] = lambda: None
    ) -> list[Outgoing]:
        """Make the changelog records of a judged batch, and apply it, pending."""
        source, store = self._topics.input, self._store
        summary = TaskSummary(source, self._topic_ids.get(source, ""), len(self) + len(batch.delta))
        changelog = store.records(batch.delta, summary.header(), offsets_header(positions))
        announce()
        store.apply(batch)
        return changelog


def _advanced(positions: Mapping[int, int], others: Mapping[int, int]) -> dict[int, int]:
    """The higher offset of each partition.

    >>> _advanced({0: 5, 1: 7}, {0: 6, 1: 0, 2: 9})
    {0: 6, 1: 7}
    """
    return {partition: max(offset, others.get(partition, offset)) for partition, offset in positions.items()}


class _Clock:
    """Announce each step to the observer, and measure how long it takes."""

    def __init__(self, task: str, observer: Observer) -> None:
        self._task, self._observer = task, observer
        self._starts: list[tuple[CommitStep, float]] = []

    def announce(self, step: CommitStep) -> None:
        self._starts.append((step, time.monotonic()))
        self._observer.step(step, self._task)

    def seconds(self) -> dict[CommitStep, float]:
        """Seconds of each announced step; the last one ends now."""
        until = [*(moment for _, moment in self._starts[1:]), time.monotonic()]
        return {step: end - start for (step, start), end in zip(self._starts, until, strict=True)}
