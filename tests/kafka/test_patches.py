"""The patches of kafka-python fit the installed version; what they are for is tested where it shows, but for logins.

Packing and unpacking are compared with the client's own code in test_producer.py and test_fetch.py, and the sockets of
closed clients are counted in test_sockets.py; the others fail test_polling.py, test_reader.py, test_security.py,
tests/worker/test_waits.py or tests/worker/test_refused.py on a real Kafka if another version has moved something.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from stream_dedup.kafka import client, patches

ANOTHER = """
import kafka
kafka.__version__ = "3.0.13"
import stream_dedup.cli.main
stream_dedup.cli.main.main()
"""


def test_another_version_is_refused_at_the_start_and_the_message_names_the_one_that_fits() -> None:
    ended = subprocess.run([sys.executable, "-c", ANOTHER, "run"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "kafka-python 3.0.13 is installed" in ended.stderr
    assert f"install kafka-python=={patches.VERSION}" in ended.stderr


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
        host, port = server.getsockname()
        transport: Any = away._net.run(away._manager._build_transport, SimpleNamespace(host=host, port=port))
        there, _ = server.accept()
        there.sendall(b"the password is wrong")
        there.close()
        away._net.run(away._net.wait_read, transport._sock)
        assert transport._sock_recv() == (b"the password is wrong", None)
        data, error = transport._sock_recv()
        assert data == b""
        assert isinstance(error, kafka_errors.KafkaConnectionError)
        transport.close()
