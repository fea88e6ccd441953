"""The health check: well or not, in one line, for every answer that may come."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import ConfigError
from stream_dedup.observe.health import HealthState, Status
from stream_dedup.observe.http import ObserveServer
from stream_dedup.observe.probe import default_url, main, probe
from stream_dedup.settings import ObserveSettings


@contextmanager
def worker(status: Status) -> Iterator[str]:
    """The /healthz of a worker that is so."""
    state = HealthState(status, 1_700_000_000.0)
    with ObserveServer(ObserveSettings(port=0), CollectorRegistry(), lambda: state) as server:
        yield f"{server.url}/healthz"


@contextmanager
def stranger(answer: bytes) -> Iterator[str]:
    """Something else that listens there."""
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


@pytest.mark.parametrize("status", Status)
def test_working_and_standing_by_are_well(status: Status) -> None:
    with worker(status) as url:
        assert probe(url) == (
            status in (Status.OK, Status.STANDBY, Status.DEGRADED),
            f"{status} since 2023-11-14T22:13:20Z",
        )


def test_where_nobody_listens_the_settings_to_look_at_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/healthz"

    assert probe(url) == (
        False,
        f"no worker listens at {url}: is it running, and is this its observe.host and observe.port?",
    )


def test_the_reason_is_said() -> None:
    state = HealthState(Status.DEGRADED, 1_700_000_000.0, "no broker answers", worked=False)
    with ObserveServer(ObserveSettings(port=0), CollectorRegistry(), lambda: state) as server:
        said = probe(f"{server.url}/healthz")
    assert said == (False, "degraded since 2023-11-14T22:13:20Z (no broker answers)")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\n[1]",
        b"SSH-2.0\r\n\r\n",
    ],
    ids=["nothing", "empty", "text", "other JSON", "no HTTP"],
)
def test_what_is_no_worker_is_not_well(answer: bytes) -> None:
    with stranger(answer) as url:
        well, said = probe(url)
        assert not well
        assert url in said


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://127.0.0.1/", "nonsense", ""])
def test_only_http_is_asked(url: str) -> None:
    assert not probe(url)[0]


def test_one_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        well, said = probe(f"http://127.0.0.1:{listening.getsockname()[1]}/healthz", seconds=0.1)
    assert not well
    assert "timed out" in said


def test_it_asks_where_the_environment_says_that_the_worker_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_url() == "http://127.0.0.1:9464/healthz"
    monkeypatch.setenv("STREAM_DEDUP_OBSERVE__HOST", "0.0.0.0")  # noqa: S104 - nothing is bound
    monkeypatch.setenv("STREAM_DEDUP_OBSERVE__PORT", "9999")
    assert default_url() == "http://127.0.0.1:9999/healthz"
    monkeypatch.setenv("STREAM_DEDUP_OBSERVE__HOST", "::1")
    assert default_url() == "http://[::1]:9999/healthz"


def test_it_asks_where_the_settings_file_says_that_the_worker_listens(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    with worker(Status.OK) as url:
        config.write_text(f"[observe]\nport = {urlsplit(url).port}\n", "utf-8")
        asked = CliRunner().invoke(app, ["health", "--config", str(config)])
    assert (asked.exit_code, asked.stdout.split()[0]) == (0, "ok")


@pytest.mark.parametrize(("said", "cure"), [("enabled = false", "no /healthz to ask"), ("port = 0", "with --url")])
def test_settings_that_name_no_address_are_refused(tmp_path: Path, said: str, cure: str) -> None:
    config = tmp_path / "settings.toml"
    config.write_text(f"[observe]\n{said}\n", "utf-8")
    refused = CliRunner().invoke(app, ["health", "--config", str(config)])
    assert isinstance(refused.exception, ConfigError)
    assert cure in str(refused.exception)


def test_the_exit_code_says_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    with worker(Status.OK) as url:
        assert main([url]) == 0
        assert CliRunner().invoke(app, ["health", "--url", url]).exit_code == 0
    with worker(Status.STALLED) as url:
        assert main([url]) == 1
        assert CliRunner().invoke(app, ["health", "--url", url]).exit_code == 1
    assert "stalled" in capsys.readouterr().err


def test_it_loads_nothing_but_the_standard_library() -> None:
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "stream_dedup.observe.probe", "http://127.0.0.1:1/"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 1
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in shown.stderr.splitlines()}
    assert not loaded & {"numpy", "numba", "kafka", "pydantic", "typer", "prometheus_client"}
