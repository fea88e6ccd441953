"""From one fingerprint scheme to another without forgetting: what went out is read again, and remembered anew.

In: settings with the new [fingerprint] and a changelog topic of its own; the output and duplicates topics, as the
workers under the former settings fill them. Out: that changelog, as if the new scheme had judged those items. The
items are in the two topics whole, with the place they had in the input, so they are judged again in that order and
nothing is sent: copies that were held back lead to further copies (variants), so they count too.

    1 FILL      the changelog is filled, while the former workers go on; killed, it goes on where it was
    2 WAIT      it keeps up, until the consumer group is empty: stop the former workers now
    3 FENCE     the task's transactional id is taken, so that no former worker can write any more
    4 COMPLETE  the rest of both topics is read; the last block says that the migration is complete

Workers with the new settings refuse a changelog whose migration is not complete. The group's input offsets are not
touched: the new workers go on where the former ones stopped, so every item is judged once.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec

from stream_dedup.changelog.topic import Migrated
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import BadItem, MigrationError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.bounded import no_hurry
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.observer import Observer
from stream_dedup.stream.producer import TaskProducer
from stream_dedup.stream.records import place_of, was_held_back
from stream_dedup.stream.state_store import StateStore

TASK = "global"
_POLL_MS = 200
_ASK_SECONDS = 1.0  # how often the group is asked for
# Records of one partition that wait for another's; then it is not fetched until they are used up.
_AHEAD = 5000


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """`phase`: fill, wait, complete, done; records read so far, records to read, originals remembered."""

    phase: str
    read: int
    total: int
    remembered: int


@dataclass(slots=True)
class _Source:
    """One partition of the output or duplicates topic."""

    place: TopicPartition
    next_offset: int  # of the first record that is not yet remembered
    waiting: deque[Any] = field(default_factory=deque)
    fetched: int = 0  # position of the consumer
    rests: bool = False  # it is not fetched for now
    end: int = 0


class Migration:
    """One migration; `run` ends when it is complete. `clock` gives the wall time in seconds.

    Raises MigrationError, ChangelogError, TopicError and StreamError; run again, it goes on where it was.
    """

    def __init__(
        self, settings: Settings, tell: Callable[[MigrationProgress], None], clock: Callable[[], float] = time.time
    ) -> None:
        if settings.worker.scope != "global":
            raise MigrationError(
                "a migration knows scope = 'global' alone, as in scope partition each task has a memory of its own; "
                "start the new workers with a new, empty changelog instead"
            )
        self._settings, self._tell, self._clock = settings, tell, clock
        self._context = WorkerContext(settings, Observer(), clock, Deduplicator, no_hurry)
        self._decode = Decoder(settings.item)
        self._sources: list[_Source] = []
        self._read = 0

    def run(self) -> MigrationProgress:
        """See the module's first lines; returns the last progress."""
        self._context.topic_metadata()
        store = StateStore(self._context, TASK, 0)
        consumer = client.make_consumer(self._settings, client.changelog_reader(self._settings))
        owner = store.owner
        producer = self._producer(f"{owner}-migration")
        try:
            restored = store.complete(lambda done, total: None)
            before = restored.migration
            if before is None and restored.blocks:
                raise MigrationError(
                    f"{store.topic} is in use by the workers of this group: a migration needs a changelog topic "
                    "of its own; set [topics] changelog to a new name, in the settings of the new workers too"
                )
            if before is not None and before.complete:
                return self._report("done", store)
            self._open(consumer, before.next_offsets if before else {})
            self._follow(consumer, producer, store)
            producer.close()
            producer = self._producer(owner)  # step 3
            self._to_the_end(consumer, producer, store)
            return self._report("done", store)
        finally:
            producer.close()
            consumer.close(autocommit=False)
            store.close()

    # -- the phases --------------------------------------------------------------------------------------

    def _follow(self, consumer: Any, producer: TaskProducer, store: StateStore) -> None:
        """Steps 1 and 2."""
        asked = 0.0
        while True:
            self._fetch(consumer)
            self._remember(producer, store, complete=False)
            at_end = all(not one.waiting and one.fetched >= one.end for one in self._sources)
            self._report("wait" if at_end else "fill", store)
            if at_end and time.monotonic() - asked > _ASK_SECONDS:
                asked = time.monotonic()
                if self._group_is_empty():
                    return

    def _to_the_end(self, consumer: Any, producer: TaskProducer, store: StateStore) -> None:
        """Step 4; nobody writes any more, and what was not committed is aborted."""
        admin = client.make(KafkaAdminClient, client.connection(self._settings))
        try:
            ends = admin.list_partition_offsets({one.place: OffsetSpec.LATEST for one in self._sources})
        finally:
            admin.close()
        while any(one.waiting or one.fetched < ends[one.place].offset for one in self._sources):
            self._fetch(consumer)
            self._remember(producer, store, complete=False)
            self._report("complete", store)
        self._remember(producer, store, complete=True)

    def _report(self, phase: str, store: StateStore) -> MigrationProgress:
        left = sum(len(one.waiting) + max(0, one.end - one.fetched) for one in self._sources)
        progress = MigrationProgress(phase, self._read, self._read + left, len(store.dedup))
        self._tell(progress)
        return progress

    # -- reading -----------------------------------------------------------------------------------------

    def _open(self, consumer: Any, next_offsets: Mapping[tuple[str, int], int]) -> None:
        """Every partition of both topics from where the migration was, or from the beginning of the window."""
        topics = self._settings.topics
        places = [
            TopicPartition(topic, partition)
            for topic in (topics.output, topics.duplicates)
            for partition in sorted(consumer.partitions_for_topic(topic))
        ]
        consumer.assign(places)
        horizon = int((self._clock() - self._settings.window.length.total_seconds()) * 1000)
        first, ends = consumer.offsets_for_times(dict.fromkeys(places, horizon)), consumer.end_offsets(places)
        for place in places:
            found = first[place].offset if first[place] is not None else ends[place]
            start = next_offsets.get((place.topic, place.partition), found)
            consumer.seek(place, start)
            self._sources.append(_Source(place, start, fetched=start, end=ends[place]))

    def _fetch(self, consumer: Any) -> None:
        by_place = {one.place: one for one in self._sources}
        self._rest(consumer)
        for place, records in consumer.poll(_POLL_MS).items():
            # Copies of shadow mode stand in the duplicates topic too.
            copies = place.topic == self._settings.topics.output
            by_place[place].waiting.extend(one for one in records if not (copies and was_held_back(one)))
        ends = consumer.end_offsets(list(by_place))
        for one in self._sources:
            one.end = ends[one.place]
            if not one.rests:
                one.fetched = consumer.position(one.place)

    def _rest(self, consumer: Any) -> None:
        """Leaves out the partitions of which enough waits, until half of that is used up.

        Not by pause and resume: kafka-python 3.0.12 parks what it holds of a paused partition, and takes it up when its
        place for the current partition is None, which it is no more once another partition has come: under load the
        resumed one then stands still for good.
        """
        before = [one.rests for one in self._sources]
        for one in self._sources:
            one.rests = len(one.waiting) > (_AHEAD // 2 if one.rests else _AHEAD)
        if before != [one.rests for one in self._sources]:
            wanted = [one for one in self._sources if not one.rests]
            consumer.assign([one.place for one in wanted])
            for one in wanted:
                consumer.seek(one.place, one.fetched)

    def _in_order(self) -> Iterator[tuple[_Source, Any]]:
        """What can be taken now, as it stood in the input: of one input partition by offset, else by time.

        It ends where a partition has to be fetched further before one can tell what comes next.
        """
        while all(one.waiting or one.fetched >= one.end for one in self._sources):
            heads: dict[int, tuple[int, int, _Source]] = {}  # input partition -> its next
            for one in self._sources:
                if one.waiting:
                    partition, offset = place_of(one.waiting[0])
                    if partition not in heads or offset < heads[partition][0]:
                        heads[partition] = offset, one.waiting[0].timestamp, one
            if not heads:
                return
            _, _, source = min(heads.values(), key=lambda head: head[1])
            yield source, source.waiting.popleft()

    # -- remembering -------------------------------------------------------------------------------------

    def _remember(self, producer: TaskProducer, store: StateStore, *, complete: bool) -> None:
        """Judges what can be judged, a transaction a batch; with `complete` one more that says so."""
        items: list[Item | Tombstone | BadItem] = []
        for source, record in self._in_order():
            items.append(self._decode(record.value, record.key, record.timestamp, *place_of(record)))
            source.next_offset = record.offset + 1
            if len(items) >= self._settings.worker.batch_items:
                self._commit(producer, store, items, complete=False)
                items = []
        if items or complete:
            self._commit(producer, store, items, complete=complete)

    def _commit(
        self, producer: TaskProducer, store: StateStore, items: list[Item | Tombstone | BadItem], *, complete: bool
    ) -> None:
        batch = store.dedup.judge(items, self._context.latest())
        told = {(one.place.topic, one.place.partition): one.next_offset for one in self._sources}
        producer.begin()
        records = store.records(batch.delta, Migrated(told, complete).header())
        store.apply(batch)
        producer.send(producer.pack(records))
        producer.flush()
        producer.commit()
        store.confirm(producer.ends_in(store.topic))
        self._read += len(items)

    # -- Kafka -------------------------------------------------------------------------------------------

    def _producer(self, transactional_id: str) -> TaskProducer:
        config, access = client.producer(self._settings, transactional_id), client.access(self._settings.kafka.client)
        return TaskProducer(config, self._context.bound, no_hurry, access=access)

    def _group_is_empty(self) -> bool:
        admin = client.make(KafkaAdminClient, client.connection(self._settings))
        try:
            groups = {one["group_id"]: one for one in admin.list_groups()}
        finally:
            admin.close()
        group = groups.get(self._settings.kafka.group_id)
        return group is None or group["group_state"] in ("Empty", "Dead")
