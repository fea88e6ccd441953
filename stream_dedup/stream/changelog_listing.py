"""The changelog topic as a person looks at it: every block and fold, in the order in which a restore counts them.

In: a reader, the topic. Out: `Stored` blocks, each with its place. What the folds say already is there too, and marked,
so that checksums can be verified of everything and rows counted once.
"""

from collections.abc import Iterator
from typing import Any

from stream_dedup.changelog.census import Stored
from stream_dedup.changelog.limits import PARTITIONS
from stream_dedup.changelog.topic import places_of, span_of
from stream_dedup.stream.topic_reader import TopicReader


def changelog_entries(reader: TopicReader, topic: str) -> Iterator[Stored]:
    """All that the topic holds now. Raises what `TopicReader` raises, and CorruptBlock for broken sequence numbers."""
    there = set(reader.beginnings(topic))
    for index in range(-(-len(there) // PARTITIONS)):
        blocks, folds = (place.partition for place in places_of(topic, index))
        folded = 0
        for record in reader.partition(topic, blocks):
            if span_of(record) is not None:
                break
            yield _stored(record)  # of a release that did not fold
        for record in reader.partition(topic, folds) if folds in there else ():
            span = span_of(record)
            folded = max(folded, span.last if span else 0)
            yield _stored(record)
        for record in reader.partition(topic, blocks):
            span = span_of(record)
            if span is not None:
                yield _stored(record, span.last <= folded)


def _stored(record: Any, is_folded: bool = False) -> Stored:
    place = f"{record.topic}-{record.partition} at offset {record.offset}"
    return Stored(place, (record.key or b"").decode(errors="replace"), record.value, is_folded)
