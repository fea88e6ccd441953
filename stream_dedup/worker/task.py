"""A partition task, from its opening to its end: some partitions, one transactional producer, one index, its changelog.

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

This happens in a thread of its own, while the worker's loop keeps up the membership of the group.

From then on the task alone keeps the positions of its partitions: they advance when a batch is committed, and past
control records and aborted records when there is nothing else (`skip_to`). Positions that are not committed yet (at a
first start, or after such records) are committed with the next batch, or without one (`process` without records).
Batches overlap: while one is committed, the next is judged (commit.py says why that is safe), and the one after it is
fingerprinted, which does not depend on the others.

A `TaskSlot` opens the task in the background, and keeps its state when it closes. So the loop polls the group and works
on other tasks meanwhile, and several tasks open side by side. In: the partitions assigned to the task, and its errors.
Out: an open task, or a state store that follows the changelog. The state store survives every failure: it holds what
was read from the changelog and what this task has committed; only unconfirmed batches are rolled back. The next opening
reads the entries written since.

Without partitions the task is closed. In scope global its state store then follows the changelog (a standby), so that a
take-over need not read it from the beginning. In scope partition the store is closed, since it is unknown beforehand
which task a member will take over.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from stream_dedup.changelog.headers import RestoreResult, TaskSummary, offsets_header
from stream_dedup.dedup.verdict import Kind
from stream_dedup.errors import (
    ChangelogError,
    Fenced,
    Interrupted,
    Outdated,
    RegistryAway,
    StreamDedupError,
    StreamError,
    TransactionFailed,
)
from stream_dedup.kafka import client
from stream_dedup.kafka.bounded import Retry
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.epochs import UNKNOWN
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.topics import Topic, changelog_retention_ms, has_had_records
from stream_dedup.phrases import counted
from stream_dedup.worker import resume
from stream_dedup.worker.commit import CommitStep, StepClock, commit
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.group import Group
from stream_dedup.worker.judge import Begun, FailedRecords, Judge
from stream_dedup.worker.observer import BatchReport, TaskState
from stream_dedup.worker.records import OutgoingRecords, trace_fields
from stream_dedup.worker.state_store import StateStore

T = TypeVar("T")
log = logging.getLogger(__name__)

# How long `close` waits for a cancelled opening to close its producer. The process can also end without that.
_CANCEL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A batch that is being committed."""

    positions: dict[int, int]  # of the task's partitions once it is committed
    report: BatchReport  # without records: it commits positions only
    took: float  # seconds of the work on it, before its transaction
    offsets_sent: Future[None]  # step 5
    done: Future[dict[CommitStep, float]]  # step 9; seconds of each step

    def too_long(self, session: float) -> float:
        """Seconds of the work on a failed batch, if they may have cost the membership: they are more than a session's,
        and the offsets, which are the first that is sent, have failed. Otherwise 0.
        """
        has_failed = self.offsets_sent.done() and self.offsets_sent.exception() is not None
        return self.took if has_failed and self.took > session else 0.0


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
        self.is_lag_known = False  # and reported
        self.positions: dict[int, int] = {}
        self._committed: dict[int, int] = {}  # positions that the group has, or that are being committed
        self._lag: Mapping[int, int] = {}  # as last reported
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
        self._announcing: tuple[int, int] = (0, 0)  # of work that begins: its records, and tries
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
        settings, began = self._context.settings, time.monotonic()
        # Connecting takes some 60 ms. Done meanwhile, so that the store can read as soon as the fence stands.
        connected = self._packer.start("connecting to the changelog", self._store.reader.connect)
        try:
            topics = self._fence(group, check)
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
        facts = self._resume_facts(group, restored, topics)
        self.positions = resume.resume_offsets(settings, facts)
        self._committed = {partition: committed.offset for partition, committed in facts.committed.items()}
        for partition, offset in self.positions.items():
            at = facts.committed.get(partition)
            epoch = at.epoch if at is not None and at.offset == offset else UNKNOWN
            group.epochs.begin(TopicPartition(self._topics.input, partition), offset, epoch)
        loss = resume.state_loss(settings, facts)
        if loss is not None:
            log.error("%s", loss, extra={"task": self.name})
            self._context.observer.state_lost(loss)
        self._failed.committed(self.positions)
        notes = {partition: (one.offset, one.note) for partition, one in facts.committed.items() if one.note}
        begun = {partition: Begun(offset, note.begun, note.tries) for partition, (offset, note) in notes.items()}
        for message in self._failed.opened(begun):
            log.error("%s", message, extra={"task": self.name})
            self._context.observer.batch_stuck(self.name)
        self.opened_in = time.monotonic() - began

    def _fence(self, group: Group, check: Callable[[], None]) -> dict[str, Topic]:
        """Check the topics, and create the producer."""
        context, dedup = self._context, self._store.dedup
        topics = context.check_topics()
        self._input_id, self._changelog_id = topics[self._topics.input].id, topics[self._topics.changelog].id
        self._store.check_topic(self._changelog_id)
        self._outgoing = OutgoingRecords(context.settings, topics, dedup.scheme_id)
        self._judge = Judge(self.name, context, self._outgoing, dedup, self._failed)
        self._threads.callback(self._judge.close)
        check()
        self._producer = TaskProducer(
            client.producer(context.settings, self._store.owner),
            context.call_timeout,
            context.remaining,
            topics=list(topics),
        )
        self._close_producer = self._producer.close
        self._producer.note, self._producer.epoch_before = self._note, group.epochs.before
        return topics

    def _resume_facts(self, group: Group, restored: RestoreResult, topics: Mapping[str, Topic]) -> resume.ResumeFacts:
        """Collect what resume.py decides by. Other partitions and the output matter only if an offset is missing."""
        committed = group.committed(self.partitions)
        others, output_has_records = {}, False
        if self.partitions - committed.keys():
            others = group.committed(group.partitions() - self.partitions)
            output_has_records = self._context.call_once(
                "looking at the output", lambda: has_had_records(self._context.settings, self._topics.output)
            )
        settings = self._context.settings
        return resume.ResumeFacts(
            partitions=self.partitions,
            committed=committed,
            group_has_others=any(
                commit.note is None or commit.note.input_id == self._input_id for commit in others.values()
            ),
            beginnings=group.beginnings(self.partitions),
            restored=restored,
            originals=len(self),
            input_id=self._input_id,
            changelog_id=self._changelog_id,
            output_has_records=output_has_records,
            now_ms=self._context.now_ms(),
            changelog_retention_ms=changelog_retention_ms(settings, topics[settings.topics.input]),
        )

    def _note(self) -> str:
        topics, now = self._topics, self._context.now_ms()
        return resume.Note(
            self._input_id, self._changelog_id, now, topics.output, topics.changelog, *self._announcing
        ).text()

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

        Without records: commit the positions, to the group and to the changelog. Returns whether the previous batch was
        committed. The group must not be polled again before `wait_for_offsets` has returned. After an error, of this
        batch or of the previous one, the caller closes the task and rolls the store back. `ends`: ends of the
        partitions, as far as known. `next_records`: those of the next call, if they are there already.
        `consumer_positions`: the consumer's positions, if no earlier record is left to process.
        """
        finished_before = self._announce(records, membership) if records else False
        # Only the steps of a batch are announced; a transaction without one is not counted.
        observer = self._context.observer
        announce = (lambda step: observer.step(step, self.name)) if records else (lambda step: None)
        clock, began = StepClock(announce), time.monotonic()
        clock(CommitStep.JUDGE)
        before = self._in_flight.positions if self._in_flight is not None else self.positions
        after = {**before, **{record.partition: record.offset + 1 for record in records}}
        positions = _advanced(after, consumer_positions or {})
        try:
            items, batch = self._judge(records, next_records)
        except RegistryAway:
            self.finish()  # what is judged does not wait for the registry
            raise
        refusals = self._failed.refusals
        outgoing = [
            one
            for i, (record, verdict) in enumerate(zip(records, batch.verdicts, strict=True))
            for one in self._outgoing.of(record, verdict, i, refusals.get((record.partition, record.offset), 0) < 2)
        ]
        odd_times = self._judge.odd_times(items, batch, records)
        source = self._topics.input
        summary = TaskSummary(source, self._input_id, len(self) + len(batch.delta))
        changelog = self._store.records(batch.delta, summary.header(), offsets_header(positions))
        clock(CommitStep.APPLY)
        self._store.apply(batch)
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
            shapes=self._judge.take_shapes() if records else {},
            lag=_lag(ends, positions),
        )
        took = time.monotonic() - began
        # Beside the previous batch's commit, which `finish` waits for; there is one transaction at a time.
        producer = self._producer
        packed = self._packer.start("packing", lambda: (producer.pack(outgoing), producer.pack(changelog)))
        finished = self.finish()
        offsets = {
            TopicPartition(source, partition): offset
            for partition, offset in sorted(positions.items())
            if self._committed.get(partition) != offset
        }
        self._committed = positions
        offsets_sent: Future[None] = Future()
        job = partial(commit, producer, packed, offsets, membership, offsets_sent, StepClock(announce))
        self._in_flight = _InFlight(positions, report, took, offsets_sent, producer.start("committing", job))
        return finished or finished_before

    def _announce(self, records: Sequence[Any], membership: Any) -> bool:
        """Let the group know of the work on these records, if it may end this process. Returns whether the previous
        batch was committed meanwhile.
        """
        begun = self._failed.to_announce(records)
        if begun is None:
            return False
        finished = self.finish()
        here = {record.partition for record in records}
        self._committed = {partition: at for partition, at in self._committed.items() if partition not in here}
        self._announcing = begun
        try:
            self.process((), membership, {})
            self.finish()
        finally:
            self._announcing = (0, 0)
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
        self._lag = batch.report.lag
        if batch.report.records:
            self._context.observer.batch(replace(batch.report, seconds={**batch.report.seconds, **seconds}))
        return bool(batch.report.records)

    def _wait(self, what: str, step: Future[T], batch: _InFlight) -> T:
        try:
            return self._producer.wait(what, step)
        except (TransactionFailed, Fenced) as error:
            session = self._context.settings.worker.session_timeout.total_seconds()
            records = batch.report.records  # Kafka's error may blame some of them
            if records and (failure := self._failed.failed(records, error, batch.too_long(session))):
                message, is_new = failure
                blamed = [records[i] for i in getattr(error, "sources", ())] or records
                trace = trace_fields(blamed[0]) if len(blamed) == 1 else {}
                log.log(logging.ERROR if is_new else logging.DEBUG, message, extra={"task": self.name, **trace})
                self._context.observer.batch_stuck(self.name)
            raise

    def skip_to(self, consumer_positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Advance past control records and aborted records: the consumer stands here, and every record before was
        processed. Otherwise the task would resume at offsets that retention may have deleted. Report a new lag: records
        of an open transaction are none that can be polled.
        """
        if self._in_flight is None:
            self.positions = _advanced(self.positions, consumer_positions)
            self.report_lag(ends)

    def report_lag(self, ends: Mapping[int, int]) -> None:
        """Report how far the positions are from the ends of the partitions, as far as those are known, if it is new."""
        lag = _lag(ends, self.positions)
        self.is_lag_known = lag.keys() == self.positions.keys()
        if lag != self._lag:
            self._lag = lag
            self._context.observer.positions_advanced(self.name, lag)


def _lag(ends: Mapping[int, int], positions: Mapping[int, int]) -> dict[int, int]:
    return {partition: max(0, end - positions[partition]) for partition, end in ends.items() if partition in positions}


def _advanced(positions: Mapping[int, int], others: Mapping[int, int]) -> dict[int, int]:
    """The higher offset of each partition.

    >>> _advanced({0: 5, 1: 7}, {0: 6, 1: 0, 2: 9})
    {0: 6, 1: 7}
    """
    return {partition: max(offset, others.get(partition, offset)) for partition, offset in positions.items()}


class TaskSlot:
    """`number`: of the task's index in the changelog. `is_stopping` is set when the worker must end."""

    def __init__(self, name: str, number: int, context: WorkerContext, is_stopping: threading.Event) -> None:
        self.name = name
        self.partitions: frozenset[int] = frozenset()
        self.task: PartitionTask | None = None
        self.retry = Retry(context.settings, f"task {name}")
        self.standby_retry = Retry(context.settings, f"the standby of task {name}")
        self.failed = FailedRecords()
        self.failed_openings = 0  # in a row
        self.failing_since = 0.0  # monotonic seconds; of no meaning without failed openings
        self._number, self._context, self._is_stopping = number, context, is_stopping
        self._store: StateStore | None = None
        self._opening: Future[PartitionTask] | None = None
        self._is_cancelled = threading.Event()  # of this opening

    # -- opening and following --------------------------------------------------------------------------

    def assign(self, partitions: frozenset[int], reason: str) -> None:
        """Set the partitions of the task. If they change, the open task is closed; with none it stays closed."""
        if partitions == self.partitions:
            return
        self.close_task(reason)
        self.partitions = partitions
        self.failed_openings = 0

    def advance(self, group: Group) -> bool:
        """Start or finish opening the task, if it has partitions. Never waits.

        Returns whether the task has just been opened. Raises the error with which opening has failed.
        """
        if self._is_opening():
            return False
        opening, self._opening = self._opening, None
        if opening is None:
            if self.task is None and self.partitions and self.retry.is_due and not self._is_stopping.is_set():
                self._begin_opening(group)
            return False
        try:
            self.task = task = opening.result()
        except Interrupted:
            return False
        except StreamError as error:
            if not self.failed_openings:
                self.failing_since = time.monotonic()
            self.failed_openings += 1
            if isinstance(error, Outdated):
                self._drop_store()
            raise
        self.failed_openings = 0
        # A task may open and fail every few seconds, for as long as a schema registry is away: that is logged once.
        log.log(
            logging.DEBUG if self.retry.failures > 1 else logging.INFO,
            "task %s is open: partitions %s, %s, %.1f s",
            self.name, sorted(task.partitions), counted(len(task), "original"), task.opened_in,
            extra={"task": self.name, "originals": len(task), "seconds": round(task.opened_in, 3)},
        )  # fmt: skip
        self._context.observer.task_opened(self.name, sorted(task.partitions), len(task), task.opened_in)
        return True

    def _begin_opening(self, group: Group) -> None:
        """Open the task in a thread of its own, which owns the state store meanwhile."""
        partitions, self._is_cancelled = self.partitions, threading.Event()
        is_cancelled = self._is_cancelled

        def check() -> None:
            if is_cancelled.is_set():
                raise Interrupted("the assignment changed while the task was being opened")
            if self._is_stopping.is_set():
                raise Interrupted("the worker was stopped while the task was being opened")

        def open_task() -> PartitionTask:
            if self._store is None:
                self._store = StateStore(self._context, self.name, self._number)
            return PartitionTask(self.name, partitions, group, self._context, check, self._store, self.failed)

        thread = self._context.thread(f"{self.name}-opener")
        self._opening = thread.start("opening", open_task)
        thread.end()

    def _is_opening(self) -> bool:
        """Whether an opening is under way. Cleans up after a cancelled one that has ended."""
        opening = self._opening
        if opening is None or not opening.done():
            return opening is not None
        if self._is_cancelled.is_set():
            self._opening = None
            self._discard(opening)
        return False

    def reset_standby(self) -> None:
        """Drop what a standby has read, because its changelog is another topic now."""
        if self.is_idle:
            self._drop_store()

    def follow(self, topic_id: str) -> None:
        """Let the state store follow the changelog for a slice of time. `topic_id`: of the changelog, "" if unknown.

        Raises a StreamError if that fails.
        """
        if self._is_opening() or not self.standby_retry.is_due:  # a cancelled opening still owns the state store
            return
        try:
            if self._store is None:
                self._store = StateStore(self._context, self.name, self._number, topic_id)
            self._store.follow()
        except Outdated:
            self._drop_store()
            raise
        self.standby_retry.succeeded()

    @property
    def standby_lag(self) -> tuple[int, float] | None:
        """The store's lag behind the changelog, offsets and seconds (`StateStore.lag`); None: unknown."""
        return self._store.lag if self._store is not None and self._opening is None else None

    @property
    def standby_has(self) -> RestoreResult | None:
        """What the store has read of the changelog as a standby, once that is everything."""
        return self._store.all_read if self._store is not None and self._opening is None else None

    @property
    def is_quiet(self) -> bool:
        """Whether no batch is being committed, and no task has to be opened."""
        return not self.partitions if self.task is None else not self.task.is_busy

    @property
    def is_idle(self) -> bool:
        """Whether no task is open or being opened."""
        return self.task is None and not self._is_opening()

    @property
    def state(self) -> TaskState:
        if self.task is not None:
            return TaskState.OPEN
        return TaskState.FAILING if self.retry.failures else TaskState.OPENING

    # -- closing ---------------------------------------------------------------------------------------

    def close_task(self, reason: str) -> None:
        """Close the task or cancel its opening. If it still has partitions, `advance` opens it anew.

        The state store stays, without unconfirmed batches.
        """
        self._is_cancelled.set()
        if self.task is None:
            return
        task, self.task = self.task, None
        task.close(wait=False)
        if self._store is not None:
            self._store.rollback()
        self._context.observer.task_lost(self.name, reason)

    def close(self) -> Future[None]:
        """Close everything in the background: a producer may wait for its broker, and an index for its merge."""
        thread = self._context.thread(f"{self.name}-closing")
        done = thread.start("closing", self._close)
        thread.end()
        return done

    def _close(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            self._is_cancelled.set()
            with suppress(TimeoutError):
                opening.exception(_CANCEL_SECONDS)
            if not opening.done():
                return  # its calls have time limits, and its resources end with the process
            self._discard(opening)
        if self.task is not None:
            self.task.close()
            self.task = None
        if self._store is not None:
            self._store.close()
            self._store = None

    def _discard(self, opening: Future[PartitionTask]) -> None:
        """Clean up after a cancelled opening that has ended."""
        error = opening.exception()
        if error is None:
            opening.result().close(wait=False)
        elif isinstance(error, Outdated) or not isinstance(error, StreamDedupError):
            self._drop_store()  # after a bug of ours the store may be inconsistent

    def _drop_store(self) -> None:
        # In the background: an index that is merging ends its merge first.
        store, self._store = self._store, None
        if store is not None:
            self._context.thread(f"{self.name}-closing").end(store.close)
