"""Where no broker answers, the error tells a closed port, an unknown name and another protocol apart."""

import re
import socket
from collections.abc import Iterator

import pytest
from kafka import errors as kafka_errors

from stream_dedup.settings import load_settings
from stream_dedup.stream import client
from stream_dedup.stream.addresses import what_is_there


@pytest.fixture
def listening() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_listener_of_another_protocol_is_told_from_none(listening: int, closed: int) -> None:
    found = what_is_there([f"127.0.0.1:{closed}", f"127.0.0.1:{listening}"], "SASL_SSL")

    assert found.startswith(f"127.0.0.1:{listening} can be reached, but no broker there answers over security_protocol")
    assert "SASL_SSL" in found
    assert str(closed) not in found, "one that listens is where to look first"


def test_a_closed_port_an_unknown_name_and_what_is_no_address_are_named(closed: int) -> None:
    found = what_is_there([f"127.0.0.1:{closed}", "no-such-host.invalid:9092", "127.0.0.1:kafka"], "PLAINTEXT")

    assert f"nothing listens at 127.0.0.1:{closed}" in found
    # Without a network the name server is not asked in vain for longer than a second.
    assert re.search(r"the host name in no-such-host.invalid:9092 is not known|no-such-host\S+ does not answer", found)
    assert "127.0.0.1:kafka is no HOST:PORT" in found
    assert "[kafka] bootstrap_servers (--config FILE" in found


def test_a_client_that_finds_no_broker_says_it(closed: int) -> None:
    def refused(**_: object) -> None:
        raise kafka_errors.KafkaTimeoutError("Unable to bootstrap")

    settings = load_settings(kafka={"bootstrap_servers": f"127.0.0.1:{closed}"})

    with pytest.raises(kafka_errors.KafkaTimeoutError, match=f"nothing listens at 127.0.0.1:{closed}"):
        client.make(refused, client.connection(settings))
