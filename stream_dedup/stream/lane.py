"""A lane: some input partitions, one index, one transactional producer, one changelog partition.

In scope global there is one lane of all partitions, in scope partition one a partition; the code is the same,
and so is the fence: whoever opens a lane takes its transactional id, and no former owner can commit any more.

Opening is always the same, at a start, a take-over, and after any failure, and its order is what makes it safe:

1. the layout of the topics is checked;
2. a new producer fences the former owner; its open transaction is aborted, a committing one completes;
3. the memory reads what it lacks of the changelog, which from now on only we can write: little, if it has followed the
   changelog as a standby, or is that of this lane before a failure (memory.py);
4. the committed input offsets are read, stable since 2; what was known before the fence counts for nothing.

It is done in a thread of its own (slot.py), beside the worker's loop, which keeps the membership of the group.

From then on the lane alone knows where its partitions stand (`positions`): it moves them when a batch is
committed, never otherwise. Batches overlap: while one is being committed the next is judged (transaction.py says
why that is safe) and the one after it fingerprinted, which needs nothing of those before.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import Any

from kafka import TopicPartition

from stream_dedup.changelog.topic import offsets_header
from stream_dedup.errors import ChangelogError, StreamError, TransactionFailed
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.group import Group
from stream_dedup.stream.judge import Judge
from stream_dedup.stream.memory import Memory
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.producer import LaneProducer
from stream_dedup.stream.records import Router
from stream_dedup.stream.surroundings import Surroundings
from stream_dedup.stream.transaction import Outgoing, Step, begin, commit

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A judged batch on its way out."""

    records: Sequence[Any]
    outgoing: list[Outgoing]
    remembered: list[Outgoing]
    reached: dict[int, int]  # where the lane's partitions stand once it is committed
    report: BatchReport


@dataclass(frozen=True, slots=True)
class _Committed:
    """How long each step took, and where the changelog ends; None: nobody knows."""

    seconds: dict[Step, float]
    changelog_end: int | None


class Lane:
    """See the module's first lines. The constructor opens it, which takes long; `check` is called often meanwhile and
    may raise. The memory is lent: it goes back to its owner when the constructor fails or the lane is closed.
    """

    def __init__(
        self,
        name: str,
        partitions: frozenset[int],
        group: Group,
        surroundings: Surroundings,
        check: Callable[[], None],
        memory: Memory,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.positions: dict[int, int] = {}
        self._around = surroundings
        self.opened_in = 0.0  # seconds
        self._memory = memory
        self._producer: LaneProducer | None = None
        self._committer = surroundings.thread(f"{name}-committer")
        self._packer = surroundings.thread(f"{name}-packer")
        self._preparer = surroundings.thread(f"{name}-preparer")
        self._offsets: Future[None] | None = None
        self._under_way: tuple[_Judged, Future[_Committed]] | None = None
        try:
            self._open(group, check)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Originals in the index."""
        return len(self._memory.dedup)

    @property
    def is_busy(self) -> bool:
        """Whether a batch is being committed, or waits for `finish` to report it."""
        return self._under_way is not None

    def close(self, *, wait: bool = True) -> None:
        """Lets go of the producer. What was not committed never happened; what was being committed may have, and the
        next to open the lane asks. In the memory it is pending until somebody rolls that back.

        Without `wait` the producer is closed in the background: with the broker away it takes seconds.
        """
        self._preparer.end()
        self._packer.end()
        self._committer.end()
        if self._producer is not None:
            if wait:
                self._producer.close()
            else:
                self._around.thread(f"{self.name}-closing").end(self._producer.close)
            self._producer = None

    # -- opening -----------------------------------------------------------------------------------------

    def _open(self, group: Group, check: Callable[[], None]) -> None:
        settings, began = self._around.settings, time.monotonic()
        followed = len(self)
        # Meanwhile the memory finds its brokers, some 60 ms, so that it reads at once when the fence stands.
        connected = self._packer.start("connecting to the changelog", self._memory.connect)
        try:
            self._fence(settings, check)
        finally:
            wait([connected])  # it bounds itself, and the memory is not to be used by two
        connected.result()
        check()
        self._judge = Judge(self._around, self._router, self._memory.dedup, self._preparer)
        restored = self._memory.complete(self._shown(check))
        if restored.migration is not None and not restored.migration.complete:
            raise ChangelogError(
                f"a migration is filling {self._memory.place.topic} and is not complete: run `stream-dedup migrate` "
                "with these settings again, or delete the topic to begin with an empty memory"
            )
        self.positions = self._committed(group, restored.offsets)
        self._around.suspects.reached(self.positions)
        self.opened_in = seconds = time.monotonic() - began
        log.info(
            "lane %s is open: partitions %s, %d originals from %d changelog blocks (%d originals were there), %.1f s",
            self.name, sorted(self.partitions), len(self), restored.blocks, followed, seconds,
            extra={"lane": self.name, "originals": len(self), "seconds": round(seconds, 3)},
        )  # fmt: skip

    def _fence(self, settings: Settings, check: Callable[[], None]) -> None:
        """Steps 1 and 2."""
        self._router = Router(settings, self._around.layout(), self._memory.dedup.scheme_id)
        check()
        self._producer = LaneProducer(
            client.producer(settings, self._memory.owner),
            self._around.bound,
            self._around.left,
            topics=self._router.topics,
        )

    def _shown(self, check: Callable[[], None]) -> Callable[[int, int], None]:
        """Tells how far the reading has come, unless it is to end."""

        def progress(done: int, total: int) -> None:
            check()
            self._around.observer.restoring(self.name, done, total)

        return progress

    def _committed(self, group: Group, remembered: Mapping[int, int]) -> dict[int, int]:
        """Where to go on: the group's offsets; where they have expired the changelog's; else the beginning."""
        positions = {}
        for partition in sorted(self.partitions):
            offset = group.committed(partition)
            if offset is None and partition in remembered:
                offset = remembered[partition]
                log.warning(
                    "the group has no offset for partition %d (brokers drop those of idle groups); going on at %d, "
                    "which the changelog remembers", partition, offset,
                )  # fmt: skip
            positions[partition] = group.beginning(partition) if offset is None else offset
        return positions

    # -- working -----------------------------------------------------------------------------------------

    def process(
        self, records: Sequence[Any], membership: Any, ends: Mapping[int, int], following: Sequence[Any] = ()
    ) -> bool:
        """Judges records of this lane, in order, and begins to commit them once the batch before is committed;
        whether there was one. The group must not be polled again before `wait_for_offsets` has returned.

        After an error, of this batch or of the one before, the lane must be closed and the memory rolled back. `ends`
        says where the partitions end, as far as is known; `following` are the records of the next call, if they are
        there already.
        """
        producer = self._producer
        if producer is None:
            raise StreamError(f"lane {self.name} is closed")
        judged = self._judged(records, ends, following)
        packed = self._packer.start(
            "packing", lambda: (producer.pack(judged.outgoing), producer.pack(judged.remembered))
        )
        finished = self.finish()
        topic, clock = self._around.settings.topics.input, _Clock(self.name, self._around.observer)
        read = {record.partition for record in records}
        offsets = {TopicPartition(topic, one): judged.reached[one] for one in sorted(read)}
        self._offsets = taken = self._committer.start(
            "sending the offsets", lambda: begin(producer, offsets, membership, clock.announce)
        )

        def rest() -> _Committed:
            taken.result()
            commit(producer, *packed.result(), clock.announce)
            return _Committed(clock.seconds(), producer.end_of(*self._memory.place))

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
        self._memory.confirm(committed.changelog_end, judged.reached)
        self._around.suspects.passed(judged.records)
        if self._producer is not None:
            self._router.follow(self._producer.partitions)
        self._around.observer.batch(replace(judged.report, seconds={**judged.report.seconds, **committed.seconds}))
        return True

    def _suspect(self, records: Sequence[Any], error: TransactionFailed) -> None:
        stuck = self._around.suspects.failed(records, error)
        if stuck is not None:
            log.log(logging.ERROR if stuck.is_news else logging.DEBUG, stuck.message, extra={"lane": self.name})
            self._around.observer.stuck(self.name)

    def _judged(self, records: Sequence[Any], ends: Mapping[int, int], following: Sequence[Any]) -> _Judged:
        """Steps 2 and 3, and what is to go out."""
        memory = self._memory
        clock = _Clock(self.name, self._around.observer)
        clock.announce(Step.JUDGE)
        items, batch = self._judge(records, following)
        strikes = self._around.suspects.refused
        outgoing = [
            one
            for i, (record, verdict) in enumerate(zip(records, batch.verdicts, strict=True))
            for one in self._router.routes(record, verdict, i, strikes.get((record.partition, record.offset), 0) < 2)
        ]
        before = self._under_way[0].reached if self._under_way else self.positions
        reached = {**before, **{record.partition: record.offset + 1 for record in records}}
        remembered = memory.records(batch.delta, offsets_header(reached))
        clock.announce(Step.APPLY)
        memory.apply(batch)
        report = BatchReport(
            lane=self.name,
            items=items,
            verdicts=batch.verdicts,
            counts=batch.counts(),
            seconds=clock.seconds(),
            bytes_in=sum(len(record.value or b"") for record in records),
            bytes_out=sum(len(one.value or b"") for one in outgoing),
            changelog_bytes=sum(len(one.value or b"") for one in remembered),
            remembered=len(self),
            watermark=batch.delta.watermark,
            lag={one: max(0, end - reached[one]) for one, end in ends.items()},
        )
        return _Judged(records, outgoing, remembered, reached, report)


class _Clock:
    """Tells the observer of each step as it begins, and afterwards how long each took."""

    def __init__(self, lane: str, observer: Observer) -> None:
        self._lane, self._observer = lane, observer
        self._begun: list[tuple[Step, float]] = []

    def announce(self, step: Step) -> None:
        self._begun.append((step, time.monotonic()))
        self._observer.step(step, self._lane)

    def seconds(self) -> dict[Step, float]:
        """Seconds of each announced step; the last one ends now."""
        until = [*(moment for _, moment in self._begun[1:]), time.monotonic()]
        return {step: end - start for (step, start), end in zip(self._begun, until, strict=True)}
