"""Commands on a changelog: `state inspect|verify|copy` and `migrate`.

`state` reads a changelog on Kafka, or in a directory of `filter --state`.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from stream_dedup import cli
from stream_dedup.cli import ConfigOption
from stream_dedup.phrases import counted, moment
from stream_dedup.tools.cli.shared import JsonOption, argument, print_json
from stream_dedup.tools.terminal import Console, ProgressLine, print_table, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stream_dedup.tools.topics.inspection import ChangelogSummary
    from stream_dedup.tools.topics.migration import MigrationProgress

_PHASES = {
    "fill": "filling the new changelog",
    "wait": "keeping up: stop the old workers now",
    "complete": "reading the rest",
    "done": "complete: start the new workers",
}
# Between two log lines of the same phase; the interval at which `run` repeats that no broker answers.
_LOG_INTERVAL_SECONDS = 60.0
DirectoryArgument = Annotated[
    Path | None, argument("DIRECTORY", "State directory of `filter --state`; default: the changelog topic.")
]


def _inspect(directory: Path | None, config: Path | None) -> tuple[ChangelogSummary, str]:
    """Return the counts of a changelog, and the id of these settings' scheme."""
    from stream_dedup.fingerprint.scheme import Scheme
    from stream_dedup.tools.topics.inspection import journal_blocks, summarize, topic_blocks

    settings = cli.settings_of(config)
    scheme = Scheme(settings.fingerprint)
    if directory:
        return summarize(journal_blocks(directory), scheme), f"{scheme.id:016x}"
    from stream_dedup.changelog import MOST_BYTES
    from stream_dedup.tools.topics.reader import TopicReader

    with TopicReader(settings, MOST_BYTES) as reader:
        return summarize(topic_blocks(reader, settings.topics.changelog), scheme), f"{scheme.id:016x}"


def inspect_command(
    directory: DirectoryArgument = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Count the blocks, and what they add and forget.

    Also bytes, fingerprint schemes, owners (the tasks that wrote the blocks) and the first and last watermark.
    Additions are originals and variants. `folded` counts the blocks that later blocks replace.
    """
    summary, scheme = _inspect(directory, config)
    counts = asdict(summary) | {"settings_scheme": scheme}
    if as_json:
        print_json(counts)
        return
    rows = [(name.replace("_", " "), _for_people(name, value)) for name, value in counts.items()]
    print_table(Console(), (), rows)
    if summary.schemes and scheme not in summary.schemes:
        warn(
            "no block was written under the scheme of these settings, so a worker with these settings would refuse the "
            "changelog; `stream-dedup migrate` builds a new one"
        )


def _for_people(name: str, value: object) -> str:
    """Format a count, a time, a table or a list.

    >>> _for_people("bytes", 1827209), _for_people("last_watermark", 1795345099959), _for_people("first_watermark", -1)
    ('1,827,209', '2026-11-22 10:58 UTC', 'none')
    >>> _for_people("owners", {"my-dedup-global": 1577}), _for_people("damaged", [])
    ('my-dedup-global: 1,577', 'none')
    """
    if isinstance(value, int):
        if name.endswith("watermark"):
            return moment(value) if value >= 0 else "none"
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {count:,}" for key, count in value.items()) or "none"
    if isinstance(value, list):
        return "\n".join(value) or "none"
    return str(value)


def verify_command(directory: DirectoryArgument = None, config: ConfigOption = None) -> None:
    """Verify the checksum of every block.

    Blocks of the settings' scheme are decoded, too. Exit code 1 if any block is damaged. Records of other programs are
    listed; workers skip them.
    """
    from stream_dedup.changelog.headers import CURE

    counts, scheme = _inspect(directory, config)
    for damage in counts.damaged:
        click.echo(damage, err=True)
    for place in counts.foreign:
        click.echo(f"{place}: a record of another program, which workers skip", err=True)
    if counts.skipped > len(counts.foreign):
        click.echo(f"and {counts.skipped - len(counts.foreign):,} more", err=True)
    click.echo(
        f"{counted(counts.blocks, 'block')}, {counted(counts.additions, 'addition')}, {len(counts.damaged):,} damaged, "
        f"{counted(counts.skipped, 'record')} of other programs"
    )
    if unread := sum(blocks for name, blocks in counts.schemes.items() if name != scheme):
        warn(
            f"{unread:,} of them were written under another scheme than that of these settings, so only their "
            "checksums were verified; name the settings of their workers with --config"
        )
    if counts.damaged:
        if directory is None:
            click.echo(CURE, err=True)
        sys.exit(1)


def copy_command(
    target: Annotated[Path, argument("TO", "Settings file that names the empty changelog, and how to log in there.")],
    config: ConfigOption = None,
) -> None:
    """Copy the changelog into an empty one: a backup, or the way back.

    On the same cluster or another one. The workers may run: the copy is the state of one moment.
    """
    from stream_dedup.settings import load_settings
    from stream_dedup.tools.topics.copy_changelog import copy

    settings, target_settings = cli.settings_of(config), load_settings(target)
    click.echo(f"{counted(copy(settings, target_settings), 'record')} copied to {target_settings.topics.changelog}")


# -- migrate ---------------------------------------------------------------------------------------------


def migrate_command(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Build the changelog of new [fingerprint] settings.

    Judges the items of the output topic again, and fills the new changelog. Use the settings of the new workers: the
    same group and topics, but a new name in [topics] changelog (create it with `topics create`). Run it beside the old
    workers: it says when to stop them, and ends when the new workers may start. An interrupted run continues where it
    stopped. The output may come from another system that stream_dedup is to replace.
    """
    from stream_dedup.tools.topics.migration import Migration

    settings = cli.settings_of(config)
    with _bars() if sys.stderr.isatty() and not as_json else _log_lines() as report:
        result = Migration(settings, report).run()
    if as_json:
        print_json(result)
    else:
        click.echo(
            f"{settings.topics.changelog} is complete: {result.remembered:,} remembered of {result.read:,} read. "
            "Start the new workers with these settings; do not start the old ones again."
        )


@contextmanager
def _bars() -> Iterator[Callable[[MigrationProgress], None]]:
    with ProgressLine() as status:
        yield lambda now: status(_PHASES[now.phase], now.read, now.total, f"{now.remembered:,} remembered")


@contextmanager
def _log_lines(clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[MigrationProgress], None]]:
    """Without a terminal: print a line to stderr at the start of each phase and every minute after it."""
    previous: tuple[str, float] | None = None

    def report(progress: MigrationProgress) -> None:
        nonlocal previous
        if previous is not None and previous[0] == progress.phase and clock() - previous[1] < _LOG_INTERVAL_SECONDS:
            return
        previous = progress.phase, clock()
        counts = f"{progress.read:,} of {progress.total:,} read, {progress.remembered:,} remembered"
        click.echo(f"{_PHASES[progress.phase]} ({counts})", err=True)

    yield report


state_commands = {"inspect": inspect_command, "verify": verify_command, "copy": copy_command}
