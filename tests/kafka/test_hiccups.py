"""Short failures cost little: state stores survive, tasks fail alone, a member that cannot work gives its role up."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.errors import Stalled, TransactionFailed
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.settings import Settings
from stream_dedup.worker.group import Group
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.state_store import StateStore
from stream_dedup.worker.worker import Worker
from tests.worker.support import (
    Member,
    assert_exactly_once,
    feed,
    from_scratch,
    made_up,
    make_settings,
    read_all,
    ready,
    run_until,
)  # fmt: skip

pytestmark = pytest.mark.kafka
Names = Callable[[str], str]


class Counting:
    """A factory of indexes that counts them, and the blocks restored into them."""

    def __init__(self) -> None:
        self.made = self.blocks = 0

    def __call__(self, settings: Settings) -> Deduplicator:
        counter = self

        class Counted(Deduplicator):
            def restore(self, delta: Delta) -> None:
                counter.blocks += 1
                super().restore(delta)

        self.made += 1
        return Counted(settings)


class Watching(Observer):
    """Records events with their time; sets `stop` after `records` records."""

    def __init__(self, records: int = 0) -> None:
        self.stop = threading.Event()
        self.records: Counter[str] = Counter()  # by task
        self.opened: list[tuple[str, float]] = []
        self.lost: list[tuple[str, float]] = []
        self._limit = records

    def batch(self, report: BatchReport) -> None:
        self.records[report.task] += len(report.verdicts)
        if self._limit and self.records.total() >= self._limit:
            self.stop.set()

    def task_opened(self, task: str, partitions: Sequence[int], remembered: int, seconds: float) -> None:
        self.opened.append((task, time.monotonic()))

    def task_lost(self, task: str, reason: str) -> None:
        self.lost.append((task, time.monotonic()))


def work(settings: Settings, observer: Watching, seconds: float = 60, **worker: Any) -> None:
    timer = threading.Timer(seconds, observer.stop.set)
    timer.start()
    try:
        Worker(settings, observer=observer, **worker).run(observer.stop)
    finally:
        timer.cancel()


def test_a_failed_opening_keeps_the_restored_state(
    kafka: EmbeddedKafka, topic_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 20}))
    sent = feed(settings, made_up(300))
    run_until(settings, 300)
    blocks = len(read_all(settings, settings.topics.changelog))
    failures = iter([TransactionFailed("the coordinator has moved"), Stalled("no answer")])
    committed = Group.committed

    def failing(self: Group, *args: Any) -> Any:
        if (error := next(failures, None)) is not None:
            raise error
        return committed(self, *args)

    monkeypatch.setattr(Group, "committed", failing)  # step 4 of an opening: all is read
    sent += feed(settings, ((b"more-" + key, value) for key, value in made_up(50, seed=2)))
    counting, watching = Counting(), Watching(50)
    work(settings, watching, deduplicator=counting)
    assert len(watching.opened) == 1
    assert counting.made == 1
    assert counting.blocks == blocks, "each block is read once"
    assert_exactly_once(settings, sent)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
def test_a_failed_commit_keeps_the_committed_state(
    kafka: EmbeddedKafka, topic_name: Names, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Commits fail before they take effect, or after; the changelog has the outcome."""
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 25}))
    sent = feed(settings, made_up(1500, seed=seed))
    chance = random.Random(seed)
    flush, commit = TaskProducer.flush, TaskProducer.commit
    happened: Counter[str] = Counter()

    def failing_flush(self: TaskProducer) -> None:
        flush(self)
        if chance.random() < 0.12:
            happened["aborted"] += 1
            raise TransactionFailed("not enough replicas")

    def failing_commit(self: TaskProducer) -> None:
        commit(self)
        if chance.random() < 0.12:
            happened["unknown"] += 1
            raise Stalled("committing did not end")

    monkeypatch.setattr(TaskProducer, "flush", failing_flush)
    monkeypatch.setattr(TaskProducer, "commit", failing_commit)
    counting, watching = Counting(), Watching(1500)
    watching._limit -= 25 * 20  # batches with an unknown outcome are not reported; the rest follows below
    work(settings, watching, deduplicator=counting)
    monkeypatch.undo()
    deadline = time.monotonic() + 60
    while (missing := 1500 - outcomes(settings)) and time.monotonic() < deadline:
        run_until(settings, missing)
    assert happened["aborted"] > 1
    assert happened["unknown"] > 1
    assert counting.made == 1, "one index through all failures"
    assert happened["unknown"] - 1 <= counting.blocks <= happened["unknown"], "known blocks are not read again"
    came = assert_exactly_once(settings, sent)
    records = read_all(settings, settings.topics.input)
    assert came.verdicts() == from_scratch(settings, records)


def outcomes(settings: Settings) -> int:
    topics = settings.topics
    return sum(len(read_all(settings, one)) for one in (topics.output, topics.duplicates, topics.dead_letters))


@pytest.mark.slow
def test_a_task_that_cannot_open_delays_no_other(
    kafka: EmbeddedKafka, topic_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = {"scope": "partition", "batch_items": 20}
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker=worker), partitions=3)
    sent = feed(settings, made_up(900), partition=None)
    healthy = threading.Event()
    flush = TaskProducer.flush
    complete = StateStore.complete

    def blocked(self: StateStore, progress: Any) -> Any:
        if self.owner.endswith("-1") and not healthy.wait(20):  # as long as a fence that hangs
            raise TransactionFailed("the others have not done their work")
        return complete(self, progress)

    def stumbling(self: TaskProducer) -> None:
        flush(self)
        if watching.stumbles and self._calls._name.endswith("-2"):
            watching.stumbles -= 1
            raise TransactionFailed("not enough replicas")

    class Waiting(Watching):
        stumbles = 3

        def batch(self, report: BatchReport) -> None:
            super().batch(report)
            if sum(count for task, count in self.records.items() if task != "1") >= others:
                healthy.set()

    monkeypatch.setattr(StateStore, "complete", blocked)
    monkeypatch.setattr(TaskProducer, "flush", stumbling)
    others = sum(one.partition != 1 for one in sent)
    watching = Waiting(900)
    work(settings, watching, 120)
    assert [task for task, _ in watching.opened][-1] == "1", "it opened when the others had done all their work"
    assert Counter(task for task, _ in watching.lost) == {"2": 3}, "task 2 failed three times, and it alone"
    assert_exactly_once(settings, sent)


@pytest.mark.slow
def test_a_member_that_cannot_open_its_task_gives_its_role_up(kafka: EmbeddedKafka, topic_name: Names) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 50}))
    sent = feed(settings, made_up(500))
    with Member(settings, {"cannot_open": True}) as broken, Member(settings) as sound:
        broken.go().wait_for("error")
        sound.go()
        sound.wait_for("opened", 60)
        sound.wait_for("batch", 30, lag=0)
        # It comes back, but does not take the role back.
        time.sleep(4)
        sent += feed(settings, ((b"more-" + key, value) for key, value in made_up(100, seed=2)))
        sound.wait_for("batch", 30, lag=0)
        assert [one["event"] for one in sound.drain() if one["event"] in ("lost", "opened", "error")] == ["opened"]
        given_up = [one["at"] for one in broken.drain() if one["event"] == "rebalanced" and not one["partitions"]]
        assert len(given_up) == 1
        assert not [one for one in broken.events if one["event"] == "error" and one["at"] > given_up[0]]
        # It is a standby again, and gets the role when no other member is left.
        assert sound.stop() < 10
        broken.wait_for("error", 30)
        assert broken.stop() < 10
    assert_exactly_once(settings, sent)
