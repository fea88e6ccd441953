"""A server that strangers flood: it keeps few connections and descriptors, and answers those who ask properly."""

import errno
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from stream_dedup.observe import listener
from stream_dedup.observe.listener import ANY, Listener, most_connections
from stream_dedup.observe.watch import Watch
from stream_dedup.settings import load_settings
from stream_dedup.tools.page.show import show
from tests.certificates import Authority
from tests.observe.asked import Served, ask
from tests.observe.slow import slow_clients

DESCRIPTORS = 256

_SERVER = """
import sys, time
from stream_dedup.observe.watch import Watch
from stream_dedup.tools.page.show import show
from stream_dedup.settings import load_settings
with Watch(load_settings(observe={"port": 0, **eval(sys.argv[1])}), "1.2.3", show=show) as watch:
    watch.loop_completed(["global"])
    print(watch.url, watch.health_url, flush=True)
    sys.stdin.read()
"""


class Flooded(NamedTuple):
    """A process with 256 descriptors that serves, and is flooded."""

    pid: int
    page: str
    health: str


@contextmanager
def flooded(count: int, log: Path, **settings: str) -> Iterator[Flooded]:
    command = ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", sys.executable, "-c", _SERVER, str(settings)]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            page, health = process.stdout.readline().split()
            addresses = [(str(urlsplit(url).hostname), int(urlsplit(url).port or 0)) for url in (page, health)]
            with slow_clients(count, *addresses):
                yield Flooded(process.pid, page, health)
        finally:
            process.stdin.close()


def descriptors(server: Flooded) -> int:
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


@pytest.mark.parametrize("tls", [pytest.param(False, marks=pytest.mark.slow), True])
def test_slow_clients_take_neither_descriptors_nor_answers_from_others(tls: bool, tmp_path: Path) -> None:
    """With TLS they never end their handshake."""
    log, settings, ca = tmp_path / "log", dict[str, str](), None
    if tls:
        authority = Authority(tmp_path, "ours")
        identity, ca = authority.server("worker", "127.0.0.1"), authority.pem
        settings = {"tls_certfile": str(identity.cert), "tls_keyfile": str(identity.key)}
    with flooded(300, log, **settings) as server:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            for url, path in ((server.health, "/livez"), (server.page, "/"), (server.page, "/metrics")):
                assert ask(url, path, ca=ca).status == 200
            assert descriptors(server) < DESCRIPTORS / 2
    assert log.read_text() == ""


BODY = b"x" * 20_000_000


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ids=["silent", "slow to ask", "slow to read"],
)
def test_a_connection_ends_whatever_it_does(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "SECONDS", 0.2)
    with Served(body=BODY) as server, socket.create_connection(("127.0.0.1", server.port), timeout=30) as peer:
        peer.sendall(begun)
        received = 0
        with suppress(ConnectionResetError):
            while part := peer.recv(65536):
                received += len(part)
                time.sleep(0.01)
        assert received < len(BODY)


def test_a_process_without_descriptors_serves_again_when_it_has_some(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept, refused = socket.socket.accept, iter([errno.EMFILE, errno.ENFILE, errno.EMFILE])

    def without_descriptors(self: socket.socket) -> object:
        for number in refused:
            raise OSError(number, "Too many open files")
        return accept(self)

    with Served() as server:
        monkeypatch.setattr(socket.socket, "accept", without_descriptors)
        assert ask(server.url, "/healthz").status == 200
    assert next(refused, None) is None
    assert "Too many" not in caplog.text


def test_without_threads_the_worker_goes_on_without_the_page(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with Watch(load_settings(observe={"port": 0}), "1.2.3", show=show) as watch:
        watch.loop_completed([])
    assert "observe-http cannot start (can't start new thread): the worker goes on without it" in caplog.text


def test_a_listener_that_breaks_ends_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = threading.active_count()

    async def broken(self: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("uvicorn.Server.main_loop", broken)
    with Served():
        while threading.active_count() > before:
            time.sleep(0.01)
    assert "observe-health has ended: the worker goes on without it" in caplog.text


@pytest.mark.parametrize(("descriptors", "most"), [(256, 32), (64, 8), (1024, 128), (resource.RLIM_INFINITY, 128)])
def test_the_limit_of_connections_follows_from_that_of_descriptors(
    descriptors: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (descriptors, descriptors))
    assert most_connections() == most


@pytest.mark.parametrize("client", ["127.0.0.1", "::1"])
def test_all_addresses_are_those_of_ipv6_and_ipv4(client: str) -> None:
    listener = Listener(ANY, 0, 8)
    try:
        socket.create_connection((client, listener.getsockname()[1]), timeout=5).close()
    except OSError as error:
        if client == "::1" and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            pytest.skip("this machine has no IPv6")
        raise
    finally:
        listener.close()
