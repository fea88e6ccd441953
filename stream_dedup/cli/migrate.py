"""`stream-dedup migrate`: build the changelog of a new fingerprint scheme while the workers run."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from stream_dedup.cli.common import ConfigOption, JsonOption, print_json
from stream_dedup.cli.console import progress_bars

if TYPE_CHECKING:
    from stream_dedup.worker.migration import MigrationProgress

_PHASES = {
    "fill": "filling the new changelog",
    "wait": "keeping up: stop the old workers now",
    "complete": "reading the rest",
    "done": "complete: start the new workers",
}
# Between two log lines of the same phase; the interval at which `run` repeats that no broker answers.
_LOG_INTERVAL_SECONDS = 60.0


def migrate_command(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Build the changelog of new [fingerprint] settings.

    Judges the items in the output topic again, and fills the new changelog. Use the settings of the new workers: the
    same group and topics, but a new name in [topics] changelog (create it with `topics create`). It runs while the old
    workers run, says when to stop them, and ends when the new workers may start. An interrupted run continues where it
    stopped.
    """
    from stream_dedup.settings import load_settings
    from stream_dedup.worker.migration import Migration

    settings = load_settings(config)
    with _bars() if sys.stderr.isatty() and not as_json else _log_lines() as report:
        result = Migration(settings, report).run()
    if as_json:
        print_json(asdict(result))
    else:
        typer.echo(
            f"{settings.topics.changelog} is complete: {result.remembered:,} remembered of {result.read:,} read. "
            "Start the new workers with these settings; do not start the old ones again."
        )


@contextmanager
def _bars() -> "Iterator[Callable[[MigrationProgress], None]]":
    with progress_bars() as bars:
        yield lambda now: bars(_PHASES[now.phase], now.read, now.total, f"{now.remembered:,} remembered")


@contextmanager
def _log_lines(clock: Callable[[], float] = time.monotonic) -> "Iterator[Callable[[MigrationProgress], None]]":
    """Without a terminal: print a line to stderr at the start of each phase and every minute after it."""
    previous: tuple[str, float] | None = None

    def report(progress: "MigrationProgress") -> None:
        nonlocal previous
        if previous is not None and previous[0] == progress.phase and clock() - previous[1] < _LOG_INTERVAL_SECONDS:
            return
        previous = progress.phase, clock()
        counts = f"{progress.read:,} of {progress.total:,} read, {progress.remembered:,} remembered"
        typer.echo(f"{_PHASES[progress.phase]} ({counts})", err=True)

    yield report
