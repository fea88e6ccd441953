"""Whatever a worker waits for has a name: in its health, its log and its metrics, with what mends it."""

import gc
import logging
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import AbortTransactionSpec

from stream_dedup.kafka.client import client_id
from stream_dedup.kafka.cluster import Look, Wait, look
from stream_dedup.kafka.runtime import Runtime
from stream_dedup.kafka.topics import Topic
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.demo.embedded import free_ports
from stream_dedup.worker import topic_watch
from stream_dedup.worker.cluster_watch import BrokerWatch
from stream_dedup.worker.topic_watch import TopicWatch, Waits
from tests.broker import EmbeddedKafka, Listener
from tests.harness.check import assert_exactly_once
from tests.harness.feed import feed, made_up
from tests.harness.topics import administrator, make_settings, ready
from tests.harness.wait import wait_until
from tests.lab.soak.proxy import Proxy
from tests.worker.support import Watching, context, run_until, running

Names = Callable[[str], str]


class Waiting(Watching):
    """`reasons`: what is reported now; `ended`: what was."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[str, str] = {}
        self.ended: set[str] = set()
        self.seconds: dict[str, float] = {}

    def waiting(self, wait: Wait, seconds: float, reason: str) -> None:
        self.seconds[wait] = seconds
        if reason:
            self.reasons[wait] = reason
        elif not seconds and self.reasons.pop(wait, None):
            self.ended.add(wait)

    def brokers_unreachable(self, seconds: float, reason: str) -> None:
        self.reasons["brokers"] = reason


def test_a_wait_is_reported_once_it_is_long_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    seen = Waiting()
    reporter = Waits(seen)
    for now in range(100, 105):
        reporter.report(now, {Wait.GROUP: (100.0, "no coordinator"), Wait.PRODUCERS: (100.0, "an open transaction")})
    assert seen.reasons == {}
    assert seen.seconds == {Wait.GROUP: 4.0, Wait.PRODUCERS: 4.0}
    for now in range(105, 170):
        reporter.report(now, {Wait.GROUP: (100.0, "no coordinator"), Wait.PRODUCERS: (100.0, "an open transaction")})
    assert seen.reasons == {Wait.GROUP: "for 69 s no coordinator", Wait.PRODUCERS: "for 69 s an open transaction"}
    assert [record.getMessage().partition(". ")[0] for record in caplog.records] == [
        "for 5 s no coordinator", "for 60 s an open transaction", "for 65 s no coordinator",
    ]  # fmt: skip
    reporter.report(171, {})
    assert seen.reasons == {}
    assert seen.ended == {Wait.GROUP, Wait.PRODUCERS}
    assert caplog.text.count("is over") == 2


def watch_of(now: Callable[[], float], seen: Waiting, looked: Look) -> TopicWatch:
    """A watch whose questions are answered at once."""
    watch = TopicWatch(replace(context(load_settings()), observer=seen, runtime=Runtime(monotonic=now)))
    watch._ids = dict.fromkeys(watch._watched, "id")
    answer: Future[Look] = Future()
    answer.set_result(looked)
    watch._question = cast("Any", SimpleNamespace(poll=lambda _: answer, silent_since=lambda: None, every=0.0))
    return watch


def found(**of_the_look: Any) -> Look:
    topics = load_settings().topics
    return Look({name: Topic(1, {}, "id") for name in (topics.input, topics.changelog)}, **of_the_look)


@pytest.mark.parametrize(("position", "is_told"), [(lambda now: 5, True), (int, False), (lambda now: 900, False)])
def test_records_that_are_there_and_not_taken_are_told(position: Callable[[float], int], is_told: bool) -> None:
    seen, now = Waiting(), 100.0
    watch = watch_of(lambda: now, seen, found(ends={0: 900}))
    for _ in range(50):
        now += 1
        watch.taken = {0: position(now)}
        watch.poll()
    assert (Wait.RECORDS in seen.reasons) is is_told
    assert not is_told or "wait in partition 0 from offset 5 on" in seen.reasons[Wait.RECORDS]


def test_a_consumer_without_a_connection_is_told_while_the_watch_has_answers() -> None:
    seen, now = Waiting(), 100.0
    watch = watch_of(lambda: now, seen, found())
    watch.is_connected = False
    for _ in range(7):
        now += 1
        watch.poll()
    assert "has no connection to any broker, although one answers the watch" in seen.reasons[Wait.BROKERS]
    watch.is_connected, now = True, now + 1
    watch.poll()
    assert seen.ended == {Wait.BROKERS}


def test_a_wait_for_the_transactions_outlasts_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[str]] = []

    def answer(_: Any, ids: Iterable[str]) -> Look:
        asked.append(set(ids))
        return Look({}, waits={Wait.TRANSACTIONS: "none"} if len(asked) < 3 else {})

    monkeypatch.setattr(topic_watch, "look", answer)
    watch = TopicWatch(context(load_settings()))
    watch.opening = ["group-global"]
    watch._ask()
    watch.opening = ()  # the member has given its role up
    for _ in range(3):
        watch._ask()
    assert asked == [{"group-global"}, {"group-global"}, {"group-global"}, set()]


@pytest.mark.kafka
@pytest.mark.slow
def test_brokers_that_have_moved_are_found_at_the_bootstrap_servers(kafka_prepared: None, topic_name: Names) -> None:
    new, entry = free_ports(2)
    with EmbeddedKafka() as kafka, Proxy(entry, old := kafka._port) as proxy:
        direct = ready(make_settings(kafka.bootstrap, topic_name))

        def at(servers: str) -> Settings:
            return direct.model_copy(update={"kafka": direct.kafka.model_copy(update={"bootstrap_servers": servers})})

        with running(at(f"127.0.0.1:{entry}"), Waiting()) as seen:
            feed(direct, made_up(5))
            seen.wait_judged(5)
            kafka.stop()
            kafka._port, kafka.bootstrap = new, f"127.0.0.1:{new}"
            kafka._properties.write_text(kafka._properties.read_text().replace(f":{old}", f":{new}"))
            kafka.restart()
            proxy.target = new
            feed(at(kafka.bootstrap), made_up(5, seed=3))
            seen.wait_judged(10)


def test_partitions_without_a_leader_are_named() -> None:
    settings = load_settings()

    def described(names: list[str]) -> list[dict[str, Any]]:
        partitions = [{"partition_index": number, "leader_id": -1 if number else 0} for number in range(9)]
        return [{"name": name, "error_code": 0, "topic_id": "x", "partitions": partitions} for name in names]

    admin = SimpleNamespace(
        describe_topics=described,
        describe_configs=lambda *_, **__: {"topic": {}},
        list_group_offsets=lambda group: {group: {}},
    )

    @contextmanager
    def administrator() -> Iterator[Any]:
        yield admin

    seen = look(cast("Any", SimpleNamespace(settings=settings, open=administrator, close=lambda: None)), [])
    assert f"no broker leads {settings.topics.input}-1," in seen.waits[Wait.LEADERS]
    assert "and 35 more: start the brokers" in seen.waits[Wait.LEADERS]


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(
    ("wait", "topic", "setting"),
    [
        (Wait.GROUP, "__consumer_offsets", "offsets.topic.replication.factor"),
        (Wait.TRANSACTIONS, "__transaction_state", "transaction.state.log.replication.factor"),
    ],
)
def test_a_missing_coordinator_is_named(
    kafka_prepared: None, topic_name: Names, wait: Wait, topic: str, setting: str
) -> None:
    with EmbeddedKafka(settings={setting: "3"}) as kafka:
        settings = ready(make_settings(kafka.bootstrap, topic_name))
        with running(settings, Waiting()) as seen:
            wait_until(lambda: wait in seen.reasons, "it is reported", 30)
        assert f"--describe --topic {topic}" in seen.reasons[wait]
        assert f"fewer brokers than {setting}" in seen.reasons[wait]
        assert "CoordinatorNotAvailableError (Kafka error 15)" in seen.reasons[wait]


# A client that is closed while it asks its bootstrap servers again leaves a socket to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.kafka
@pytest.mark.slow
def test_an_advertised_address_that_cannot_be_reached_is_named(kafka_prepared: None, topic_name: Names) -> None:
    [nowhere] = free_ports(1)
    with EmbeddedKafka(listeners={"OUTSIDE": Listener(advertised_port=nowhere)}) as kafka:
        settings, seen = make_settings(kafka.addresses["OUTSIDE"], topic_name), Waiting()
        with BrokerWatch(settings, seen), running(settings, seen):
            wait_until(lambda: "brokers" in seen.reasons, "it is reported", 30)
            reason = seen.reasons["brokers"]
            assert f"{kafka.addresses['OUTSIDE']} answers, but what the brokers advertise" in reason
            assert f"127.0.0.1:{nowhere} (KafkaConnectionError: 111 ECONNREFUSED)" in reason
            assert "advertised.listeners" in reason
            kafka.kill()  # now no broker answers at all
            wait_until(lambda: "of the cluster" not in seen.reasons["brokers"], "and this is told apart", 30)
    gc.collect()  # the client's refused connections, while their warnings are expected


@pytest.mark.kafka
@pytest.mark.slow
def test_an_open_transaction_upstream_is_named_and_its_records_count_as_lag(
    make: Callable[..., Settings], topic_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(topic_watch._LONG, Wait.PRODUCERS, 1.0)
    settings = make(2)
    sent = feed(settings, made_up(5), partition=1)
    place, name = TopicPartition(settings.topics.input, 1), topic_name("hanging")
    config = {"bootstrap_servers": settings.kafka.bootstrap_servers, "transactional_id": name}
    with running(settings, Waiting()) as seen, closing(KafkaProducer(**config)) as producer:
        seen.wait_judged(5)
        producer.init_transactions()
        producer.begin_transaction()
        for key, value in made_up(51, seed=3):
            producer.send(settings.topics.input, value, key, partition=1)
        producer.flush()
        wait_until(lambda: Wait.PRODUCERS in seen.reasons, "it is reported", 30)
        assert seen.lag[1] == 51
        reason = seen.reasons[Wait.PRODUCERS]
        with administrator(settings) as admin:
            producers = admin.describe_producers([place])[place].active_producers
            [one] = [one for one in producers if f"of the producer with the id {one.producer_id} " in reason]
            assert f"holds partition 1 of {settings.topics.input}: 51 offsets from 5 on" in reason
            assert f"abort --topic {settings.topics.input} --partition 1 --start-offset 5" in reason
            spec = AbortTransactionSpec(
                topic_partition=place, producer_id=one.producer_id, producer_epoch=one.producer_epoch
            )
            admin.abort_transaction(spec)  # as the command in the message does
        wait_until(lambda: Wait.PRODUCERS in seen.ended, "it is over", 30)
        sent += feed(settings, made_up(5, seed=4), partition=1)
        seen.wait_judged(10)


@pytest.mark.kafka
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
