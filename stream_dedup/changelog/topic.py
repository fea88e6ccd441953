"""The changelog on Kafka: a batch's `Delta` -> records, and a topic's records -> every `Delta` again, in order.

The records are written by whoever holds the transaction, together with what the batch sent out; so a block is
there exactly if its batch happened. Each carries its owner as key (two owners in one partition would mix two
memories) and, as a header, the input offsets after the batch: should the group's own offsets expire, which
brokers do after seven idle days by default, work goes on from there and not from the beginning of the topic.

Reading (kafka-python's rule P8): the caller has fenced the former writer first. The end is the last offset
whether committed or not; a read_committed consumer of its own reads until its position has passed it, so a
transaction of the former writer that is still being settled is waited for, not missed.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from kafka import TopicPartition
from kafka.admin import OffsetSpec

from stream_dedup.changelog.block import decode, encode
from stream_dedup.dedup.batch import FORGOTTEN, Delta
from stream_dedup.errors import ChangelogError, Stalled

T = TypeVar("T")

# A topic takes records of 1 MiB by default. Counted before compression, which sketches hardly yield to.
PART_BYTES = 900_000
OFFSETS_HEADER = "offsets"
# Each poll ends after this time, so that the caller can show that it lives.
_POLL_MS = 200
# A foreign open transaction in the partition would hold us for as long as its time-out; brokers allow 15 minutes.
_STANDSTILL = 60.0


@dataclass(slots=True)
class Restored:
    """What a restore has read: blocks, bytes, and the input offsets (partition -> offset) after the last."""

    blocks: int = 0
    bytes: int = 0
    offsets: dict[int, int] = field(default_factory=dict)


def blocks(delta: Delta, scheme_id: int, limit: int = PART_BYTES) -> Iterator[bytes]:
    """The delta as blocks of at most about `limit` bytes; at least one, since the watermark counts too.

    They must go into one transaction: only all of them together are the delta.
    """
    bounds = _bounds(delta, limit)
    last = bounds[-1]
    for start, end in pairwise(bounds):
        before = delta.forgotten["before"]
        mine = (before >= start) & ((before < end) | (end == last))
        forgotten = delta.forgotten[mine].astype(FORGOTTEN)
        forgotten["before"] -= np.uint32(start)
        part = Delta(delta.records[start:end], delta.keys[start:end], delta.ids[start:end], forgotten, delta.watermark)
        yield encode(part, scheme_id)


def _bounds(delta: Delta, limit: int) -> list[int]:
    fixed = delta.records.dtype.itemsize + 4 * delta.keys.shape[1] + 4
    room = limit - len(delta.forgotten) * FORGOTTEN.itemsize
    bounds, size = [0], 0
    for i, one in enumerate(delta.ids):
        row = fixed + len(one.encode())
        if size + row > room and size:
            bounds.append(i)
            size = 0
        size += row
    return [*bounds, len(delta)]


def offsets_header(offsets: Mapping[int, int]) -> tuple[str, bytes]:
    return OFFSETS_HEADER, json.dumps(offsets).encode()


def directly(function: Callable[[], T]) -> T:
    """The `call` of whoever sets no bounds."""
    return function()


def restore(
    make_admin: Callable[[], Any],
    make_consumer: Callable[[], Any],
    place: TopicPartition,
    owner: bytes,
    scheme_id: int,
    record_dtype: np.dtype[np.void],
    remember: Callable[[Delta], None],
    progress: Callable[[int, int], None],
    call: Callable[[Callable[[], Any]], Any] = directly,
) -> Restored:
    """Hands every delta in the partition to `remember`, oldest first.

    `make_admin` and `make_consumer` give kafka-python's clients, the consumer without a group and read_committed;
    every use of them goes through `call`, which may bound it. `progress(done, total)` is called several times a
    second and may raise to cut the reading short. Raises ChangelogError for blocks that are not ours or not
    sound, Stalled when the reading stands still, and what `call` raises.
    """
    end = call(lambda: _end(make_admin, place))
    restored = Restored()
    consumer = call(make_consumer)
    try:
        begin = call(lambda: _begin(consumer, place))
        position, moved = begin, time.monotonic()
        while position < end:
            progress(position - begin, end - begin)
            records, now = call(lambda: (consumer.poll(_POLL_MS).get(place, ()), consumer.position(place)))
            for record in records:
                _take(record, owner, scheme_id, record_dtype, remember, restored)
            if now != position:
                position, moved = now, time.monotonic()
            elif time.monotonic() - moved > _STANDSTILL:
                raise Stalled(
                    f"the changelog {place.topic}-{place.partition} stands still at offset {position} of {end}: "
                    "does another program write to it in a transaction?"
                )
        progress(end - begin, end - begin)
    finally:
        call(lambda: consumer.close(autocommit=False))
    return restored


def _end(make_admin: Callable[[], Any], place: TopicPartition) -> int:
    admin = make_admin()
    try:
        return int(admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset)
    finally:
        admin.close()


def _begin(consumer: Any, place: TopicPartition) -> int:
    consumer.assign([place])
    begin = int(consumer.beginning_offsets([place])[place])
    consumer.seek(place, begin)
    return begin


def _take(
    record: Any,
    owner: bytes,
    scheme_id: int,
    record_dtype: np.dtype[np.void],
    remember: Callable[[Delta], None],
    restored: Restored,
) -> None:
    if record.key != owner:
        raise ChangelogError(
            f"the changelog {record.topic}-{record.partition} holds at offset {record.offset} what "
            f"{(record.key or b'').decode(errors='replace')!r} remembers, and this is {owner.decode()!r}; each group "
            "needs a changelog of its own: set [topics] changelog, or the former [kafka] group_id"
        )
    try:
        remember(decode(record.value, scheme_id, record_dtype))
    except ChangelogError as error:
        raise type(error)(f"{record.topic}-{record.partition} at offset {record.offset}: {error}") from None
    restored.blocks += 1
    restored.bytes += len(record.value)
    for name, value in record.headers:
        if name == OFFSETS_HEADER:
            restored.offsets |= {int(partition): offset for partition, offset in json.loads(value).items()}
