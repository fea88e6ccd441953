"""The headers of the changelog's records on Kafka, and what distinguishes these from records of other programs.

Each record has its sequence numbers (entries.py), the input offsets after its batch, and a `TaskSummary`: the topic of
these offsets, and the number of remembered originals. Brokers delete a group's offsets, by default seven days after its
last member has left; then the work continues from the offsets of the changelog. A restore that finds fewer originals
than were written can report it. (An idle worker writes nothing, but while it runs no offset expires.)

Records of other programs are skipped. A damaged record of a worker ends the worker, since without it originals would be
forgotten. The error has the place and the cure that keeps the most.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import msgspec

from stream_dedup.changelog.block import MAGIC
from stream_dedup.errors import ChangelogError, CorruptBlock

Header = tuple[str, bytes]
Parsed = TypeVar("Parsed")

SEQUENCE_HEADER = "sequence"
BLOCKS_HEADER = "blocks"
"""Of a merged block: an offset in the partition of blocks, before all blocks that are not merged by then, and the id of
its topic. A copy of the topic has other offsets."""
OFFSETS_HEADER = "offsets"
SUMMARY_HEADER = "standing"
"""Of a `TaskSummary`; its name is stored, so it stays."""
MIGRATION_HEADER = "migration"
"""Only on the blocks of a migration (tools/topics/migration.py)."""
_DIGITS = 20  # of a 64-bit number
CURE = (
    "To keep what is remembered, fill another changelog from the output and duplicates topics: name a new topic in "
    "[topics] changelog, create it with: stream-dedup topics create --config FILE, and run `stream-dedup migrate "
    "--config FILE` before the workers. In scope partition, or without the last step, they begin with an empty index, "
    "after you have confirmed it by the command that they print"
)


class SequenceRange(NamedTuple):
    """The sequence numbers of an entry: from the number after its predecessor's last to its own last.

    A block has one number, and those that were skipped just before it (`EntryBuilder.use_none_before`).

    >>> SequenceRange.parse(SequenceRange(7, 9).header()[1])
    SequenceRange(first=7, last=9)
    """

    first: int
    last: int

    def header(self) -> Header:
        return SEQUENCE_HEADER, f"{self.first}-{self.last}".encode()

    @staticmethod
    def parse(value: bytes) -> "SequenceRange":
        """Read the value of a header. Raises CorruptBlock for one that `header` cannot have written."""
        first, dash, last = value.partition(b"-")
        is_written = dash and first.isdigit() and last.isdigit() and len(first) <= _DIGITS >= len(last)
        if not is_written or not 0 < int(first) <= int(last):
            raise CorruptBlock(f"{value!r} in the header {SEQUENCE_HEADER!r} is no range of sequence numbers")
        return SequenceRange(int(first), int(last))


class TaskSummary(msgspec.Struct, frozen=True, array_like=True):
    """The task after a block: the input topic of the offsets, its id, and the number of remembered originals."""

    topic: str
    topic_id: str
    originals: int

    def header(self) -> Header:
        return SUMMARY_HEADER, msgspec.json.encode(self)


class MigrationCheckpoint(msgspec.Struct, frozen=True):
    """The progress of a migration: (topic, partition, next offset to read) of each, and whether it is complete.

    `epochs`: of the record before each offset (kafka/fetch.py); empty if an older release migrated.
    """

    next: list[tuple[str, int, int]]
    complete: bool
    epochs: list[int] = []

    def header(self) -> Header:
        return MIGRATION_HEADER, msgspec.json.encode(self)


def offsets_header(offsets: Mapping[int, int]) -> Header:
    """Return the header of the next offset to read of each input partition."""
    return OFFSETS_HEADER, msgspec.json.encode(offsets)


def blocks_header(offset: int, topic_id: str = "") -> Header:
    """Return the header of a merged block: where the blocks begin that are not merged, in the topic with this id."""
    return BLOCKS_HEADER, f"{offset} {topic_id}".rstrip().encode()


@dataclass(slots=True)
class RestoreResult:
    """What the changelog holds, as far as it was read: the number of blocks, and the last values of the headers."""

    blocks: int = 0  # with those that the task itself has written since
    offsets: dict[int, int] = field(default_factory=dict)  # input partition -> the next offset to read
    task_summary: TaskSummary | None = None  # None: no block
    migration: MigrationCheckpoint | None = None  # None: no migration has written here
    begin: int = 0  # the first offset of the topic; above 0, older records were deleted

    def add_block(self, headers: Iterable[Header]) -> None:
        """Take the values of a newer block. Raises CorruptBlock for values that no worker writes."""
        self.blocks += 1
        values = dict(headers)
        if SUMMARY_HEADER in values:
            former, self.task_summary = self.task_summary, _parse(values, SUMMARY_HEADER, TaskSummary)
            summary = self.task_summary
            if former is not None and (former.topic, former.topic_id) != (summary.topic, summary.topic_id):
                self.offsets.clear()  # they belong to another topic
        if OFFSETS_HEADER in values:
            self.offsets |= _parse(values, OFFSETS_HEADER, dict[int, int])
        if MIGRATION_HEADER in values:
            self.migration = _parse(values, MIGRATION_HEADER, MigrationCheckpoint)


def is_block(record: Any) -> bool:
    """Return whether a worker wrote this changelog record: it begins like a block, or has a block's sequence numbers.

    The key says nothing, because another program may use our key, too.
    """
    with suppress(CorruptBlock):
        return (record.value or b"").startswith(MAGIC) or span_of(record).last > 0
    return False


def span_of(record: Any) -> SequenceRange:
    """Return the record's sequence numbers. Raises CorruptBlock."""
    return SequenceRange.parse(_header(record, SEQUENCE_HEADER))


def blocks_start(record: Any, topic_id: str = "") -> int:
    """Return the offset of the first block that no merged block up to this one repeats, in the topic with this id.

    It is 0, the beginning, if the merged block was written to another topic. Raises CorruptBlock.
    """
    value = _header(record, BLOCKS_HEADER)
    offset, _, its_id = value.partition(b" ")
    if not offset.isdigit() or len(offset) > _DIGITS:
        raise CorruptBlock(f"{value!r} in the header {BLOCKS_HEADER!r} is no offset")
    return int(offset) if its_id == topic_id.encode() else 0


@contextmanager
def placed(record: Any) -> Iterator[None]:
    """Add the record's place to an error about it, and the cure if the record is damaged."""
    try:
        yield
    except ChangelogError as error:
        is_damaged = type(error) is CorruptBlock
        cure = f". `stream-dedup state verify` names every damaged record. {CURE}" if is_damaged else ""
        place = f"{record.topic}-{record.partition} at offset {record.offset}"
        raise type(error)(f"{place}: {error}{cure}") from None


def _header(record: Any, name: str) -> bytes:
    value = dict(record.headers).get(name)
    if value is None:
        raise CorruptBlock(f"the header {name!r} is missing")
    return bytes(value)


def _parse(values: Mapping[str, bytes | None], name: str, kind: type[Parsed]) -> Parsed:
    try:
        return msgspec.json.decode(values[name] or b"", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptBlock(f"the header {name!r} of a changelog record cannot be read: {error}") from None
