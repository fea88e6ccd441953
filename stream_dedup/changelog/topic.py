"""The changelog on Kafka: a batch's `Delta` -> records, and a topic's records -> every `Delta` again, in order.

The records are written by whoever holds the transaction, together with what the batch sent out; so a block is
there exactly if its batch happened. Each carries its owner as key (two owners in one partition would mix two
memories) and, as headers, the input offsets after the batch, the topic they belong to, and how many originals are
remembered: should the group's own offsets expire, which brokers do seven days after the last member has left by
default, work goes on from there and not from the beginning of the topic; and who reads fewer originals than were
written can say so. (A worker that runs but has nothing to do writes nothing: while it runs no offset expires.)

Reading (kafka-python's rule P8): whoever is to write next has fenced the former writer first. The end is the last
offset whether committed or not; a read_committed consumer of its own reads until its position has passed it, so a
transaction of the former writer that is still being settled is waited for, not missed. A standby reads before that,
as blocks come, and then has only the last ones to read.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from kafka import TopicPartition
from kafka.admin import OffsetSpec

from stream_dedup.changelog.block import decode, encode
from stream_dedup.dedup.batch import FORGOTTEN, Delta
from stream_dedup.errors import ChangelogError, Outdated, Stalled

T = TypeVar("T")
log = logging.getLogger(__name__)

# A topic takes records of 1 MiB by default. Counted before compression, which sketches hardly yield to.
PART_BYTES = 900_000
OFFSETS_HEADER = "offsets"
# A header of its own, so that workers of before it read the offsets all the same.
STANDING_HEADER = "standing"
# On blocks of a migration (stream/migration.py): how far it has come, and whether it is complete.
MIGRATION_HEADER = "migration"
# Each poll ends after this time, so that the caller can show that it lives.
_POLL_MS = 200
# A foreign open transaction in the partition would hold us for as long as its time-out; brokers allow 15 minutes.
_STANDSTILL = 60.0
# A former writer's own commit is over within a second; who waits longer shall know what for.
_SAY_AFTER = 2.0


@dataclass(slots=True)
class Restored:
    """What a restore has read: blocks, bytes, the input offsets (partition -> offset) after the last, how the lane
    stood then, and the last word of a migration.
    """

    blocks: int = 0
    bytes: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    standing: "Standing | None" = None  # None: there is no block, or the last is from before blocks said it
    migration: "Migrated | None" = None  # None: no migration has written here
    begin: int = 0  # the first offset there was; above 0, blocks were there and are gone


@dataclass(frozen=True, slots=True)
class Standing:
    """How a lane stood after a block: the input topic that the offsets belong to, and the originals remembered.

    `topic_id`: of that topic, "" where the brokers know of none.
    """

    topic: str
    topic_id: str
    originals: int

    def header(self) -> tuple[str, bytes]:
        return STANDING_HEADER, json.dumps([self.topic, self.topic_id, self.originals]).encode()

    @staticmethod
    def parse(value: bytes) -> "Standing":
        """
        >>> Standing.parse(Standing("news.raw", "465bf025", 7).header()[1])
        Standing(topic='news.raw', topic_id='465bf025', originals=7)
        """
        return Standing(*json.loads(value))


@dataclass(frozen=True, slots=True)
class Migrated:
    """How far a migration has come: topic and partition -> the next offset to be read of it."""

    next_offsets: Mapping[tuple[str, int], int]
    complete: bool

    def header(self) -> tuple[str, bytes]:
        places = [[topic, partition, offset] for (topic, partition), offset in sorted(self.next_offsets.items())]
        return MIGRATION_HEADER, json.dumps({"next": places, "complete": self.complete}).encode()

    @staticmethod
    def parse(value: bytes) -> "Migrated":
        """
        >>> told = Migrated({("news.unique", 0): 7}, False)
        >>> Migrated.parse(told.header()[1]) == told
        True
        """
        said = json.loads(value)
        return Migrated({(topic, partition): offset for topic, partition, offset in said["next"]}, said["complete"])


def blocks(delta: Delta, scheme_id: int, limit: int = PART_BYTES) -> Iterator[bytes]:
    """The delta as blocks of at most about `limit` bytes; at least one, since the watermark counts too.

    They must go into one transaction: only all of them together are the delta.
    """
    bounds = _bounds(delta, limit)
    last = bounds[-1]
    of_passages = np.concatenate([np.zeros(1, np.int64), np.cumsum(delta.passage_counts, dtype=np.int64)])
    for start, end in pairwise(bounds):
        before = delta.forgotten["before"]
        mine = (before >= start) & ((before < end) | (end == last))
        forgotten = delta.forgotten[mine].astype(FORGOTTEN)
        forgotten["before"] -= np.uint32(start)
        part = Delta(
            delta.records[start:end],
            delta.keys[start:end],
            delta.ids[start:end],
            forgotten,
            delta.watermark,
            delta.bodies[start:end],
            delta.passages[of_passages[start] : of_passages[end]] if len(of_passages) > 1 else delta.passages,
            delta.passage_counts[start:end],
            delta.arrivals[start:end],
            delta.clocks,
            delta.progress,
        )
        yield encode(part, scheme_id)


def _bounds(delta: Delta, limit: int) -> list[int]:
    fixed = delta.records.dtype.itemsize + 4 * delta.keys.shape[1] + 4 + delta.arrivals.itemsize
    passages = 1 + 4 * delta.passage_counts.astype(np.int64) if len(delta.passage_counts) else np.zeros(len(delta), int)
    room = limit - len(delta.forgotten) * FORGOTTEN.itemsize - delta.clocks.nbytes
    bounds, size = [0], 0
    for i, one in enumerate(delta.ids):
        row = fixed + len(one.encode()) + (4 + len(delta.bodies[i]) if delta.bodies else 0) + int(passages[i])
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


class ChangelogReader:
    """Hands every delta of a partition to `remember`, oldest first, from the beginning and as far as it is asked to.

    `make_consumer` gives kafka-python's client, without a group and read_committed; every use of it goes through
    `call`, which may bound it. `release` lets go of the client; the next call makes another and goes on at `position`,
    None before the first. Raises ChangelogError for blocks that are not ours or not sound, Outdated if the changelog no
    longer has what comes next, and what `call` raises.
    """

    def __init__(
        self,
        make_consumer: Callable[[], Any],
        place: TopicPartition,
        owner: bytes,
        scheme_id: int,
        record_dtype: np.dtype[np.void],
        remember: Callable[[Delta], None],
        call: Callable[[Callable[[], Any]], Any] = directly,
    ) -> None:
        self.restored = Restored()
        self.place = place
        self.position: int | None = None
        self.knows_position = True
        self._take = partial(_take, owner, scheme_id, record_dtype, remember, self.restored)
        self._call = call
        self._make_consumer = make_consumer
        self._consumer: Any = None

    def connect(self) -> int:
        """Makes the client, if there is none; where the reading goes on."""
        if self._consumer is None:
            self._consumer = consumer = self._call(self._make_consumer)
            begin = self._call(lambda: _begin(consumer, self.place, self.position))
            if self.position is not None and self.position < begin:
                raise Outdated(
                    f"{self.place.topic}-{self.place.partition} begins at offset {begin} now, and {self.position} was "
                    "to be read next"
                )
            if self.position is None:
                self.position = self.restored.begin = begin
        return self.position or 0

    def advance(self, milliseconds: int) -> int:
        """One poll, which waits at most so long for something to come; the blocks it brought."""
        self.connect()
        consumer = self._consumer
        records, self.position = self._call(
            lambda: (consumer.poll(milliseconds).get(self.place, ()), consumer.position(self.place))
        )
        for record in records:
            self._take(record)
        return len(records)

    def read_to(self, end: int, progress: Callable[[int, int], None]) -> None:
        """Reads until `end` is passed. `progress(done, total)` is called several times a second and may raise to cut
        the reading short. Raises Stalled when the reading stands still.
        """
        begin, moved, is_said = self.connect(), time.monotonic(), False
        if begin > end:
            raise Outdated(
                f"{self.place.topic}-{self.place.partition} ends at offset {end}, and {begin} was read before"
            )
        while (before := self.position or 0) < end:
            progress(before - begin, end - begin)
            self.advance(_POLL_MS)
            if self.position != before:
                moved, is_said = time.monotonic(), False
                continue
            waits = time.monotonic() - moved
            if waits > _STANDSTILL:
                raise Stalled(self._stands_still(end))
            if waits > _SAY_AFTER and not is_said:
                log.warning("%s; waiting for its end", self._stands_still(end))
                is_said = True
        progress(max(0, end - begin), max(0, end - begin))

    def _stands_still(self, end: int) -> str:
        return (
            f"the changelog {self.place.topic}-{self.place.partition} stands still at offset {self.position} of {end}: "
            "an open transaction begins there, or the brokers do not answer. Does another program write to it? If "
            "not, the brokers have lost track of a transaction: `kafka-transactions.sh find-hanging` names it"
        )

    def skip_to(self, position: int | None, offsets: Mapping[int, int]) -> None:
        """What stands before this position is known without reading it, and was the last word on these offsets; None:
        it is known, and nobody knows where it ends.
        """
        self.position, self.knows_position = position, position is not None
        self.restored.offsets |= offsets
        self.restored.blocks += 1  # or more; that there are some is what is asked

    def behind(self) -> int:
        """How many offsets are committed and not read; asks the broker."""
        self.connect()
        consumer = self._consumer
        end: int = self._call(lambda: int(consumer.end_offsets([self.place])[self.place]))
        return max(0, end - (self.position or 0))

    def release(self) -> Callable[[], None]:
        """Lets go of the client; what is returned closes it, not bounded. What was read stays."""
        consumer, self._consumer = self._consumer, None

        def close() -> None:
            if consumer is not None:
                consumer.close(autocommit=False)

        return close


def end_of(make_admin: Callable[[], Any], place: TopicPartition) -> int:
    """The offset behind the last record, committed or not. `make_admin` gives kafka-python's client."""
    admin = make_admin()
    try:
        return int(admin.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset)
    finally:
        admin.close()


def _begin(consumer: Any, place: TopicPartition, position: int | None) -> int:
    """Goes to the position, None: to the beginning; the first offset that there is."""
    consumer.assign([place])
    begin = int(consumer.beginning_offsets([place])[place])
    consumer.seek(place, begin if position is None else position)
    return begin


def _take(
    owner: bytes,
    scheme_id: int,
    record_dtype: np.dtype[np.void],
    remember: Callable[[Delta], None],
    restored: Restored,
    record: Any,
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
    headers = dict(record.headers)
    if STANDING_HEADER in headers:
        standing, before = Standing.parse(headers[STANDING_HEADER]), restored.standing
        if before is not None and (before.topic, before.topic_id) != (standing.topic, standing.topic_id):
            restored.offsets.clear()  # they were another topic's
        restored.standing = standing
    for name, value in headers.items():
        if name == OFFSETS_HEADER:
            restored.offsets |= {int(partition): offset for partition, offset in json.loads(value).items()}
        elif name == MIGRATION_HEADER:
            restored.migration = Migrated.parse(value)
