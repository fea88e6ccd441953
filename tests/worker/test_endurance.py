"""What grows while Kafka is away for hours has a limit: pauses, threads, secrets."""

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import SaslAuthenticationFailedError

from stream_dedup.errors import TopicError, TransactionFailed
from stream_dedup.kafka.cluster import Look
from stream_dedup.kafka.errors import RecentBrokers
from stream_dedup.kafka.runtime import Runtime
from stream_dedup.kafka.topics import Topic
from stream_dedup.phrases import SECRETS_READ
from stream_dedup.settings import load_settings
from stream_dedup.worker import cluster_watch, topic_watch
from stream_dedup.worker.cluster_watch import BrokerProbe, BrokerWatch
from stream_dedup.worker.context import Retry
from stream_dedup.worker.observer import Observer
from stream_dedup.worker.topic_watch import TopicWatch
from tests.worker.support import context


def test_pauses_stay_finite_in_an_outage_of_days() -> None:
    retry = Retry(load_settings(), "a task")
    pauses = [retry.failed(TransactionFailed("no broker"), time.monotonic()) for _ in range(20_000)]
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert set(pauses[6:]) == {5.0}


def test_only_the_last_secrets_of_a_file_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("token-0", "utf-8")
    kafka = load_settings(
        kafka={"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_file": str(path)}
    ).kafka
    for i in range(1000):
        path.write_text(f"token-{i}", "utf-8")
        assert kafka.secret("sasl_oauth_token") == f"token-{i}"
    assert {f"token-{i}" for i in range(901, 1000)} <= SECRETS_READ.keys()
    assert len(SECRETS_READ) == 100


def test_brokers_that_are_no_longer_distrusted_are_forgotten() -> None:
    clock = itertools.count(0, 10)
    brokers = RecentBrokers(clock=lambda: float(next(clock)))
    for i in range(1000):
        brokers.add("client", f"10.0.0.{i}:9093", "expired")
    assert len(brokers._problems) < 10


# -- requests that never return ------------------------------------------------------------------------------


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_requests_for_the_topics_that_never_return_are_given_up_and_asked_anew(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1000.0
    asked = threading.Semaphore(0)
    answers = [False]

    def look(*_: object) -> Look:
        asked.release()
        if not answers[0]:
            release.wait(60)
        return Look({"news.raw": Topic(1, {}, "b"), "news.dedup-changelog": Topic(1, {}, "c")})

    monkeypatch.setattr(topic_watch, "look", look)
    watch = TopicWatch(replace(context(load_settings()), runtime=Runtime(monotonic=lambda: now)))
    watch.expect({"news.raw": Topic(1, {}, "a"), "news.dedup-changelog": Topic(1, {}, "c")})
    for _ in range(4 * 3600):
        assert watch.poll() is None
        now += 1
    for _ in range(8):
        assert asked.acquire(timeout=30)
    assert not asked.acquire(blocking=False), (
        "each costs a thread, so the patience doubles: eight requests in four hours"
    )
    assert caplog.text.count("has not come back for") == 7
    answers[0] = True

    def go_on() -> None:
        nonlocal now
        for _ in range(40_000):
            watch.poll()
            if watch._question.pending is not None and asked.acquire(blocking=False):
                watch._question.pending.exception(timeout=30)
            now += 1

    with pytest.raises(TopicError, match=r"news\.raw"):  # it was recreated meanwhile, and this is noticed
        go_on()
    watch.end()


def test_probes_of_brokers_that_never_return_cost_few_threads(release: threading.Event) -> None:
    now, made = 100.0, 0

    class Hanging(BrokerProbe):
        def __call__(self) -> None:
            release.wait(60)

    def make(settings: Any) -> BrokerProbe:
        nonlocal made
        made += 1
        return Hanging(settings)

    watch = BrokerWatch(load_settings(), Observer(), clock=lambda: now, make_probe=make)
    for _ in range(24 * 3600):
        watch.tick()
        now += 1
    assert made < 20, "in a day"


def test_a_watch_that_gets_no_thread_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = threading.Semaphore(0)
    monkeypatch.setattr(cluster_watch, "_TICK_SECONDS", 0.01)

    def tick(_: BrokerWatch) -> None:
        ticks.release()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(BrokerWatch, "tick", tick)
    with BrokerWatch(load_settings(), Observer(), make_probe=BrokerProbe):
        assert ticks.acquire(timeout=30)
        assert ticks.acquire(timeout=30)


def test_the_probe_logs_in_with_the_password_of_now(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("before", "utf-8")
    kafka = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "worker"}
    used: list[str] = []

    def make(kind: object, config: Any) -> Any:
        used.append(str(config["sasl_plain_password"]))
        raise SaslAuthenticationFailedError("refused")

    probe = BrokerProbe(load_settings(kafka=kafka | {"sasl_password_file": str(path)}), Runtime(make_client=make))
    for password in ("before", "after"):
        path.write_text(password, "utf-8")
        with pytest.raises(SaslAuthenticationFailedError):
            probe()
    assert used == ["before", "after"]
