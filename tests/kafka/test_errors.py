"""Our messages name each error of the client once; if no broker answers, they tell a closed port from another cause."""

import re
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import errors as kafka_errors

from stream_dedup.errors import StreamError, TransactionFailed
from stream_dedup.kafka import client
from stream_dedup.kafka.client import diagnose_addresses
from stream_dedup.kafka.errors import KafkaError, RecentBrokers, error_text, translate

OLD = kafka_errors.InvalidRecordError
PLAINTEXT = {"security_protocol": "PLAINTEXT"}
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OLD("too old"), "InvalidRecordError (Kafka error 87): too old"),
        (OLD("InvalidRecordError: InvalidRecordError: too old"), "InvalidRecordError (Kafka error 87): too old"),
        (OLD(OLD("too old")), "InvalidRecordError (Kafka error 87): too old"),
        (OLD("[Error 87] InvalidRecordError: too old"), "InvalidRecordError (Kafka error 87): too old"),
        (
            kafka_errors.KafkaTimeoutError(kafka_errors.NotLeaderForPartitionError("moved")),
            "KafkaTimeoutError: NotLeaderForPartitionError (Kafka error 6): moved",
        ),
        (kafka_errors.KafkaTimeoutError(), "KafkaTimeoutError"),
        (TimeoutError("in vain"), "in vain"),
        (ValueError("no such partition"), "ValueError: no such partition"),
    ],
    ids=lambda one: one if isinstance(one, str) else repr(one),
)
def test_an_error_is_named_once(error: Exception, expected: str) -> None:
    assert error_text(error) == expected
    if isinstance(error, kafka_errors.InvalidRecordError):
        assert str(translate(error, "sending")) == f"sending: {expected}"


@pytest.fixture
def listening() -> Iterator[int]:
    """A port that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_listener_with_another_protocol_is_reported_first(listening: int, closed: int) -> None:
    cause = diagnose_addresses([f"127.0.0.1:{closed}", f"127.0.0.1:{listening}"], SASL)

    assert cause.startswith(f"127.0.0.1:{listening} can be reached, but no broker there answers over security_protocol")
    assert "SASL_PLAINTEXT" in cause
    assert str(closed) not in cause, "the one that listens is the likely cause"


def test_a_closed_port_an_unknown_name_and_a_bad_address_are_named(
    monkeypatch: pytest.MonkeyPatch, closed: int
) -> None:
    monkeypatch.setattr(client, "_PORT", closed)
    servers = [f"127.0.0.1:{closed}", "127.0.0.1", "no-such-host.invalid:9092", "127.0.0.1:kafka", "127.0.0.1:99999"]
    cause = diagnose_addresses(servers, PLAINTEXT)

    assert cause.startswith(
        f"nothing listens at 127.0.0.1:{closed}, nothing listens at 127.0.0.1 (no port is given: {closed}), "
    )
    # Without a network, the name server is waited for at most a second.
    assert re.search(r"the host name in no-such-host.invalid:9092 is not known|no-such-host\S+ does not answer", cause)
    assert "127.0.0.1:kafka is no HOST:PORT, 127.0.0.1:99999 is no HOST:PORT" in cause
    assert "[kafka] bootstrap_servers (--config FILE" in cause


def test_a_client_whose_thread_cannot_start_reports_that_and_not_its_cleaning_up() -> None:
    class Unstarted:
        def close(self) -> None:
            raise RuntimeError("cannot join thread before it is started")

    def kind(kafka_client: Callable[[], Unstarted], **_: object) -> None:
        kafka_client()
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError, match="can't start new thread"):
        client.make(kind, {"kafka_client": Unstarted})


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (kafka_errors.InvalidSessionTimeoutError(), "set [worker] session_timeout within .*6 s by default"),
        (kafka_errors.GroupMaxSizeReachedError(), "run fewer members, or raise the brokers' group.max.size"),
        (kafka_errors.InvalidTransactionTimeoutError(), "lower it to their transaction.max.timeout.ms .*or raise that"),
    ],
)
def test_what_a_coordinator_refuses_ends_with_the_cure(error: KafkaError, cure: str) -> None:
    failure = translate(error, "polling")
    assert type(failure) is StreamError
    assert re.search(re.escape(cure.partition(".*")[0]), str(failure))
    assert cure.partition(".*")[2] in str(failure)


def test_throttling_is_named() -> None:
    failure = translate(kafka_errors.NodeNotReadyError("Node paused: {'throttle'}"), "asking")
    assert isinstance(failure, TransactionFailed)
    assert "the brokers throttle this user or client id" in str(failure)
    assert "Node paused" not in str(failure)


def test_no_thread_loses_what_another_one_has_learnt_of_a_broker() -> None:
    brokers, interval = RecentBrokers(clock=lambda: 7.0), sys.getswitchinterval()
    names = [f"client {thread}" for thread in range(8)]

    def learn(name: str) -> int:
        for n in range(60):
            brokers.add(name, f"b{n}:9093", "expired")
        for n in range(0, 60, 2):
            brokers.remove(name, f"b{n}:9093")
        return len(brokers.recent(name))

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert [*pool.map(learn, names)] == [30] * 8
    finally:
        sys.setswitchinterval(interval)
    assert [len(brokers.recent(name)) for name in names] == [30] * 8
