"""The order in which a migration judges the records of two partitions: as in the input, whatever is readable first."""

from collections import deque
from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition

from stream_dedup.tools.topics.headers import place_of
from stream_dedup.tools.topics.migration import Source, in_input_order
from stream_dedup.worker.outgoing import SOURCE


def record(offset: int, partition: int = 0) -> Any:
    """A forwarded record that came from this place in the input."""
    return SimpleNamespace(headers=[(SOURCE, f"news/raw/{partition}/{offset}".encode())], timestamp=offset)


def source(partition: int, *offsets: int, written: int | None = None) -> Source:
    """A partition of the output whose readable records are these, and `written` in all."""
    fetched = len(offsets)
    waiting = deque(record(offset) for offset in offsets)
    place, written = TopicPartition("output", partition), fetched if written is None else written
    return Source(place, 0, waiting, fetched, end=fetched, written=written)


def order(*sources: Source) -> list[int]:
    return [place_of(found)[1] for _, found in in_input_order(sources)]


def test_records_come_in_the_order_of_the_input() -> None:
    assert order(source(0, 0, 1, 4), source(1, 2, 3, 5)) == [0, 1, 2, 3, 4, 5]


def test_a_record_waits_for_what_its_transaction_wrote_elsewhere() -> None:
    """The same transaction is readable in one partition, and not yet in the other."""
    first, second = source(0, written=3), source(1, 2, 3)
    assert order(first, second) == []
    first.waiting.extend(record(offset) for offset in (0, 1, 4))
    first.fetched = 3
    assert order(first, second) == [0, 1, 2, 3, 4]


def test_it_stops_where_the_next_record_may_be_in_a_partition_that_has_more() -> None:
    assert order(source(0, 0, 1, written=4), source(1, 2, 3)) == [0, 1]


def test_a_partition_without_records_holds_nothing_up() -> None:
    assert order(source(0, 0, 1), source(1)) == [0, 1]
