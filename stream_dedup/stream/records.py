"""A record and its verdict -> the record that goes out.

- unique, update let through, tombstone: to the output, key, value, headers and timestamp untouched; an update says of
  what it is one, and what is new in it, as what is held back says of what it is a duplicate.
- held back: to the duplicates topic, likewise untouched.
- bad: to the dead-letter topic, likewise untouched.
- in shadow mode (`policy.shadow`) what is held back or bad goes there, and to the output too, with the same headers;
  only what Kafka could not take as output stays out of it (too large, refused, neither key nor value).
Our headers come after the record's own.

Which partition: the same number where both topics have as many, so whatever placed a record is kept; else
by Kafka's default partitioner where there is a key, else the number modulo. In each case all records of a key
go the same way, in their order. Topics may grow meanwhile (`follow`): what comes after goes by the new number, as with
any producer.

A record that cannot go out must not hold up the others. Too large is one for which uncompressed `max_record_bytes`
or compressed a topic's limit is too little, and since the input's limit is for compressed batches such records can
come in. It is known beforehand, and goes to the dead letters, without its bytes if it is too large for that topic
too: they stay in the input topic, and a header names the place. Known beforehand is also that a compacted output takes
no item without a key: it would be remembered as an original that nobody ever got, so it is a dead letter unjudged. So
is a record with a header whose name is not UTF-8, which most clients downstream could not read; its bytes are kept.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from kafka.partitioner import murmur2

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.settings import Settings
from stream_dedup.stream import client, record_batch
from stream_dedup.stream.topics import TopicMetadata
from stream_dedup.stream.transaction import Outgoing

log = logging.getLogger(__name__)

VERDICT = "dedup-verdict"  # unique, duplicate, update, bad, tombstone
SCHEME = "dedup-scheme"  # 16 hexadecimal digits: the fingerprint scheme it was judged under
ORIGINAL = "dedup-original"  # held back, or an update: the id of the original
EVIDENCE = "dedup-evidence"  # held back, or an update: Verdict.as_json()
REASON = "dedup-reason"  # bad: one fixed word
DETAIL = "dedup-detail"  # bad: for a person
SOURCE = "dedup-source"  # topic/partition/offset of the record

TOO_LARGE = "too-large"
REFUSED = "refused"
HEADER = "header"
_SHORT = 1000  # bytes of an explanation, or of a key beside an explanation
_VERDICTS = {kind: (VERDICT, str(kind).encode()) for kind in Kind}


class Router:
    """Makes the outgoing record of each verdict, for topics laid out like `layout`."""

    def __init__(self, settings: Settings, metadata: TopicMetadata, scheme_id: int) -> None:
        self._topics = settings.topics
        self._shadow = settings.policy.shadow
        self._metadata = metadata
        self._scheme = (SCHEME, f"{scheme_id:016x}".encode())
        self._max_request = settings.worker.max_record_bytes
        limits = metadata.limits
        self._limit = min(limits[self._topics.output], limits[self._topics.duplicates])
        self._needs_keys = self._topics.output in metadata.compacted

    @property
    def topics(self) -> list[str]:
        """Those whose numbers of partitions say where a record goes."""
        names = self._topics
        return [names.input, names.output, names.duplicates, names.dead_letters]

    def refuse(self, record: Any) -> BadItem | None:
        """Why the record could not go out whatever its verdict; None if it can."""
        too_large = self._too_large(record, self._limit)
        if too_large:
            return BadItem(TOO_LARGE, too_large)
        if record.key is None and self._needs_keys:
            return BadItem(
                REFUSED, f"{self._topics.output} is compacted (cleanup.policy), and takes no record without a key"
            )
        for name, _ in record.headers:
            if not name.isascii() and not _is_utf8(name):
                return BadItem(
                    HEADER, f"the name of a header is not UTF-8: {name.encode(errors=record_batch.ESCAPED)!r}"
                )
        return None

    def routes(self, record: Any, verdict: Verdict, source: int, with_value: bool = True) -> Iterator[Outgoing]:
        """All records that go out for one: that of `route`, in shadow mode after its copy for the output."""
        one = self.route(record, verdict, source, with_value)
        if self._shadow and not verdict.forward and self._can_be_output(record, verdict):
            topic = self._topics.output
            partition = self._partition(topic, record)
            yield Outgoing(topic, partition, record.key, record.value, one.headers, record.timestamp, source)
        yield one

    def route(self, record: Any, verdict: Verdict, source: int, with_value: bool = True) -> Outgoing:
        """The outgoing record. `with_value` False: dead letters without bytes, which Kafka has refused."""
        headers: list[tuple[str, bytes | None]] = list(record.headers)
        place = (SOURCE, f"{record.topic}/{record.partition}/{record.offset}".encode())
        if verdict.kind is Kind.BAD:
            return self._dead_letter(record, verdict, headers, place, source, with_value)
        ours: list[tuple[str, bytes | None]] = [_VERDICTS[verdict.kind], place, self._scheme]
        why: list[tuple[str, bytes | None]] = []
        if verdict.kind is Kind.UPDATE or not verdict.forward:
            if verdict.original is not None:
                why.append((ORIGINAL, _text(verdict.original.id)))
            why.append((EVIDENCE, msgspec.json.encode(verdict.as_json())))
        # The order tells an update that was let through from one that was held back: see `was_held_back`.
        headers += why + ours if verdict.forward else ours + why
        topic = self._topics.output if verdict.forward else self._topics.duplicates
        partition = self._partition(topic, record)
        return Outgoing(topic, partition, record.key, record.value, headers, record.timestamp, source)

    def _dead_letter(
        self,
        record: Any,
        verdict: Verdict,
        headers: list[tuple[str, bytes | None]],
        place: tuple[str, bytes],
        source: int,
        with_value: bool,
    ) -> Outgoing:
        topic = self._topics.dead_letters
        reason, _, detail = verdict.reason.partition(": ")
        ours: list[tuple[str, bytes | None]] = [
            _VERDICTS[verdict.kind],
            self._scheme,
            (REASON, _text(reason)[:_SHORT]),
            (DETAIL, _text(detail)[:_SHORT]),
            place,
        ]
        partition = self._partition(topic, record)
        if with_value and not self._too_large(record, self._metadata.limits[topic]):
            return Outgoing(topic, partition, record.key, record.value, headers + ours, record.timestamp, source)
        # A note of it: no value, no foreign headers, and the time of writing if its own may be what is refused.
        key = record.key if record.key is not None and len(record.key) <= _SHORT else None
        return Outgoing(topic, partition, key, b"", ours, record.timestamp if with_value else None, source)

    @staticmethod
    def _can_be_output(record: Any, verdict: Verdict) -> bool:
        unsendable = record.key is None and record.value is None
        return not unsendable and verdict.reason.partition(": ")[0] not in (TOO_LARGE, REFUSED)

    def follow(self, partitions: Mapping[str, int]) -> None:
        """How many partitions the topics have by now. They can only grow: fewer is older news."""
        known = self._metadata.partitions
        grown = {name: count for name, count in partitions.items() if count > known.get(name, count)}
        if grown:
            log.info("topics have grown, to so many partitions: %s", grown)
            self._metadata = replace(self._metadata, partitions={**known, **grown})

    def _partition(self, topic: str, record: Any) -> int:
        count = self._metadata.partitions[topic]
        if count == self._metadata.partitions[self._topics.input]:
            return int(record.partition)
        return int(record.partition) % count if record.key is None else partition_of(record.key, count)

    def _too_large(self, record: Any, limit: int) -> str | None:
        fits = min(limit, self._max_request) - client.HEADER_ROOM
        if record_batch.size_bound(record) <= fits:  # the exact size takes five times as long
            return None
        size, compressed = record_batch.batch_sizes(record)
        if size > self._max_request:
            return f"the record has {size} bytes; [worker] max_record_bytes is {self._max_request}"
        if compressed <= limit - client.HEADER_ROOM:
            return None
        return (
            f"the record has {size} bytes, compressed {compressed}; with our headers of up to {client.HEADER_ROOM} "
            f"that is more than max.message.bytes = {limit} of where it has to go"
        )


def partition_of(key: bytes, count: int) -> int:
    """Where producers put a key by default, of so many partitions: kafka-python's, Java's and others'. O(bytes).

    >>> partition_of(b"key", 4)
    1
    """
    return int(murmur2(key) & 0x7FFFFFFF) % count


def place_of(record: Any) -> tuple[int, int]:
    """Partition and offset that a republished record had in the input; (-1, -1) if its header is missing.

    >>> from types import SimpleNamespace
    >>> place_of(SimpleNamespace(headers=[("dedup-source", b"news/raw/3/77")]))
    (3, 77)
    """
    for name, value in reversed(record.headers):
        if name == SOURCE and value:
            _, partition, offset = value.decode().rsplit("/", 2)
            return int(partition), int(offset)
    return -1, -1


def was_held_back(record: Any) -> bool:
    """Whether a record that a worker wrote was not let through: in the output it is then a copy of shadow mode.

    What comes before our verdict came with the item, from an earlier deduplicator, say; or it is of an update that was
    let through.

    >>> from types import SimpleNamespace
    >>> theirs, ours = [("dedup-verdict", b"duplicate"), ("dedup-evidence", b"{}")], [("dedup-verdict", b"unique")]
    >>> [was_held_back(SimpleNamespace(headers=one)) for one in (theirs, theirs + ours, ours + theirs)]
    [True, False, True]
    """
    for name, _ in reversed(record.headers):
        if name in (EVIDENCE, REASON):
            return True
        if name == VERDICT:
            return False
    return False


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")
