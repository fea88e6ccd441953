"""List every record of the changelog topic, blocks and merged blocks, in the order in which a restore counts them.

In: a reader and the topic. Out: stored blocks with their places. Entries that a merged block repeats are included and
marked, so that all checksums can be verified and rows counted once; so are the records of other programs.
"""

from collections.abc import Iterator
from typing import Any

from stream_dedup.changelog.entries import SequenceRange
from stream_dedup.changelog.inspection import StoredBlock
from stream_dedup.changelog.partitions import index_partitions
from stream_dedup.changelog.records import is_block, span_of
from stream_dedup.errors import ChangelogError
from stream_dedup.kafka.reader import TopicReader
from stream_dedup.kafka.record_batch import PARTITIONS


def changelog_entries(reader: TopicReader, topic: str) -> Iterator[StoredBlock]:
    """Every record that the topic has now. Raises what `TopicReader` raises."""
    existing = set(reader.beginnings(topic))
    for index in range(-(-len(existing) // PARTITIONS)):
        blocks, merged = (place.partition for place in index_partitions(topic, index))
        merged_to = 0
        for record in reader.partition(topic, merged) if merged in existing else ():
            stored, span = _stored(record)
            merged_to = max(merged_to, span.last if span else 0)
            yield stored
        for record in reader.partition(topic, blocks):
            stored, span = _stored(record)
            yield stored._replace(is_folded=span is not None and span.last <= merged_to)


def _stored(record: Any) -> tuple[StoredBlock, SequenceRange | None]:
    place, owner = f"{record.topic}-{record.partition} at offset {record.offset}", (record.key or b"")
    stored = StoredBlock(place, owner.decode(errors="replace"), record.value or b"")
    if not is_block(record):
        return stored._replace(is_foreign=True), None
    try:
        return stored, span_of(record)
    except ChangelogError as error:
        return stored._replace(problem=str(error)), None
