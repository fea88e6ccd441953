"""An open task at work: the commit protocol, which turns each batch (worker.py cuts it) into one Kafka transaction.

docs/architecture.md lists the nine steps (`CommitStep`), with what a kill in each of them leaves; the fault tests kill
the process at each. A step is announced before it begins, the first one when the records have come.

After step 9 `finish` confirms the delta: only then does the index take it in.

`Pipeline.process` does steps 1 to 3 in the worker's thread and hands steps 4 to 9 (`commit`) to the producer's thread.
There the client mostly waits, so three batches overlap: one is committed while the next is judged and the one after it
is fingerprinted. The records are packed and compressed after step 3, while the previous batch is still being committed.
There is one transaction at a time; the next begins when this one is committed. A few records do not overlap
(worker.py): the next poll then waits for the commit.

If more records wait, several batches are polled under one membership. The next poll waits for step 5 of the last one,
because a poll may take part in a rebalance, after which the group would refuse offsets of the former generation.
(Tried: to poll before the last of them is applied, and to drop what was polled if the group has changed. It fills the
pause but is no faster, because the processor is busy.)

A batch is judged against committed and pending deltas. A pending delta never outlives a failure:

- A broker that dies in steps 5 to 9 ends like any step that fails: the client tries again for the time limit of the
  transaction, then the step raises.
- After any error from step 4 on, the outcome counts as unknown, even after a failed commit. The worker closes the task
  (`Task.close_pipeline`), which rolls the pending deltas back, and opens it again (opening.py), which asks Kafka what
  happened: if the transaction was committed after all, its delta is in the changelog behind the last confirmed block,
  and is read from there. Nothing else is ever concluded from an error.

How the protocol works around kafka-python's pitfalls (the rules in docs/architecture.md): it uses the membership noted
right after the poll (P4); it checks every future before the commit, because an expired record fails silently and the
commit would succeed without it (P1, P2); it never uses a producer again after an error (P3); it bounds every call (P5).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from stream_dedup.changelog.headers import TaskSummary, offsets_header
from stream_dedup.errors import Fenced, RegistryAway, TransactionFailed
from stream_dedup.kafka.client import TopicPartition
from stream_dedup.kafka.fetch import LeaderEpochs
from stream_dedup.kafka.producer import RecordBatch, TaskProducer
from stream_dedup.kafka.runtime import Bounded
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.failed_records import FailedRecords
from stream_dedup.worker.judge import Judge
from stream_dedup.worker.observer import BatchReport, CommitStep
from stream_dedup.worker.outgoing import OutgoingRecords, trace_fields
from stream_dedup.worker.resume import Note, ResumeFacts
from stream_dedup.worker.state_store import StateStore

T = TypeVar("T")
log = logging.getLogger(__name__)


class StepClock:
    """Announces each step, and measures how long it takes."""

    def __init__(self, announce: Callable[[CommitStep], None], monotonic: Callable[[], float]) -> None:
        self._announce, self._monotonic = announce, monotonic
        self._starts: list[tuple[CommitStep, float]] = []

    def __call__(self, step: CommitStep) -> None:
        self._starts.append((step, self._monotonic()))
        self._announce(step)

    def seconds(self) -> dict[CommitStep, float]:
        """Return the seconds of each announced step; the last one ends now."""
        until = [*(moment for _, moment in self._starts[1:]), self._monotonic()]
        return {step: end - start for (step, start), end in zip(self._starts, until, strict=True)}


@dataclass(frozen=True, slots=True)
class _InFlight:
    """A batch that is being committed."""

    report: BatchReport  # with the seconds of steps 2 and 3; without records: it commits positions only
    positions: dict[int, int]  # after it
    offsets_sent: Future[None]  # step 5
    done: Future[dict[CommitStep, float]]  # step 9; seconds of each step

    def suspicious_seconds(self, session: float) -> float:
        """Return the seconds of the work on a failed batch if they may have cost the membership, otherwise 0.

        They may if they are more than a session's, and the offsets, which are sent first, have failed.
        """
        has_failed = self.offsets_sent.done() and self.offsets_sent.exception() is not None
        took = sum(self.report.seconds.values())
        return took if has_failed and took > session else 0.0


@dataclass(slots=True, eq=False)
class Pipeline:
    """An open task, from `open_pipeline` (opening.py) to `close`.

    It alone keeps the positions of its partitions. They advance when a batch is committed, and past control records and
    aborted records when there is nothing else (`pass_markers`). Positions that are not committed yet, at a first start
    or after such records, are committed with the next batch, or without one (`commit_positions`).
    """

    store: StateStore  # borrowed from the task, which keeps it
    failed: FailedRecords  # borrowed, too
    judge: Judge
    packer: Bounded
    producer: TaskProducer
    outgoing: OutgoingRecords
    facts: ResumeFacts  # what the opening has found
    positions: dict[int, int]  # after the last batch that is committed
    epochs: LeaderEpochs  # of what the group's consumer has read
    opened_in: float  # seconds
    name: str = field(init=False)
    context: WorkerContext = field(init=False)
    committed: dict[int, int] = field(init=False)  # the offsets that the group has
    is_lag_known: bool = False  # and reported
    _lag: Mapping[int, int] = field(default_factory=dict)  # as last reported
    _in_flight: _InFlight | None = None

    def __post_init__(self) -> None:
        self.name, self.context = self.store.name, self.store.context
        self.committed = {partition: commit.offset for partition, commit in self.facts.committed.items()}

    def __len__(self) -> int:
        """Originals in the index."""
        return len(self.store)

    @property
    def is_busy(self) -> bool:
        """Whether a batch is being committed, or waits for `finish` to report it."""
        return self._in_flight is not None

    @property
    def has_uncommitted_positions(self) -> bool:
        """Whether `positions` are ahead of the group's offsets; False while a batch is being committed."""
        return self._in_flight is None and self.positions != self.committed

    @property
    def lacks_offsets(self) -> bool:
        """Whether the group has no offset at all of a partition, and none is on its way. It must have one before any
        record goes out: records in the output without offsets of the group are the sign of a stop that was too long.
        """
        return self._in_flight is None and not self.positions.keys() <= self.committed.keys()

    def close(self, *, wait: bool = True) -> None:
        """Close the producer. A transaction in flight may be committed or not; the next opening finds out. Its batch
        stays pending in the state store until the owner rolls it back.

        Without `wait` the producer is closed in the background, since without a broker this takes seconds.
        """
        self.judge.close(wait=wait)
        self.packer.end()
        if wait:
            self.producer.close()
        else:
            self.context.thread(f"{self.name}-closing").end(self.producer.close)

    # -- the steps of a batch ----------------------------------------------------------------------------

    def process(
        self,
        records: Sequence[Any],
        membership: Any,
        ends: Mapping[int, int],
        next_records: Sequence[Any],
        consumer_positions: Mapping[int, int],
    ) -> bool:
        """Judge records in order, wait for the previous batch, and start to commit this one.

        Returns whether the previous batch was committed. The group must not be polled again before `wait_for_offsets`
        has returned. After an error, of this batch or of the previous one, the caller closes the task and rolls the
        store back. `ends`: ends of the partitions, as far as known. `next_records`: those of the next call, if they are
        there already. `consumer_positions`: the consumer's positions, if no earlier record is left to process.
        """
        self.context.observer.step(CommitStep.POLL, self.name)
        finished = self._note_begun(records, membership)
        return self._transact(records, membership, ends, next_records, consumer_positions) or finished

    def commit_positions(self, membership: Any, begun: tuple[int, int] = (0, 0)) -> bool:
        """Commit the positions alone, to the group and to the changelog; else as `process`.

        begun: records and tries of work that begins then, for the note beside the offsets.
        """
        return self._transact((), membership, {}, (), {}, begun)

    def _transact(
        self,
        records: Sequence[Any],
        membership: Any,
        ends: Mapping[int, int],
        next_records: Sequence[Any],
        consumer_positions: Mapping[int, int],
        begun: tuple[int, int] = (0, 0),
    ) -> bool:
        """Do steps 2 and 3, wait for the previous batch, and start steps 4 to 9; see `process`."""
        observer, monotonic = self.context.observer, self.context.runtime.monotonic

        def announce(step: CommitStep) -> None:
            if records:  # a transaction without a batch is not counted
                observer.step(step, self.name)

        clock = StepClock(announce, monotonic)
        clock(CommitStep.JUDGE)
        start = self.positions if self._in_flight is None else self._in_flight.positions
        end = {**start, **{record.partition: record.offset + 1 for record in records}}
        positions = _advanced(end, consumer_positions)
        try:
            items, batch = self.judge(records, next_records)
        except RegistryAway:
            self.finish()  # what is judged does not wait for the registry
            raise
        refusals = self.failed.refusals
        outgoing = [
            copy
            for i, (record, verdict) in enumerate(zip(records, batch.verdicts, strict=True))
            for copy in self.outgoing.of(record, verdict, i, refusals.get((record.partition, record.offset), 0) < 2)
        ]
        odd_times = self.judge.count_odd_times(items, batch, records)
        self.judge.warn_if_full()
        source = self.context.settings.topics.input
        summary = TaskSummary(source, self.facts.input_id, len(self) + len(batch.delta))
        changelog = self.store.take_records(batch.delta, summary.header(), offsets_header(positions))

        clock(CommitStep.APPLY)
        self.store.apply(batch)
        report = BatchReport(
            task=self.name,
            items=items,
            verdicts=batch.verdicts,
            counts=batch.counts(),
            seconds=clock.seconds(),
            remembered=len(self),
            watermark=max(batch.delta.watermark, 0),
            odd_times=odd_times,
            records=records,
            shapes=self.judge.take_shapes() if records else {},
            lag=_lag(ends, positions),
        )

        # Beside the previous batch's commit, which `finish` waits for; there is one transaction at a time.
        producer = self.producer
        packed = self.packer.start("packing", lambda: (producer.pack(outgoing), producer.pack(changelog)))
        finished = self.finish()
        note, offsets = self._note(begun), dict[TopicPartition, tuple[int, str, int]]()
        for partition, offset in sorted(positions.items()):
            if self.committed.get(partition) != offset:
                place = TopicPartition(source, partition)
                offsets[place] = offset, note, self.epochs.before(place, offset)
        offsets_sent: Future[None] = self.context.runtime.future()
        job = partial(commit, producer, packed, offsets, membership, offsets_sent, StepClock(announce, monotonic))
        self._in_flight = _InFlight(report, positions, offsets_sent, producer.start("committing", job))
        return finished

    def _note_begun(self, records: Sequence[Any], membership: Any) -> bool:
        """Let the group know of the work on these records, if it may end this process.

        Returns whether the previous batch was committed meanwhile.
        """
        begun = self.failed.to_announce(records)
        if begun is None:
            return False
        finished = self.finish()
        for record in records:  # the note goes out with their partitions' offsets once more
            self.committed.pop(record.partition, None)
        self.commit_positions(membership, begun)
        self.finish()
        return finished

    def _note(self, begun: tuple[int, int]) -> str:
        """Return the note that the group stores beside each offset."""
        facts, topics, now = self.facts, self.context.settings.topics, self.context.now_ms()
        note = Note(facts.input_id, facts.changelog_id, now, topics.output, topics.changelog, *begun)
        return note.text()

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
        self.positions, self.committed = batch.positions, dict(batch.positions)
        self.store.confirm(self.producer.ends_in(self.store.topic))
        self.failed.committed(self.positions)
        self.outgoing.update_partitions(self.producer.partitions)
        self._lag = batch.report.lag
        if batch.report.records:
            self.context.observer.batch(replace(batch.report, seconds={**batch.report.seconds, **seconds}))
        return bool(batch.report.records)

    def _wait(self, action: str, step: Future[T], batch: _InFlight) -> T:
        try:
            return self.producer.wait(action, step)
        except (TransactionFailed, Fenced) as error:
            session = self.context.settings.worker.session_timeout.total_seconds()
            records = batch.report.records  # Kafka's error may blame some of them
            if records and (failure := self.failed.count(records, error, batch.suspicious_seconds(session))):
                message, is_new = failure
                blamed = [records[i] for i in getattr(error, "sources", ())] or records
                trace = trace_fields(blamed[0]) if len(blamed) == 1 else {}
                log.log(logging.ERROR if is_new else logging.DEBUG, message, extra={"task": self.name, **trace})
                self.context.observer.batch_stuck(self.name)
            raise

    # -- without a batch ---------------------------------------------------------------------------------

    def pass_markers(self, consumer_positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Advance past control records and aborted records to the consumer's positions: every record before them was
        processed. Otherwise the task would resume at offsets that retention may have deleted. Report a new lag, which
        counts the records of an open transaction, too.
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
            self.context.observer.positions_advanced(self.name, lag)


def commit(
    producer: TaskProducer,
    packed: Future[tuple[list[RecordBatch], list[RecordBatch]]],
    offsets: Mapping[TopicPartition, tuple[int, str, int]],
    membership: Any,
    offsets_sent: Future[None],
    clock: StepClock,
) -> dict[CommitStep, float]:
    """Do steps 4 to 9, in the producer's thread. Returns the seconds of each once all is committed; raises a
    StreamError otherwise.

    `packed`: the batch's records, and those of the changelog. `offsets`: see `send_offsets`. `offsets_sent` gets the
    outcome of step 5.
    """
    try:
        clock(CommitStep.BEGIN)
        producer.begin()
        clock(CommitStep.OFFSETS)
        producer.send_offsets(offsets, membership)
    except BaseException as error:
        offsets_sent.set_exception(error)
        raise
    offsets_sent.set_result(None)
    records, changelog = packed.result()
    clock(CommitStep.SEND)
    producer.send(records)
    clock(CommitStep.CHANGELOG)
    producer.send(changelog)
    clock(CommitStep.FLUSH)
    producer.flush()
    clock(CommitStep.COMMIT)
    producer.commit()
    return clock.seconds()


def _lag(ends: Mapping[int, int], positions: Mapping[int, int]) -> dict[int, int]:
    return {partition: max(0, end - positions[partition]) for partition, end in ends.items() if partition in positions}


def _advanced(positions: Mapping[int, int], reached: Mapping[int, int]) -> dict[int, int]:
    """Return the higher offset of each partition.

    >>> _advanced({0: 5, 1: 7}, {0: 6, 1: 0, 2: 9})
    {0: 6, 1: 7}
    """
    return {partition: max(offset, reached.get(partition, offset)) for partition, offset in positions.items()}
