"""Each fault of the proxy does what it says, so that no round runs without its faults."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest

from tests.lab.soak.proxy import HOST, Proxy

HEARD: list[bytes] = []


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while piece := self.request.recv(2**16):
            HEARD.append(piece)
            self.request.sendall(piece)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socketserver.ThreadingTCPServer((HOST, 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
        with Proxy(0, server.server_address[1]) as made:
            yield made
        server.shutdown()


def exchange(client: socket.socket, text: bytes, seconds: float = 5.0) -> bytes:
    client.settimeout(seconds)
    client.sendall(text)
    got = b""
    while len(got) < len(text):
        if not (piece := client.recv(2**16)):
            raise ConnectionResetError("closed by the other end")
        got += piece
    return got


def test_each_fault_does_what_it_says_until_it_is_healed(proxy: Proxy) -> None:
    with socket.create_connection((HOST, proxy.port)) as client:
        assert exchange(client, b"x" * 300_000) == b"x" * 300_000
        proxy.stall()
        with pytest.raises(TimeoutError):
            exchange(client, b"held", 0.2)
        proxy.heal()
        assert client.recv(100) == b"held", "a stall loses nothing"
        proxy.delay, began = 0.1, time.monotonic()
        assert exchange(client, b"slow") == b"slow"
        assert time.monotonic() - began >= 0.2, "in both directions"
        proxy.delay = 0.0
        proxy.swallow()
        with pytest.raises(TimeoutError):
            exchange(client, b"acted on", 0.2)
        assert HEARD[-1] == b"acted on"
        proxy.heal()
        with pytest.raises(ConnectionError):
            exchange(client, b"the connection has lost bytes")
    with socket.create_connection((HOST, proxy.port)) as client:
        exchange(client, b"before")
        proxy.cut()
        with pytest.raises(ConnectionError):
            exchange(client, b"after")
        with pytest.raises(ConnectionError), socket.create_connection((HOST, proxy.port)) as another:
            exchange(another, b"again")
