"""Give an item back that was held back: from the duplicates topic to the output, with its bytes and headers.

The copy goes out in a transaction of its own; its last header says that it was given back by hand, and why. The memory
stays as it is: the item's original is still remembered, so further copies are held back. A migration leaves the copy
out, as it leaves out the copies of shadow mode.

Nothing remembers that it was done: done again, it writes the item again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from stream_dedup.errors import ConfigError, InputError, StreamError
from stream_dedup.kafka import client
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.record_batch import Outgoing
from stream_dedup.phrases import moment
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.headers import place_of, was_held_back
from stream_dedup.tools.topics.reader import TopicReader
from stream_dedup.worker.outgoing import EVIDENCE, partition_in

GIVEN_BACK = "dedup-given-back"
"""The header of such a record: when it was given back, and why."""
_REASON_CHARS = 1000  # `client.HEADER_ROOM` leaves room for it


@dataclass(frozen=True, slots=True)
class GivenBack:
    """What was done."""

    id: str
    found: str  # topic/partition/offset
    written: str  # topic/partition/offset
    decision: dict[str, Any]  # the evidence of the held-back item


def give_back(
    settings: Settings,
    item_id: str,
    since: int,
    reason: str,
    report: Callable[[int, int], None] = lambda _done, _total: None,
) -> GivenBack:
    """Write the newest held-back item of this id to the output. `since`: ms; no record before that time is read.

    `report` gets the number of offsets that are read, and of all. Raises ConfigError in shadow mode, InputError if
    there is no such item, and StreamError where Kafka cannot be read or written.
    """
    topics = settings.topics
    if settings.policy.shadow:
        raise ConfigError(f"[policy] shadow is true: nothing was held back, and {topics.output} has every item")
    with TopicReader(settings) as reader:
        record = reader.newest(topics.duplicates, lambda record: _id_of(record) == item_id, since, report)
        if record is None:
            raise InputError(
                f"{topics.duplicates} has held back no item with the id {item_id!r} since {moment(since)}; look "
                f"further back with --since 30d. Dead letters are in {topics.dead_letters}. An id is compared letter "
                "by letter: the status page and the header dedup-evidence show it"
            )
        counts = {name: len(reader.beginnings(name)) for name in (topics.input, topics.output)}
    came_from = max(place_of(record)[0], 0)
    partition = partition_in(counts[topics.output], counts[topics.input], record.key, came_from)
    note = f"{moment(int(time.time() * 1000))}: {reason}"[:_REASON_CHARS]
    headers = [*record.headers, (GIVEN_BACK, note.encode("utf-8", "replace"))]
    copy = Outgoing(topics.output, partition, record.key, record.value, headers, record.timestamp, 0)
    return GivenBack(
        item_id,
        f"{record.topic}/{record.partition}/{record.offset}",
        f"{topics.output}/{partition}/{_write(settings, copy)}",
        decision_of(record) or {},
    )


def _write(settings: Settings, record: Outgoing) -> int | str:
    """Write a record in a transaction; return its offset."""
    config = client.producer(settings, f"{settings.kafka.group_id}-give-back")
    producer = TaskProducer(config, settings.worker.transaction_timeout.total_seconds())
    try:
        producer.write("giving the item back", [record])
        return next((end - 1 for end in producer.ends_in(record.topic).values()), "?")
    except StreamError as error:
        raise StreamError(
            f"{error}; the item may have gone out all the same: look for {GIVEN_BACK} in {record.topic} before you try "
            "again"
        ) from error
    finally:
        producer.close()


def _id_of(record: Any) -> str | None:
    decision = decision_of(record) if was_held_back(record) else None
    return decision.get("id") if decision else None


def decision_of(record: Any) -> dict[str, Any] | None:
    """Return the decision in our header; other programs may have written to the topic, too."""
    value = next((value for name, value in reversed(record.headers) if name == EVIDENCE), None)
    try:
        return msgspec.json.decode(value or b"", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
