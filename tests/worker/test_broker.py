"""The broker is killed under load, frozen, and away for good: nothing lost, nothing twice, and a stop is heard."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.broker import EmbeddedKafka
from tests.harness.check import assert_exactly_once
from tests.harness.feed import feed, made_up
from tests.harness.member import Member
from tests.harness.topics import make_settings, ready

pytestmark = pytest.mark.kafka


@pytest.mark.soak  # `make soak` kills brokers too, and this alone takes most of a minute
def test_a_broker_that_dies_under_load(kafka_prepared: None, topic_name: Callable[[str], str]) -> None:
    short = {"batch_items": 50, "session_timeout": "2s", "transaction_timeout": "5s"}
    with EmbeddedKafka() as kafka:
        settings = ready(make_settings(kafka.bootstrap, topic_name, worker=short))
        sent = feed(settings, made_up(6000))
        with Member(settings) as member:
            member.go()
            # Away for a moment, away for longer than a transaction may last, and frozen as a machine that swaps.
            for seconds in (0, 7):
                for _ in range(5):
                    member.wait_for("batch", 60)
                kafka.kill()
                time.sleep(seconds)
                kafka.restart()
            for _ in range(5):
                member.wait_for("batch", 60)
            os.kill(kafka.pid, signal.SIGSTOP)
            time.sleep(7)
            os.kill(kafka.pid, signal.SIGCONT)
            member.wait_for("batch", 90, lag=0)
            events = member.drain()
            assert member.stop() < 10
        assert_exactly_once(settings, sent)
        assert not [one for one in events if one["event"] == "error" and one["retry_in"] is None]
        assert not [one for one in events if one["event"] == "stuck"], "an outage accuses no record"

        # A stop while the broker is away, in the middle of the work and in the middle of a try to come back.
        feed(settings, made_up(3000, seed=5))
        with Member(settings, {"slow": 0.02}) as member, Member(settings) as late:
            member.go().wait_for("batch")
            kafka.kill()
            assert member.stop() < 10
            late.go()
            late.wait_for("error")
            late.wait_for("error")
            assert late.stop() < 10
