"""A task: some input partitions, one index, one transactional producer, two partitions of the changelog.

In scope global there is one task of all partitions, in scope partition one a partition; the code is the same,
and so is the fence: whoever opens a task takes its transactional id, and no former owner can commit any more.

Opening is always the same, at a start, a take-over, and after any failure, and its order is what makes it safe:

1. the layout of the topics is checked;
2. a new producer fences the former owner; its open transaction is aborted, a committing one completes;
3. the memory reads what it lacks of the changelog, which from now on only we can write: little, if it has followed the
   changelog as a standby, or is that of this task before a failure (state_store.py);
4. the committed input offsets are read, stable since 2; what was known before the fence counts for nothing. Where they
   may be trusted, and whether the memory is whole, is decided in resume.py.

It is done in a thread of its own (task_slot.py), beside the worker's loop, which keeps the membership of the group.

From then on the task alone knows where its partitions stand (`positions`): it moves them when a batch is
committed, and past markers and aborted records when there is nothing else (`pass_over`). What the group has not been
told yet (a first start; such markers) is told with the next batch, or without one (`tell`). Batches overlap: while one
is being committed the next is judged (transaction.py says why that is safe) and the one after it fingerprinted, which
needs nothing of those before.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any

from kafka import TopicPartition

from stream_dedup.changelog.topic import Restored, Standing, offsets_header
from stream_dedup.dedup.batch import Delta
from stream_dedup.errors import ChangelogError, StreamError, TransactionFailed
from stream_dedup.settings import Settings
from stream_dedup.stream import client, resume
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.group import Group
from stream_dedup.stream.judge import Judge
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.odd_times import odd_times, tell
from stream_dedup.stream.producer import TaskProducer
from stream_dedup.stream.records import Router
from stream_dedup.stream.state_store import StateStore
from stream_dedup.stream.topics import TopicMetadata, has_had_records
from stream_dedup.stream.transaction import CommitStep, Outgoing, begin, commit

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A judged batch on its way out."""

    records: Sequence[Any]
    outgoing: list[Outgoing]
    remembered: list[Outgoing]
    reached: dict[int, int]  # where the task's partitions stand once it is committed
    report: BatchReport | None  # None: nothing was judged, it tells the group where the task stands


@dataclass(frozen=True, slots=True)
class _Committed:
    """How long each step took, and where its records end in partitions of the changelog; None: nobody knows."""

    seconds: dict[CommitStep, float]
    changelog_ends: dict[TopicPartition, int | None]


class PartitionTask:
    """See the module's first lines. The constructor opens it, which takes long; `check` is called often meanwhile and
    may raise. The memory is lent: it goes back to its owner when the constructor fails or the task is closed.
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
        self._told: dict[int, int] = {}  # what the group knows of the positions, or is being told
        self._context = context
        self.opened_in = 0.0  # seconds
        self._store = store
        self._producer: TaskProducer | None = None
        self._committer = context.thread(f"{name}-committer")
        self._packer = context.thread(f"{name}-packer")
        self._preparer = context.thread(f"{name}-preparer")
        self._offsets: Future[None] | None = None
        self._under_way: tuple[_Judged, Future[_Committed]] | None = None
        try:
            self._open(group, check)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Originals in the index."""
        return len(self._store.dedup)

    @property
    def is_busy(self) -> bool:
        """Whether a batch is being committed, or waits for `finish` to report it."""
        return self._under_way is not None

    @property
    def is_untold(self) -> bool:
        """Whether the group knows less than `positions`; never while a batch is being committed."""
        return self._under_way is None and self.positions != self._told

    @property
    def is_new(self) -> bool:
        """Whether the group has no offset at all of a partition. Before anything goes out it must have one: a group
        without, while the output has records, is how a stop that was too long is told from a first start.
        """
        return any(partition not in self._told for partition in self.positions)

    def close(self, *, wait: bool = True) -> None:
        """Lets go of the producer. What was not committed never happened; what was being committed may have, and the
        next to open the task asks. In the memory it is pending until somebody rolls that back.

        Without `wait` the producer is closed in the background: with the broker away it takes seconds.
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
        followed = len(self)
        # Meanwhile the memory finds its brokers, some 60 ms, so that it reads at once when the fence stands.
        connected = self._packer.start("connecting to the changelog", self._store.connect)
        try:
            metadata = self._fence(settings, check)
        finally:
            wait([connected])  # it bounds itself, and the memory is not to be used by two
        connected.result()
        check()
        self._judge = Judge(self._context, self._router, self._store.dedup, self._preparer)
        restored = self._store.complete(self._shown(check))
        if restored.migration is not None and not restored.migration.complete:
            raise ChangelogError(
                f"a migration is filling {self._store.topic} and is not complete: run `stream-dedup migrate` "
                "with these settings again, or delete the topic to begin with an empty memory"
            )
        known = self._known(group, restored, metadata)
        self.positions = resume.where(settings, known)
        self._told = {one: told.offset for one, told in known.group.items()}
        self._say(known)
        self._context.poison.reached(self.positions)
        self.opened_in = seconds = time.monotonic() - began
        log.info(
            "task %s is open: partitions %s, %d originals from %d changelog blocks (%d originals were there), %.1f s",
            self.name, sorted(self.partitions), len(self), restored.blocks, followed, seconds,
            extra={"task": self.name, "originals": len(self), "seconds": round(seconds, 3)},
        )  # fmt: skip

    def _fence(self, settings: Settings, check: Callable[[], None]) -> TopicMetadata:
        """Steps 1 and 2."""
        metadata = self._context.topic_metadata()
        self._topic_ids = metadata.ids
        self._store.belongs_to(metadata.ids.get(settings.topics.changelog, ""))
        self._router = Router(settings, metadata, self._store.dedup.scheme_id)
        check()
        self._producer = TaskProducer(
            client.producer(settings, self._store.owner),
            self._context.bound,
            self._context.left,
            topics=self._router.topics,
            access=client.access(settings.kafka.client),
        )
        self._producer.note = self._note
        return metadata

    def _shown(self, check: Callable[[], None]) -> Callable[[int, int], None]:
        """Tells how far the reading has come, unless it is to end."""

        def progress(done: int, total: int) -> None:
            check()
            self._context.observer.restoring(self.name, done, total)

        return progress

    def _known(self, group: Group, restored: Restored, metadata: TopicMetadata) -> resume.Known:
        """What there is to decide by. Other partitions and the output are asked only where an offset is missing."""
        topics = self._context.settings.topics
        told = group.committed(self.partitions)
        others, is_written = {}, False
        if self.partitions - told.keys():
            others = group.committed(group.partitions() - self.partitions)
            is_written = self._context.call_once(
                "looking at the output", lambda: has_had_records(self._context.settings, topics.output)
            )
        here = metadata.ids.get(topics.input, "")
        return resume.Known(
            partitions=self.partitions,
            group=told,
            is_elsewhere=any(one.note is None or one.note.input_id == here for one in others.values()),
            beginnings=group.beginnings(self.partitions),
            restored=restored,
            originals=len(self),
            ids=metadata.ids,
            is_written=is_written,
            now=self._context.now(),
            kept=metadata.kept,
        )

    def _say(self, known: resume.Known) -> None:
        lost, unread = resume.replaced(known)
        if lost:
            log.warning(
                "the group has no offsets of partitions %s (brokers drop those of a group without members, after seven "
                "days by default); going on where the changelog says: %s", lost,
                {one: self.positions[one] for one in lost},
            )  # fmt: skip
        if unread:
            log.info("partitions %s have had no commit yet; going on at %s", unread,
                     {one: self.positions[one] for one in unread})  # fmt: skip
        loss = resume.state_loss(self._context.settings, known)
        if loss is not None:
            log.error("%s", loss, extra={"task": self.name})
            self._context.observer.state_lost(loss)

    def _note(self) -> str:
        topics = self._context.settings.topics
        ids = self._topic_ids
        return resume.Note(ids.get(topics.input, ""), ids.get(topics.changelog, ""), self._context.now()).text()

    # -- working -----------------------------------------------------------------------------------------

    def process(
        self,
        records: Sequence[Any],
        membership: Any,
        ends: Mapping[int, int],
        following: Sequence[Any] = (),
        passed: Mapping[int, int] | None = None,
    ) -> bool:
        """Judges records of this task, in order, and begins to commit them once the batch before is committed;
        whether there was one. The group must not be polled again before `wait_for_offsets` has returned.

        After an error, of this batch or of the one before, the task must be closed and the memory rolled back. `ends`
        says where the partitions end, as far as is known; `following` are the records of the next call, if they are
        there already; `passed` is where the consumer stands, if no record before that is left.
        """
        return self._commit(self._judged(records, ends, following, passed or {}), membership)

    def pass_over(self, positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """The consumer stands there, and every record before has been processed: what lies between is none of ours, but
        a marker or an aborted record. Going on before it would ask for what retention may have deleted.
        """
        before = self.positions
        if self._under_way is None and before != (further := _further(before, positions)):
            self.positions = further
            lag = {one: max(0, ends[one] - at) for one, at in further.items() if one in ends}
            self._context.observer.stands(self.name, lag)

    def tell(self, membership: Any) -> bool:
        """As `process`, but without records: the group and the changelog are told where the task stands."""
        self.finish()
        batch = self._store.dedup.judge([])
        remembered = self._remembered(batch.delta, self.positions)
        self._store.apply(batch)
        return self._commit(_Judged([], [], remembered, dict(self.positions), None), membership)

    def _commit(self, judged: _Judged, membership: Any) -> bool:
        producer = self._producer
        if producer is None:
            raise StreamError(f"task {self.name} is closed")
        packed = self._packer.start(
            "packing", lambda: (producer.pack(judged.outgoing), producer.pack(judged.remembered))
        )
        finished = self.finish()
        topic = self._context.settings.topics.input
        # A step is announced that is a batch's; nobody counts a transaction that carries none.
        clock = _Clock(self.name, self._context.observer if judged.report is not None else Observer())
        offsets = {
            TopicPartition(topic, one): at for one, at in sorted(judged.reached.items()) if self._told.get(one) != at
        }
        self._told = judged.reached
        self._offsets = taken = self._committer.start(
            "sending the offsets", lambda: begin(producer, offsets, membership, clock.announce)
        )

        def rest() -> _Committed:
            taken.result()
            commit(producer, *packed.result(), clock.announce)
            return _Committed(clock.seconds(), producer.ends_in(self._store.topic))

        self._under_way = judged, self._committer.start("committing", rest)
        return finished

    def wait_for_offsets(self) -> None:
        """Returns when the group has taken the offsets of every batch so far. Raises what failed."""
        if self._offsets is not None:
            try:
                self._offsets.result()
            except TransactionFailed as error:
                if self._under_way is not None:
                    self._suspect(self._under_way[0].records, error)
                raise
            self._offsets = None

    def finish(self) -> bool:
        """Waits for the batch that is being committed, and reports it; whether there was one. Raises what failed."""
        if self._under_way is None:
            return False
        (judged, done), self._under_way = self._under_way, None
        try:
            committed = done.result()
        except TransactionFailed as error:
            self._suspect(judged.records, error)
            raise
        self.positions = judged.reached
        self._store.confirm(committed.changelog_ends)
        self._context.poison.passed(judged.records)
        if self._producer is not None:
            self._router.follow(self._producer.partitions)
        if judged.report is not None:
            seconds = {**judged.report.seconds, **committed.seconds}
            self._context.observer.batch(replace(judged.report, seconds=seconds))
        return judged.report is not None

    def _suspect(self, records: Sequence[Any], error: TransactionFailed) -> None:
        if not records:  # a transaction that only tells where the task stands
            return
        stuck = self._context.poison.failed(records, error)
        if stuck is not None:
            log.log(logging.ERROR if stuck.is_news else logging.DEBUG, stuck.message, extra={"task": self.name})
            self._context.observer.stuck(self.name)

    def _judged(
        self, records: Sequence[Any], ends: Mapping[int, int], following: Sequence[Any], passed: Mapping[int, int]
    ) -> _Judged:
        """Steps 2 and 3, and what is to go out."""
        store = self._store
        clock = _Clock(self.name, self._context.observer)
        clock.announce(CommitStep.JUDGE)
        items, batch = self._judge(records, following)
        strikes = self._context.poison.refused
        outgoing = [
            one
            for i, (record, verdict) in enumerate(zip(records, batch.verdicts, strict=True))
            for one in self._router.routes(record, verdict, i, strikes.get((record.partition, record.offset), 0) < 2)
        ]
        before = self._under_way[0].reached if self._under_way else self.positions
        reached = _further({**before, **{record.partition: record.offset + 1 for record in records}}, passed)
        remembered = self._remembered(batch.delta, reached)
        clock.announce(CommitStep.APPLY)
        store.apply(batch)
        odd = odd_times(items, batch)
        tell(self.name, items, batch, odd, store.dedup, self._context.said)
        report = BatchReport(
            task=self.name,
            items=items,
            verdicts=batch.verdicts,
            counts=batch.counts(),
            seconds=clock.seconds(),
            bytes_in=sum(len(record.value or b"") for record in records),
            bytes_out=sum(len(one.value or b"") for one in outgoing),
            changelog_bytes=sum(len(one.value or b"") for one in remembered),
            remembered=len(self),
            watermark=max(batch.delta.watermark, 0),
            odd_times=odd,
            records=records,
            lag={one: max(0, end - reached[one]) for one, end in ends.items()},
        )
        return _Judged(records, outgoing, remembered, reached, report)

    def _remembered(self, delta: Delta, reached: Mapping[int, int]) -> list[Outgoing]:
        """The changelog's records of a delta that is not applied yet."""
        topic = self._context.settings.topics.input
        standing = Standing(topic, self._topic_ids.get(topic, ""), len(self) + len(delta))
        return self._store.records(delta, standing.header(), offsets_header(reached))


def _further(positions: Mapping[int, int], others: Mapping[int, int]) -> dict[int, int]:
    """
    >>> _further({0: 5, 1: 7}, {0: 6, 1: 0, 2: 9})
    {0: 6, 1: 7}
    """
    return {one: max(at, others.get(one, at)) for one, at in positions.items()}


class _Clock:
    """Tells the observer of each step as it begins, and afterwards how long each took."""

    def __init__(self, task: str, observer: Observer) -> None:
        self._task, self._observer = task, observer
        self._begun: list[tuple[CommitStep, float]] = []

    def announce(self, step: CommitStep) -> None:
        self._begun.append((step, time.monotonic()))
        self._observer.step(step, self._task)

    def seconds(self) -> dict[CommitStep, float]:
        """Seconds of each announced step; the last one ends now."""
        until = [*(moment for _, moment in self._begun[1:]), time.monotonic()]
        return {step: end - start for (step, start), end in zip(self._begun, until, strict=True)}
