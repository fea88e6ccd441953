"""Summarise the content of a changelog topic or state directory for its operator: counts and damage.

Blocks that a merged block repeats are included and marked, so that all checksums are verified and rows counted once; so
are the records of other programs. Blocks of another fingerprint scheme cannot be unpacked: their heads are counted and
their checksums verified.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from stream_dedup.changelog import PARTITIONS
from stream_dedup.changelog.block import decode, read_head
from stream_dedup.changelog.headers import is_block, span_of
from stream_dedup.changelog.journal import Entry
from stream_dedup.dedup.stored import check_delta
from stream_dedup.errors import ChangelogError, CorruptBlock, InputError
from stream_dedup.files import open_locked
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.tools.batch.journal import Journal
from stream_dedup.worker.restore import index_partitions

_LISTED = 1000  # a program that writes to the wrong topic may have written millions


class StoredBlock(NamedTuple):
    """A block and where it is stored."""

    place: str  # `news.changelog-0 at offset 7`, or `journal, byte 40`
    owner: str
    block: bytes
    is_repeated: bool = False  # a merged block has the same content, or all merged blocks are newer
    problem: str = ""  # why a worker refuses it, whatever its content; or empty
    is_foreign: bool = False  # another program's record, which workers skip


@dataclass(slots=True)
class ChangelogSummary:
    """Counts over all blocks, merged ones included."""

    blocks: int = 0
    folded: int = 0  # blocks that a merged block repeats, whose rows a restore does not read and this does not count
    bytes: int = 0
    content_bytes: int = 0
    additions: int = 0
    forgotten: int = 0
    first_watermark: int = -1  # ms; -1: none
    last_watermark: int = -1  # ms; -1: none
    schemes: dict[str, int] = field(default_factory=dict)  # scheme id in 16 hex digits -> blocks
    owners: dict[str, int] = field(default_factory=dict)  # owner -> blocks
    damaged: list[str] = field(default_factory=list)
    skipped: int = 0  # records of other programs
    foreign: list[str] = field(default_factory=list)  # the places of the first thousand of these


def topic_blocks(reader: Any, topic: str) -> Iterator[StoredBlock]:
    """Yield every record of a changelog topic, in the order in which a restore counts them.

    `reader`: a `TopicReader` (reader.py). Raises what it raises.
    """
    existing = set(reader.beginnings(topic))
    for index in range(-(-len(existing) // PARTITIONS)):
        blocks, merged = (place.partition for place in index_partitions(topic, index))
        merged_to = 0
        for record in reader.partition(topic, merged) if merged in existing else ():
            stored, last = _stored(record)
            merged_to = max(merged_to, last)
            yield stored
        for record in reader.partition(topic, blocks):
            stored, last = _stored(record)
            yield stored._replace(is_repeated=0 < last <= merged_to)


def journal_blocks(directory: Path) -> list[StoredBlock]:
    """Yield every block of a directory of `filter --state`, read under its lock.

    Like `filter`, it cuts off the incomplete entry that a killed run may leave.
    """
    path = directory / "journal"
    if not directory.is_dir():
        raise InputError(f"there is no directory {directory}")
    if not path.exists():
        raise InputError(f"{directory} is not a state directory of `filter --state`: it has no journal")
    entries: list[Entry] = []
    with open_locked(directory / "lock"):
        Journal(path, entries.append).close()
    return [StoredBlock(f"{path}, byte {entry.start}", "filter", entry.block) for entry in entries if entry.block]


def summarize(stored: Iterable[StoredBlock], scheme: Scheme) -> ChangelogSummary:
    """Verify every block, and unpack those of `scheme`. Damage is listed, not raised. O(bytes)."""
    summary = ChangelogSummary()
    for place, owner, block, is_repeated, problem, is_foreign in stored:
        if is_foreign:
            summary.skipped += 1
            if len(summary.foreign) < _LISTED:
                summary.foreign.append(f"{place}, key {owner!r}")
            continue
        summary.blocks += 1
        summary.folded += is_repeated
        summary.bytes += len(block)
        try:
            if problem:
                raise CorruptBlock(problem)
            head = read_head(block)
            if head.scheme == scheme.id:
                check_delta(decode(block, scheme.id, scheme.signature_dtype), scheme)
        except ChangelogError as error:
            summary.damaged.append(f"{place}: {error}")
            continue
        summary.content_bytes += head.content_bytes
        summary.additions += 0 if is_repeated else head.additions
        summary.forgotten += 0 if is_repeated else head.forgotten
        for counts, name in ((summary.schemes, f"{head.scheme:016x}"), (summary.owners, owner)):
            counts[name] = counts.get(name, 0) + 1
        summary.first_watermark = head.watermark if summary.first_watermark < 0 else summary.first_watermark
        summary.last_watermark = max(summary.last_watermark, head.watermark)
    return summary


def _stored(record: Any) -> tuple[StoredBlock, int]:
    """Return the record, and its last sequence number, or 0."""
    place, owner = f"{record.topic}-{record.partition} at offset {record.offset}", (record.key or b"")
    stored = StoredBlock(place, owner.decode(errors="replace"), record.value or b"")
    if not is_block(record):
        return stored._replace(is_foreign=True), 0
    try:
        return stored, span_of(record).last
    except ChangelogError as error:
        return stored._replace(problem=str(error)), 0
