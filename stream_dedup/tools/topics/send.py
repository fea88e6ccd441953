"""Send records to a topic: the items of files, tombstones, and the feed of the demo.

Kafka's default partitioner places a record by its key, as it does for producers in other languages. Nothing is
transactional: after a failure in the middle all can be sent again, and a worker holds back what comes twice, by its id.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from stream_dedup.errors import BadItem, StreamError, TopicError
from stream_dedup.kafka import client, errors
from stream_dedup.kafka.client import KafkaProducer
from stream_dedup.kafka.errors import kafka_errors
from stream_dedup.kafka.runtime import administrator
from stream_dedup.kafka.topics import Topic, as_they_are
from stream_dedup.news.item import NO_POSITION, Item, Tombstone
from stream_dedup.settings import Settings

# The producer has no bound on unsent records in memory; a flush after so many records or bytes is one.
_FLUSH_RECORDS, _FLUSH_BYTES = 2000, 2**25
_CLOSE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Record:
    """A record to send. time: its timestamp in ms, None for that of sending. place: where a person finds it."""

    key: bytes | None
    value: bytes | None
    time: int | None = None
    place: str = ""


def key_of(item: Item | Tombstone | BadItem) -> bytes | None:
    """Return the key of a file's item: its id, if it has one."""
    return item.id.encode() if item.id not in ("", NO_POSITION) else None


def _fail(record: Record, problem: str) -> None:
    raise StreamError(f"the record {record.place or record.key!r} cannot be sent: {problem}")


class Sender:
    """Sends records to a topic, at most `rate` a second, until `stop` is set. `sent`: how many so far.

    `refuse` gets each record that the topic does not take, and why.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        records: Iterable[Record],
        stop: threading.Event,
        *,
        rate: float | None = None,
        refuse: Callable[[Record, str], None] = _fail,
    ) -> None:
        self._settings, self._topic, self._records = settings, topic, records
        self._rate, self._stop, self._refuse = rate, stop, refuse
        self.sent = 0

    def run(self) -> None:
        """Send them, and wait until Kafka has them all. Raises a StreamError if topic or brokers do not take them."""
        with administrator(self._settings) as admin:
            topic = as_they_are(admin, [self._topic]).get(self._topic)
        if topic is None:
            raise TopicError(
                f"there is no topic {self._topic} at {self._settings.kafka.bootstrap_servers}, or this user may not "
                f"see it; create it with: stream-dedup topics create{self._settings.config_option}"
            )
        config = {
            "acks": "all", "linger_ms": 5, "allow_auto_create_topics": False, "metrics_enabled": False,
            # The client refuses what is too large: if the broker did, the client would give up the records behind it.
            "batch_size": min(client.BATCH_BYTES, topic.limit // 2), "max_request_size": topic.limit,
        }  # fmt: skip
        with errors.translated(f"sending to {self._topic}"):
            producer = client.make(KafkaProducer, client.connection(self._settings) | config)
            try:
                self._send_all(producer, topic)
            finally:
                producer.close(timeout=_CLOSE_SECONDS)

    def _send_all(self, producer: Any, topic: Topic) -> None:
        start, size, unconfirmed = time.monotonic(), 0, list[Any]()

        def confirm() -> None:
            producer.flush()
            for future in unconfirmed:
                future.get(0)
            unconfirmed.clear()

        for record in self._records:
            if self._stop.is_set():
                break
            if self._rate:
                self._stop.wait(max(0.0, start + self.sent / self._rate - time.monotonic()))
            if record.key is None and topic.is_compacted:
                self._refuse(record, f"it has no id, and {self._topic} is compacted, so a record needs a key")
                continue
            try:
                unconfirmed.append(producer.send(self._topic, record.value, record.key, timestamp_ms=record.time))
            except kafka_errors.MessageSizeTooLargeError:
                self._refuse(record, f"{self._topic} takes {topic.limit:,} bytes a record (max.message.bytes)")
                continue
            self.sent += 1
            size += len(record.value or b"")
            if len(unconfirmed) >= _FLUSH_RECORDS or size >= _FLUSH_BYTES:
                confirm()
                size = 0
        confirm()
