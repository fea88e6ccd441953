"""List every entry of the changelog topic, blocks and merged blocks, in the order in which a restore counts them.

In: a reader and the topic. Out: stored blocks with their places. Entries that a merged block repeats are included and
marked, so that all checksums can be verified and rows counted once.
"""

from collections.abc import Callable, Iterator
from typing import Any

from stream_dedup.changelog.inspection import StoredBlock
from stream_dedup.changelog.limits import PARTITIONS
from stream_dedup.changelog.partitions import index_partitions
from stream_dedup.changelog.reader import span_of
from stream_dedup.errors import ChangelogError
from stream_dedup.stream.topic_reader import TopicReader


def changelog_entries(
    reader: TopicReader, topic: str, check: Callable[[Any], None] = lambda record: None
) -> Iterator[StoredBlock]:
    """Every entry that the topic has now. `check` raises ChangelogError for a record that a worker refuses.

    Raises what `TopicReader` raises, CorruptBlock for bad sequence numbers.
    """

    def stored(record: Any, is_folded: bool = False) -> StoredBlock:
        place, problem = f"{record.topic}-{record.partition} at offset {record.offset}", ""
        try:
            check(record)
        except ChangelogError as error:
            problem = str(error)
        return StoredBlock(place, (record.key or b"").decode(errors="replace"), record.value, is_folded, problem)

    existing = set(reader.beginnings(topic))
    for index in range(-(-len(existing) // PARTITIONS)):
        blocks, merged = (place.partition for place in index_partitions(topic, index))
        merged_to = 0
        for record in reader.partition(topic, blocks):
            if span_of(record) is not None:
                break
            yield stored(record)  # of a release without merged blocks
        for record in reader.partition(topic, merged) if merged in existing else ():
            span = span_of(record)
            merged_to = max(merged_to, span.last if span else 0)
            yield stored(record)
        for record in reader.partition(topic, blocks):
            span = span_of(record)
            if span is not None:
                yield stored(record, span.last <= merged_to)
