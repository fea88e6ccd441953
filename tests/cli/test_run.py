"""What `run` logs before its first batch."""

import logging
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from stream_dedup.cli import operate
from stream_dedup.observe import logs, watch
from stream_dedup.worker import cluster_watch, worker


class Idle:
    """A worker that stops at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.deduplicator = None

    def __enter__(self) -> "Idle":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, stop: threading.Event) -> None:
        pass


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "Worker", Idle)
    monkeypatch.setattr(watch, "Watch", Idle)
    monkeypatch.setattr(cluster_watch, "BrokerWatch", lambda *_: nullcontext())
    monkeypatch.setattr(operate, "stop_on_signals", threading.Event)
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    monkeypatch.setattr(operate, "_exit", lambda: None)


@pytest.mark.parametrize("shadow", [True, False])
def test_shadow_mode_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, shadow: bool) -> None:
    """Nothing else in the log shows that the worker holds nothing back."""
    monkeypatch.setenv("STREAM_DEDUP_POLICY__SHADOW", str(shadow).lower())
    with caplog.at_level(logging.INFO):
        operate.run_command(None)

    messages = [record.getMessage() for record in caplog.records]
    warnings = [message for message in messages if message.startswith("shadow mode: the worker holds nothing back")]
    assert len(warnings) == shadow
    assert all("copied to news.duplicates" in message for message in warnings)
