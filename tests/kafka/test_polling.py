"""The worker bounds what it polls and for how long, and processes polled records before a failure."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import StreamError
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.worker import worker
from stream_dedup.worker.group import Group
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.worker import Worker
from tests.worker.support import assert_exactly_once, feed, made_up, make_settings, ready, run_until

pytestmark = pytest.mark.kafka
Names = Callable[[str], str]


def test_a_rebalance_is_not_forgotten_between_two_polls(
    kafka: EmbeddedKafka, topic_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kafka-python 3.0.12 hangs when a poll ends between JoinGroup and SyncGroup; see group.py."""
    monkeypatch.setattr("stream_dedup.worker.worker._POLL_MS", 1)
    for _ in range(3):  # without the workaround one in eight passes
        settings = ready(make_settings(kafka.bootstrap, topic_name))
        feed(settings, made_up(10))
        run_until(settings, 10, seconds=15)


def test_a_batch_is_bounded_however_much_input_waits(kafka: EmbeddedKafka, topic_name: Names) -> None:
    class Sizes(Observer):
        def __init__(self) -> None:
            self.sizes: list[int] = []

        def batch(self, report: BatchReport) -> None:
            self.sizes.append(len(report.verdicts))

    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 50}), partitions=3)
    sent = [one for partition in range(3) for one in feed(settings, made_up(150, seed=partition), partition)]
    sizes = Sizes()
    observed = Worker(settings, observer=sizes)
    stop = threading.Event()
    thread = threading.Thread(target=observed.run, args=(stop,))
    thread.start()
    deadline = time.monotonic() + 60
    while sum(sizes.sizes) < len(sent) and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.set()
    thread.join()
    assert sum(sizes.sizes) == 450
    assert max(sizes.sizes) == 50


def test_the_group_is_not_polled_while_offsets_are_sent(
    kafka: EmbeddedKafka, topic_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 20}))
    sent = feed(settings, made_up(600))
    run_until(settings, 600)
    assert not any(polled_while_sending)
    assert waits.count(0) > 5  # several batches a turn, as this test needs
    assert_exactly_once(settings, sent)


def test_records_polled_before_a_failure_are_processed_first(
    kafka: EmbeddedKafka, topic_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 20}))
    sent = feed(settings, made_up(60))
    with pytest.raises(StreamError, match="cannot be read"):
        Worker(settings).run(threading.Event())
    assert_exactly_once(settings, sent[:20])


def test_polls_are_short_while_a_commit_is_under_way(
    kafka: EmbeddedKafka, topic_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, poll, stop = TaskProducer.begin, Group.poll, threading.Event()
    begun: list[bool] = []
    reported: list[bool] = []
    polls: set[tuple[bool, int]] = set()  # whether a commit was under way, and the milliseconds

    class Reports(Observer):
        def batch(self, report: BatchReport) -> None:
            reported.append(True)
            stop.set()

    def beginning(self: TaskProducer) -> None:
        begun.append(True)
        begin(self)

    def watched(self: Group, milliseconds: int) -> Any:
        polls.add((len(begun) > len(reported), milliseconds))
        return poll(self, milliseconds)

    monkeypatch.setattr(TaskProducer, "begin", beginning)
    monkeypatch.setattr(Group, "poll", watched)
    settings = ready(make_settings(kafka.bootstrap, topic_name))
    feed(settings, made_up(20))
    timer = threading.Timer(60, stop.set)
    timer.start()
    Worker(settings, observer=Reports()).run(stop)
    timer.cancel()
    assert reported
    assert {wait for under_way, wait in polls if under_way} == {worker._POLL_BESIDE_MS}
    assert (False, worker._POLL_MS) in polls
