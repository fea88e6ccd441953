"""If no broker answers, the error distinguishes a closed port, an unknown name and another protocol."""

import re
import socket
from collections.abc import Callable, Iterator

import pytest
from kafka import errors as kafka_errors

from stream_dedup.kafka import client, errors
from stream_dedup.kafka.errors import diagnose_addresses
from stream_dedup.settings import load_settings

PLAINTEXT = {"security_protocol": "PLAINTEXT"}
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}


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


def test_a_closed_port_an_unknown_name_and_a_bad_address_are_named(closed: int) -> None:
    cause = diagnose_addresses([f"127.0.0.1:{closed}", "no-such-host.invalid:9092", "127.0.0.1:kafka"], PLAINTEXT)

    assert f"nothing listens at 127.0.0.1:{closed}" in cause
    # Without a network, the name server is waited for at most a second.
    assert re.search(r"the host name in no-such-host.invalid:9092 is not known|no-such-host\S+ does not answer", cause)
    assert "127.0.0.1:kafka is no HOST:PORT" in cause
    assert "[kafka] bootstrap_servers (--config FILE" in cause


def test_without_a_port_the_default_is_tried_and_named(monkeypatch: pytest.MonkeyPatch, closed: int) -> None:
    monkeypatch.setattr(errors, "_PORT", closed)
    cause = diagnose_addresses(["127.0.0.1"], PLAINTEXT)
    assert cause.startswith(f"nothing listens at 127.0.0.1 (no port is given: {closed});")


def test_a_client_without_a_broker_reports_the_cause(closed: int) -> None:
    def refused(**_: object) -> None:
        raise kafka_errors.KafkaTimeoutError("Unable to bootstrap")

    settings = load_settings(kafka={"bootstrap_servers": f"127.0.0.1:{closed}"})

    with pytest.raises(kafka_errors.KafkaTimeoutError, match=f"nothing listens at 127.0.0.1:{closed}"):
        client.make(refused, client.connection(settings))


def test_a_client_whose_thread_cannot_start_reports_that_and_not_its_cleaning_up() -> None:
    class Unstarted:
        def close(self) -> None:
            raise RuntimeError("cannot join thread before it is started")

    def kind(kafka_client: Callable[[], Unstarted], **_: object) -> None:
        kafka_client()
        raise RuntimeError("can't start new thread")

    with pytest.raises(RuntimeError, match="can't start new thread"):
        client.make(kind, {"kafka_client": Unstarted})
