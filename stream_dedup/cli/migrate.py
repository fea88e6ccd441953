"""`stream-dedup migrate`: builds the changelog of a new fingerprint scheme beside the running workers."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars

from stream_dedup.cli.common import ConfigOption, JsonOption

if TYPE_CHECKING:
    from stream_dedup.stream.migration import MigrationProgress

_SAID = {
    "fill": "filling the new changelog",
    "wait": "keeping up: stop the former workers now",
    "complete": "reading the rest",
    "done": "complete: start the new workers",
}
# In a container's log, as often as `run` says that no broker answers: seldom enough to read, often enough to trust.
_AGAIN_SECONDS = 60.0


def migrate_command(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Build the memory of new [fingerprint] settings.

    It judges anew what the output and duplicates topics hold, and fills the new changelog. The settings are those of
    the new workers: the same group and topics, but a new name in [topics] changelog (make it with `topics create`). It
    runs beside the former workers, says when to stop them, and ends when the new ones may start. Interrupted, it goes
    on where it was.
    """
    from stream_dedup.settings import load_settings
    from stream_dedup.stream.migration import Migration

    settings = load_settings(config)
    with _bars() if sys.stderr.isatty() and not as_json else _lines() as tell:
        done = Migration(settings, tell).run()
    if as_json:
        sys.stdout.write(msgspec.json.encode(asdict(done)).decode() + "\n")
    else:
        typer.echo(
            f"{settings.topics.changelog}: {done.remembered:,} remembered of {done.read:,} read; complete. "
            "Start the new workers with these settings, and the former ones no more."
        )


@contextmanager
def _bars() -> "Iterator[Callable[[MigrationProgress], None]]":
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[held]}"))
    with Bars(*columns, console=Console(emoji=False, stderr=True)) as bars:
        task = bars.add_task(_SAID["fill"], total=None, held="")

        def tell(progress: "MigrationProgress") -> None:
            held = f"{progress.remembered:,} remembered"
            bars.update(
                task, description=_SAID[progress.phase], completed=progress.read, total=progress.total, held=held
            )

        yield tell


@contextmanager
def _lines(clock: Callable[[], float] = time.monotonic) -> "Iterator[Callable[[MigrationProgress], None]]":
    """Where no person watches a bar, as in a Job's log: a line to stderr at each phase, and again each minute."""
    told: tuple[str, float] | None = None

    def tell(progress: "MigrationProgress") -> None:
        nonlocal told
        if told is not None and told[0] == progress.phase and clock() - told[1] < _AGAIN_SECONDS:
            return
        told = progress.phase, clock()
        counted = f"{progress.read:,} of {progress.total:,} read, {progress.remembered:,} remembered"
        typer.echo(f"{_SAID[progress.phase]} ({counted})", err=True)

    yield tell
