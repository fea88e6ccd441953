"""`stream-dedup migrate` without a terminal: a log line says when to stop the old workers."""

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from stream_dedup.cli import operate
from stream_dedup.cli.main import app
from stream_dedup.settings import Settings
from stream_dedup.worker import migration


def test_without_a_terminal_each_phase_is_a_line_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    phases = [("fill", 5), ("fill", 9), ("wait", 10), ("wait", 10), ("complete", 11), ("done", 12)]

    class Scripted:
        def __init__(self, settings: Settings, tell: Callable[[migration.MigrationProgress], None]) -> None:
            self._tell = tell

        def run(self) -> migration.MigrationProgress:
            for phase, read in phases:
                self._tell(migration.MigrationProgress(phase, read, 12, 3))
            return migration.MigrationProgress("done", 12, 12, 3)

    monkeypatch.setattr(migration, "Migration", Scripted)

    for options in ([], ["--json"]):
        result = CliRunner().invoke(app, ["migrate", *options])
        assert result.exit_code == 0
        assert result.stderr.splitlines() == [
            "filling the new changelog (5 of 12 read, 3 remembered)",
            "keeping up: stop the old workers now (10 of 12 read, 3 remembered)",
            "reading the rest (11 of 12 read, 3 remembered)",
            "complete: start the new workers (12 of 12 read, 3 remembered)",
        ]
    assert result.stdout == '{"phase":"done","read":12,"total":12,"remembered":3}\n'


def test_a_long_phase_is_logged_again_every_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, 59.0, 61.0, 61.0, 62.0])
    with operate._log_lines(lambda: next(now)) as report:
        for _ in range(4):
            report(migration.MigrationProgress("wait", 1, 1, 1))

    assert len(capsys.readouterr().err.splitlines()) == 2
