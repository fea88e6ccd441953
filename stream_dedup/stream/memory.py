"""A lane's memory: an index, and the reader that fills it from the lane's changelog partition.

In: the changelog's committed blocks. Out: a `Deduplicator` that knows what the blocks say. The member that works on a
lane reads all there is, once it has fenced the former owner. A standby reads before that, as blocks come (`follow`),
and has only the last ones left when it takes over. What it has read is committed, so it is never wrong, only late; it
writes nothing and holds no right to anything.
"""

import time
from collections.abc import Callable

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from stream_dedup.changelog.topic import ChangelogReader, Restored, blocks, end_of
from stream_dedup.dedup.batch import Delta
from stream_dedup.stream import client
from stream_dedup.stream.surroundings import Surroundings
from stream_dedup.stream.transaction import Outgoing

# A turn of the worker's loop, which keeps its membership of the group, may take this much longer.
_SLICE = 0.2
# What is there comes at once; for what is not there the group's own poll waits.
_POLL_MS = 20
# Originals that a standby leaves unsorted, for the first batch after a take-over to sort: 0.6 µs each on an idle core,
# so that a million would hold it up by more than half a second.
_MUCH = 20_000


class Memory:
    """Opens the changelog `partition` of the lane `name` at its beginning. Raises a StreamError if that fails.

    `topic_id`: of the changelog as it is known to be; what was read of another topic of the same name is worth nothing.
    """

    def __init__(self, around: Surroundings, name: str, partition: int, topic_id: str = "") -> None:
        self.topic_id = topic_id
        self.place = TopicPartition(around.settings.topics.changelog, partition)
        self.owner = f"{around.settings.kafka.group_id}-{name}"
        self._around = around
        self._calls = around.thread(f"{name}-reader")
        self.dedup = around.deduplicator(around.settings)
        try:
            self._reader = ChangelogReader(
                lambda: client.make(KafkaConsumer, client.changelog_reader(around.settings)),
                self.place,
                self.owner.encode(),
                self.dedup.scheme_id,
                self.dedup.scheme.record_dtype,
                self.dedup.restore,
                lambda function: around.call(self._calls, "reading the changelog", function),
            )
        except BaseException:
            self.dedup.close()
            self._calls.end()
            raise

    def follow(self) -> None:
        """Reads what has come since, for at most a fifth of a second, and sorts it once there is no more.

        Raises StreamError or ChangelogError.
        """
        until = time.monotonic() + _SLICE
        while time.monotonic() < until:
            if not self._reader.advance(_POLL_MS):
                if self.dedup.index.rows_waiting > _MUCH:
                    self.dedup.settle()
                return

    def complete(self, progress: Callable[[int, int], None]) -> Restored:
        """Reads all that was written before the call, and nothing after it; the former writer must be fenced.

        `progress(done, total)` in offsets; it may raise.
        """

        def end() -> int:
            return end_of(lambda: client.make(KafkaAdminClient, client.connection(self._around.settings)), self.place)

        self._reader.read_to(self._around.call_once("looking for the changelog's end", end), progress)
        self._calls.end(self._reader.end)
        return self._reader.restored

    def records(self, delta: Delta, *headers: tuple[str, bytes]) -> list[Outgoing]:
        """What is to be written of a delta, so that the next reader knows it too; each block gets the headers."""
        # The record's time is the time of writing, never the items': retention counts by it.
        now = self._around.now()
        topic, partition, owner = self.place.topic, self.place.partition, self.owner.encode()
        return [
            Outgoing(topic, partition, owner, block, [*headers], now) for block in blocks(delta, self.dedup.scheme_id)
        ]

    def close(self) -> None:
        """Lets go of the index and of the reader."""
        self.dedup.close()
        self._calls.end(self._reader.end)
