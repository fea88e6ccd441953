"""Several members: a dead one is replaced, a newcomer waits, a zombie writes nothing; each hears a stop."""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import CommitStep
from tests.broker import EmbeddedKafka
from tests.harness.check import assert_exactly_once, outcome, read_all
from tests.harness.feed import feed, made_up
from tests.harness.member import Member
from tests.harness.topics import Make, make_settings, ready
from tests.harness.wait import wait_until
from tests.worker.support import Watching, running

pytestmark = pytest.mark.kafka
BATCHES = {"batch_items": 50}


@pytest.mark.slow
def test_the_standby_takes_over_and_a_newcomer_does_not(make: Make) -> None:
    settings = make(worker=BATCHES)
    sent = feed(settings, made_up(3000))
    slow = {"slow": 0.05}
    with Member(settings, slow) as active, Member(settings) as standby, Member(settings) as newcomer:
        active.go().wait_for("opened", task="global")
        standby.go()
        newcomer.go()
        # Two joins, two rebalances: the active member works through both, with the index it has.
        for _ in range(5):
            active.wait_for("batch")
        time.sleep(2)
        assert [one["event"] for one in active.drain() if one["event"] in ("lost", "opened", "error")] == ["opened"]
        assert not [one for one in [*standby.drain(), *newcomer.drain()] if one["event"] not in ("ready", "rebalanced")]

        killed_at = time.time()
        active.kill()

        def openings(member: Member) -> list[float]:
            return [one["at"] for one in member.drain() if one["event"] == "opened"]

        wait_until(lambda: openings(standby) or openings(newcomer), "one takes over", 30)
        heir, other = (standby, newcomer) if openings(standby) else (newcomer, standby)
        assert openings(heir)[0] - killed_at < 8, "the session is 1.5 s"
        heir.wait_for("batch", 60, lag=0)
        assert not [one for one in other.drain() if one["event"] in ("opened", "batch")]
        assert heir.stop() < 10
        # A member that leaves is replaced at once, before its session would end.
        left_at = time.time()
        assert other.wait_for("opened", 10)["at"] - left_at < 3
        assert other.stop() < 10
    assert_exactly_once(settings, sent)


@pytest.mark.slow
def test_a_zombie_writes_nothing(make: Make) -> None:
    """Frozen in the middle of its transaction; the model freezes it at every step."""
    settings = make(worker=BATCHES)
    sent = feed(settings, made_up(1000))
    with Member(settings, {"freeze": [CommitStep.COMMIT, 3]}) as zombie, Member(settings) as standby:
        zombie.go().wait_for("opened")
        standby.go()
        zombie.wait_for("freeze")
        standby.wait_for("batch", 30, lag=0)
        assert_exactly_once(settings, sent)
        blocks = len(read_all(settings, settings.topics.changelog))
        woken_at = time.time()
        zombie.signal(signal.SIGCONT)
        zombie.wait_for("lost", 20)
        time.sleep(2)
        assert len(read_all(settings, settings.topics.changelog)) == blocks
        assert not [one for one in zombie.drain() if one["event"] == "batch" and one["at"] > woken_at]
        # Both live, and the one that took over still works: it was not fenced and has kept its role.
        sent += feed(settings, ((b"more-" + key, value) for key, value in made_up(200, seed=9)))
        standby.wait_for("batch", 20, lag=0)
        assert [one["event"] for one in standby.drain() if one["event"] in ("lost", "opened", "error")] == ["opened"]
        assert zombie.stop() < 10
        assert standby.stop() < 10
    assert_exactly_once(settings, sent)


@pytest.mark.slow
def test_scope_partition_shares_and_replaces(make: Make) -> None:
    settings = make(4, worker={**BATCHES, "scope": "partition"})
    sent = feed(settings, made_up(6000), partition=None)
    slow = {"slow": 0.05}
    with Member(settings, slow) as first, Member(settings, slow) as second:
        first.go().wait_for("opened", task="3")
        second.go()
        mine = {second.wait_for("opened", 30)["task"], second.wait_for("opened", 30)["task"]}
        lost = {one["task"] for one in first.drain() if one["event"] == "lost"}
        assert lost == mine, "the others stay where they are"
        for _ in range(4):
            second.wait_for("batch")
        second.kill()
        back = {first.wait_for("opened", 30)["task"] for _ in mine}
        assert back == mine
        first.wait_for("batch", 60, lag=0)
        wait_until(lambda: len(outcome(settings).every) >= len(sent), "all is judged")
        assert first.stop() < 10
    assert_exactly_once(settings, sent)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_stop_is_heard_while_the_broker_is_away(kafka_prepared: None, topic_name: Callable[[str], str]) -> None:
    """In the middle of the work, and in the middle of a try to come back."""
    with EmbeddedKafka() as kafka:
        settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 50}))
        feed(settings, made_up(3000))
        with Member(settings, {"slow": 0.02}) as member, Member(settings) as late:
            member.go().wait_for("batch")
            kafka.kill()
            assert member.stop() < 10
            late.go()
            late.wait_for("error")
            late.wait_for("error")
            assert late.stop() < 10


class _Standby(Watching):
    standing_by = 0

    def loop_completed(self, tasks: Sequence[str]) -> None:
        self.standing_by += not tasks


def test_a_standby_has_read_the_changelog_before_it_takes_over(make: Make) -> None:
    settings = make(worker={"batch_items": 50})
    made: list[Decider] = []

    def decider(settings: Settings) -> Decider:
        made.append(Decider(settings))
        return made[-1]

    standby = _Standby()
    with ExitStack() as stack:
        active = stack.enter_context(running(settings))
        assert active.opened.wait(30)
        stack.enter_context(running(settings, standby, decider=decider))
        sent = feed(settings, made_up(500))
        wait_until(lambda: active.judged >= 500 and made and len(made[0]), "the standby has read something")
        wait_until(lambda: standby.standing_by >= 3, "it stands by")
        assert not standby.opened.is_set()
        time.sleep(1)
        followed = len(made[0])
        active.stop.set()
        assert standby.opened.wait(30)
        assert len(made) == 1, "it keeps the index that it had"
        assert standby.remembered == followed
    assert_exactly_once(settings, sent)
