"""The HTTP server with a token and with TLS, and the health check that speaks both."""

import base64
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import ConfigError
from stream_dedup.observe.health import HealthState, Status
from stream_dedup.observe.http import Answer, ObserveServer
from stream_dedup.observe.probe import main, probe
from stream_dedup.settings import load_settings
from tests.certificates import Authority, Identity

TOKEN = "0123456789abcdef-of-the-page"  # noqa: S105
STATE = HealthState(Status.DEGRADED, 1_700_000_000.0, "no broker at kafka.internal answers", worked=True)
PAGE = Answer("text/plain", b"items", {})


def serve(**settings: object) -> ObserveServer:
    made = load_settings(observe={"port": 0, **settings}).observe
    return ObserveServer(made, CollectorRegistry(), lambda: STATE, lambda path, query: PAGE if path == "/" else None)


def get(
    server: ObserveServer, path: str, authorization: str | None = None
) -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": authorization} if authorization else {})
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


# -- the token ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic("ann", TOKEN)])
def test_the_token_opens_page_and_metrics(authorization: str) -> None:
    with serve(token=TOKEN) as server:
        assert get(server, "/", authorization)[:2] == (200, b"items")
        assert get(server, "/metrics", authorization)[0] == 200
        assert get(server, "/nothing", authorization)[0] == 404


@pytest.mark.parametrize(
    "authorization",
    [
        None, "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Digest {TOKEN}",
        basic(TOKEN, ""), basic("ann", "wrong"), "Basic ?", "Basic " + TOKEN, "Bearer \xfc",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/metrics", "/nothing", "/?id=a", "/page.js"])
def test_nothing_but_the_token_opens_them(token_server: ObserveServer, path: str, authorization: str | None) -> None:
    status, body, headers = get(token_server, path, authorization)
    assert status == 401
    assert b"items" not in body
    assert TOKEN.encode() not in body
    assert headers["WWW-Authenticate"].startswith("Basic ")


@pytest.fixture(scope="module")
def token_server() -> Iterator[ObserveServer]:
    with serve(token=TOKEN) as server:
        yield server


def test_health_is_open_but_tells_the_reason_only_with_the_token(token_server: ObserveServer) -> None:
    status, body, _ = get(token_server, "/healthz")
    assert (status, json.loads(body)) == (200, {"status": "degraded", "since": "2023-11-14T22:13:20Z"})
    assert json.loads(get(token_server, "/healthz", f"Bearer {TOKEN}")[1])["reason"] == STATE.reason


def test_a_replaced_token_file_applies_at_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN, "utf-8")
    with serve(token_file=str(file)) as server:
        assert get(server, "/", f"Bearer {TOKEN}")[0] == 200
        file.write_text(TOKEN[::-1], "utf-8")
        assert get(server, "/", f"Bearer {TOKEN}")[0] == 401
        assert get(server, "/", f"Bearer {TOKEN[::-1]}")[0] == 200


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[observe\]: token has fewer than 16 characters") as caught:
        serve(token="sesame")  # noqa: S106
    assert "sesame" not in str(caught.value)


# -- names under which it is asked ---------------------------------------------------------------------------


def status_under(server: ObserveServer, host: str, path: str, authorization: str | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with closing(connection):
        headers = {"Host": host} | ({"Authorization": authorization} if authorization else {})
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        assert b"example" not in answer.read(), "nothing is echoed"
        return answer.status


def test_a_website_that_points_its_name_here_gets_no_texts() -> None:
    with serve(allowed_hosts="dedup.example, news.example") as server:
        for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "["):
            assert status_under(server, host, "/") == 421, host
        for host in ("localhost", f"127.0.0.1:{server.port}", "10.1.2.3:9464", "[::1]", "News.Example:443"):
            assert status_under(server, host, "/") == 200, host
        for path in ("/metrics", "/healthz", "/livez"):  # scrapers and probes ask by any name
            assert status_under(server, "stream-dedup.stream-dedup.svc:9464", path) == 200


def test_a_token_is_enough_under_any_name() -> None:
    with serve(token=TOKEN) as server:
        assert status_under(server, "proxy.example", "/", f"Bearer {TOKEN}") == 200
        assert status_under(server, "proxy.example", "/") == 401


# -- TLS ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"), "ours")


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    return authority.server("worker", "worker.example", "127.0.0.1")


def https(identity: Identity) -> ObserveServer:
    return serve(tls_certfile=str(identity.cert), tls_keyfile=str(identity.key))


def test_it_speaks_https_and_nothing_else(authority: Authority, identity: Identity) -> None:
    with https(identity) as server:
        assert server.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(authority.pem))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"items"
        connection.close()
        with pytest.raises((http.client.HTTPException, OSError)):
            get(server, "/")


def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = tmp_path / "server.pem"
    first, second = (authority.server(name, f"{name}.example") for name in ("first", "second"))
    both.write_bytes(first.both.read_bytes())
    with serve(tls_certfile=str(both)) as server:
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
            serve(tls_certfile=str(cert), tls_keyfile=str(key))
    with pytest.raises(ConfigError, match="tls_keyfile would not be used"):
        serve(tls_keyfile=str(identity.key))


# -- the health check -----------------------------------------------------------------------------------------


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
    with serve(**settings) as server:
        health_port = server.health_url.rpartition(":")[2]
        lines = [f'{name} = "{value}"' for name, value in settings.items()]
        config = tmp_path / "settings.toml"
        config.write_text("\n".join(["[observe]", f"health_port = {health_port}", *lines]), "utf-8")
        asked = CliRunner().invoke(app, ["health", "--config", str(config)])
        assert (asked.exit_code, "kafka.internal" in asked.stdout) == (0, True)
        for name, value in (settings | {"health_port": health_port}).items():
            monkeypatch.setenv(f"STREAM_DEDUP_OBSERVE__{name.upper()}", value)
        assert main([]) == 0
        assert "kafka.internal" in capsys.readouterr().out
        file.unlink()
        assert main([]) == 0  # without the token: the health alone
        assert "kafka.internal" not in capsys.readouterr().out
