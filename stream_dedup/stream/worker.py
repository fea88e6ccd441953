"""The loop: polls the input topic, gives each lane its records, and keeps lanes and group in step.

In: `Settings`, and whoever watches. Out: records in the output, duplicates and dead-letter topics, each input
accounted for exactly once. `Worker(settings).run(stop)` returns when `stop` is set, within STOP_SECONDS.

What fails is dropped and opened anew, with growing pauses while Kafka is away; what no second try can mend
(a topic that would lose data, a missing right, a changelog of another scheme, input that was deleted before it
was read) ends the worker with an error that says what to do.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import Fenced, Interrupted, Stalled, StreamError, TransactionFailed
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.assignor import SingleActiveAssignor
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.lane import Lane, Surroundings
from stream_dedup.stream.membership import Membership, is_member
from stream_dedup.stream.observer import Observer
from stream_dedup.stream.topics import check_topics
from stream_dedup.stream.transaction import Step

log = logging.getLogger(__name__)

# Container runtimes kill ten seconds after SIGTERM. Of it the running transaction may use up to STOP_SECONDS;
# the rest is for leaving the group, so that another member takes over at once.
STOP_SECONDS = 6.0
_LEAVE_SECONDS = 2.0
_POLL_MS = 200  # also how fast a stop is heard
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_RETRIED = (TransactionFailed, Stalled, Fenced)


class Worker:
    """One member of the group. `clock` gives the wall time in seconds, `deduplicator` makes an empty index."""

    def __init__(
        self,
        settings: Settings,
        *,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.time,
        deduplicator: Callable[[Settings], Deduplicator] = Deduplicator,
    ) -> None:
        self._settings = settings
        self._observer = observer or Observer()
        self._around = Surroundings(settings, self._observer, clock, deduplicator, self._left)
        self._consumer: Any = None
        self._membership: Membership | None = None
        self._settled = -1  # the membership's count of changes at the last settling
        self._lanes: dict[str, Lane] = {}
        self._stop = threading.Event()
        self._stop_at = float("inf")
        self._failures = 0

    def run(self, stop: threading.Event) -> None:
        """Works until `stop` is set. Raises StreamDedupError when trying again would not help."""
        self._stop = stop
        try:
            while not stop.is_set():
                try:
                    self._turn()
                except Interrupted:
                    continue
                except _RETRIED as error:
                    self._pause(error)
                except kafka_errors.KafkaError as error:
                    self._consumer_failed(error)
        except StreamError as error:
            self._observer.error(error, None)
            raise
        finally:
            self._close()

    # -- one turn ----------------------------------------------------------------------------------------

    def _turn(self) -> None:
        if self._consumer is None:
            self._join()
        records = self._consumer.poll(_POLL_MS)
        snapshot = self._consumer.group_metadata()
        if not self._is_settled():
            self._settle()  # what was polled is polled again
            return
        self._observer.turn(list(self._lanes))
        if not records:
            return
        if not is_member(snapshot):
            self._rewind()
            return
        for lane in list(self._lanes.values()):
            mine = [record for place, some in records.items() if place.partition in lane.partitions for record in some]
            for batch in self._batches(mine):
                self._process(lane, batch, snapshot)

    def _process(self, lane: Lane, records: Sequence[Any], snapshot: Any) -> None:
        self._observer.step(Step.POLL, lane.name)
        try:
            lane.process(records, snapshot, self._ends(lane))
        except BaseException as error:
            self._drop(lane.name, str(error))
            raise
        if self._failures:
            log.info("lane %s works again", lane.name)
            self._failures = 0

    def _batches(self, records: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """The client has no bound on what is in flight: a transaction gets `batch_bytes`, or one record."""
        start = size = 0
        for i, record in enumerate(records):
            one = len(record.value or b"") + len(record.key or b"")
            if i > start and (size + one > self._settings.worker.batch_bytes):
                yield records[start:i]
                start, size = i, 0
            size += one
        if start < len(records):
            yield records[start:]

    def _ends(self, lane: Lane) -> dict[int, int]:
        ends = {partition: self._consumer.highwater(self._place(partition)) for partition in lane.partitions}
        return {partition: end for partition, end in ends.items() if end is not None}

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._settings.topics.input, partition)

    # -- the group ---------------------------------------------------------------------------------------

    def _join(self) -> None:
        check_topics(self._settings)
        scope = self._settings.worker.scope
        assignor = SingleActiveAssignor() if scope == "global" else CooperativeStickyAssignor()
        self._consumer = client.make(KafkaConsumer, client.consumer(self._settings, assignor))
        self._membership = Membership(self._consumer)
        self._settled = -1
        self._consumer.subscribe([self._settings.topics.input], listener=self._membership)

    def _is_settled(self) -> bool:
        return self._membership is not None and self._settled == self._membership.changes

    def _settle(self) -> None:
        """Lanes for what is assigned, and for nothing else; every partition stands where its lane says."""
        assert self._membership is not None  # noqa: S101 - _join has been here
        changes, lost = self._membership.changes, self._membership.lost
        assigned = self._consumer.assignment()
        wanted = self._wanted(frozenset(place.partition for place in assigned))
        for name, lane in list(self._lanes.items()):
            if wanted.get(name) != lane.partitions or lane.partitions & lost:
                self._drop(name, "its partitions went to another member")
        lost.clear()
        self._consumer.pause(*assigned)
        for name, partitions in wanted.items():
            if name not in self._lanes:
                self._keep_alive(changes)
                number = 0 if self._settings.worker.scope == "global" else min(partitions)
                self._lanes[name] = Lane(
                    name, number, partitions, self._consumer, self._around, lambda: self._keep_alive(changes)
                )
        self._rewind()
        self._consumer.resume(*assigned)
        self._settled = changes

    def _wanted(self, partitions: frozenset[int]) -> dict[str, frozenset[int]]:
        if self._settings.worker.scope == "partition":
            return {str(one): frozenset([one]) for one in sorted(partitions)}
        return {"global": partitions} if partitions else {}

    def _keep_alive(self, changes: int) -> None:
        """A poll that fetches nothing, everything being paused: it keeps the membership."""
        self._consumer.poll(0)
        if self._membership is None or self._membership.changes != changes:
            raise Interrupted("the assignment changed while a lane was being opened")
        if self._stop.is_set():
            raise Interrupted("a stop came while a lane was being opened")

    def _rewind(self) -> None:
        for lane in self._lanes.values():
            for partition, offset in lane.positions.items():
                self._consumer.seek(self._place(partition), offset)

    def _drop(self, name: str, reason: str) -> None:
        self._lanes.pop(name).close()
        self._settled = -1
        self._observer.lane_lost(name, reason)

    # -- when things go wrong ----------------------------------------------------------------------------

    def _pause(self, error: StreamError) -> None:
        """Waits, longer each time, before the next turn opens anew what is missing."""
        self._settled = -1
        seconds = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._failures)
        self._failures += 1
        level = logging.WARNING if self._failures == 1 else logging.DEBUG
        log.log(level, "%s; trying again, in %.1f s first", error, seconds)
        self._observer.error(error, seconds)
        if isinstance(error, Fenced) and self._consumer is not None:
            # Whoever fenced us may be in the right: hear what the group says before fencing in return.
            self._consumer.pause(*self._consumer.assignment())
            self._consumer.poll(self._settings.worker.session_timeout.total_seconds() * 1000 / 4)
        self._stop.wait(seconds)

    def _consumer_failed(self, error: kafka_errors.KafkaError) -> None:
        topic = self._settings.topics.input
        if isinstance(error, (kafka_errors.OffsetOutOfRangeError, kafka_errors.LogTruncationError)):
            raise StreamError(
                f"{topic} no longer has the records that come next ({error}): they were deleted before they were "
                "read, or lost by the cluster. To go on with what there is, stop every member and run: "
                f"kafka-consumer-groups.sh --bootstrap-server {self._settings.kafka.bootstrap_servers} --group "
                f"{self._settings.kafka.group_id} --topic {topic} --reset-offsets --to-earliest --execute"
            ) from error
        if isinstance(error, kafka_errors.CorruptRecordError):
            standing = {p: o for lane in self._lanes.values() for p, o in lane.positions.items()}
            raise StreamError(
                f"a record of {topic} cannot be read ({error}), at or after these offsets: {standing}. Its bytes on "
                "the broker are damaged, or a header's name is not UTF-8. To skip it, stop every member and run: "
                f"kafka-consumer-groups.sh --bootstrap-server {self._settings.kafka.bootstrap_servers} --group "
                f"{self._settings.kafka.group_id} --topic {topic}:PARTITION --reset-offsets --to-offset OFFSET "
                "--execute"
            ) from error
        ours = client.translate(error, f"reading {topic}")
        if not isinstance(ours, _RETRIED):
            raise ours from error
        self._pause(ours)

    def _left(self) -> float:
        if self._stop_at == float("inf") and self._stop.is_set():
            self._stop_at = time.monotonic() + STOP_SECONDS
        return self._stop_at - time.monotonic()

    def _close(self) -> None:
        """Leaves the group first, so that the others need not wait while the lanes are being closed."""
        if self._consumer is not None:
            consumer, self._consumer = self._consumer, None
            leaving = Bounded(f"{self._settings.kafka.group_id}-leaving")
            try:
                leaving.call(
                    "leaving the group", _LEAVE_SECONDS, lambda: consumer.close(autocommit=False, timeout_ms=1000)
                )
            except (StreamError, kafka_errors.KafkaError) as error:
                log.warning("%s; the group will notice by itself", error)
            leaving.end()
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
