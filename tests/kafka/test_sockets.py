"""A client that is given up leaves no socket behind, whatever it was doing. The collector would find it elsewhere."""

import gc
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kafka.net.compat import KafkaNetClient

from stream_dedup.kafka import client
from stream_dedup.kafka.errors import KafkaError
from stream_dedup.kafka.patches import network

SECONDS = 10.0


@pytest.fixture(autouse=True)
def unclosed() -> Iterator[list[str]]:
    """Fails for each socket that the collector had to close; the test may look at them before."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        found: list[str] = []
        yield found
        gc.collect()
        found += [str(warning.message) for warning in caught]
    assert found == []


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Listens, and neither accepts nor answers by itself."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        yield listening


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + SECONDS
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    assert found
    return found


def options(server: socket.socket, **more: Any) -> dict[str, Any]:
    return {"bootstrap_servers": [f"127.0.0.1:{server.getsockname()[1]}"], "client_id": "test", **more}


def begun(server: socket.socket, kind: Callable[..., Any] = network, **more: Any) -> Any:
    """A network that has begun to connect, with its thread."""
    made = kind(**options(server, **more))
    made._net.start()
    made._manager.bootstrap_async(timeout_ms=60_000)
    return made


def sockets(made: Any) -> list[socket.socket]:
    """What the network waits for, but for its own pair."""
    own = {made._net._wakeup_r, made._net._wakeup_w}
    return [key.fileobj for key in dict(made._net._selector.get_map()).values() if key.fileobj not in own]


def test_while_it_connects(server: socket.socket) -> None:
    with ExitStack() as others:
        while True:  # fills the queue of connections, so that the next one is not taken
            filler = others.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
            time.sleep(0.05)
            try:
                filler.getpeername()
            except OSError:
                break
        made = begun(server)
        [connecting] = until(lambda: sockets(made))
        assert connecting.getsockname()[0] == "127.0.0.1"
        made.close()
        assert connecting.fileno() == -1


def test_when_the_port_is_closed(server: socket.socket) -> None:
    server.close()
    config = {"security_protocol": "PLAINTEXT", "kafka_client": network, "bootstrap_timeout_ms": 200}
    with pytest.raises(KafkaError, match="nothing listens"):
        client.make(client.KafkaAdminClient, {**config, "bootstrap_servers": ["127.0.0.1:1"]})


def test_in_the_tls_handshake(server: socket.socket) -> None:
    made = begun(server, security_protocol="SSL")
    with server.accept()[0] as accepted:
        accepted.recv(1)  # its first message
        [shaking] = until(lambda: sockets(made))
        made.close()
        assert shaking.fileno() == -1


def connection(made: Any) -> Any:
    return until(lambda: next((each for each in made._manager._conns.values() if each.transport), None))


def flood(made: Any, transport: Any) -> None:
    """Send more than the kernel takes, so that a task waits until it can send the rest."""
    before = transport.last_write
    made._net.call_soon_threadsafe(lambda: transport.write(b"x" * 2**25))
    until(lambda: transport._write_buffer and transport.last_write > before)


@pytest.mark.parametrize("kind", [network, KafkaNetClient])
def test_with_a_request_that_is_not_sent(server: socket.socket, kind: Callable[..., Any]) -> None:
    """Also of a client that was made without `network`, as those of other programs in this process are."""
    made = begun(server, kind)
    with server.accept()[0]:
        transport = connection(made).transport
        flood(made, transport)
        sending = transport._sock
        made.close()
        assert sending.fileno() == -1


def test_with_a_request_that_the_broker_no_longer_takes(server: socket.socket) -> None:
    """The connection is closed once the request is sent, and then it breaks."""
    made = begun(server)
    accepted = server.accept()[0]
    node = connection(made)
    transport = node.transport
    flood(made, transport)
    sending = transport._sock
    node._init_future.success(True)
    made._net.call_soon_threadsafe(node.close)
    until(transport.is_closing)
    accepted.close()
    until(lambda: sending.fileno() == -1)
    made.close()
