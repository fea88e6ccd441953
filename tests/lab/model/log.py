"""The log of one partition: batches as bytes, its open transactions, and what a reader may see.

Batches are in Kafka's own format, and readers get them up to the last stable offset. As on a broker, a control record
(marker) takes an offset of its own, an aborted batch stays, and retention moves the start past anything.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from kafka import errors as kafka_errors
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

_ATTRIBUTES = DefaultRecordBatch.ATTRIBUTES_OFFSET
_CRC = DefaultRecordBatch.CRC_OFFSET
_CONTROL = DefaultRecordBatch.CONTROL_MASK


class Record(NamedTuple):
    """A record as the broker parsed it."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int


class Batch:
    """Consecutive records, or a marker. `commits`: None for records; for a marker whether it commits or aborts."""

    __slots__ = ("aborted", "base", "commits", "content", "count", "producer", "records", "time")

    def __init__(self, content: bytearray, records: list[Record], producer: int, time: int) -> None:
        self.content, self.records, self.producer, self.time = content, records, producer, time
        self.base, self.count = -1, max(1, len(records))
        self.commits: bool | None = None
        self.aborted = False


class Aborted(NamedTuple):
    """An aborted transaction, as in a fetch response."""

    producer_id: int
    first_offset: int


def encoded(
    records: Sequence[Record],
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    names: dict[str, bytes] | None = None,
) -> bytearray:
    """Encode a record batch. `names`: bytes that replace a header's name of the same length."""
    builder = DefaultRecordBatchBuilder(2, 0, producer >= 0, producer, epoch, sequence, 2**30)
    for i, one in enumerate(records):
        builder.append(i, one.timestamp, one.key, one.value, list(one.headers))
    content = bytearray(builder.build())
    for name, wanted in (names or {}).items():
        content = content.replace(name.encode(), wanted)
    return signed(content) if names else content


def marker(commits: bool, producer: int, epoch: int, time: int) -> Batch:
    """The control record that ends a transaction."""
    content = encoded([Record(struct.pack(">hh", 0, commits), b"\0" * 6, [], time)], producer, epoch, 0)
    content[_ATTRIBUTES + 1] |= _CONTROL
    batch = Batch(signed(content), [], producer, time)
    batch.commits = commits
    return batch


def signed(content: bytearray) -> bytearray:
    struct.pack_into(">I", content, _CRC, calc_crc32c(memoryview(content)[_ATTRIBUTES:]))
    return content


def parsed(content: bytes | bytearray) -> list[Record]:
    """Decode the records of a batch. Raises InvalidRecordError, as a broker does, for a damaged one."""
    batch = DefaultRecordBatch(bytes(content))
    try:
        if not batch.validate_crc():
            raise ValueError("checksum")
        records = [Record(one.key, one.value, one.headers, one.timestamp) for one in batch]
    except Exception as error:
        raise kafka_errors.InvalidRecordError(f"the batch cannot be read: {error!r}") from error
    return records


class Log:
    """The log of a partition. `start` and `end` are offsets."""

    def __init__(self) -> None:
        self.start = self.end = 0
        self.batches: list[Batch] = []
        self.open: dict[int, int] = {}  # producer -> first offset of its open transaction
        self.aborted: list[tuple[int, int, int]] = []  # producer, first offset, offset of the marker

    @property
    def stable(self) -> int:
        """The last stable offset: where the first open transaction begins, or the end."""
        return min(self.open.values(), default=self.end)

    def append(self, batch: Batch, is_transactional: bool = False) -> int:
        batch.base = self.end
        struct.pack_into(">q", batch.content, 0, batch.base)
        self.batches.append(batch)
        self.end += batch.count
        if is_transactional:
            self.open.setdefault(batch.producer, batch.base)
        return batch.base

    def end_transaction(self, commits: bool, producer: int, epoch: int, time: int) -> list[Batch]:
        """Write the marker of a transaction; return its batches."""
        first = self.open.get(producer, self.end)
        mine = []
        for batch in reversed(self.batches):
            if batch.base < first:
                break
            if batch.producer == producer and batch.commits is None:
                batch.aborted = not commits
                mine.append(batch)
        at = self.append(marker(commits, producer, epoch, time))
        if self.open.pop(producer, None) is not None and not commits:
            self.aborted.append((producer, first, at))
        return mine[::-1]

    def read(self, offset: int, most: int, committed: bool = True) -> tuple[bytes, list[Aborted]]:
        """The bytes from the batch that holds the offset on, at least one batch. Raises OffsetOutOfRangeError."""
        if not self.start <= offset <= self.end:
            raise kafka_errors.OffsetOutOfRangeError(offset)
        limit = self.stable if committed else self.end
        if offset >= limit:
            return b"", []
        parts: list[bytes] = []
        size = 0
        for batch in self.batches[self._place(offset) :]:
            if batch.base + batch.count <= offset:
                continue
            if batch.base >= limit or (parts and size + len(batch.content) > most):
                break
            parts.append(bytes(batch.content))
            size += len(batch.content)
        return b"".join(parts), [Aborted(who, first) for who, first, last in self.aborted if last >= offset]

    def delete_before(self, offset: int) -> None:
        """Delete everything before the offset, as by retention or DeleteRecords."""
        self.start = max(self.start, min(offset, self.end))
        while self.batches and self.batches[0].base + self.batches[0].count <= self.start:
            self.batches.pop(0)

    def delete_older(self, time: int) -> None:
        """Delete batches older than a time (ms), as by retention."""
        start = self.start
        for batch in self.batches:
            if batch.time >= time or batch.base >= self.stable:
                break
            start = batch.base + batch.count
        self.delete_before(start)

    def _place(self, offset: int) -> int:
        return max(0, bisect_right(self.batches, offset, key=lambda batch: batch.base) - 1)
