"""The HTTP server on 127.0.0.1: paths, methods, headers, health, and a clean end."""

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.registry import Collector

from stream_dedup.errors import ConfigError
from stream_dedup.observe.health import HealthState, Status
from stream_dedup.observe.http import ObserveServer
from stream_dedup.settings import ObserveSettings

ANY_PORT = ObserveSettings(port=0)


class ServerUnderTest:
    """A server with a registry and a health state that tests control."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.counter = Counter("apples_total", "Apples.", registry=self.registry)
        self.state = HealthState(Status.OK, 1_700_000_000.0)
        self.server = ObserveServer(ANY_PORT, self.registry, lambda: self.state)

    def request(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        try:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def send_raw(self, raw: bytes) -> bytes:
        """Send bytes, HTTP or not, and return the response."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=10) as peer:
            peer.sendall(raw)
            response = b""
            while part := peer.recv(65536):
                response += part
            return response


@pytest.fixture
def world() -> Iterator[ServerUnderTest]:
    world = ServerUnderTest()
    with world.server:
        yield world


def test_metrics_are_read_at_each_scrape_in_either_format(world: ServerUnderTest) -> None:
    for count in (1, 2):
        world.counter.inc()
        status, headers, body = world.request("/metrics?name[]=apples_total")
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert f"apples_total {count}.0".encode() in body
    for name, value in (
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-store"),
        ("Server", "stream-dedup"),
    ):
        assert headers[name] == value
    _, headers, body = world.request("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("status", "code"), [(Status.OK, 200), (Status.STANDBY, 200), (Status.STARTING, 503), (Status.STALLED, 503)]
)
def test_health(world: ServerUnderTest, status: Status, code: int) -> None:
    world.state = HealthState(status, 1_700_000_000.0)
    answered, headers, body = world.request("/healthz")
    assert answered == code
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == {"status": str(status), "since": "2023-11-14T22:13:20Z"}


def test_liveness_is_apart_from_readiness(world: ServerUnderTest) -> None:
    """A member without brokers is not ready and needs no restart; one that is stuck needs one, whatever its status."""
    world.state = HealthState(Status.STALLED, 1_700_000_000.0, alive=True)
    assert (world.request("/healthz")[0], world.request("/livez")[0]) == (503, 200)
    world.state = HealthState(Status.OK, 1_700_000_000.0, alive=False)
    assert (world.request("/healthz")[0], world.request("/livez")[0]) == (200, 503)
    assert world.request("/livez")[2] == world.request("/healthz")[2]


def test_health_has_a_port_of_its_own_and_nothing_else_is_there(world: ServerUnderTest) -> None:
    for path, code in (("/healthz", 200), ("/livez", 200), ("/metrics", 404), ("/", 404)):
        with closing(http.client.HTTPConnection(urlsplit(world.server.health_url).netloc, timeout=10)) as connection:
            connection.request("GET", path)
            assert connection.getresponse().status == code


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        *(("GET", path, 404) for path in ("/", "/metrics/", "/healthz/x", "/../etc/passwd", "/metrics%00")),
        *((method, "/metrics", 405) for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
    ],
)
def test_other_paths_and_methods_are_refused(world: ServerUnderTest, method: str, path: str, code: int) -> None:
    status, headers, body = world.request(path, method)
    assert status == code
    if code == 405:
        assert headers["Allow"] == "GET, HEAD"
    else:
        assert body == b"not found; there are /, /metrics, /healthz and /livez\n"


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/nothing"])
def test_head_answers_like_get_without_a_body(world: ServerUnderTest, path: str) -> None:
    get_status, get_headers, get_body = world.request(path)
    status, headers, body = world.request(path, "HEAD")
    assert (status, body) == (get_status, b"")
    assert headers["Content-Length"] == get_headers["Content-Length"] == str(len(get_body))


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"GET /" + b"a" * 20_000, b"400"),
        (b"GET /metrics HTTP/1.0\r\n" + b"X: script\r\n" * 2_000, b"400"),
        (b"GET <script> nonsense HTTP/1.0\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),  # no host
        (b"\x16\x03\x01script\r\n\r\n", b"400"),  # TLS
        (b"SCRIPT /script HTTP/1.0\r\n\r\n", b"405"),
    ],
)
def test_invalid_requests_are_refused_without_an_echo(world: ServerUnderTest, raw: bytes, code: bytes) -> None:
    response = world.send_raw(raw)
    assert response.split(b" ", 2)[1] == code
    assert b"script" not in response.lower()
    assert world.request("/metrics")[0] == 200


def test_a_failing_collector_is_a_server_error_and_logged(
    world: ServerUnderTest, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Collector):
        def collect(self) -> Iterator[None]:  # type: ignore[override]
            raise RuntimeError("secret detail")

    world.registry.register(Broken())
    status, _, body = world.request("/metrics")
    assert status == 500
    assert b"secret" not in body
    assert "secret detail" in caplog.text
    assert world.request("/healthz")[0] == 200


def test_closing_is_quick_and_leaves_no_threads_or_sockets() -> None:
    before = threading.active_count()
    world = ServerUnderTest()
    peers = [socket.create_connection(("127.0.0.1", world.server.port), timeout=10) for _ in range(3)]
    peers[0].sendall(b"GET /metr")  # in the middle of its request
    assert world.request("/healthz")[0] == 200  # by now the others have been accepted
    began = time.monotonic()
    world.server.close()
    assert time.monotonic() - began < 2
    for peer in peers:
        assert peer.recv(1) == b""
        peer.close()
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", world.server.port), timeout=10)
    world.server.close()  # a second call is no error


def test_the_port_can_be_taken_again_at_once(world: ServerUnderTest) -> None:
    assert world.request("/healthz")[0] == 200
    world.server.close()
    again = ObserveSettings(port=world.server.port, health_port=0)
    with ObserveServer(again, CollectorRegistry(), lambda: world.state) as server:
        assert server.url == world.server.url


def test_an_address_that_cannot_be_listened_on_is_a_config_error_with_the_cure(world: ServerUnderTest) -> None:
    for host, port in (("127.0.0.1", world.server.port), ("192.0.2.1", 0)):  # taken; of another machine
        with pytest.raises(ConfigError, match=rf"\[observe\] host, port: .*{re.escape(host)}:{port} .*port = 0"):
            ObserveServer(ObserveSettings(host=host, port=port), CollectorRegistry(), lambda: world.state)


def test_concurrent_requests_are_answered(world: ServerUnderTest) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: world.request("/metrics")[0], range(80)))
    assert answers == [200] * 80
