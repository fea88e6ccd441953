"""Make the outgoing records of a verdict: topic, partition and headers.

| verdict | topic |
| --- | --- |
| unique, tombstone; update or duplicate that is let through | output |
| held back | duplicates |
| bad | dead letters |

Key, value, headers and timestamp stay as they are, and our headers follow the record's own. An update, and a duplicate
that [sources] lets through, names its original and the evidence, as a held-back item does. In shadow mode
(`policy.shadow`) held-back and bad records go to their topic and to the output too, with the same headers, except those
that Kafka could not take as output (too large, refused, neither key nor value).

The partition is the input's where both topics have equally many. Otherwise a key decides by Kafka's default
partitioner, and a record without a key goes to the input's partition number modulo the count. So all records of a key
stay in order. After a topic gains partitions (`update_partitions`), records use the new count, as with any producer.

A record that cannot be written must not hold up the others, so these are dead letters before they are judged:
- a record too large uncompressed for `max_record_bytes`, or compressed for a topic's limit. The input's limit is for
  compressed batches, so such records can come in. If it is too large for the dead letters too, or its size kept it from
  being read (`Record.cut`), its bytes stay in the input topic, and a header names the place.
- a record without a key if the output is compacted. It would be remembered as an original that no reader received.
- a record with a header name that is not UTF-8, which most consumers could not read. It keeps its bytes.

A new header of every outgoing record goes into `OutgoingRecords.of` and `_dead_letter_headers`, and
`client.HEADER_ROOM` must have room for it.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.kafka import client, record_batch
from stream_dedup.kafka.record_batch import Outgoing
from stream_dedup.kafka.topics import Topic
from stream_dedup.settings import Settings

log = logging.getLogger(__name__)

Headers = list[tuple[str, bytes | None]]

VERDICT = "dedup-verdict"  # unique, duplicate, update, bad, tombstone
SCHEME = "dedup-scheme"  # 16 hexadecimal digits: the fingerprint scheme of the verdict
STORY = "dedup-story"  # not of bad items and tombstones: the id of the first original of the lineage
ORIGINAL = "dedup-original"  # held back, or not unique: the id of the original
EVIDENCE = "dedup-evidence"  # held back, or not unique: Verdict.as_json()
REASON = "dedup-reason"  # bad: one fixed word
DETAIL = "dedup-detail"  # bad: for a person
SOURCE = "dedup-source"  # topic/partition/offset of the record

TRACE = "traceparent"
"""The producer's header for distributed tracing (W3C Trace Context)."""
_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

TOO_LARGE = "too-large"
REFUSED = "refused"
TOO_SLOW = "too-slow"
HEADER = "header"
_ESCAPED = re.compile("[\ud800-\udfff]")  # what `record_batch.ESCAPED` makes of bytes that are not UTF-8
_SHORT = 1000  # bytes of an explanation, or of the key of a dead letter without a value
_VERDICTS = {kind: (VERDICT, str(kind).encode()) for kind in Kind}


class OutgoingRecords:
    """Makes the outgoing records of each verdict, for these existing topics."""

    def __init__(self, settings: Settings, existing: Mapping[str, Topic], scheme_id: int) -> None:
        self._topics = settings.topics
        self._shadow = settings.policy.shadow
        self._existing = dict(existing)
        self._scheme = (SCHEME, f"{scheme_id:016x}".encode())
        self._max_request = settings.worker.max_record_bytes
        self._limit = min(existing[self._topics.output].limit, existing[self._topics.duplicates].limit)
        self._needs_keys = existing[self._topics.output].is_compacted

    def refusal_of(self, record: Any) -> BadItem | None:
        """Say why the record could not be written whatever its verdict; None if it can."""
        if too_large := self._too_large(record, self._limit):
            return BadItem(TOO_LARGE, too_large)
        if record.key is None and self._needs_keys:
            return BadItem(
                REFUSED, f"{self._topics.output} is compacted (cleanup.policy), and takes no record without a key"
            )
        for name, _ in record.headers:
            if not name.isascii() and _ESCAPED.search(name):
                return BadItem(
                    HEADER, f"the name of a header is not UTF-8: {name.encode(errors=record_batch.ESCAPED)!r}"
                )
        return None

    def of(self, record: Any, verdict: Verdict, source: int, with_value: bool = True) -> Iterator[Outgoing]:
        """Yield the outgoing records of one input record: in shadow mode its copy for the output, then its own.

        `with_value` False: write dead letters without the value, which Kafka refused before.
        """
        place = (SOURCE, f"{record.topic}/{record.partition}/{record.offset}".encode())
        if verdict.kind is Kind.BAD:
            topic, added = self._topics.dead_letters, self._dead_letter_headers(verdict, place)
        else:
            topic = self._topics.output if verdict.forward else self._topics.duplicates
            added, evidence = [_VERDICTS[verdict.kind], place, self._scheme], _evidence(verdict)
            added += [(STORY, _text(verdict.story))] if verdict.kind is not Kind.TOMBSTONE else []
            # The order separates updates that were let through from held-back ones: see tools/topics/headers.py.
            added = evidence + added if verdict.forward else added + evidence
        partition, headers = self._partition(topic, record), [*record.headers, *added]
        whole = Outgoing(topic, partition, record.key, record.value, headers, record.timestamp, source)
        if verdict.kind is Kind.BAD and (not with_value or self._too_large(record, self._existing[topic].limit)):
            # Without value and foreign headers, except the trace; with the time of writing: Kafka may have refused the
            # record's own.
            key = record.key if record.key is not None and len(record.key) <= _SHORT else None
            timestamp = record.timestamp if with_value else None
            added = [*((name, trace.encode()) for name, trace in trace_fields(record).items()), *added]
            whole = msgspec.structs.replace(whole, key=key, value=b"", headers=added, timestamp=timestamp)
        output = self._topics.output
        is_empty, cause = record.key is None and record.value is None, verdict.reason.partition(": ")[0]
        if self._shadow and not verdict.forward and not is_empty and cause not in (TOO_LARGE, REFUSED):
            partition = self._partition(output, record)
            yield Outgoing(output, partition, record.key, record.value, whole.headers, record.timestamp, source)
        yield whole

    def _dead_letter_headers(self, verdict: Verdict, place: tuple[str, bytes]) -> Headers:
        reason, _, detail = verdict.reason.partition(": ")
        explained = [(REASON, _text(reason)[:_SHORT]), (DETAIL, _text(detail)[:_SHORT])]
        return [_VERDICTS[verdict.kind], self._scheme, *explained, place]

    def update_partitions(self, partitions: Mapping[str, int]) -> None:
        """Update the partition counts. Topics can only grow; a smaller count is outdated and ignored."""
        grown = {name: count for name, count in partitions.items() if count > self._existing[name].partitions}
        if grown:
            log.info("topics have more partitions now: %s", grown)
            self._existing |= {name: replace(self._existing[name], partitions=count) for name, count in grown.items()}

    def _partition(self, topic: str, record: Any) -> int:
        count, of_input = self._existing[topic].partitions, self._existing[self._topics.input].partitions
        return partition_in(count, of_input, record.key, int(record.partition))

    def _too_large(self, record: Any, limit: int) -> str | None:
        allowed = min(limit, self._max_request) - client.HEADER_ROOM
        if record_batch.size_bound(record) <= allowed:  # the exact size takes five times as long
            return None
        size, compressed = record_batch.batch_sizes(record)
        if size > self._max_request:
            return f"the record has {size} bytes; [worker] max_record_bytes is {self._max_request}"
        if compressed <= limit - client.HEADER_ROOM:
            return None
        return (
            f"the record has {size} bytes, compressed {compressed}; with our headers of up to {client.HEADER_ROOM} "
            f"that is more than max.message.bytes = {limit} of its topic"
        )


def partition_in(count: int, of_input: int, key: bytes | None, number: int) -> int:
    """Return the partition of a topic with `count` for a record of the input's partition `number`.

    >>> partition_in(4, 4, b"k", 3), partition_in(2, 4, None, 3), partition_in(2, 4, b"k", 3)
    (3, 1, 0)
    """
    if count == of_input:
        return number
    return number % count if key is None else partition_of(key, count)


def partition_of(key: bytes, count: int) -> int:
    """Return the partition that producers (kafka-python's, Java's and others) choose for a key by default. O(bytes).

    >>> partition_of(b"key", 4)
    1
    """
    return int(client.murmur2(key) & 0x7FFFFFFF) % count


def trace_fields(record: Any) -> dict[str, str]:
    """Return the record's `traceparent`, as a field of a log line about it; empty if it has no valid one.

    >>> from types import SimpleNamespace
    >>> trace_fields(SimpleNamespace(headers=[("traceparent", b"00-" + b"a" * 32 + b"-00f067aa0ba902b7-01")]))
    {'traceparent': '00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-00f067aa0ba902b7-01'}
    >>> trace_fields(SimpleNamespace(headers=[("traceparent", b"of another kind")]))
    {}
    """
    traces = [(name, value) for name, value in record.headers if name == TRACE and value and _TRACE.fullmatch(value)]
    return {name: value.decode() for name, value in traces[:1]}


def _evidence(verdict: Verdict) -> Headers:
    """Return the headers that name the original of an item held back, an update, or a copy that a rule lets through."""
    if verdict.forward and verdict.kind not in (Kind.UPDATE, Kind.DUPLICATE):
        return []
    original: Headers = [(ORIGINAL, _text(verdict.original.id))] if verdict.original is not None else []
    evidence = verdict.as_json()
    del evidence["story"]  # a header of its own, and escaped once more it might exceed HEADER_ROOM
    return [*original, (EVIDENCE, msgspec.json.encode(evidence))]


def _text(text: str) -> bytes:
    return text.encode("utf-8", "replace")
