"""A lane: some input partitions, one index, one transactional producer, one changelog partition.

In scope global there is one lane of all partitions, in scope partition one a partition; the code is the same,
and so is the fence: whoever opens a lane takes its transactional id, and no former owner can commit any more.

Opening is always the same, at a start, a take-over, and after any failure, and its order is what makes it safe:

1. the layout of the topics is checked;
2. a new producer fences the former owner; its open transaction is aborted, a committing one completes;
3. the index is restored from the changelog, which from now on only we can write;
4. the committed input offsets are read, stable since 2; what was known before the fence counts for nothing.

From then on the lane alone knows where its partitions stand (`positions`): it moves them when a batch is
committed and applied, never otherwise.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from stream_dedup.changelog import topic as changelog
from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem, Refused, StreamDedupError, StreamError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.group import Group
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.producer import LaneProducer
from stream_dedup.stream.records import REFUSED, Router
from stream_dedup.stream.topics import Layout, check_topics
from stream_dedup.stream.transaction import Outgoing, Step, commit

T = TypeVar("T")

log = logging.getLogger(__name__)

# The group is shown a sign of life this often while a lane is being opened.
_SIGN_OF_LIFE = 0.5
_BEYOND_SUSPICION = Item("1", "A plain headline", "And a plain text of some ten words, as there are many.", "", 0)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all lanes of a worker share. `left()`: seconds until everything must be over.

    `refused`: how often Kafka has refused the record at (partition, offset); it outlives a lane.
    """

    settings: Settings
    observer: Observer
    clock: Callable[[], float]
    deduplicator: Callable[[Settings], Deduplicator]
    left: Callable[[], float]
    refused: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def bound(self) -> float:
        """The most seconds of one blocking call."""
        return self.settings.worker.transaction_timeout.total_seconds()

    def call(self, what: str, function: Callable[[], T]) -> T:
        """A blocking call of a client that lives for this call, or for a few."""
        calls = Bounded(self.settings.kafka.group_id, self.left)
        try:
            return calls.call(what, self.bound, function)
        except KafkaError as error:
            raise client.translate(error, what) from error
        finally:
            calls.end()

    def layout(self) -> Layout:
        return self.call("checking the topics", lambda: check_topics(self.settings))


class Lane:
    """See the module's first lines. The constructor opens it; `keep_alive` is called often and may raise."""

    def __init__(
        self,
        name: str,
        changelog_partition: int,
        partitions: frozenset[int],
        group: Group,
        surroundings: Surroundings,
        keep_alive: Callable[[], None],
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.positions: dict[int, int] = {}
        self._around = surroundings
        self._changelog = TopicPartition(surroundings.settings.topics.changelog, changelog_partition)
        self._owner = f"{surroundings.settings.kafka.group_id}-{name}"
        self._decode = Decoder(surroundings.settings.item)
        self._dedup: Deduplicator | None = None
        self._producer: LaneProducer | None = None
        try:
            self._open(group, keep_alive)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Originals in the index."""
        return len(self._dedup) if self._dedup is not None else 0

    def close(self) -> None:
        """Lets go of the index and the producer. What was not committed never happened."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None
        if self._dedup is not None:
            self._dedup.close()
            self._dedup = None

    # -- opening -----------------------------------------------------------------------------------------

    def _open(self, group: Group, keep_alive: Callable[[], None]) -> None:
        settings, began = self._around.settings, time.monotonic()
        layout = self._around.layout()
        keep_alive()
        self._producer = LaneProducer(client.producer(settings, self._owner), self._around.bound, self._around.left)
        self._dedup = self._around.deduplicator(settings)
        self._router = Router(settings, layout, self._dedup.scheme_id)
        restored = self._restore(self._dedup, keep_alive)
        self.positions = self._committed(group, restored.offsets)
        seconds = time.monotonic() - began
        log.info(
            "lane %s is open: partitions %s, %d originals from %d changelog blocks, %.1f s",
            self.name, sorted(self.partitions), len(self), restored.blocks, seconds,
        )  # fmt: skip
        self._around.observer.lane_opened(self.name, sorted(self.partitions), len(self), seconds)

    def _restore(self, dedup: Deduplicator, keep_alive: Callable[[], None]) -> changelog.Restored:
        shown = time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal shown
            self._around.observer.restoring(self.name, done, total)
            if time.monotonic() - shown >= _SIGN_OF_LIFE:
                keep_alive()
                shown = time.monotonic()

        return changelog.restore(
            lambda: client.make(KafkaAdminClient, client.connection(self._around.settings)),
            lambda: client.make(KafkaConsumer, client.changelog_reader(self._around.settings)),
            self._changelog,
            self._owner.encode(),
            dedup.scheme_id,
            dedup.scheme.record_dtype,
            dedup.restore,
            progress,
            lambda function: self._around.call("reading the changelog", function),
        )

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

    def process(self, records: Sequence[Any], membership: Any, ends: Mapping[int, int]) -> None:
        """Steps 2 to 9 for records of this lane, in order. After an error the lane must be closed.

        `ends` says where the partitions end, as far as is known.
        """
        if self._dedup is None or self._producer is None:
            raise StreamError(f"lane {self.name} is closed")
        begun: list[tuple[Step, float]] = []

        def announce(step: Step) -> None:
            begun.append((step, time.monotonic()))
            self._around.observer.step(step, self.name)

        announce(Step.JUDGE)
        items = [self._item(record) for record in records]
        batch = self._judge(self._dedup, items)
        strikes = self._around.refused
        outgoing = [
            self._router.route(record, verdict, i, strikes.get((record.partition, record.offset), 0) < 2)
            for i, (record, verdict) in enumerate(zip(records, batch.verdicts, strict=True))
        ]
        offsets = {record.partition: record.offset + 1 for record in records}
        remembered = self._remembered(batch, offsets, self._dedup.scheme_id)
        topic = self._around.settings.topics.input
        places = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        try:
            commit(self._producer, outgoing, remembered, places, membership, announce)
        except Refused as error:
            if error.source >= 0:
                record = records[error.source]
                strikes[record.partition, record.offset] = strikes.get((record.partition, record.offset), 0) + 1
            raise
        announce(Step.APPLY)
        self._dedup.apply(batch)
        self.positions |= offsets
        for record in records if strikes else ():
            strikes.pop((record.partition, record.offset), None)
        until = [*(moment for _, moment in begun[1:]), time.monotonic()]
        self._around.observer.batch(
            BatchReport(
                lane=self.name,
                items=items,
                verdicts=batch.verdicts,
                counts=batch.counts(),
                seconds={step: end - start for (step, start), end in zip(begun, until, strict=True)},
                bytes_in=sum(len(record.value or b"") for record in records),
                bytes_out=sum(len(one.value or b"") for one in outgoing),
                changelog_bytes=sum(len(one.value or b"") for one in remembered),
                remembered=len(self),
                watermark=batch.delta.watermark,
                lag={one: max(0, end - self.positions[one]) for one, end in ends.items()},
            )
        )

    def _item(self, record: Any) -> Item | Tombstone | BadItem:
        if (record.partition, record.offset) in self._around.refused:
            return BadItem(REFUSED, "Kafka took it neither as output nor as duplicate; the worker's log has the answer")
        refusal = self._router.refuse(record)
        if refusal is not None:
            return refusal
        item = self._decode(record.value, record.key, record.timestamp, record.partition, record.offset)
        if not isinstance(item, BadItem) and len(item.id) * 4 > client.MAX_ID_BYTES:
            size = len(item.id.encode("utf-8", "replace"))
            if size > client.MAX_ID_BYTES:
                return BadItem("id", f"the id has {size} bytes, at most {client.MAX_ID_BYTES} make sense")
        return item

    def _judge(self, dedup: Deduplicator, items: list[Item | Tombstone | BadItem]) -> Batch:
        """The verdicts. An item the code fails on becomes a bad one: it must not stop all that follow it.

        `judge` changes nothing, so each item can be tried by itself. What fails on an item beyond suspicion too,
        or only on all together, is no item's fault, and ends the worker.
        """
        # A clock that is further ahead must not move the window.
        latest = int(self._around.clock() * 1000) + client.milliseconds(self._around.settings.window.future)
        try:
            return dedup.judge(items, latest)
        except (StreamDedupError, MemoryError):
            raise
        except Exception:
            log.exception("judging %d items failed; trying them one by one", len(items))
        dedup.judge([_BEYOND_SUSPICION])
        for i, item in enumerate(items):
            try:
                dedup.judge([item], latest)
            except Exception as error:  # noqa: BLE001 - whatever it is, this item causes it
                items[i] = BadItem("internal", f"judging it failed: {error!r}")
        return dedup.judge(items, latest)

    def _remembered(self, batch: Batch, offsets: Mapping[int, int], scheme_id: int) -> list[Outgoing]:
        # The record's time is the time of writing, never the items': retention counts by it.
        now = int(self._around.clock() * 1000)
        headers = [changelog.offsets_header({**self.positions, **offsets})]
        return [
            Outgoing(self._changelog.topic, self._changelog.partition, self._owner.encode(), block, headers, now)
            for block in changelog.blocks(batch.delta, scheme_id)
        ]
