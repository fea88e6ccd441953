"""Short failures cost little: state stores survive, tasks fail alone, a member that cannot work gives its role up."""

import random
import subprocess
import time
from collections import Counter
from typing import Any

import pytest

from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import Stalled, TransactionFailed
from stream_dedup.kafka.client import client_id
from stream_dedup.kafka.producer import TaskProducer
from stream_dedup.observe.health import Health, Status
from stream_dedup.observe.watch import ObserverGroup
from stream_dedup.settings import Settings
from stream_dedup.worker.group import Group
from tests.broker import EmbeddedKafka
from tests.harness.check import assert_exactly_once, from_scratch, outcome, read_all
from tests.harness.feed import feed, made_up
from tests.harness.member import Member
from tests.harness.topics import Make
from tests.harness.wait import wait_until
from tests.worker.support import Watching, fails, run_until, run_worker

pytestmark = pytest.mark.kafka


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


def test_a_failed_opening_keeps_the_restored_state(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = make(worker={"batch_items": 20})
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
    counting = Counting()
    watching = run_until(settings, 50, deduplicator=counting)
    assert watching.openings == 1
    assert counting.made == 1
    assert counting.blocks == blocks, "each block is read once"
    assert_exactly_once(settings, sent)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow
def test_a_failed_commit_keeps_the_committed_state(make: Make, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Commits fail before they take effect, or after; the changelog has the outcome. Some ends are not reported."""
    settings = make(worker={"batch_items": 25})
    sent = feed(settings, made_up(1500, seed=seed))
    chance, known = random.Random(seed), random.Random(seed)
    flush, commit, ends_in = TaskProducer.flush, TaskProducer.commit, TaskProducer.ends_in
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
    monkeypatch.setattr(TaskProducer, "ends_in", lambda *args: {} if known.random() < 0.3 else ends_in(*args))
    counting = Counting()
    # Batches with an unknown outcome are not reported; the rest follows below.
    run_until(settings, 1500 - 25 * 20, deduplicator=counting)
    monkeypatch.undo()
    deadline = time.monotonic() + 60
    while (missing := 1500 - outcome(settings).fates.total()) and time.monotonic() < deadline:
        run_until(settings, missing)
    assert happened["aborted"] > 1
    assert happened["unknown"] > 1
    assert counting.made == 1, "one index through all failures"
    assert happened["unknown"] - 1 <= counting.blocks <= happened["unknown"], "known blocks are not read again"
    came = assert_exactly_once(settings, sent)
    assert came.verdicts() == from_scratch(settings, read_all(settings, settings.topics.input))


@pytest.mark.slow
def test_a_member_that_cannot_open_its_task_gives_its_role_up(make: Make) -> None:
    settings = make(worker={"batch_items": 50})
    sent = feed(settings, made_up(500))
    with Member(settings, {"cannot_open": True}) as broken, Member(settings) as sound:
        broken.go().wait_for("error")
        sound.go()
        opened = sound.wait_for("opened", 60)
        # It comes back after a session's time, but does not take the role back. Under load it may have given it up
        # before the other member was there, and have got it again.
        back = broken.wait_for("rebalanced", 30, partitions=[])
        failed = [one["at"] for one in broken.events if one["event"] == "error"]
        assert back["at"] - failed[-1] > settings.worker.session_timeout.total_seconds()
        sent += feed(settings, ((b"more-" + key, value) for key, value in made_up(100, seed=2)))
        wait_until(
            lambda: sum(one["records"] for one in sound.drain() if one["event"] == "batch") == 600, "600 are judged"
        )
        assert [one["event"] for one in sound.events if one["event"] in ("lost", "opened", "error")] == ["opened"]
        assert not [one for one in broken.drain() if one["event"] == "error" and one["at"] > opened["at"]]
        # It is a standby again, and gets the role when no other member is left.
        assert sound.stop() < 10
        broken.wait_for("error", 30)
        assert broken.stop() < 10
    assert_exactly_once(settings, sent)


def test_a_session_longer_than_the_brokers_allow_ends_with_the_setting(make: Make) -> None:
    settings = make(worker={"session_timeout": "31m"})
    fails(settings, r"set \[worker\] session_timeout within the brokers' group\.min\.session\.timeout\.ms")


@pytest.mark.slow
def test_a_quota_delays_the_worker_and_is_named(
    kafka: EmbeddedKafka, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    sent = feed(settings, made_up(200))
    quota = ("--add-config", "producer_byte_rate=5000")
    whose = ("--alter", "--entity-type", "clients", "--entity-name", client_id(settings))
    command = kafka._command("kafka.admin.ConfigCommand", "--bootstrap-server", kafka.bootstrap, *whose, *quota)
    subprocess.run(command, check=True, capture_output=True)
    run_until(settings, 200, seconds=120)
    assert_exactly_once(settings, sent)
    ours = [record for record in caplog.records if record.name.startswith("stream_dedup")]
    assert [record for record in ours if "the brokers throttle this user or client id" in record.getMessage()]
    assert not [record for record in ours if "Node paused" in record.getMessage()]


def test_before_the_first_batch_the_lag_is_known_and_health_is_starting(settings: Settings) -> None:
    sent = feed(settings, made_up(300))
    health, watching = Health(60.0), Watching(300)
    seen: list[tuple[Status, dict[int, int]]] = []

    class Looking(Deduplicator):
        def judge(self, *arguments: Any, **options: Any) -> Any:
            seen.append((health.state().status, dict(watching.lag)))
            return super().judge(*arguments, **options)

    run_worker(settings, watching, observer=ObserverGroup(watching, health), deduplicator=Looking)
    assert seen[0] == (Status.STARTING, {0: 300})
    assert health.state().status is Status.OK
    assert_exactly_once(settings, sent)
