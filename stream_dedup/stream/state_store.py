"""A task's memory: an index, and the reader that fills it from the task's two partitions of the changelog.

In: the changelog's committed blocks and folds, and batches of the task's own. Out: a `Deduplicator` that knows what
they say. The member that works on a task reads all there is, once it has fenced the former owner. A standby reads
before that, as pieces come (`follow`), and has only the last ones left when it takes over. What it has read is
committed, so it is never wrong, only late; it writes nothing and holds no right to anything.

A memory outlives its task and every failure. While the task works nothing is read: its own batches are applied, pending
until they are confirmed, and with each confirmation comes where its pieces end in the changelog. After a failure what
is pending is taken out again, whatever became of its transaction, and the sequence numbers go back with it. The reader
goes on behind the last confirmed pieces: if the transaction was committed after all, that is where its own stand.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import LogTruncationError, OffsetOutOfRangeError

from stream_dedup.changelog.block import encode
from stream_dedup.changelog.entries import Folding, Snapshot
from stream_dedup.changelog.headers import Restored
from stream_dedup.changelog.partitions import end_of, places_of
from stream_dedup.changelog.reader import ChangelogReader
from stream_dedup.dedup.batch import Batch, Delta
from stream_dedup.errors import Outdated, StreamError
from stream_dedup.stream import client
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.transaction import Outgoing

# A turn of the worker's loop, which keeps its membership of the group, may take this much longer.
_SLICE = 0.2
# What is there comes at once; for what is not there the group's own poll waits.
_POLL_MS = 20
# Originals that a standby leaves unsorted, for the first batch after a take-over to sort: 0.6 µs each on an idle core,
# so that a million would hold it up by more than half a second.
_MUCH = 20_000
# How often a standby asks where the changelog ends, a request of some milliseconds, to tell how far it is behind.
_ASK_SECONDS = 1.0


class _Taken(NamedTuple):
    """What there is to know of a pending batch: the folding before its records, and their headers."""

    before: Snapshot
    headers: tuple[tuple[str, bytes], ...]


class StateStore:
    """The memory of the task `name`, the index of this number in the changelog.

    `topic_id`: of the changelog, "" while it is not known; what was read of another topic of the same name is worth
    nothing.
    """

    def __init__(self, context: WorkerContext, name: str, index: int, topic_id: str = "") -> None:
        self.topic_id = topic_id
        self.topic = context.settings.topics.changelog
        self.places = places_of(self.topic, index)
        self.owner = f"{context.settings.kafka.group_id}-{name}"
        self._context, self._name = context, name
        self._calls: Bounded | None = None
        self.dedup = context.deduplicator(context.settings)
        self._folding = Folding()
        self._taken: deque[_Taken] = deque()  # oldest first
        self._is_certain = True
        self._level_at = time.monotonic()  # when all was read that there was
        self._blocks_behind, self._asked_at = 0, 0.0
        self._reader = ChangelogReader(
            lambda: client.make(KafkaConsumer, client.changelog_reader(context.settings)),
            self.places,
            self.owner.encode(),
            self.dedup.scheme_id,
            self.dedup.scheme.signature_dtype,
            self.dedup.restore,
            self._folding,
            self._ends,
            self._call,
        )

    @property
    def restored(self) -> Restored:
        """What the changelog has said so far."""
        return self._reader.restored

    @property
    def behind(self) -> tuple[int, float]:
        """How many offsets of the changelog were not read when the end was asked for last, and for how many seconds
        there have been such, or nobody could ask.
        """
        return self._blocks_behind, time.monotonic() - self._level_at

    def connect(self) -> None:
        """Finds the brokers and the place where the reading goes on. Raises what `follow` raises."""
        self._reader.connect()

    def belongs_to(self, topic_id: str) -> None:
        """Says which topic the changelog is now. Raises Outdated if another one was read."""
        if self.topic_id and topic_id and self.topic_id != topic_id:
            raise Outdated(f"{self.topic} is not the topic that was read before: it was deleted and created anew")
        self.topic_id = topic_id or self.topic_id

    def follow(self) -> None:
        """Reads what has come since, for at most a fifth of a second, and sorts it once there is no more.

        Raises StreamError or ChangelogError; after Outdated the memory is of no use, after others it goes on.
        """
        until = time.monotonic() + _SLICE
        while time.monotonic() < until:
            if not self._reader.advance(_POLL_MS):
                if self.dedup.index.rows_waiting > _MUCH:
                    self.dedup.wait_for_merges()
                break
        if time.monotonic() - self._asked_at > _ASK_SECONDS:
            self._blocks_behind, self._asked_at = self._reader.behind(), time.monotonic()
            if not self._blocks_behind:
                self._level_at = self._asked_at

    def complete(self, progress: Callable[[int, int], None]) -> Restored:
        """Reads all that was written before the call, and nothing after it; the former writer must be fenced.

        `progress(done, total)` in offsets; it may raise. Raises what `follow` raises.
        """
        self._reader.read_to(self._ends(), progress)
        self._release()
        return self._reader.restored

    def records(self, delta: Delta, *headers: tuple[str, bytes]) -> list[Outgoing]:
        """What is to be written of a delta, so that the next reader knows it too; each record gets the headers.

        It takes sequence numbers: apply, and confirm or roll back, whatever it was asked for.
        """
        self._taken.append(_Taken(self._folding.snapshot(), headers))
        # The record's time is the time of writing, never the items': retention counts by it.
        now, owner, scheme = self._context.now(), self.owner.encode(), self.dedup.scheme_id
        blocks, folds = self.places
        return [
            Outgoing(
                self.topic,
                folds.partition if piece.is_fold else blocks.partition,
                owner,
                encode(piece.delta, scheme),
                [*headers, piece.span.header()],
                now,
            )
            for piece in self._folding.take(delta)
        ]

    # -- batches of the task's own -------------------------------------------------------------------------

    def apply(self, batch: Batch) -> None:
        """Takes in a batch that is about to be committed: pending until `confirm`."""
        self._is_certain = False  # a fault half-way leaves nobody knows what
        self.dedup.apply(batch, pending=True)
        self._is_certain = True

    def confirm(self, ends: Mapping[TopicPartition, int | None]) -> None:
        """The oldest pending batch is committed: its records end before these offsets of the changelog's partitions, of
        those that it has records in; None if nobody knows.
        """
        self.dedup.confirm()
        mine = self._taken.popleft()
        number = self._taken[0].before.next if self._taken else self._folding.next
        self._reader.skip_to(ends, number, mine.headers)

    def rollback(self) -> bool:
        """Takes out what is pending; whether the memory is of use any more."""
        if self._is_certain:
            self.dedup.rollback()
            if self._taken:
                self._folding.put_back(self._taken[0].before)
                self._taken.clear()
        return self._is_certain and self._reader.knows_position

    def _ends(self) -> Mapping[TopicPartition, int]:
        def ends() -> Mapping[TopicPartition, int]:
            return end_of(lambda: client.make(KafkaAdminClient, client.connection(self._context.settings)), self.places)

        return self._context.call_once("looking for the changelog's end", ends)

    def close(self) -> None:
        """Lets go of the index and of the reader."""
        self._release()
        self.dedup.close()

    def _call(self, function: Callable[[], Any]) -> Any:
        """A call of the reader's client. One that fails is let go of; the next call makes another."""
        if self._calls is None:
            self._calls = self._context.thread(f"{self._name}-reader")
        try:
            return self._context.call(self._calls, "reading the changelog", function)
        except StreamError as error:
            self._release()
            if isinstance(error.__cause__, (OffsetOutOfRangeError, LogTruncationError)):
                raise Outdated(f"{self.topic}: {error}") from error
            raise

    def _release(self) -> None:
        calls, self._calls = self._calls, None
        close = self._reader.release()
        if calls is not None:
            calls.end(close)
