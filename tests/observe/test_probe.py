"""The health check reports healthy or not, with a reason in one line, for every possible response."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import ConfigError
from stream_dedup.observe.health import HealthState, Status
from stream_dedup.observe.probe import default_url, main, probe
from stream_dedup.settings import load_settings
from tests.observe.asked import SINCE, Served


@contextmanager
def foreign_server(answer: bytes) -> Iterator[str]:
    """Serve one response of another program; yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/healthz"
        thread.join()


def test_without_a_listener_the_settings_to_check_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/healthz"
    message = (
        f"no worker listens at {url}: is it running, and is this its observe.host, and the port after its observe.port?"
    )
    assert probe(url) == (False, message)


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0\r\n\r\n", *(b"HTTP/1.0 200 OK\r\n\r\n" + body for body in (b"", b"hello", b"[1]"))]
)
def test_another_program_is_not_healthy(answer: bytes) -> None:
    with foreign_server(answer) as url:
        healthy, output = probe(url)
        assert not healthy
        assert url in output


def test_a_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        healthy, output = probe(f"http://127.0.0.1:{listening.getsockname()[1]}/healthz", seconds=0.1)
    assert not healthy
    assert "timed out" in output


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_url() == "http://127.0.0.1:9465/healthz"
    monkeypatch.setenv("STREAM_DEDUP_OBSERVE__HOST", "0.0.0.0")  # noqa: S104 - nothing is bound
    monkeypatch.setenv("STREAM_DEDUP_OBSERVE__PORT", "9998")
    assert default_url("/livez") == "http://127.0.0.1:9999/livez"
    assert load_settings().observe.health_port == 9999
    monkeypatch.setenv("STREAM_DEDUP_OBSERVE__HOST", "::1")
    assert default_url() == "http://[::1]:9999/healthz"


def test_the_image_asks_whether_the_worker_is_alive(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker without brokers is not ready; a runtime that restarts what is unhealthy must leave it alone."""
    state = HealthState(Status.STALLED, SINCE, "no broker answers")
    with Served(state) as server:
        monkeypatch.setenv("STREAM_DEDUP_OBSERVE__PORT", str(int(server.health_url.rpartition(":")[2]) - 1))
        assert (main(["/livez"]), main(["/healthz"]), main([])) == (0, 1, 1)
    assert capsys.readouterr().out == "stalled since 2023-11-14T22:13:20Z (no broker answers)\n"


@pytest.mark.parametrize(("setting", "cure"), [("host = ''", "no /healthz to ask"), ("port = 0", "with --url")])
def test_settings_without_an_address_are_refused(tmp_path: Path, setting: str, cure: str) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(f"[observe]\n{setting}\n", "utf-8")
    refused = CliRunner().invoke(app, ["health", "--config", str(config)])
    assert isinstance(refused.exception, ConfigError)
    assert cure in str(refused.exception)


@pytest.mark.parametrize("status", Status)
def test_ok_standby_and_degraded_are_healthy(status: Status, capsys: pytest.CaptureFixture[str]) -> None:
    with Served(HealthState(status, SINCE)) as server:
        url, code = f"{server.url}/healthz", int(status in (Status.STARTING, Status.STALLED))
        assert (main([url]), CliRunner().invoke(app, ["health", "--url", url]).exit_code) == (code, code)
    printed = capsys.readouterr()
    assert f"{status} since 2023-11-14T22:13:20Z\n" in (printed.err if code else printed.out)


def test_it_imports_only_the_standard_library() -> None:
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "stream_dedup.observe.probe", "http://127.0.0.1:1/"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in shown.stderr.splitlines()}
    assert not loaded & {"numpy", "kafka", "pydantic", "click", "prometheus_client"}


def test_what_answers_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stream_dedup.observe.probe.probe", lambda *_, **__: (False, "\x1b]0;owned\x07 \u202e"))
    assert main(["http://127.0.0.1:1/healthz"]) == 1
    assert capsys.readouterr().err == r"\u001b]0;owned\u0007 \u202e" + "\n"


@pytest.mark.parametrize(
    "url",
    ["http://u:p4ss@127.0.0.1:1/healthz?token=p4ss", "ftp://u:p4ss@a.example", "http://u:p4ss/@x", "file:///x", ""],
)
def test_no_other_url_is_asked_and_no_secret_of_one_is_shown(url: str) -> None:
    healthy, text = probe(url)
    assert not healthy
    assert "p4ss" not in text
