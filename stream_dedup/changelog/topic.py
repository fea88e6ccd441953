"""The changelog on Kafka: pieces of what is remembered -> records, and the records -> every `Delta` again, in order.

The records are written by whoever holds the transaction, together with what the batch sent out; so a block is
there exactly if its batch happened. An index has two partitions, of blocks and of folds (fold.py says what stands
where). Each record carries its owner as key (two owners in one partition would mix two memories) and, as headers, its
sequence numbers, the input offsets after the batch, the topic they belong to, and how many originals are remembered:
should the group's own offsets expire, which brokers do seven days after the last member has left by default, work goes
on from there and not from the beginning of the topic; and who reads fewer originals than were written can say so. (A
worker that runs but has nothing to do writes nothing: while it runs no offset expires.)

A restore reads all folds, and of the blocks the last ones. Few are in no fold yet, so it begins near their end; the
sequence numbers say whether that was early enough, and if not, it begins again further back. So it reads what is
remembered, not what was written. A release that did not fold has left blocks without numbers at the beginning of the
blocks' partition: they are read first, as long as the topic keeps them.

Reading (kafka-python's rule P8): whoever is to write next has fenced the former writer first. The end is the last
offset whether committed or not; a read_committed consumer of its own reads until its position has passed it, so a
transaction of the former writer that is still being settled is waited for, not missed. A standby reads before that,
as pieces come, and then has only the last ones to read.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from kafka import TopicPartition
from kafka.admin import OffsetSpec

from stream_dedup.changelog.block import decode
from stream_dedup.changelog.fold import MOST_BLOCKS, SEQUENCE_HEADER, Folding, Span
from stream_dedup.changelog.limits import PARTITIONS
from stream_dedup.changelog.reorder import InOrder
from stream_dedup.dedup.batch import Delta
from stream_dedup.errors import ChangelogError, Outdated, Stalled

T = TypeVar("T")
log = logging.getLogger(__name__)

OFFSETS_HEADER = "offsets"
# A header of its own, so that workers of before it read the offsets all the same.
STANDING_HEADER = "standing"
# On blocks of a migration (stream/migration.py): how far it has come, and whether it is complete.
MIGRATION_HEADER = "migration"
# A poll that meets nothing but aborted records and markers waits for all of this time, although it has read them: with
# 200 ms, a task was open again .5 s after an aborted transaction instead of .3 s.
_POLL_MS = 20
# A foreign open transaction in the partition would hold us for as long as its time-out; brokers allow 15 minutes.
_STANDSTILL = 60.0
# Before the end of the blocks a restore begins so many offsets: each block and the marker of its transaction, and some
# that were aborted. If it was too late, so many times further back.
_FIRST_DISTANCE = 2 * MOST_BLOCKS + 200
_FURTHER = 8
# The two partitions are fetched one after the other; what is missing for so long is looked for.
_GAP_SECONDS = 5.0
# A former writer's own commit is over within a second; who waits longer shall know what for.
_SAY_AFTER = 2.0


@dataclass(slots=True)
class Restored:
    """What a restore has read: blocks, bytes, the input offsets (partition -> offset) after the last, how the task
    stood then, and the last word of a migration.
    """

    blocks: int = 0
    bytes: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    standing: "Standing | None" = None  # None: there is no block, or the last is from before blocks said it
    migration: "Migrated | None" = None  # None: no migration has written here
    begin: int = 0  # the first offset there was; above 0, records were there and are gone


@dataclass(frozen=True, slots=True)
class Standing:
    """How a task stood after a block: the input topic that the offsets belong to, and the originals remembered.

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


def offsets_header(offsets: Mapping[int, int]) -> tuple[str, bytes]:
    return OFFSETS_HEADER, json.dumps(offsets).encode()


def directly(function: Callable[[], T]) -> T:
    """The `call` of whoever sets no bounds."""
    return function()


class Places(NamedTuple):
    """The two partitions of an index."""

    blocks: TopicPartition
    folds: TopicPartition


def places_of(topic: str, index: int) -> Places:
    """Where the index of this number stands. The two are neighbours, so that an input may get more partitions.

    >>> [place.partition for place in places_of("news.dedup-changelog", 3)]
    [6, 7]
    """
    return Places(TopicPartition(topic, PARTITIONS * index), TopicPartition(topic, PARTITIONS * index + 1))


class _Stage(Enum):
    """What is being read; the stages follow one another."""

    FORMER = auto()  # blocks without numbers, at the beginning of the blocks
    FOLDS = auto()  # the folds, to their end
    LAST = auto()  # both; the blocks from near their end, until it is certain that this was early enough
    BOTH = auto()  # both, as they come


class ChangelogReader:
    """Hands every delta of an index to `remember`, oldest first, from the beginning and as far as it is asked to.

    `make_consumer` gives kafka-python's client, without a group and read_committed; every use of it goes through
    `call`, which may bound it. `release` lets go of the client; the next call makes another and goes on where this one
    was. `ends()` says where both partitions end, committed or not. `folding` learns what a writer must know. Raises
    ChangelogError for blocks that are not ours or not sound, Outdated if the changelog no longer has what comes next,
    and what `call` raises.
    """

    def __init__(
        self,
        make_consumer: Callable[[], Any],
        places: Places,
        owner: bytes,
        scheme_id: int,
        signature_dtype: np.dtype[np.void],
        remember: Callable[[Delta], None],
        folding: Folding,
        ends: Callable[[], Mapping[TopicPartition, int]],
        call: Callable[[Callable[[], Any]], Any] = directly,
    ) -> None:
        self.restored = Restored()
        self.places = places
        self._order: InOrder[Any] = InOrder()
        self._remember, self._folding = remember, folding
        self._owner = owner
        self._decode = partial(_decode, scheme_id, signature_dtype)
        self._ends, self._call = ends, call
        self._make_consumer = make_consumer
        self._consumer: Any = None
        self._begins: dict[TopicPartition, int] = {}  # as they were at first
        self._positions: dict[TopicPartition, int] = {}  # empty: not known before the first connection
        self._unknown: set[TopicPartition] = set()  # where nobody knows the position
        self._until: dict[TopicPartition, int] = {}
        self._seen: set[TopicPartition] = set()  # where a committed record was
        self._numbered = 0  # the offset from which on blocks have numbers
        self._early: list[tuple[Span, Any]] = []  # such as came with the former ones
        self._oldest = 0  # the first number of the oldest block, where older ones were deleted
        self._start = 0  # the offset from which on blocks are read in the stage LAST,
        self._first: Span | None = None  # the first that was found there,
        self._distance = _FIRST_DISTANCE  # and how far before the end it is looked for the next time
        self._gap_since: float | None = None
        self._gap_ends: Mapping[TopicPartition, int] = {}
        self._stage: _Stage = _Stage.FORMER
        self._reading: Sequence[TopicPartition] = [places.blocks]

    @property
    def knows_position(self) -> bool:
        """Whether it is known where to read on, in both partitions."""
        return not self._unknown

    def connect(self) -> None:
        """Makes the client, if there is none, and goes to where the reading goes on."""
        if self._consumer is not None:
            return
        self._consumer = consumer = self._call(self._make_consumer)
        begins: dict[TopicPartition, int] = self._call(lambda: _begins(consumer, self.places))
        if not self._positions:
            self._begins, self._positions = begins, dict(begins)
            self.restored.begin = max(begins.values())
        for place, begin in begins.items():
            if self._positions[place] < begin:
                raise Outdated(
                    f"{place.topic}-{place.partition} begins at offset {begin} now, and {self._positions[place]} was "
                    "to be read next"
                )
        self._enter(self._stage, self._reading)
        self._step()

    def advance(self, milliseconds: int) -> int:
        """One poll, which waits at most so long for something to come; the records it brought.

        Raises Outdated for what is missing although all was read: read it anew.
        """
        self.connect()
        polled = self._poll(milliseconds)
        for place, records in polled.items():
            self._take(place, records)
        self._apply()
        self._step()
        self._watch_gap()
        return sum(map(len, polled.values()))

    def read_to(self, ends: Mapping[TopicPartition, int], progress: Callable[[int, int], None]) -> None:
        """Reads until both ends are passed. `progress(done, total)` is called several times a second and may raise to
        cut the reading short.

        Raises Stalled when the reading stands still, Outdated where more was read than there is, ChangelogError where
        something is missing.
        """
        self.connect()
        for place, end in ends.items():
            if self._positions[place] > end:
                raise Outdated(
                    f"{place.topic}-{place.partition} ends at offset {end}, and {self._positions[place]} was to be "
                    "read next"
                )
        total, moved, is_said = 0, time.monotonic(), False
        while (left := self._left(ends)) or self._stage is not _Stage.BOTH:
            total = max(total, left)
            progress(total - left, total)
            before = self._stage, dict(self._positions)
            self.advance(_POLL_MS)
            if before != (self._stage, self._positions):
                moved, is_said = time.monotonic(), False
                continue
            waits = time.monotonic() - moved
            if waits > _STANDSTILL:
                raise Stalled(self._stands_still(ends))
            if waits > _SAY_AFTER and not is_said:
                log.warning("%s; waiting for its end", self._stands_still(ends))
                is_said = True
        if self._order.has_gap:
            self._close_gap()
        self._number(ends)
        progress(total, total)

    def skip_to(
        self, ends: Mapping[TopicPartition, int | None], number: int, headers: Iterable[tuple[str, bytes]]
    ) -> None:
        """What stands before these positions is known without reading it, and its last records had these headers; None:
        it is known, and nobody knows where it ends. In a partition that is not named nothing has come. The next piece
        has this number.
        """
        for place, end in ends.items():
            self._seen.add(place)
            if end is None:
                self._unknown.add(place)
            else:
                self._positions[place] = end
                self._unknown.discard(place)
        self._order.skip_to(number)
        self.restored.blocks += 1  # or more; that there are some is what is asked
        _note_headers(self.restored, headers)

    def behind(self) -> int:
        """How many offsets are committed and not read; asks the broker."""
        self.connect()
        consumer = self._consumer
        return self._left(self._call(lambda: _offsets(consumer.end_offsets(list(self.places)))))

    def release(self) -> Callable[[], None]:
        """Lets go of the client; what is returned closes it, not bounded. What was read stays."""
        consumer, self._consumer = self._consumer, None

        def close() -> None:
            if consumer is not None:
                consumer.close(autocommit=False)

        return close

    # -- the stages --------------------------------------------------------------------------------------

    def _enter(self, stage: _Stage, places: Sequence[TopicPartition]) -> None:
        """Reads these partitions from where they stand, and first to where they end now."""
        consumer = self._consumer

        def assign() -> dict[TopicPartition, int]:
            # Not by pause and resume: kafka-python 3.0.12 may leave a resumed partition standing still.
            consumer.assign(places)
            for place in places:
                consumer.seek(place, self._positions[place])
            return _offsets(consumer.end_offsets(places))

        self._stage, self._reading = stage, places
        self._until = self._call(assign)

    def _poll(self, milliseconds: int) -> Mapping[TopicPartition, Sequence[Any]]:
        consumer, reading = self._consumer, self._reading

        def poll() -> tuple[Any, dict[TopicPartition, int]]:
            return consumer.poll(milliseconds), {one: consumer.position(one) for one in reading}

        polled: Mapping[TopicPartition, Sequence[Any]]
        polled, positions = self._call(poll)
        self._positions |= positions
        return polled

    def _is_read(self, place: TopicPartition) -> bool:
        return self._positions[place] >= self._until[place]

    def _step(self) -> None:
        """From stage to stage, as far as it has come."""
        blocks, folds = self.places
        if self._stage is _Stage.FORMER and (self._early or self._is_read(blocks)):
            if not self._early:
                self._numbered = self._positions[blocks]
            self._enter(_Stage.FOLDS, [folds])
        if self._stage is _Stage.FOLDS and self._is_read(folds):
            if folds in self._seen:
                self._look_back()
            else:  # nothing is folded: all blocks
                self._take_early()
                self._enter(_Stage.BOTH, self.places)
        while self._stage is _Stage.LAST:
            if self._start == self._numbered or (self._first and self._first.first <= self._order.next):
                self._stage = _Stage.BOTH
            elif self._first or self._is_read(blocks):
                self._look_back()
            else:
                return

    def _look_back(self) -> None:
        """Begins the blocks some way before their end, or further back than the last time."""
        blocks, consumer = self.places.blocks, self._consumer
        end = int(self._call(lambda: consumer.end_offsets([blocks]))[blocks])
        start = max(self._numbered, end - self._distance)
        self._distance *= _FURTHER
        self._order.forget_blocks()
        if self._early and start <= self._positions[blocks]:
            self._start, self._first = self._numbered, self._early[0][0]
            self._take_early()
        else:
            self._early = []
            self._start, self._first, self._positions[blocks] = start, None, start
        self._enter(_Stage.LAST, self.places)

    # -- what was read -----------------------------------------------------------------------------------

    def _take(self, place: TopicPartition, records: Iterable[Any]) -> None:
        for record in records:
            self._seen.add(place)
            span = self._span(record)
            if place == self.places.folds:
                if span is None:
                    raise _with_place(record, ChangelogError(f"a fold has no header {SEQUENCE_HEADER!r}; {_ANEW}"))
                self._order.fold(span, record)
                continue
            if span is None:
                self._take_former(record)
                continue
            if self._stage is _Stage.FORMER:
                if not self._early:
                    self._numbered = record.offset
                    if self._begins[place] > 0 and not self.restored.blocks:
                        self._oldest = span.first
                self._early.append((span, record))
                continue
            self._first = self._first or span
            self._order.block(span, record)

    def _take_early(self) -> None:
        """The folds are read: now the blocks have their turn."""
        for span, record in self._early:
            self._order.block(span, record)
        self._early = []
        self._apply()

    def _take_former(self, record: Any) -> None:
        if self._early or self._order.next or self._order.has_gap:
            raise _with_place(
                record, ChangelogError(f"a former release wrote here after this one did; end its workers. {_ANEW}")
            )
        self._remember(self._decode(record))
        _note(self.restored, record)

    def _span(self, record: Any) -> Span | None:
        if record.key != self._owner:
            raise ChangelogError(
                f"the changelog {record.topic}-{record.partition} holds at offset {record.offset} what "
                f"{(record.key or b'').decode(errors='replace')!r} remembers, and this is {self._owner.decode()!r}; "
                "each group needs a changelog of its own, and in scope partition one that was made with two partitions "
                "an index: set [topics] changelog, or the former [kafka] group_id"
            )
        return span_of(record)

    def _apply(self) -> None:
        """What follows without a gap is remembered."""
        for span, is_fold, is_known, record in self._order.ready():
            if not is_known:
                delta = self._decode(record)
                self._remember(delta)
                _note(self.restored, record)
            if is_fold:
                self._folding.read_fold(span)
            else:
                self._folding.read_block(span, delta)

    def _number(self, ends: Mapping[TopicPartition, int]) -> None:
        """What a writer goes on with. Numbers may have been in use whose pieces have expired; a standby may know them.

        None was ever higher than the offsets used so far, as each piece takes one.
        """
        if not self._folding.next:
            self._folding.begin(sum(ends.values()) + 1)
        elif any(ends[place] > 0 and place not in self._seen for place in self.places):
            self._folding.skip_to(sum(ends.values()) + 1)

    # -- when it does not go on --------------------------------------------------------------------------

    def _left(self, ends: Mapping[TopicPartition, int]) -> int:
        """Offsets to be read."""
        blocks, folds = (max(0, ends[place] - self._positions[place]) for place in self.places)
        if self._stage in (_Stage.FORMER, _Stage.FOLDS) and folds:
            blocks = min(blocks, self._distance)
        return blocks + folds

    def _stands_still(self, ends: Mapping[TopicPartition, int]) -> str:
        place = next((one for one in self._reading if self._positions[one] < ends[one]), self.places.blocks)
        return (
            f"the changelog {place.topic}-{place.partition} stands still at offset {self._positions[place]} of "
            f"{ends[place]}: an open transaction begins there, or the brokers do not answer. Does another program "
            "write to it? If not, the brokers have lost track of a transaction: `kafka-transactions.sh find-hanging` "
            "names it"
        )

    def _watch_gap(self) -> None:
        """A piece may come before its predecessor in the other partition. It comes late only if it was lost."""
        if self._stage is not _Stage.BOTH or not self._order.has_gap:
            self._gap_since, self._gap_ends = None, {}
        elif self._gap_since is None:
            self._gap_since = time.monotonic()
        elif not self._gap_ends:
            if not self._order.next or time.monotonic() - self._gap_since > _GAP_SECONDS:
                self._gap_ends = self._ends()
        elif all(self._positions[place] >= end for place, end in self._gap_ends.items()):
            try:
                self._close_gap()
            except ChangelogError as error:
                raise Outdated(f"{error} (it is read anew from its beginning, to see whether it stays so)") from None
            self._gap_since, self._gap_ends = None, {}

    def _close_gap(self) -> None:
        """All was read, and a number is missing: what was before the oldest piece has expired."""
        waiting = self._order.first_waiting
        if not self._order.next or (waiting is not None and waiting.first == self._oldest):
            self._order.skip_gap()
            self._apply()
        if self._order.has_gap:
            raise ChangelogError(
                f"the changelog {self.places.blocks.topic} lacks the pieces from {self._order.next} on, and has later "
                f"ones, in its partitions {self.places.blocks.partition} and {self.places.folds.partition}: records "
                f"were deleted, or a partition was lost. {_ANEW}"
            )


_ANEW = (
    "To begin with an empty memory, name another topic in [topics] changelog and create it with: stream-dedup topics "
    "create --config FILE"
)


def end_of(make_admin: Callable[[], Any], places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The offset behind the last record of each, committed or not. `make_admin` gives kafka-python's client."""
    admin = make_admin()
    try:
        found = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        return {place: int(found[place].offset) for place in places}
    finally:
        admin.close()


def span_of(record: Any) -> Span | None:
    """The record's sequence numbers; None: a release that did not fold has written it."""
    try:
        return next((Span.parse(value) for name, value in record.headers if name == SEQUENCE_HEADER), None)
    except ChangelogError as error:
        raise _with_place(record, error) from None


def _begins(consumer: Any, places: Places) -> dict[TopicPartition, int]:
    return _offsets(consumer.beginning_offsets(list(places)))


def _offsets(found: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
    return {place: int(offset) for place, offset in found.items()}


def _decode(scheme_id: int, signature_dtype: np.dtype[np.void], record: Any) -> Delta:
    try:
        return decode(record.value, scheme_id, signature_dtype)
    except ChangelogError as error:
        raise _with_place(record, error) from None


def _with_place(record: Any, error: ChangelogError) -> ChangelogError:
    return type(error)(f"{record.topic}-{record.partition} at offset {record.offset}: {error}")


def _note(restored: Restored, record: Any) -> None:
    restored.blocks += 1
    restored.bytes += len(record.value)
    _note_headers(restored, record.headers)


def _note_headers(restored: Restored, found: Iterable[tuple[str, bytes]]) -> None:
    headers = dict(found)
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
