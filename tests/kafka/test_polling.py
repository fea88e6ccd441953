"""The worker bounds what it polls and for how long, and processes polled records before a failure."""

import threading
import time
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.structs import MemberState

from stream_dedup.errors import StreamError
from stream_dedup.kafka import client
from stream_dedup.kafka.assignor import CooperativeAssignor
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.kafka.record_batch import Record, content_bytes
from stream_dedup.kafka.runtime import make_consumer
from stream_dedup.settings import Settings
from stream_dedup.worker.group import Group
from stream_dedup.worker.worker import Worker
from tests.harness.check import assert_exactly_once
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make, make_settings
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka


def test_a_rebalance_is_not_forgotten_between_two_polls(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python 3.0.12 hangs when a poll ends between JoinGroup and SyncGroup; see group.py."""
    monkeypatch.setattr("stream_dedup.worker.worker._POLL_MS", 1)
    for _ in range(3):  # without the workaround one in eight passes
        settings = make()
        feed(settings, made_up(10))
        run_until(settings, 10, seconds=15)


def test_a_batch_is_bounded_however_much_input_waits(make: Make) -> None:
    settings = make(3, worker={"batch_items": 50})
    sent = [record for partition in range(3) for record in feed(settings, made_up(150, seed=partition), partition)]
    watching = run_until(settings, len(sent))
    assert watching.judged == 450
    assert max(len(report.verdicts) for report in watching.reports) == 50


def test_the_group_is_not_polled_while_offsets_are_sent(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll may join a rebalance, after which the group would refuse the offsets."""
    send_offsets, poll = TaskProducer.send_offsets, Group.poll
    sending: list[bool] = []
    polled_while_sending: list[bool] = []
    waits: list[int] = []

    def slow(self: TaskProducer, *args: Any) -> None:
        sending.append(True)
        time.sleep(0.02)
        send_offsets(self, *args)
        sending.pop()

    def watched(self: Group, milliseconds: int) -> Any:
        polled_while_sending.append(bool(sending))
        waits.append(milliseconds)
        return poll(self, milliseconds)

    monkeypatch.setattr(TaskProducer, "send_offsets", slow)
    monkeypatch.setattr(Group, "poll", watched)
    settings = make(worker={"batch_items": 20})
    sent = feed(settings, made_up(600))
    run_until(settings, 600)
    assert not any(polled_while_sending)
    assert waits.count(0) > 5  # several batches a turn, as this test needs
    assert_exactly_once(settings, sent)


def test_records_polled_before_a_failure_are_processed_first(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    poll, failing = Group.poll, threading.Event()

    def fails(self: Group, milliseconds: int) -> Any:
        if failing.is_set():
            assert milliseconds == 0, "the client was polled again after its error"
            raise StreamError("the record behind these cannot be read")
        records, snapshot = poll(self, milliseconds)
        if records:
            failing.set()
        return records, snapshot

    monkeypatch.setattr(Group, "poll", fails)
    settings = make(worker={"batch_items": 20})
    sent = feed(settings, made_up(60))
    with pytest.raises(StreamError, match="cannot be read"):
        Worker(settings).run(threading.Event())
    assert_exactly_once(settings, sent[:20])


PARTITIONS = 2
RECORD_BYTES = 2**18
BATCH_BYTES = 2**20
COUNT = 40


def polls(settings: Settings) -> list[list[Any]]:
    """Every poll of the group's consumer until all records are read."""
    config = client.consumer(settings, CooperativeAssignor())
    config |= {"group_id": None, "auto_offset_reset": "earliest"}
    found: list[list[Any]] = []
    with closing(make_consumer(config)) as consumer:
        consumer.assign([TopicPartition(settings.topics.input, number) for number in range(PARTITIONS)])
        while sum(map(len, found)) < COUNT:
            polled = consumer.poll(1000)
            found.append([record for records in polled.values() for record in records])
    return found


@pytest.mark.parametrize("place", ["value", "header"])
def test_a_poll_is_bounded_by_bytes(make: Make, place: str) -> None:
    """Texts that compress well: all 10 MB are in the first fetch, and the poll of it returned them all."""
    settings = make(PARTITIONS, worker={"batch_bytes": BATCH_BYTES})
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


@pytest.mark.parametrize(("size", "expected"), [(100, 4), (BATCH_BYTES // 2, 2), (BATCH_BYTES, 1)])
def test_an_iteration_polls_no_further_than_the_bytes_of_a_batch(size: int, expected: int) -> None:
    member = SimpleNamespace(generation_id=1, member_id="me", state=MemberState.STABLE)
    polls = {0: [Record("news", 0, 5, 0, None, b"a" * size, ())]}, member
    group: Any = SimpleNamespace(
        changes=SimpleNamespace(count=0),
        poll=lambda _: polls,
        ends=lambda _: {0: 10**6},  # always more to read
    )
    working = Worker(make_settings("127.0.0.1:1", str, worker={"batch_bytes": BATCH_BYTES}))
    working._applied_change = 0
    polled, failed = working._poll(group)
    assert (len(polled), failed) == (expected, None)
