"""Brokers that are away under a worker that has nothing to do, or that cannot start: said, counted, and taken back."""

import logging
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import errors as kafka_errors

from stream_dedup.demo.embedded import EmbeddedKafka, free_ports
from stream_dedup.settings import Settings, load_settings
from stream_dedup.stream.broker_watch import AWAY, BrokerProbe, BrokerWatch
from stream_dedup.stream.observer import Observer
from tests.operate.stage import Member
from tests.stream.support import make_settings, ready


class Heard(Observer):
    def __init__(self) -> None:
        self.events: list[float | str] = []

    def brokers_away(self, seconds: float, reason: str) -> None:
        self.events.append(round(seconds, 1))

    def brokers_back(self) -> None:
        self.events.append("back")


class Broker(BrokerProbe):
    """Answers, or does not; `clock` is set by hand."""

    def __init__(self, settings: Settings) -> None:
        self.error: Exception | None = None
        self.now = 100.0
        self.asked = 0

    def __call__(self) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        pass


def reached(broker: Broker, heard: Heard) -> BrokerWatch:
    return BrokerWatch(load_settings(), heard, clock=lambda: broker.now, asker=lambda settings: broker)


def pass_by(reach: BrokerWatch, broker: Broker, seconds: float) -> None:
    """Ticks of half a second; each question has its answer by the next."""
    for _ in range(int(seconds * 2)):
        asked, before = broker.asked, reach._under_way
        reach.look()
        if reach._under_way is not before and reach._under_way is not None:
            reach._under_way.exception(timeout=30)
            assert broker.asked == asked + 1
        broker.now += 0.5


@pytest.fixture
def broker() -> Broker:
    return Broker(load_settings())


def test_while_they_answer_nothing_is_said(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    pass_by(reached(broker, heard), broker, 60)
    assert heard.events == []
    assert broker.asked == 30, "every two seconds"
    assert not caplog.records


def test_an_outage_is_said_once_a_minute_and_its_end_too(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    reach = reached(broker, heard)
    with caplog.at_level(logging.INFO, "stream_dedup"):
        pass_by(reach, broker, 10)
        broker.error = kafka_errors.KafkaConnectionError("111 ECONNREFUSED")
        pass_by(reach, broker, 10)
        first = [record.getMessage() for record in caplog.records]
        assert len(first) == 1
        assert re.fullmatch(
            r"no broker at 127.0.0.1:9092 has answered for [78] s \(KafkaConnectionError: 111 ECONNREFUSED\): "
            r"nothing goes through\. Look at .*",
            first[0],
        )
        pass_by(reach, broker, 120)
        assert len(caplog.records) == 3, "again each minute"
        broker.error = None
        pass_by(reach, broker, 4)
        assert re.fullmatch("the brokers answer again, after 13[0-4] s", caplog.records[-1].getMessage())
        assert len(caplog.records) == 4
    away = heard.events[:-1]
    assert AWAY <= float(away[0]) <= AWAY + 1
    assert len(away) > 120, "on and on, so that the metric grows"
    assert heard.events[-1] == "back"


def test_at_the_start_the_settings_are_suspected(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.error = kafka_errors.KafkaTimeoutError("Unable to bootstrap")
    pass_by(reached(broker, Heard()), broker, 10)
    assert "Check [kafka] bootstrap_servers" in caplog.text


def test_an_error_of_the_client_s_own_does_not_end_the_watching(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    reach = reached(broker, heard)
    broker.error = AttributeError("a bug")
    pass_by(reach, broker, 10)
    assert "AttributeError: a bug" in caplog.text
    broker.error = None
    pass_by(reach, broker, 4)
    assert heard.events[-1] == "back"


def test_a_refusal_is_an_answer(broker: Broker) -> None:
    heard = Heard()
    broker.error = kafka_errors.ClusterAuthorizationFailedError("no right")
    pass_by(reached(broker, heard), broker, 20)
    assert heard.events == []


def test_who_slept_does_not_blame_the_brokers(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    reach = reached(broker, heard)
    pass_by(reach, broker, 5)
    broker.now += 3600  # a stopped process
    pass_by(reach, broker, 5)
    assert heard.events == []
    assert not caplog.records


def test_a_question_that_never_comes_back_gets_a_successor(broker: Broker) -> None:
    made: list[Broker] = []

    class Hanging(Broker):
        def __call__(self) -> None:
            self.asked += 1
            if len(made) == 1:
                time.sleep(3600)

    def make(settings: Settings) -> BrokerProbe:
        made.append(Hanging(settings))
        return made[-1]

    heard = Heard()
    reach = BrokerWatch(load_settings(), heard, clock=lambda: broker.now, asker=make)
    for _ in range(80):  # 40 s
        reach.look()
        broker.now += 0.5
    deadline = time.monotonic() + 60
    while "back" not in heard.events and time.monotonic() < deadline:
        time.sleep(0.01)  # the second one's answer comes in real time
        reach.look()
    assert len(made) == 2
    assert heard.events[-1] == "back"


# -- the real thing ------------------------------------------------------------------------------------------


def status_after(member: Member, word: str, seconds: float) -> float:
    """Seconds until /healthz says this word."""
    began = time.monotonic()
    while member.status != word:
        assert time.monotonic() - began < seconds, f"{member.status!r}, not {word}:\n{member.log()}"
        time.sleep(0.1)
    return time.monotonic() - began


@pytest.mark.kafka
def test_a_broker_that_dies_under_an_idle_worker(
    kafka_prepared: None, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """It has nothing to commit, so nothing fails: for a minute it said it was well, and the log said nothing."""
    with EmbeddedKafka() as own:
        settings = ready(make_settings(own.bootstrap, topic_name))
        with Member("idle", settings, tmp_path) as member:
            member.start().wait_until("ok")
            own.kill()
            # Ten on a machine that is not busy.
            status_after(member, "degraded", 25)
            lines = [line for line in member.log().splitlines() if "has answered for" in line]
            assert len(lines) == 1
            assert f"no broker at {own.bootstrap} has" in lines[0]
            status_after(member, "stalled", 45)
            own.restart()
            status_after(member, "ok", 60)
            assert "the brokers answer again, after" in member.log()


@pytest.mark.kafka
def test_a_wrong_address_is_said(kafka_prepared: None, topic_name: Callable[[str], str], tmp_path: Path) -> None:
    [port] = free_ports(1)
    settings = make_settings(f"127.0.0.1:{port}", topic_name)
    with Member("lost", settings, tmp_path) as member:
        member.start()
        status_after(member, "degraded", 60)
        assert f"no broker at 127.0.0.1:{port} has answered" in member.log()
        assert "Check [kafka] bootstrap_servers" in member.log()
        status_after(member, "stalled", 60)
