"""Deliver the lines of a batch: to a stream, a file, or the input topic of the worker.

In: the number of a batch and its lines. Out: the length of the output. An output may get a batch twice, if the process
was killed before the state knew that it was delivered:

- A file is cut to the length that the state knows, and written again.
- On Kafka one transaction holds the records and, as the proof, the number of the batch, committed as an offset of the
  group `GROUP-feeds` with the state's owner as its note. Opening the producer fences a former one and ends its
  transaction; then the group tells whether the batch is there.
- A stream gets the batch again: at least once. The ids make the repeat harmless for a deduplicator behind it.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from stream_dedup.batch.outputs import Output, Target
from stream_dedup.errors import InputError, Refused, Stalled, StreamError, TransactionFailed
from stream_dedup.feeds.state import Line
from stream_dedup.settings import Settings

log = logging.getLogger(__name__)

# Bytes of a line. `filter` and the worker take as much of one item; a document has no more.
_LARGEST_LINE = 10 * 2**20
# Seconds for which a transaction may go on after a stop: container runtimes kill ten seconds after SIGTERM.
_STOP_SECONDS = 8.0
_SLICE = 0.2


class Delivery(Protocol):
    """An output. `largest`: bytes of the largest line that it takes."""

    largest: int

    def deliver(self, sequence: int, lines: Sequence[Line]) -> int:
        """Return the length of the output, once it has the lines."""

    def close(self) -> None: ...


class FileDelivery:
    """Standard output, another stream, or a file, packed by its suffix. It begins with its first `length` bytes."""

    largest = _LARGEST_LINE

    def __init__(self, to: Target, length: int) -> None:
        self._output = Output(to, in_place=True)
        if not to.is_stream and self._output.length < length:
            raise InputError(
                f"{to} has {self._output.length} bytes, but the state knows of {length}: it was changed since. Bring "
                "it back, or name another output and another state"
            )
        self._output.cut(length)

    def deliver(self, sequence: int, lines: Sequence[Line]) -> int:
        self._output.write(b"".join(line + b"\n" for _, line in lines))
        self._output.sync()
        return self._output.length

    def close(self) -> None:
        self._output.__exit__(None, None, None)


class KafkaDelivery:
    """The input topic. `owner`: of the state. `is_stopped`: whether the process is to end.

    Raises TopicError if the topics are not ready. `deliver` raises StreamError where Kafka cannot be written, or after
    a stop; while brokers are away it tries again.
    """

    def __init__(self, settings: Settings, owner: str, is_stopped: Callable[[], bool]) -> None:
        from stream_dedup.kafka.bounded import Retry
        from stream_dedup.kafka.client import HEADER_ROOM
        from stream_dedup.kafka.producer import TaskProducer
        from stream_dedup.kafka.topics import check_topics

        self._topic = settings.topics.input
        topic = check_topics(settings)[self._topic]
        self._partitions = topic.partitions
        self.largest = min(topic.limit, settings.worker.max_record_bytes) - HEADER_ROOM
        self._settings, self._owner, self._is_stopped = settings, owner, is_stopped
        self._group = f"{settings.kafka.group_id}-feeds"
        self._producer: TaskProducer | None = None
        self._retry = Retry(settings, f"writing to {self._topic}")
        self._end = float("inf")  # monotonic seconds

    def deliver(self, sequence: int, lines: Sequence[Line]) -> int:
        while True:
            try:
                if self._producer is None and self._open(sequence):
                    return 0
                self._transaction(sequence, lines)
                self._retry.succeeded()
                return 0
            except Refused as error:
                log.warning("%s; left out: %s", error, ", ".join(lines[index][0] for index in error.sources))
                lines = [line for index, line in enumerate(lines) if index not in error.sources]
            except (TransactionFailed, Stalled) as error:
                if self._is_stopped():
                    raise StreamError(f"{error}; with a state the next run delivers what is left") from error
                until = time.monotonic() + self._retry.failed(error, time.monotonic())
                while time.monotonic() < until and not self._is_stopped():
                    time.sleep(_SLICE)
            self.close()  # never used again after an error (P3)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _open(self, sequence: int) -> bool:
        """Fence a former producer; return whether it, or a transaction of unknown outcome, has committed the batch."""
        from stream_dedup.kafka import client
        from stream_dedup.kafka.producer import TaskProducer
        from stream_dedup.kafka.topics import committed_offsets

        settings = self._settings
        bound = settings.worker.transaction_timeout.total_seconds()
        self._producer = TaskProducer(
            client.producer(settings, self._group), bound, self._seconds_left, topics=[self._topic]
        )
        self._producer.note = lambda: self._owner
        offset, note = committed_offsets(settings, self._group).get((self._topic, 0), (-1, ""))
        return note == self._owner and offset >= sequence

    def _transaction(self, sequence: int, lines: Sequence[Line]) -> None:
        from stream_dedup.kafka.client import TopicPartition
        from stream_dedup.kafka.record_batch import Outgoing
        from stream_dedup.worker.records import partition_of

        assert self._producer is not None  # noqa: S101 - for the type checker
        producer = self._producer
        count = self._partitions = producer.partitions.get(self._topic, self._partitions)
        # With the time of writing: a feed's first document has old entries, which retention would delete at once.
        records = [
            Outgoing(self._topic, partition_of(name.encode(), count), name.encode(), line, [], None, index)
            for index, (name, line) in enumerate(lines)
        ]

        def transaction() -> None:
            producer.begin()
            producer.send_offsets({TopicPartition(self._topic, 0): sequence}, self._group)
            producer.send(producer.pack(records))
            producer.flush()
            producer.commit()

        producer.wait(f"writing {len(lines):,} entries", producer.start("a transaction", transaction))

    def _seconds_left(self) -> float:
        if self._is_stopped():
            self._end = min(self._end, time.monotonic() + _STOP_SECONDS)
        return self._end - time.monotonic()
