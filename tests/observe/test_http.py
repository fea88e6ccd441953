"""The HTTP server on 127.0.0.1: paths, methods, headers, health, names, the token, TLS, and a clean end."""

import base64
import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from prometheus_client import Counter
from prometheus_client.registry import Collector

from stream_dedup.cli.main import app
from stream_dedup.errors import ConfigError
from stream_dedup.observe.health import HealthState, Status
from stream_dedup.observe.probe import main, probe
from tests.certificates import Authority, Identity
from tests.observe.asked import SINCE, Served, ask

TOKEN = "0123456789abcdef-of-the-page"  # noqa: S105


@pytest.fixture
def server() -> Iterator[Served]:
    with Served() as server:
        yield server


def test_metrics_are_read_at_each_scrape_in_either_format(server: Served) -> None:
    counter = Counter("apples_total", "Apples.", registry=server.registry)
    for count in (1, 2):
        counter.inc()
        status, headers, body = ask(server.url, "/metrics?name[]=apples_total")
        assert (status, headers["Content-Type"].partition("; charset")[0]) == (200, "text/plain; version=0.0.4")
        assert f"apples_total {count}.0".encode() in body
    always = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Server": "stream-dedup"}
    assert always == {name: headers[name] for name in always}
    _, headers, body = ask(server.url, "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("status", "alive", "ready"),
    [
        (Status.OK, True, 200),
        (Status.STANDBY, True, 200),
        (Status.STARTING, True, 503),
        (Status.STALLED, True, 503),
        (Status.OK, False, 200),
    ],
)
def test_readiness_and_liveness_are_apart(server: Served, status: Status, alive: bool, ready: int) -> None:
    """A member without brokers is not ready and needs no restart; one that is stuck needs one, whatever its status."""
    server.state = HealthState(status, SINCE, alive=alive)
    for url in (server.url, server.health_url):
        for path, code in (("/healthz", ready), ("/livez", 200 if alive else 503)):
            answered, headers, body = ask(url, path)
            assert (answered, headers["Content-Type"]) == (code, "application/json")
            assert json.loads(body) == {"status": str(status), "since": "2023-11-14T22:13:20Z"}


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        *(("GET", path, 404) for path in ("/x", "/metrics/", "/healthz/x", "/../etc/passwd", "/metrics%00")),
        *((method, "/metrics", 405) for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS")),
    ],
)
def test_other_paths_and_methods_are_refused(server: Served, method: str, path: str, code: int) -> None:
    status, headers, body = ask(server.url, path, method)
    assert (status, headers["Allow"]) == (code, "GET, HEAD" if code == 405 else None)
    assert code == 405 or body == b"not found; there are /, /metrics, /healthz and /livez\n"


def test_the_listener_for_health_has_nothing_else(server: Served) -> None:
    assert [ask(server.health_url, path).status for path in ("/metrics", "/")] == [404, 404]


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/nothing"])
def test_head_answers_like_get_without_a_body(server: Served, path: str) -> None:
    get, head = ask(server.url, path), ask(server.url, path, "HEAD")
    assert (head.status, head.body) == (get.status, b"")
    assert head.headers["Content-Length"] == get.headers["Content-Length"] == str(len(get.body))


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
def test_invalid_requests_are_refused_without_an_echo(server: Served, raw: bytes, code: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer:
        peer.sendall(raw)
        response = b"".join(iter(lambda: peer.recv(65536), b""))
    assert response.split(b" ", 2)[1] == code
    assert b"script" not in response.lower()
    assert ask(server.url, "/metrics").status == 200


def test_a_failing_collector_is_a_server_error_and_logged(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Collector):
        def collect(self) -> Iterator[None]:  # type: ignore[override]
            raise RuntimeError("secret detail")

    server.registry.register(Broken())
    status, _, body = ask(server.url, "/metrics")
    assert (status, b"secret" in body, "secret detail" in caplog.text) == (500, False, True)
    assert ask(server.url, "/healthz").status == 200


def test_closing_is_quick_and_leaves_no_threads_or_sockets() -> None:
    before, server = threading.active_count(), Served()
    peers = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(3)]
    peers[0].sendall(b"GET /metr")  # in the middle of its request
    assert ask(server.url, "/healthz").status == 200  # by now the others have been accepted
    began = time.monotonic()
    server.close()
    assert time.monotonic() - began < 2
    for peer in peers:
        assert peer.recv(1) == b""
        peer.close()
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)
    server.close()  # a second call is no error
    with Served(port=server.port) as again:
        assert again.url == server.url, "the port can be taken again at once"


def test_an_address_that_cannot_be_listened_on_is_a_config_error_with_the_cure(server: Served) -> None:
    for host, port in (("127.0.0.1", server.port), ("192.0.2.1", 0)):  # taken; of another machine
        with pytest.raises(ConfigError, match=rf"\[observe\] host, port: .*{re.escape(host)}:{port} .*port = 0"):
            Served(host=host, port=port)


# -- the token, and names under which it is asked ------------------------------------------------------------


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def with_token() -> Iterator[Served]:
    state = HealthState(Status.DEGRADED, SINCE, "no broker at kafka.internal answers", worked=True)
    with Served(state, token=TOKEN) as server:
        yield server


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic("ann", TOKEN)])
def test_the_token_opens_page_and_metrics(with_token: Served, authorization: str) -> None:
    headers = {"Authorization": authorization, "Host": "proxy.example"}  # under any name
    for path, code in (("/", 200), ("/metrics", 200), ("/nothing", 404)):
        assert ask(with_token.url, path, headers=headers).status == code
    assert json.loads(ask(with_token.url, "/healthz", headers=headers).body)["reason"] == with_token.state.reason


@pytest.mark.parametrize(
    "authorization",
    [
        "", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Digest {TOKEN}",
        basic(TOKEN, ""), basic("ann", "wrong"), "Basic ?", "Basic " + TOKEN, "Bearer \xfc",
    ],
)  # fmt: skip
def test_nothing_but_the_token_opens_them_and_health_gives_no_reason(with_token: Served, authorization: str) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    for path in ("/", "/metrics", "/nothing", "/?id=a", "/page.js"):
        status, answered, body = ask(with_token.url, path, headers=headers)
        assert (status, answered["WWW-Authenticate"].partition(" ")[0]) == (401, "Basic")
        assert b"items" not in body
        assert TOKEN.encode() not in body
    status, _, body = ask(with_token.url, "/healthz", headers=headers)
    assert (status, json.loads(body)) == (200, {"status": "degraded", "since": "2023-11-14T22:13:20Z"})


def test_a_replaced_token_file_applies_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN, "utf-8")
    with Served(token_file=str(file)) as server:
        for token in (TOKEN, TOKEN[::-1]):
            file.write_text(token, "utf-8")
            statuses = [
                ask(server.url, headers={"Authorization": f"Bearer {one}"}).status for one in (token, token[::-1])
            ]
            assert statuses == [200, 401]


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[observe\]: token has fewer than 16 characters") as caught:
        Served(token="sesame")  # noqa: S106
    assert "sesame" not in str(caught.value)


def test_a_website_that_points_its_name_here_gets_no_texts() -> None:
    with Served(allowed_hosts="dedup.example, news.example") as server:
        for host, code in (
            *((host, 421) for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "[")),
            *((host, 200) for host in ("localhost", f"127.0.0.1:{server.port}", "[::1]", "News.Example:443")),
        ):
            reply = ask(server.url, "/", headers={"Host": host})
            assert (reply.status, b"example" in reply.body) == (code, False), host
        for path in ("/metrics", "/healthz", "/livez"):  # scrapers and probes ask by any name
            assert ask(server.url, path, headers={"Host": "stream-dedup.stream-dedup.svc:9464"}).status == 200


# -- TLS, and the health check that speaks it -----------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"), "ours")


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    return authority.server("worker", "worker.example", "127.0.0.1")


def https(identity: Identity) -> Served:
    return Served(tls_certfile=str(identity.cert), tls_keyfile=str(identity.key))


def test_it_speaks_https_and_nothing_else(authority: Authority, identity: Identity) -> None:
    with https(identity) as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert ask(server.url, ca=authority.pem).body == b"items"
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(server.url)


def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = tmp_path / "server.pem"
    first, second = (authority.server(name, f"{name}.example") for name in ("first", "second"))
    both.write_bytes(first.both.read_bytes())
    with Served(tls_certfile=str(both)) as server:
        assert ssl.get_server_certificate(("127.0.0.1", server.port)) in first.cert.read_text()
        both.write_bytes(second.both.read_bytes())
        assert ssl.get_server_certificate(("127.0.0.1", server.port)) in second.cert.read_text()
        both.write_bytes(b"half")
        assert ssl.get_server_certificate(("127.0.0.1", server.port)) in second.cert.read_text()
    assert "was replaced and cannot be used" in caplog.text


def test_a_peer_that_does_not_finish_its_handshake_blocks_nobody_and_closing_is_clean(identity: Identity) -> None:
    before = threading.active_count()
    server = https(identity)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as silent:
        assert probe(f"{server.url}/healthz", certfile=identity.cert)[0]
        server.close()
        assert silent.recv(1) == b""
    assert threading.active_count() == before


def test_a_certificate_that_cannot_be_used_is_a_config_error(identity: Identity, authority: Authority) -> None:
    locked = authority.client("locked", "sesame")
    for cert, key in ((identity.cert, locked.key), (Path("/nothing.pem"), identity.key), (locked.cert, locked.key)):
        with pytest.raises(ConfigError, match=r"\[observe\] tls_certfile, tls_keyfile: .* cannot be used"):
            Served(tls_certfile=str(cert), tls_keyfile=str(key))
    with pytest.raises(ConfigError, match="tls_keyfile would not be used"):
        Served(tls_keyfile=str(identity.key))


def test_the_health_check_trusts_the_workers_own_certificate_only(identity: Identity, authority: Authority) -> None:
    elsewhere = authority.server("elsewhere", "elsewhere.example")
    with https(elsewhere) as server:  # a certificate for another name than the address that is asked
        assert probe(f"{server.url}/healthz", certfile=elsewhere.cert)[0]
        for certfile in (identity.cert, None):
            healthy, report = probe(f"{server.url}/healthz", certfile=certfile)
            assert not healthy
            assert "the worker's certificate is not trusted" in report


def test_both_commands_take_certificate_and_token_from_the_settings(
    identity: Identity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN, "utf-8")
    settings = {"tls_certfile": str(identity.cert), "tls_keyfile": str(identity.key), "token_file": str(file)}
    with Served(HealthState(Status.DEGRADED, SINCE, "no broker at kafka.internal answers"), **settings) as server:
        settings["port"] = str(int(server.health_url.rpartition(":")[2]) - 1)
        lines = [f'{name} = "{value}"' for name, value in settings.items()]
        config = tmp_path / "settings.toml"
        config.write_text("\n".join(["[observe]", *lines]), "utf-8")
        asked = CliRunner().invoke(app, ["health", "--config", str(config)])
        assert (asked.exit_code, "kafka.internal" in asked.stdout) == (0, True)
        for name, value in settings.items():
            monkeypatch.setenv(f"STREAM_DEDUP_OBSERVE__{name.upper()}", value)
        assert main([]) == 0
        assert "kafka.internal" in capsys.readouterr().out
        file.unlink()
        assert main([]) == 0  # without the token: the health alone
        assert "kafka.internal" not in capsys.readouterr().out
