"""A poll is bounded by bytes, not only by the number of records: by [worker] batch_bytes, and one record more."""

from collections.abc import Callable
from typing import Any

import pytest
from kafka import TopicPartition

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.kafka import client
from stream_dedup.kafka.assignor import CooperativeAssignor
from stream_dedup.kafka.record_batch import content_bytes
from stream_dedup.settings import Settings
from stream_dedup.worker.worker import Worker
from tests.worker.support import feed, make_settings, ready

PARTITIONS = 2
RECORD_BYTES = 2**18
BATCH_BYTES = 2**20
COUNT = 40


def polls(settings: Settings) -> list[list[Any]]:
    """Every poll of the group's consumer until all records are read."""
    config = client.consumer(settings, CooperativeAssignor())
    config |= {"group_id": None, "auto_offset_reset": "earliest"}
    consumer = client.make_consumer(config)
    try:
        consumer.assign([TopicPartition(settings.topics.input, number) for number in range(PARTITIONS)])
        found: list[list[Any]] = []
        while sum(map(len, found)) < COUNT:
            polled = consumer.poll(1000)
            found.append([record for records in polled.values() for record in records])
        return found
    finally:
        consumer.close(autocommit=False)


@pytest.mark.kafka
@pytest.mark.parametrize("place", ["value", "header"])
def test_a_poll_is_bounded_by_bytes(kafka: EmbeddedKafka, topic_name: Callable[[str], str], place: str) -> None:
    """Texts that compress well: all 10 MB are in the first fetch, and the poll of it returned them all."""
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_bytes": BATCH_BYTES}), PARTITIONS)
    content = b"a" * RECORD_BYTES
    for partition in range(PARTITIONS):
        records = [(str(n).encode(), content if place == "value" else b"") for n in range(COUNT // PARTITIONS)]
        feed(settings, records, partition, "zstd", **({"trace": content} if place == "header" else {}))
    found = polls(settings)
    offsets: dict[int, list[int]] = {}
    for record in [record for poll in found for record in poll]:
        offsets.setdefault(record.partition, []).append(record.offset)
    assert offsets == {number: list(range(COUNT // PARTITIONS)) for number in range(PARTITIONS)}
    assert max(sum(map(content_bytes, poll)) for poll in found) <= BATCH_BYTES + RECORD_BYTES + 100


class _Group:
    """A group whose polls return one record each, without end."""

    class changes:  # noqa: N801 - as the attribute of `Group`
        count = 0

    def __init__(self, record: Any) -> None:
        self._record, self.polls = record, 0

    def poll(self, milliseconds: int) -> tuple[dict[int, list[Any]], Any]:
        from kafka.structs import MemberState

        class Membership:
            generation_id, member_id, state = 1, "me", MemberState.STABLE

        self.polls += 1
        return {0: [self._record]}, Membership

    def ends(self, partitions: Any) -> dict[int, int]:
        return {0: 10**6}


@pytest.mark.parametrize(("size", "expected"), [(100, 4), (BATCH_BYTES // 2, 2), (BATCH_BYTES, 1)])
def test_an_iteration_polls_no_further_than_the_bytes_of_a_batch(size: int, expected: int) -> None:
    from stream_dedup.kafka.record_batch import Record

    worker = Worker(make_settings("127.0.0.1:1", str, worker={"batch_bytes": BATCH_BYTES}))
    worker._applied_change = 0
    group = _Group(Record("news", 0, 5, 0, None, b"a" * size, ()))
    polled, _, failed = worker._poll(group)  # type: ignore[arg-type]
    assert (len(polled), group.polls, failed) == (expected, expected, None)
