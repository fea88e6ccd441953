"""Read an index's changelog back from Kafka: every `Delta`, in the order in which it was committed.

The worker writes changelog records in the transaction of the batch, so a block exists exactly if its batch was
committed. An index has two partitions, of blocks and of merged blocks (entries.py). Each record has headers
(headers.py), and its owner as key, since two owners in one partition would mix two indexes. Records of other programs
are skipped (records.py).

A restore reads all merged blocks, and of the blocks only the last ones. Few blocks are not merged yet, so it begins
near their end. The sequence numbers show whether that was early enough; if not, it begins again further back. So it
reads what is remembered, not everything that was written. Releases without merged blocks left blocks without sequence
numbers at the beginning of the partition of blocks. They are read first, as long as the topic retains them.

Reading (kafka-python's rule P8): the next writer fences the previous one first. The end is the last offset, committed
or not. A read_committed consumer reads until its position has passed that end. So it waits for a transaction of the
previous writer that is still being completed, and cannot miss it. A standby reads earlier, as entries come, and has
only the last ones left to read.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any

import numpy as np
from kafka import TopicPartition

from stream_dedup.changelog.block import decode
from stream_dedup.changelog.entries import MAX_BLOCKS, SEQUENCE_HEADER, EntryBuilder, SequenceRange
from stream_dedup.changelog.headers import RestoreResult
from stream_dedup.changelog.partitions import IndexPartitions
from stream_dedup.changelog.records import CURE, is_block, span_of, with_cure, with_place
from stream_dedup.changelog.reorder import Resequencer
from stream_dedup.dedup.batch import Delta
from stream_dedup.errors import ChangelogError, Outdated, Stalled

log = logging.getLogger(__name__)

# A poll that meets only aborted records and markers waits for all of this time, although it has read them: with 200 ms,
# a task was open again .5 s after an aborted transaction instead of .3 s.
_POLL_MS = 20
# Another program's open transaction in the partition would block the reading until its time-out; brokers allow 15
# minutes.
_STALL_SECONDS = 60.0
# A restore begins this many offsets before the end of the blocks: each block, the marker of its transaction, and some
# aborted ones. If that was too late, this many times further back.
_FIRST_DISTANCE = 2 * MAX_BLOCKS + 200
_DISTANCE_FACTOR = 8
# The two partitions are fetched one after the other; a number missing for this long is looked for.
_GAP_SECONDS = 5.0
# The previous writer's own commit takes less than a second; log a wait that is longer.
_LOG_SECONDS = 2.0


class _Stage(Enum):
    """What is being read; the stages follow one another."""

    UNNUMBERED = auto()  # blocks without sequence numbers, at the beginning of the partition of blocks
    MERGED = auto()  # merged blocks, to their end
    SEARCH = auto()  # both; the blocks from near their end, until the first number shows that this was early enough
    FOLLOW = auto()  # both, as they come


class ChangelogReader:
    """Passes every delta of an index to `restore`, oldest first, as far as it is asked to read.

    `make_consumer` returns a KafkaConsumer without a group, read_committed. Every use of the consumer goes through
    `call`, which may bound it. `release` gives the consumer up; the next use makes another and goes on from the same
    position. `ends()` returns the log end offsets of both partitions. `builder` learns the state that the next writer
    needs. `skipped` gets each record of another program, which is passed over. Raises ChangelogError for blocks that
    are damaged or of another owner, Outdated if the changelog no longer has the next entries, and whatever `call`
    raises.
    """

    def __init__(
        self,
        make_consumer: Callable[[], Any],
        partitions: IndexPartitions,
        owner: bytes,
        scheme_id: int,
        signature_dtype: np.dtype[np.void],
        restore: Callable[[Delta], None],
        builder: EntryBuilder,
        ends: Callable[[], Mapping[TopicPartition, int]],
        call: Callable[[Callable[[], Any]], Any] = lambda function: function(),
        skipped: Callable[[Any], None] = lambda record: None,
    ) -> None:
        self.restored = RestoreResult()
        self.partitions = partitions
        self._resequencer: Resequencer[Any] = Resequencer()
        self._restore, self._builder = restore, builder
        self._owner = owner
        self._decode = partial(_decode, scheme_id, signature_dtype)
        self._ends, self._call, self._skipped = ends, call, skipped
        self._make_consumer = make_consumer
        self._consumer: Any = None
        self._first_offsets: dict[TopicPartition, int] = {}  # at the first connection
        self._positions: dict[TopicPartition, int] = {}  # empty before the first connection
        self._unknown_positions: set[TopicPartition] = set()
        self._stage_ends: dict[TopicPartition, int] = {}
        self._non_empty: set[TopicPartition] = set()  # the partitions with a committed record
        self._numbered_from = 0  # the offset of the first block with a sequence number
        self._early_blocks: list[
            tuple[SequenceRange, Any]
        ] = []  # numbered blocks that were read in the stage UNNUMBERED
        self._oldest_number = 0  # of the oldest block, where older ones were deleted
        self._search_start = 0  # the offset from which the stage SEARCH reads blocks
        self._search_first: SequenceRange | None = None  # the first block found from there on
        self._search_distance = _FIRST_DISTANCE  # offsets before the end, for the next search
        self._gap_since: float | None = None
        self._gap_ends: Mapping[TopicPartition, int] = {}
        self._stage: _Stage = _Stage.UNNUMBERED
        self._assigned: Sequence[TopicPartition] = [partitions.blocks]

    @property
    def knows_position(self) -> bool:
        """Whether the next offset to read is known in both partitions."""
        return not self._unknown_positions

    def connect(self) -> None:
        """Make the consumer, if there is none, and seek to the next offsets to read."""
        if self._consumer is not None:
            return
        self._consumer = consumer = self._call(self._make_consumer)
        first_offsets: dict[TopicPartition, int] = self._call(
            lambda: _as_ints(consumer.beginning_offsets(list(self.partitions)))
        )
        if not self._positions:
            self._first_offsets, self._positions = first_offsets, dict(first_offsets)
            self.restored.begin = max(first_offsets.values())
        for place, first in first_offsets.items():
            if self._positions[place] < first:
                raise Outdated(
                    f"{place.topic}-{place.partition} begins at offset {first} now, and {self._positions[place]} was "
                    "to be read next"
                )
        self._start_stage(self._stage, self._assigned)
        self._advance_stage()

    def advance(self, milliseconds: int) -> int:
        """Poll once, for at most this time; returns the number of records read.

        Raises Outdated if an entry is missing although everything was read: read the changelog again from the start.
        """
        self.connect()
        polled = self._poll(milliseconds)
        for place, records in polled.items():
            self._accept(place, records)
        self._restore_ready()
        self._advance_stage()
        self._check_gap()
        return sum(map(len, polled.values()))

    def read_to(self, ends: Mapping[TopicPartition, int], progress: Callable[[int, int], None]) -> None:
        """Read until both ends are passed. `progress(done, total)` is called several times a second and may raise to
        stop the reading.

        Raises Stalled when reading makes no progress, Outdated if more was read than the partition has, ChangelogError
        if an entry is missing.
        """
        self.connect()
        for place, end in ends.items():
            if self._positions[place] > end:
                raise Outdated(
                    f"{place.topic}-{place.partition} ends at offset {end}, and {self._positions[place]} was to be "
                    "read next"
                )
        total, moved_at, is_logged = 0, time.monotonic(), False
        while (remaining := self._remaining(ends)) or self._stage is not _Stage.FOLLOW:
            total = max(total, remaining)
            progress(total - remaining, total)
            before = self._stage, dict(self._positions)
            self.advance(_POLL_MS)
            if before != (self._stage, self._positions):
                moved_at, is_logged = time.monotonic(), False
                continue
            seconds = time.monotonic() - moved_at
            if seconds > _STALL_SECONDS:
                raise Stalled(self._stall_message(ends))
            if seconds > _LOG_SECONDS and not is_logged:
                log.warning("%s; waiting for its end", self._stall_message(ends))
                is_logged = True
        if self._resequencer.has_gap:
            self._close_gap()
        self._set_next_number(ends)
        progress(total, total)

    def skip_to(
        self, ends: Mapping[TopicPartition, int | None], number: int, headers: Iterable[tuple[str, bytes]]
    ) -> None:
        """Take everything before these ends for read: the task itself wrote it, last with these headers.

        None: the end is unknown. A partition that is not named has nothing new. `number`: of the next entry.
        """
        for place, end in ends.items():
            self._non_empty.add(place)
            if end is None:
                self._unknown_positions.add(place)
            else:
                self._positions[place] = end
                self._unknown_positions.discard(place)
        self._resequencer.skip_to(number)
        self.restored.blocks += 1  # at least; it only matters that it is not 0
        self.restored.add_headers(headers)

    def lag(self) -> int:
        """The number of committed offsets that are not read yet; asks the broker."""
        self.connect()
        consumer = self._consumer
        return self._remaining(self._call(lambda: _as_ints(consumer.end_offsets(list(self.partitions)))))

    def release(self) -> Callable[[], None]:
        """Give the consumer up; the returned function closes it and is not bounded. The state stays."""
        consumer, self._consumer = self._consumer, None

        def close() -> None:
            if consumer is not None:
                consumer.close(autocommit=False)

        return close

    # -- the stages --------------------------------------------------------------------------------------

    def _start_stage(self, stage: _Stage, places: Sequence[TopicPartition]) -> None:
        """Read these partitions from their positions on; the stage lasts at least to their present ends."""
        consumer = self._consumer

        def assign() -> dict[TopicPartition, int]:
            # Not by pause and resume: kafka-python 3.0.12 may never fetch a resumed partition again.
            consumer.assign(places)
            for place in places:
                consumer.seek(place, self._positions[place])
            return _as_ints(consumer.end_offsets(places))

        self._stage, self._assigned = stage, places
        self._stage_ends = self._call(assign)

    def _poll(self, milliseconds: int) -> Mapping[TopicPartition, Sequence[Any]]:
        consumer, assigned = self._consumer, self._assigned

        def poll() -> tuple[Any, dict[TopicPartition, int]]:
            return consumer.poll(milliseconds), {place: consumer.position(place) for place in assigned}

        polled: Mapping[TopicPartition, Sequence[Any]]
        polled, positions = self._call(poll)
        self._positions |= positions
        return polled

    def _is_read(self, place: TopicPartition) -> bool:
        return self._positions[place] >= self._stage_ends[place]

    def _advance_stage(self) -> None:
        """Go through the stages that are complete."""
        blocks, merged = self.partitions
        if self._stage is _Stage.UNNUMBERED and (self._early_blocks or self._is_read(blocks)):
            if not self._early_blocks:
                self._numbered_from = self._positions[blocks]
            self._start_stage(_Stage.MERGED, [merged])
        if self._stage is _Stage.MERGED and self._is_read(merged):
            if merged in self._non_empty:
                self._search_back()
            else:  # nothing is merged: all blocks are needed
                self._accept_early_blocks()
                self._start_stage(_Stage.FOLLOW, self.partitions)
        while self._stage is _Stage.SEARCH:
            is_early_enough = self._search_first and self._search_first.first <= self._resequencer.next
            if self._search_start == self._numbered_from or is_early_enough:
                self._stage = _Stage.FOLLOW
            elif self._search_first or self._is_read(blocks):
                self._search_back()
            else:
                return

    def _search_back(self) -> None:
        """Read blocks from some distance before their end on, or from further back than the last time."""
        blocks, consumer = self.partitions.blocks, self._consumer
        end = int(self._call(lambda: consumer.end_offsets([blocks]))[blocks])
        start = max(self._numbered_from, end - self._search_distance)
        self._search_distance *= _DISTANCE_FACTOR
        self._resequencer.clear_blocks()
        if self._early_blocks and start <= self._positions[blocks]:
            self._search_start, self._search_first = self._numbered_from, self._early_blocks[0][0]
            self._accept_early_blocks()
        else:
            self._early_blocks = []
            self._search_start, self._search_first, self._positions[blocks] = start, None, start
        self._start_stage(_Stage.SEARCH, self.partitions)

    # -- records -----------------------------------------------------------------------------------------

    def _accept(self, place: TopicPartition, records: Iterable[Any]) -> None:
        for record in records:
            if not is_block(record):
                self._skipped(record)
                continue
            self._non_empty.add(place)
            self._check_owner(record)
            try:
                span = span_of(record)
            except ChangelogError as error:
                raise with_place(record, with_cure(error)) from None
            if place == self.partitions.merged:
                if span is None:
                    message = f"a merged block has no header {SEQUENCE_HEADER!r}; {CURE}"
                    raise with_place(record, ChangelogError(message))
                self._resequencer.add_merged(span, record)
                continue
            if span is None:
                self._restore_unnumbered(record)
                continue
            if self._stage is _Stage.UNNUMBERED:
                if not self._early_blocks:
                    self._numbered_from = record.offset
                    if self._first_offsets[place] > 0 and not self.restored.blocks:
                        self._oldest_number = span.first
                self._early_blocks.append((span, record))
                continue
            self._search_first = self._search_first or span
            self._resequencer.add_block(span, record)

    def _accept_early_blocks(self) -> None:
        """Queue them now that the merged blocks are read."""
        for span, record in self._early_blocks:
            self._resequencer.add_block(span, record)
        self._early_blocks = []
        self._restore_ready()

    def _restore_unnumbered(self, record: Any) -> None:
        if self._early_blocks or self._resequencer.next or self._resequencer.has_gap:
            raise with_place(
                record, ChangelogError(f"a former release wrote here after this one did; end its workers. {CURE}")
            )
        self._restore(self._decode(record))
        self._add_block(record)

    def _add_block(self, record: Any) -> None:
        try:
            self.restored.add_block(record)
        except ChangelogError as error:
            raise with_place(record, with_cure(error)) from None

    def _check_owner(self, record: Any) -> None:
        if record.key != self._owner:
            raise ChangelogError(
                f"the changelog {record.topic}-{record.partition} has a block of "
                f"{(record.key or b'').decode(errors='replace')!r} at offset {record.offset}, and this is "
                f"{self._owner.decode()!r}; each group needs a changelog of its own, in scope partition one with two "
                "partitions per index: set [topics] changelog, or the former [kafka] group_id"
            )

    def _restore_ready(self) -> None:
        """Restore the entries that follow without a gap."""
        for span, is_merged, is_redundant, record in self._resequencer.ready():
            if not is_redundant:
                delta = self._decode(record)
                self._restore(delta)
                self._add_block(record)
            if is_merged:
                self._builder.read_merged(span)
            else:
                self._builder.read_block(span, delta)

    def _set_next_number(self, ends: Mapping[TopicPartition, int]) -> None:
        """Make sure that the next writer uses no number of an expired entry, which a standby may know.

        No number was ever higher than the offsets used so far, since each entry takes one.
        """
        if not self._builder.next:
            self._builder.begin(sum(ends.values()) + 1)
        elif any(ends[place] > 0 and place not in self._non_empty for place in self.partitions):
            self._builder.skip_to(sum(ends.values()) + 1)

    # -- stalls and gaps ---------------------------------------------------------------------------------

    def _remaining(self, ends: Mapping[TopicPartition, int]) -> int:
        """The number of offsets still to read."""
        blocks, merged = (max(0, ends[place] - self._positions[place]) for place in self.partitions)
        if self._stage in (_Stage.UNNUMBERED, _Stage.MERGED) and merged:
            blocks = min(blocks, self._search_distance)
        return blocks + merged

    def _stall_message(self, ends: Mapping[TopicPartition, int]) -> str:
        behind = (place for place in self._assigned if self._positions[place] < ends[place])
        place = next(behind, self.partitions.blocks)
        return (
            f"the changelog {place.topic}-{place.partition} stands still at offset {self._positions[place]} of "
            f"{ends[place]}: an open transaction begins there, or the brokers do not answer. Does another program "
            "write to it? If not, the brokers have lost track of a transaction: `kafka-transactions.sh find-hanging` "
            "names it"
        )

    def _check_gap(self) -> None:
        """An entry may arrive before its predecessor in the other partition. If the gap lasts, an entry was lost."""
        if self._stage is not _Stage.FOLLOW or not self._resequencer.has_gap:
            self._gap_since, self._gap_ends = None, {}
        elif self._gap_since is None:
            self._gap_since = time.monotonic()
        elif not self._gap_ends:
            if not self._resequencer.next or time.monotonic() - self._gap_since > _GAP_SECONDS:
                self._gap_ends = self._ends()
        elif all(self._positions[place] >= end for place, end in self._gap_ends.items()):
            try:
                self._close_gap()
            except ChangelogError as error:
                raise Outdated(f"{error} (it is read again from the beginning, to see whether this persists)") from None
            self._gap_since, self._gap_ends = None, {}

    def _close_gap(self) -> None:
        """Skip a gap before the oldest entry, whose predecessors have expired; raise for any other. All was read."""
        waiting = self._resequencer.first_waiting
        if not self._resequencer.next or (waiting is not None and waiting.first == self._oldest_number):
            self._resequencer.skip_gap()
            self._restore_ready()
        if self._resequencer.has_gap:
            blocks, merged = self.partitions
            raise ChangelogError(
                f"the changelog {blocks.topic} lacks the entries from {self._resequencer.next} on, and has later ones, "
                f"in its partitions {blocks.partition} and {merged.partition}: records were deleted, or a partition "
                f"was lost. {CURE}"
            )


def _as_ints(offsets: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
    return {place: int(offset) for place, offset in offsets.items()}


def _decode(scheme_id: int, signature_dtype: np.dtype[np.void], record: Any) -> Delta:
    try:
        return decode(record.value or b"", scheme_id, signature_dtype)
    except ChangelogError as error:
        raise with_place(record, with_cure(error)) from None
