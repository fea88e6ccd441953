"""The exit code of the command, by the error that ends it."""

import errno
import threading
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from stream_dedup.cli import main
from stream_dedup.cli.main import app
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.phrases import version_text
from stream_dedup.settings import FingerprintSettings
from tests.cli.commands import exit_of

CAUSED = ValueError("a library's own error")
CAUSED.__cause__ = MemoryError()
SHORTAGES = [
    MemoryError(), RuntimeError("can't start new thread"), OSError(errno.ENOMEM, "Cannot allocate memory"), CAUSED
]  # fmt: skip


def test_ctrl_c_exits_with_130_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "app", Mock(side_effect=KeyboardInterrupt))
    assert (exit_of(monkeypatch), capsys.readouterr().err) == (130, "")


@pytest.mark.parametrize("error", SHORTAGES, ids=str)
@pytest.mark.parametrize("is_service", [False, True])
def test_no_memory_is_no_bug_and_names_the_cure(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    is_service: bool,
    error: Exception,
) -> None:
    monkeypatch.setattr(main, "app", Mock(side_effect=error))
    monkeypatch.setattr(main.logs, "machine_readable", lambda: is_service)
    assert exit_of(monkeypatch) == 1
    said = caplog.text if is_service else capsys.readouterr().err
    assert "out of memory or threads. " in said
    assert "stream-dedup plan --per-day N" in said
    assert "bug" not in said


def test_a_thread_that_gets_no_memory_names_the_cure_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(**_: object) -> None:
        thread = threading.Thread(target=Mock(side_effect=MemoryError))
        thread.start()
        thread.join()

    monkeypatch.setattr(main, "app", run)
    monkeypatch.setattr(main.logs, "machine_readable", lambda: False)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)  # restored after the test
    with pytest.raises(SystemExit):
        main.main()
    said = capsys.readouterr().err
    assert "out of memory or threads" in said
    assert "Traceback" not in said


def test_the_version_names_the_scheme_of_the_default_fingerprints() -> None:
    shown = CliRunner().invoke(app, ["--version"]).output
    assert shown == f"stream-dedup, scheme {Scheme(FingerprintSettings()).id:016x}, version {version_text()}\n"
