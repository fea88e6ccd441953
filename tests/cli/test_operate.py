"""`run`, `topics` and `migrate` without a broker: what they log and print."""

import logging
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple
from unittest.mock import MagicMock

import pytest

from stream_dedup import cli
from stream_dedup.cli import operate
from stream_dedup.kafka import topics
from stream_dedup.observe import logs, watch
from stream_dedup.settings import Settings
from stream_dedup.tools.cli import state
from stream_dedup.tools.topics import migration, setup
from stream_dedup.worker import cluster_watch, worker
from tests.cli.commands import done


@pytest.mark.parametrize("shadow", [True, False])
def test_shadow_mode_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, shadow: bool) -> None:
    """Nothing else in the log shows that the worker holds nothing back."""
    monkeypatch.setattr(worker, "Worker", MagicMock())
    monkeypatch.setattr(watch, "Watch", MagicMock())
    monkeypatch.setattr(cluster_watch, "BrokerWatch", lambda *_: nullcontext())
    monkeypatch.setattr(cli, "stop_on_signals", threading.Event)
    monkeypatch.setattr(logs, "set_up", lambda *_, **__: None)
    monkeypatch.setattr(operate, "_exit", lambda: None)
    monkeypatch.setenv("STREAM_DEDUP_POLICY__SHADOW", str(shadow).lower())
    with caplog.at_level(logging.INFO):
        operate.run_command(None)

    messages = [record.getMessage() for record in caplog.records]
    warnings = [message for message in messages if message.startswith("shadow mode: the worker holds nothing back")]
    assert len(warnings) == shadow
    assert all("copied to news.duplicates" in message for message in warnings)


@pytest.mark.parametrize(
    ("created", "options", "printed", "remark"),
    [
        ([], "--partitions 3", "all five topics exist; nothing was created\n",
         "--partitions 3 was not used: the input news.raw has 1 partition,"),
        ([], "--partitions 1", "all five topics exist; nothing was created\n", ""),
        ([], "--replication 3", "all five topics exist; nothing was created\n", "--replication 3 was not used"),
        # A misspelled name would create a topic that nobody writes to.
        (["news.raw", "news.unique"], "", "created: news.raw, news.unique\n",
         "news.raw, the input, is new and empty; `stream-dedup send FILE` fills it from files. If your feed"),
        (["news.unique"], "", "created: news.unique\n", ""),
    ],
)  # fmt: skip
def test_create_names_new_topics_and_unused_options(
    monkeypatch: pytest.MonkeyPatch, created: list[str], options: str, printed: str, remark: str
) -> None:
    monkeypatch.setattr(setup, "create_topics", lambda *_, **__: created)
    monkeypatch.setattr(topics, "check_topics", lambda *_, **__: {"news.raw": topics.Topic(1, {})})
    result = done("topics", "create", *options.split())
    assert result.stdout == printed
    assert remark in result.stderr
    assert bool(result.stderr) == bool(remark)


def test_without_a_terminal_each_phase_is_a_line_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    phases = [("fill", 5), ("fill", 9), ("wait", 10), ("wait", 10), ("complete", 11), ("done", 12)]

    class Scripted(NamedTuple):
        settings: Settings
        tell: Callable[[migration.MigrationProgress], None]

        def run(self) -> migration.MigrationProgress:
            for phase, read in phases:
                self.tell(migration.MigrationProgress(phase, read, 12, 3))
            return migration.MigrationProgress("done", 12, 12, 3)

    monkeypatch.setattr(migration, "Migration", Scripted)

    for options in ([], ["--json"]):
        result = done("migrate", *options)
        assert result.stderr.splitlines() == [
            "filling the new changelog (5 of 12 read, 3 remembered)",
            "keeping up: stop the old workers now (10 of 12 read, 3 remembered)",
            "reading the rest (11 of 12 read, 3 remembered)",
            "complete: start the new workers (12 of 12 read, 3 remembered)",
        ]
    assert result.stdout == '{"phase":"done","read":12,"total":12,"remembered":3}\n'


def test_a_long_phase_is_logged_again_every_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, 59.0, 61.0, 61.0, 62.0])
    with state._log_lines(lambda: next(now)) as report:
        for _ in range(4):
            report(migration.MigrationProgress("wait", 1, 1, 1))

    assert len(capsys.readouterr().err.splitlines()) == 2
