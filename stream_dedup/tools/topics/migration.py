"""Move to another fingerprint scheme without forgetting: read the output topic again, and fill a new changelog.

The settings have the new [fingerprint] and a changelog topic of its own. The workers with the former settings fill the
output topic meanwhile. It holds the items whole, with their places in the input, so the migration judges them again in
input order, and fills the changelog as if the new scheme had judged what readers saw. Nothing is sent.

    FILL      fill the changelog while the former workers go on; after a kill it resumes where it was
    WAIT      keep up until the consumer group is empty: stop the former workers now
    FENCE     take the task's transactional id, so that no former worker can write any more
    COMPLETE  read the rest of the output; the last block says that the migration is complete

Workers with the new settings refuse a changelog whose migration is not complete. The group's input offsets do not
change: the new workers resume where the former ones stopped, so every item is judged once.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any

from stream_dedup.changelog.headers import MigrationCheckpoint
from stream_dedup.dedup.batch import stories_of
from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import BadItem, MigrationError
from stream_dedup.kafka import client, errors
from stream_dedup.kafka.client import KafkaAdminClient, TopicPartition
from stream_dedup.kafka.errors import kafka_errors
from stream_dedup.kafka.fetch import UNKNOWN, LeaderEpochs
from stream_dedup.kafka.patches import seek
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.runtime import Runtime, make_consumer, no_deadline
from stream_dedup.kafka.topics import log_end_offsets
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.headers import place_of, was_held_back
from stream_dedup.tools.topics.reader import throttle
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.observer import Observer
from stream_dedup.worker.outgoing import STORY, VERDICT
from stream_dedup.worker.state_store import StateStore

TASK = "global"
_POLL_MS = 200
# A partition with more waiting records than this is paused.
_MAX_WAITING = 5000


@dataclass(frozen=True, slots=True)
class MigrationProgress:
    """How far a migration is."""

    phase: str  # fill, wait, complete or done
    read: int  # records so far
    total: int  # records in all
    remembered: int  # originals


@dataclass(slots=True)
class Source:
    """One partition of the output topic."""

    place: TopicPartition
    next_offset: int  # of the first record that is not yet judged
    waiting: deque[Any] = field(default_factory=deque)
    fetched: int = 0  # the position of the consumer
    end: int = 0  # of the committed records
    written: int = 0  # the end of all records, those of open transactions included


def in_input_order(sources: Sequence[Source]) -> Iterator[tuple[Source, Any]]:
    """Yield waiting records in input order: within an input partition by offset, otherwise by time.

    It ends where a partition has to be fetched further before the next record is certain. What is written decides, not
    what is committed: a transaction becomes readable in one partition before the other, and its record there would
    otherwise come first.
    """
    while all(source.waiting or source.fetched >= source.written for source in sources):
        heads: dict[int, tuple[int, int, Source]] = {}  # input partition -> its next record
        for source in sources:
            if source.waiting:
                partition, offset = place_of(source.waiting[0])
                if partition not in heads or offset < heads[partition][0]:
                    heads[partition] = offset, source.waiting[0].timestamp, source
        if not heads:
            return
        _, _, first = min(heads.values(), key=lambda head: head[1])
        yield first, first.waiting.popleft()


class Migration:
    """`run` returns when the migration is complete. `report` gets the progress; `clock`: wall time in seconds.

    Raises MigrationError, ChangelogError, TopicError and StreamError. Run again, it resumes where it was.
    """

    def __init__(
        self, settings: Settings, report: Callable[[MigrationProgress], None], clock: Callable[[], float] = time.time
    ) -> None:
        if settings.worker.scope != "global":
            raise MigrationError(
                "a migration works in scope = 'global' only, since in scope partition each task has its own index; "
                "start the new workers with a new, empty changelog instead"
            )
        self._settings, self._on_progress, self._clock = settings, report, clock
        self._context = WorkerContext(settings, Observer(), Runtime(wall=clock), Decider, no_deadline)
        self._decode = Decoder(settings.item, settings.registry)
        self._store: StateStore
        self._consumer: Any = None
        self._admin: Any = None
        self._epochs = LeaderEpochs()
        self._sources: list[Source] = []
        self._judged = 0
        # The stories of the next batch, as readers know them: the new scheme may not find the original of an update.
        self._stories: dict[tuple[int, int], str] = {}

    def run(self) -> MigrationProgress:
        """Migrate (see the module docstring); return the last progress."""
        with errors.translated("migrating"), ExitStack() as resources:
            return self._run(resources)

    def _run(self, resources: ExitStack) -> MigrationProgress:
        changelog = self._context.check_topics()[self._settings.topics.changelog]
        store = self._store = StateStore(self._context, TASK, 0, changelog.id)
        resources.callback(store.close)
        self._consumer = make_consumer(client.changelog_reader(self._settings), epochs=self._epochs)
        resources.callback(self._consumer.close, autocommit=False)
        self._admin = client.make(KafkaAdminClient, client.connection(self._settings))
        resources.callback(self._admin.close)
        with self._producer(f"{store.owner}-migration") as producer:  # fences another migration, before the store reads
            restored = store.complete(lambda done, total: None)
            earlier = restored.migration
            if earlier is None and restored.blocks:
                raise MigrationError(
                    f"{store.topic} is in use by the workers of this group: a migration needs a changelog topic "
                    "of its own; set [topics] changelog to a new name, in the settings of the new workers too"
                )
            if earlier is not None and earlier.complete:
                return self._report("done")
            self._open(earlier or MigrationCheckpoint([], complete=False))
            self._read(producer)
        with self._producer(store.owner) as producer:  # FENCE
            # No worker writes any more, and uncommitted transactions are aborted.
            self._read(producer, self._written())
            self._judge_waiting(producer, complete=True)
        return self._report("done")

    # -- the phases --------------------------------------------------------------------------------------

    def _read(self, producer: TaskProducer, ends: Mapping[TopicPartition, int] | None = None) -> None:
        """Read and judge up to `ends` (COMPLETE); without, until the group is empty (FILL and WAIT)."""
        while True:
            self._fetch()
            self._judge_waiting(producer, complete=False)
            at_end = all(
                not source.waiting and source.fetched >= (ends[source.place] if ends is not None else source.end)
                for source in self._sources
            )
            self._report("complete" if ends is not None else "wait" if at_end else "fill")
            if at_end and (ends is not None or self._group_is_empty()):
                return

    def _report(self, phase: str) -> MigrationProgress:
        unread = sum(len(source.waiting) + max(0, source.end - source.fetched) for source in self._sources)
        progress = MigrationProgress(phase, self._judged, self._judged + unread, len(self._store))
        self._on_progress(progress)
        return progress

    # -- reading -----------------------------------------------------------------------------------------

    def _open(self, checkpoint: MigrationCheckpoint) -> None:
        """Open every partition of the output where the migration was, or at the beginning of the window."""
        epochs = chain(checkpoint.epochs, repeat(UNKNOWN))
        reached = {
            TopicPartition(topic, partition): (offset, epoch)
            for (topic, partition, offset), epoch in zip(checkpoint.next, epochs, strict=False)
        }
        topic, consumer = self._settings.topics.output, self._consumer
        partitions = consumer.partitions_for_topic(topic)
        if not partitions:  # without them its items would be forgotten
            raise MigrationError(f"no broker knows the partitions of {topic} at present; run the migration again")
        places = [TopicPartition(topic, partition) for partition in sorted(partitions)]
        consumer.assign(places)
        horizon = int((self._clock() - self._settings.window.length.total_seconds()) * 1000)
        first, ends = consumer.offsets_for_times(dict.fromkeys(places, horizon)), consumer.end_offsets(places)
        for place in places:
            in_window = first[place].offset if first[place] is not None else ends[place]
            start, epoch = reached.get(place, (in_window, UNKNOWN))
            self._epochs.begin(place, start, epoch)
            seek(consumer, place, start, epoch)
            self._sources.append(Source(place, start, fetched=start, end=ends[place]))

    def _written(self) -> dict[TopicPartition, int]:
        """Return the ends of all partitions, with the records of open transactions."""
        return log_end_offsets(self._admin, [source.place for source in self._sources])

    def _fetch(self) -> None:
        by_place, consumer = {source.place: source for source in self._sources}, self._consumer
        throttle(consumer, {source.place: len(source.waiting) for source in self._sources}, _MAX_WAITING)
        try:
            polled = consumer.poll(_POLL_MS)
        except (kafka_errors.LogTruncationError, kafka_errors.OffsetOutOfRangeError) as error:
            raise MigrationError(
                f"{self._settings.topics.output} no longer has the records that come next, or those that the migration "
                "has read: they were deleted, or a broker was restored from an older copy. Delete "
                f"{self._store.topic}, create it anew with `stream-dedup topics create`, and run the migration again"
            ) from error
        for place, records in polled.items():
            # In shadow mode the output has duplicates, too.
            by_place[place].waiting.extend(record for record in records if not was_held_back(record))
        # After the poll: a transaction that is read in one partition is then written in all.
        ends, written = consumer.end_offsets(list(by_place)), self._written()
        for source in self._sources:
            source.end, source.written = ends[source.place], written[source.place]
            source.fetched = consumer.position(source.place)

    # -- judging -------------------------------------------------------------------------------------

    def _judge_waiting(self, producer: TaskProducer, *, complete: bool) -> None:
        """Judge all that can be judged, a transaction per batch. `complete`: the last one ends the migration."""
        items: list[Item | Tombstone | BadItem] = []
        for source, record in in_input_order(self._sources):
            place = place_of(record)
            items.append(self._decode(record.value, record.key, record.timestamp, *place, record.headers))
            if story := story_of(record):
                self._stories[place] = story
            source.next_offset = record.offset + 1
            if len(items) >= self._settings.worker.batch_items:
                self._commit(producer, items, complete=False)
                items = []
        if items or complete:
            self._commit(producer, items, complete=complete)

    def _commit(self, producer: TaskProducer, items: list[Item | Tombstone | BadItem], *, complete: bool) -> None:
        store = self._store
        batch = store.dedup.judge(items, self._context.latest_event_time())
        delta = batch.delta
        places = zip(delta.signatures["partition"].tolist(), delta.signatures["offset"].tolist(), strict=True)
        names = zip(places, delta.names(), strict=True)
        stories = stories_of((name, self._stories.get(place, story)) for place, (name, story) in names)
        batch = replace(batch, delta=replace(delta, stories=stories))
        self._stories.clear()
        next_offsets = [(*source.place, source.next_offset) for source in self._sources]
        epochs = [self._epochs.before(source.place, source.next_offset) for source in self._sources]
        records = store.take_records(batch.delta, MigrationCheckpoint(next_offsets, complete, epochs).header())
        store.apply(batch)
        producer.write("committing", records)
        store.confirm(producer.ends_in(store.topic))
        self._judged += len(items)

    # -- Kafka -------------------------------------------------------------------------------------------

    def _producer(self, transactional_id: str) -> AbstractContextManager[TaskProducer]:
        config = client.producer(self._settings, transactional_id)
        return closing(TaskProducer(config, self._context.call_timeout, no_deadline))

    def _group_is_empty(self) -> bool:
        groups = {group["group_id"]: group for group in self._admin.list_groups()}
        group = groups.get(self._settings.kafka.group_id)
        return group is None or group["group_state"] in ("Empty", "Dead")


def story_of(record: Any) -> str:
    """Return the story of a record that a worker let through; "" if it names none, as those of earlier releases.

    A header before our verdict came with the item.

    >>> from types import SimpleNamespace
    >>> ours = [("dedup-verdict", b"update"), ("dedup-story", b"1")]
    >>> theirs = [("dedup-story", b"0"), ("dedup-verdict", b"unique")]
    >>> [story_of(SimpleNamespace(headers=one)) for one in (ours, theirs, theirs + ours)]
    ['1', '', '1']
    """
    for name, value in reversed(record.headers):
        if name == STORY and value:
            return str(value.decode("utf-8", "replace"))
        if name == VERDICT:
            break
    return ""
