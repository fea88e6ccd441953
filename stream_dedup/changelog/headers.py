"""The Kafka headers of changelog records, and what a restore learns from them.

Besides its sequence numbers (entries.py) a record carries the input offsets after its batch and a `TaskSummary`: the
topic that the offsets belong to, and the number of remembered originals. Brokers drop a group's offsets, by default
seven days after its last member has left; then work goes on from the changelog's. A restore that finds fewer originals
than were written can report it. (An idle worker writes nothing, but while it runs no offset expires.)
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stream_dedup.errors import CorruptBlock

Header = tuple[str, bytes]
Parsed = TypeVar("Parsed")

OFFSETS_HEADER = "offsets"
STANDING_HEADER = "standing"
# Only on the blocks of a migration (stream/migration.py).
MIGRATION_HEADER = "migration"


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """The task after a block: the input topic of the offsets, its id ("": the brokers have none), and the number of
    originals remembered.
    """

    topic: str
    topic_id: str
    originals: int

    def header(self) -> Header:
        return STANDING_HEADER, json.dumps([self.topic, self.topic_id, self.originals]).encode()

    @staticmethod
    def parse(value: bytes) -> "TaskSummary":
        """Raises CorruptBlock for a value that `header` cannot have written.

        >>> TaskSummary.parse(TaskSummary("news.raw", "465bf025", 7).header()[1])
        TaskSummary(topic='news.raw', topic_id='465bf025', originals=7)
        """
        return TaskSummary(*_parse(STANDING_HEADER, value, tuple[str, str, int]))


@dataclass(frozen=True, slots=True)
class MigrationCheckpoint:
    """The progress of a migration: (topic, partition) -> the next offset to read, and whether it is complete."""

    next_offsets: Mapping[tuple[str, int], int]
    complete: bool

    def header(self) -> Header:
        rows = [[topic, partition, offset] for (topic, partition), offset in sorted(self.next_offsets.items())]
        return MIGRATION_HEADER, json.dumps({"next": rows, "complete": self.complete}).encode()

    @staticmethod
    def parse(value: bytes) -> "MigrationCheckpoint":
        """Raises CorruptBlock for a value that `header` cannot have written.

        >>> progress = MigrationCheckpoint({("news.unique", 0): 7}, False)
        >>> MigrationCheckpoint.parse(progress.header()[1]) == progress
        True
        """
        fields = _parse(MIGRATION_HEADER, value, _MigrationFields)
        offsets = {(topic, partition): offset for topic, partition, offset in fields.next}
        return MigrationCheckpoint(offsets, fields.complete)


class _MigrationFields(msgspec.Struct):
    """The JSON of a `MigrationCheckpoint`."""

    next: list[tuple[str, int, int]]
    complete: bool


def offsets_header(offsets: Mapping[int, int]) -> Header:
    """`offsets`: input partition -> the next offset to read."""
    return OFFSETS_HEADER, json.dumps(offsets).encode()


@dataclass(slots=True)
class RestoreResult:
    """What a restore has read: blocks, their bytes, and the last values of the headers."""

    blocks: int = 0
    bytes: int = 0
    offsets: dict[int, int] = field(default_factory=dict)  # input partition -> the next offset to read
    task_summary: TaskSummary | None = None  # None: no block
    migration: MigrationCheckpoint | None = None  # None: no migration has written here
    begin: int = 0  # the first offset of the topic; above 0, older records were deleted

    def add_block(self, record: Any) -> None:
        self.blocks += 1
        self.bytes += len(record.value)
        self.add_headers(record.headers)

    def add_headers(self, headers: Iterable[Header]) -> None:
        """Take over the values of a newer block. Raises CorruptBlock for values that no worker writes."""
        values = dict(headers)
        if STANDING_HEADER in values:
            task_summary, previous = TaskSummary.parse(values[STANDING_HEADER]), self.task_summary
            if previous is not None and (previous.topic, previous.topic_id) != (
                task_summary.topic,
                task_summary.topic_id,
            ):
                self.offsets.clear()  # they belong to another topic
            self.task_summary = task_summary
        if OFFSETS_HEADER in values:
            self.offsets |= _parse(OFFSETS_HEADER, values[OFFSETS_HEADER], dict[int, int])
        if MIGRATION_HEADER in values:
            self.migration = MigrationCheckpoint.parse(values[MIGRATION_HEADER])


def _parse(name: str, value: bytes | None, kind: type[Parsed]) -> Parsed:
    try:
        return msgspec.json.decode(value or b"", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptBlock(f"the header {name!r} of a changelog record cannot be read: {error}") from None
