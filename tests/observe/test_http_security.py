"""The HTTP server with TLS, and the health check that speaks it."""

import http.client
import socket
import ssl
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import ConfigError
from stream_dedup.observe.health import HealthState, Status
from stream_dedup.observe.probe import main, probe
from tests.certificates import Authority, Identity
from tests.observe.asked import SINCE, Served, ask

TOKEN = "0123456789abcdef-of-the-page"  # noqa: S105


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
    with Served(HealthState(Status.DEGRADED, SINCE, "no broker at kafka.internal answers"), **settings) as server:
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
