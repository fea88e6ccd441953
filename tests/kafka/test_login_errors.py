"""The last answer of a broker is read, and a long read is no hang."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from stream_dedup.kafka import client, patches


@pytest.fixture
def away() -> Iterator[KafkaNetClient]:
    made = client.make(
        lambda kafka_client: kafka_client(bootstrap_servers="127.0.0.1:9"), {"kafka_client": patches.network}
    )
    yield made
    made.close()


def test_reading_a_large_fetch_is_not_logged_as_a_hang(away: KafkaNetClient) -> None:
    assert away._net.config["slow_task_threshold_secs"] == 1.0


def test_data_that_comes_with_the_end_of_a_connection_is_read_first(away: KafkaNetClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        address = _Node(*server.getsockname())
        transport: Any = away._net.run(away._manager._build_transport, address)
        there, _ = server.accept()
        there.sendall(b"the password is wrong")
        there.close()
        away._net.run(away._net.wait_read, transport._sock)
        assert transport._sock_recv() == (b"the password is wrong", None)
        data, error = transport._sock_recv()
        assert data == b""
        assert isinstance(error, kafka_errors.KafkaConnectionError)
        transport.close()


class _Node:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
