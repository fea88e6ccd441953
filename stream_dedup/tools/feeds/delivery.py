"""Deliver the lines of a numbered batch: to a stream, a file, or the input topic of the worker.

If the process was killed before the state knew of a delivery, the next run delivers the batch again:

- A file is cut to the length that the state knows, and written again.
- On Kafka one transaction holds the records and the proof: the number of the batch, committed as an offset of the group
  `GROUP-feeds`, with the state's owner as its metadata. Opening the producer fences a former one and ends its
  transaction. Then the group's offset shows whether the batch is there.
- A stream gets the batch twice (at least once). A deduplicator behind it recognises the repeat by the ids.
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stream_dedup.errors import Refused, Stalled, StreamError, TransactionFailed
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.output_files import Output, Target
from stream_dedup.tools.feeds.database import Line

if TYPE_CHECKING:
    from stream_dedup.kafka.producer import TaskProducer

log = logging.getLogger(__name__)


class FileDelivery:
    """Standard output, another stream, or a file, packed by its suffix; its first `length` bytes are kept."""

    largest = 10 * 2**20
    """Bytes of the largest line; `filter` takes items of the same size."""

    def __init__(self, target: Target, length: int) -> None:
        self._output = Output(target, in_place=True)
        self._output.cut(length)

    def deliver(self, sequence: int, lines: Sequence[Line]) -> int:
        """Write the lines, and return the length of the output."""
        self._output.write(b"".join(line + b"\n" for _, line in lines))
        self._output.sync()
        return self._output.length

    def close(self) -> None:
        self._output.__exit__(None, None, None)


class KafkaDelivery:
    """The input topic. `owner`: that of the state. `stop`: set when the process shall end.

    Raises TopicError if the topics are not ready. `deliver` tries again while brokers are away. It raises StreamError
    if it cannot write for another reason, or after a stop.
    """

    def __init__(self, settings: Settings, owner: str, stop: threading.Event) -> None:
        from stream_dedup.kafka.client import HEADER_ROOM
        from stream_dedup.kafka.topics import check_topics
        from stream_dedup.worker.context import Retry

        self._topic = settings.topics.input
        topic = check_topics(settings)[self._topic]
        self._partitions = topic.partitions
        self.largest = min(topic.limit, settings.worker.max_record_bytes) - HEADER_ROOM
        self._settings, self._owner, self._stop = settings, owner, stop
        self._group = f"{settings.kafka.group_id}-feeds"
        self._producer: TaskProducer | None = None
        self._retry = Retry(settings, f"writing to {self._topic}")

    def deliver(self, sequence: int, lines: Sequence[Line]) -> int:
        """Write the lines, and return 0."""
        while True:
            try:
                self._write(sequence, lines)
                self._retry.succeeded()
                return 0
            except Refused as error:
                log.warning("%s; left out: %s", error, ", ".join(lines[index][0] for index in error.sources))
                lines = [line for index, line in enumerate(lines) if index not in error.sources]
            except (TransactionFailed, Stalled) as error:
                if self._stop.wait(self._retry.failed(error, time.monotonic())):
                    raise StreamError(f"{error}; with a state the next run delivers what is left") from error
            self.close()  # never used again after an error (P3)

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _write(self, sequence: int, lines: Sequence[Line]) -> None:
        from stream_dedup.kafka import client, fetch
        from stream_dedup.kafka.producer import TaskProducer
        from stream_dedup.kafka.record_batch import Outgoing
        from stream_dedup.kafka.runtime import administrator
        from stream_dedup.worker.outgoing import partition_of

        settings, place = self._settings, client.TopicPartition(self._topic, 0)
        if self._producer is None:
            config = client.producer(settings, self._group)
            bound = settings.worker.transaction_timeout.total_seconds()
            self._producer = TaskProducer(config, bound, topics=[self._topic])
            # A former producer may have committed the batch, or a transaction of unknown outcome.
            with administrator(settings) as admin:
                committed = admin.list_group_offsets(self._group)[self._group].get(place)
            if committed is not None and committed.metadata == self._owner and committed.offset >= sequence:
                return
        producer = self._producer
        count = producer.partitions.get(self._topic, self._partitions)
        # No timestamp, so the time of writing counts: retention would delete the old entries of a new feed at once.
        records = [
            Outgoing(self._topic, partition_of(name.encode(), count), name.encode(), line, [], None, index)
            for index, (name, line) in enumerate(lines)
        ]

        def transaction() -> None:
            producer.begin()
            producer.send_offsets({place: (sequence, self._owner, fetch.UNKNOWN)}, self._group)
            producer.send(producer.pack(records))
            producer.flush()
            producer.commit()

        producer.wait(f"writing {len(lines):,} entries", producer.start("a transaction", transaction))


Delivery = FileDelivery | KafkaDelivery
