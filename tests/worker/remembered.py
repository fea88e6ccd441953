"""Changelogs made by hand, for tests and benchmarks: write deltas with the producer of a task."""

import time
from collections.abc import Iterable

from stream_dedup.changelog.block import encode
from stream_dedup.changelog.entries import ChangelogEntry, EntryBuilder
from stream_dedup.changelog.headers import blocks_header, offsets_header
from stream_dedup.dedup.batch import Delta
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.kafka import client
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.record_batch import Outgoing
from stream_dedup.kafka.runtime import no_deadline
from stream_dedup.kafka.topics import check_topics
from stream_dedup.settings import Settings
from stream_dedup.worker.restore import index_partitions

_PATIENCE = 60.0


class Remembering:
    """A context manager that writes to the changelog of the task `global` with the task's producer."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.places = index_partitions(settings.topics.changelog, 0)
        self.builder = EntryBuilder()
        self.builder.begin(1)
        self._blocks_start = 0
        self._owner = f"{settings.kafka.group_id}-global"
        self._scheme = Scheme(settings.fingerprint).id
        topics = check_topics(settings)
        # With the id of another topic, a worker would read all blocks.
        self._topic_id = topics[settings.topics.changelog].id
        # Without offsets in the changelog or the group, a worker would not know where to resume.
        self._start = offsets_header(dict.fromkeys(range(topics[settings.topics.input].partitions), 0))
        self._producer = TaskProducer(client.producer(settings, self._owner), _PATIENCE, no_deadline)

    def __enter__(self) -> "Remembering":
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def write(self, *deltas: Delta) -> None:
        """Write deltas in one transaction."""
        self.commit([entry for delta in deltas for entry in self.builder.build(delta)])

    def commit(self, entries: Iterable[ChangelogEntry]) -> None:
        """Commit just these entries."""
        self._producer.write("remembering", [self._record(entry) for entry in entries])
        ends = self._producer.ends_in(self.places.blocks.topic)
        self._blocks_start = ends.get(self.places.blocks) or self._blocks_start

    def _record(self, entry: ChangelogEntry) -> Outgoing:
        headers = [self._start, entry.span.header()]
        if entry.is_merged:
            headers.append(blocks_header(self._blocks_start, self._topic_id))
        place = self.places.merged if entry.is_merged else self.places.blocks
        now = int(time.time() * 1000)
        block = encode(entry.delta, self._scheme)
        return Outgoing(place.topic, place.partition, self._owner.encode(), block, headers, now)
