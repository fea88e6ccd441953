"""An outage is reported also for a worker that has nothing to do or cannot start, and so is its end."""

import logging
import re
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from kafka import errors as kafka_errors

from stream_dedup.kafka.errors import RecentBrokers
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.demo.embedded import free_ports
from stream_dedup.worker import cluster_watch
from stream_dedup.worker.cluster_watch import AWAY, BrokerProbe, BrokerWatch
from stream_dedup.worker.observer import Observer
from tests.broker import EmbeddedKafka
from tests.harness.member import Command
from tests.harness.topics import make_settings, ready
from tests.harness.wait import wait_until


class Recorder(Observer):
    def __init__(self) -> None:
        self.events: list[float | str] = []

    def brokers_unreachable(self, seconds: float, reason: str) -> None:
        self.events.append(round(seconds, 1))

    def brokers_reachable(self) -> None:
        self.events.append("back")


class Broker(BrokerProbe):
    """Answers, or raises `error`; `now` is the clock."""

    def __init__(self, settings: Settings) -> None:
        self.error: Exception | None = None
        self.now = 100.0
        self.probes = 0

    def __call__(self) -> None:
        self.probes += 1
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        pass


def a_watch(broker: Broker, recorder: Observer) -> BrokerWatch:
    return BrokerWatch(load_settings(), recorder, clock=lambda: broker.now, make_probe=lambda settings: broker)


def pass_by(watch: BrokerWatch, broker: Broker, seconds: float) -> None:
    """Tick every half second; each probe is answered by the next tick."""
    for _ in range(int(seconds * 2)):
        probes, before = broker.probes, watch._question.pending
        watch.tick()
        if watch._question.pending is not before and watch._question.pending is not None:
            watch._question.pending.exception(timeout=30)
            assert broker.probes == probes + 1
        broker.now += 0.5


@pytest.fixture
def broker() -> Broker:
    return Broker(load_settings())


@pytest.mark.parametrize("error", [None, kafka_errors.ClusterAuthorizationFailedError("a refusal is an answer")])
def test_nothing_is_reported_while_brokers_answer(
    broker: Broker, caplog: pytest.LogCaptureFixture, error: Exception | None
) -> None:
    recorder = Recorder()
    broker.error = error
    watch = a_watch(broker, recorder)
    pass_by(watch, broker, 60)
    assert broker.probes == 30, "every two seconds"
    broker.now += 3600  # a stopped process, which says nothing about the brokers
    pass_by(watch, broker, 5)
    assert recorder.events == []
    assert not caplog.records


def test_an_outage_is_logged_once_a_minute_and_its_end_too(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    watch = a_watch(broker, recorder)
    with caplog.at_level(logging.INFO, "stream_dedup"):
        pass_by(watch, broker, 10)
        broker.error = kafka_errors.KafkaConnectionError("111 ECONNREFUSED")
        pass_by(watch, broker, 10)
        first = [record.getMessage() for record in caplog.records]
        assert len(first) == 1
        assert re.fullmatch(
            r"no broker at 127.0.0.1:9092 has answered for [78] s \(KafkaConnectionError: 111 ECONNREFUSED\): "
            r"nothing goes through\. Look at .*",
            first[0],
        )
        pass_by(watch, broker, 120)
        assert len(caplog.records) == 3, "again each minute"
        broker.error = None
        pass_by(watch, broker, 4)
        assert re.fullmatch("the brokers answer again, after 13[0-4] s", caplog.records[-1].getMessage())
        assert len(caplog.records) == 4
    away = recorder.events[:-1]
    assert AWAY <= float(away[0]) <= AWAY + 1
    assert len(away) > 120, "each tick, so that the metric grows"
    assert recorder.events[-1] == "back"


def test_a_hung_probe_is_replaced(broker: Broker) -> None:
    made: list[Broker] = []

    class Hanging(Broker):
        def __call__(self) -> None:
            self.probes += 1
            if len(made) == 1:
                time.sleep(3600)

    def make(settings: Settings) -> BrokerProbe:
        made.append(Hanging(settings))
        return made[-1]

    recorder = Recorder()
    watch = BrokerWatch(load_settings(), recorder, clock=lambda: broker.now, make_probe=make)
    for _ in range(80):  # 40 s
        watch.tick()
        broker.now += 0.5
    wait_until(lambda: watch.tick() or "back" in recorder.events, "the second probe answers, in real time")
    assert len(made) == 2
    assert recorder.events[-1] == "back"


def test_a_broker_with_a_wrong_certificate_is_reported_once_until_it_is_over(
    broker: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = RecentBrokers(clock=lambda: broker.now)
    monkeypatch.setattr(cluster_watch, "DISTRUSTED", brokers)
    seen: list[dict[str, str]] = []

    class Noting(Observer):
        def brokers_distrusted(self, problems: Mapping[str, str]) -> None:
            seen.append(dict(problems))

    watch = a_watch(broker, Noting())
    with caplog.at_level(logging.INFO, "stream_dedup"):
        for _ in range(20):
            brokers.add("stream-dedup-stream-dedup", "b:9093", "b:9093: expired")
            pass_by(watch, broker, 1)
        assert [record.getMessage() for record in caplog.records] == [
            "b:9093: expired. What this broker leads does not go through"
        ]
        pass_by(watch, broker, 60)  # no client needs it any more, or it has another certificate
    assert caplog.records[-1].getMessage() == "no broker's certificate is refused any more: b:9093"
    assert seen == [{"b:9093": "b:9093: expired"}, {}]


# -- the real thing ------------------------------------------------------------------------------------------


def status_after(member: Command, word: str, seconds: float) -> None:
    """Wait until /healthz reports this status."""
    deadline = time.monotonic() + seconds
    while member.status != word:
        assert time.monotonic() < deadline, f"{member.status!r}, not {word}:\n{member.log()}"
        time.sleep(0.1)


@pytest.mark.kafka
@pytest.mark.slow
def test_a_broker_that_dies_under_an_idle_worker(
    kafka_prepared: None, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    """An idle worker has nothing to commit, so nothing fails: only the watch can see the outage."""
    with EmbeddedKafka() as own:
        settings = ready(make_settings(own.bootstrap, topic_name))
        with Command("idle", settings, tmp_path) as member:
            member.start().wait_until("ok")
            own.kill()
            # Ten on a machine that is not busy. The watch of the topics may miss the coordinators before.
            deadline = time.monotonic() + 25
            while not (lines := [line for line in member.log().splitlines() if "has answered for" in line]):
                assert time.monotonic() < deadline, member.log()
                time.sleep(0.1)
            assert (len(lines), member.status) == (1, "degraded")
            assert f"no broker at {own.bootstrap} has" in lines[0]
            status_after(member, "stalled", 45)
            with urllib.request.urlopen(f"http://{member.health_address}/livez", timeout=10) as answer:
                assert answer.status == 200, "a restart would not help"
            own.restart()
            status_after(member, "ok", 60)
            assert "the brokers answer again, after" in member.log()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_wrong_address_is_reported(
    kafka_prepared: None, topic_name: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_DEDUP_PORT", "tcp://10.0.0.1:80")  # as Kubernetes sets it
    [port] = free_ports(1)
    settings = make_settings(f"127.0.0.1:{port}", topic_name)
    with Command("lost", settings, tmp_path) as member:
        member.start()
        status_after(member, "degraded", 60)
        assert f"no broker at 127.0.0.1:{port} has answered" in member.log()
        assert "check [kafka] bootstrap_servers" in member.log()
        assert "not settings, and ignored: STREAM_DEDUP_PORT. Kubernetes makes them" in member.log()
