"""The proxy forwards, and each of its faults does what it says."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tests.soak.proxy import HOST, Proxy


class _Echo(socketserver.BaseRequestHandler):
    heard: list[bytes] = []  # noqa: RUF012 - shared by all connections on purpose

    def handle(self) -> None:
        while piece := self.request.recv(2**16):
            self.heard.append(piece)
            self.request.sendall(piece)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    _Echo.heard.clear()
    with _Server((HOST, 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        with Proxy(0, server.server_address[1]) as made:
            yield made
        server.shutdown()
        thread.join()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    """A client for which the proxy has forwarded."""
    with connected(proxy) as made:
        assert exchange(made, b"x" * 300_000) == b"x" * 300_000
        yield made


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection((HOST, proxy.port), timeout=5)


def exchange(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    got = b""
    while len(got) < len(text):
        piece = client.recv(2**16)
        if not piece:
            raise ConnectionResetError("closed by the other end")
        got += piece
    return got


def get_no_answer(client: socket.socket, text: bytes) -> None:
    client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        exchange(client, text)
    client.settimeout(5)


def test_a_cut_breaks_connections_and_refuses_new_ones(proxy: Proxy, client: socket.socket) -> None:
    proxy.cut()
    with pytest.raises(ConnectionError):
        exchange(client, b"after")
    with pytest.raises(ConnectionError), connected(proxy) as another:
        exchange(another, b"again")
    proxy.heal()
    with connected(proxy) as another:
        assert exchange(another, b"healed") == b"healed"


def test_a_stall_holds_back_and_loses_nothing(proxy: Proxy, client: socket.socket) -> None:
    proxy.stall()
    get_no_answer(client, b"held")
    proxy.heal()
    assert client.recv(100) == b"held"


def test_a_delay_takes_its_time_in_both_directions(proxy: Proxy, client: socket.socket) -> None:
    proxy.delay = 0.1
    began = time.monotonic()
    assert exchange(client, b"slow") == b"slow"
    assert time.monotonic() - began >= 0.2


def test_swallowed_answers_are_answers_to_requests_that_arrived(proxy: Proxy, client: socket.socket) -> None:
    proxy.swallow()
    get_no_answer(client, b"acted on")
    assert _Echo.heard[-1] == b"acted on"
    proxy.heal()
    with pytest.raises(ConnectionError):
        exchange(client, b"the connection has lost bytes")
