"""Commands of a worker on Kafka: `run`, `health`, `topics create|check`, `state`, `give-back`, `migrate`.

Each takes the worker's settings file; `state` reads a changelog, on Kafka or in a directory of `filter --state`.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from stream_dedup.cli import common
from stream_dedup.cli.common import ConfigOption, JsonOption, argument, number, option, print_json, warn
from stream_dedup.errors import ConfigError
from stream_dedup.observe import logs
from stream_dedup.phrases import counted, moment, version_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stream_dedup.changelog.inspection import ChangelogSummary
    from stream_dedup.worker.migration import MigrationProgress

log = logging.getLogger("stream_dedup.run")

_SHADOW = (
    "shadow mode: the worker holds nothing back; items that it would hold back are marked in headers and copied to %s. "
    "To hold them back, set [policy] shadow to false"
)
_FOREIGN = (
    "not settings, and ignored: %s. Kubernetes makes them of a Service whose name begins with stream-dedup; to have "
    "none, set enableServiceLinks: false in the Pod's spec"
)
_PHASES = {
    "fill": "filling the new changelog",
    "wait": "keeping up: stop the old workers now",
    "complete": "reading the rest",
    "done": "complete: start the new workers",
}
# Between two log lines of the same phase; the interval at which `run` repeats that no broker answers.
_LOG_INTERVAL_SECONDS = 60.0
topics_app = common.command_group()


def run_command(config: ConfigOption = None) -> None:
    """Run the worker on Kafka, until SIGTERM or Ctrl-C.

    Reads the input topic and forwards items that are not near-duplicates, exactly once. Stops within 10 s of SIGTERM.
    """
    from stream_dedup.observe.watch import Watch
    from stream_dedup.settings import secrets_of, service_variables
    from stream_dedup.worker.cluster_watch import BrokerWatch
    from stream_dedup.worker.worker import Worker

    settings = common.settings_of(config)
    logs.set_up(logs.form_of(settings, sys.stderr.isatty()), secrets_of(settings), waits=False)
    if foreign := service_variables():
        log.info(_FOREIGN, ", ".join(foreign))
    stop = common.stop_on_signals()
    with Watch(settings, version_text()) as watch:
        topics = settings.topics
        log.info("group %s, %s -> %s, scope %s", settings.kafka.group_id, topics.input, topics.output,
                 settings.worker.scope)  # fmt: skip
        if settings.policy.shadow:
            log.warning(_SHADOW, topics.duplicates)
        with BrokerWatch(settings, watch):
            Worker(settings, observer=watch, deduplicator=watch.deduplicator).run(stop)
    log.info("stopped; each batch in work is committed or will be read again")
    _exit()


def _exit() -> NoReturn:
    """End the process at once with exit code 0; call it after everything is closed.

    A regular exit of the interpreter waits for a running merge of the index, and frees every object. Container runtimes
    kill the process ten seconds after SIGTERM.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


# -- health ----------------------------------------------------------------------------------------------


def health_command(
    url: Annotated[
        str | None, option("The worker's /healthz (or /livez), instead of the one from the settings.", "URL")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Ask a running worker for its health.

    Exit code 0 if the worker is active or stands by, 1 otherwise. The settings give the worker's address
    (`observe.host`, `observe.health_port`), certificate and token: use its --config and environment.

    For a health check every few seconds, use `python -m stream_dedup.observe.probe [URL or PATH]`, which prints the
    same and starts faster. With the path /livez it asks whether the worker is stuck, and only then should be restarted.
    """
    from stream_dedup.observe import probe

    if config is None:
        raise typer.Exit(probe.main([] if url is None else [url]))
    observe = common.settings_of(config).observe
    if url is None:
        if not observe.enabled:
            raise ConfigError("[observe] enabled is false: a worker with these settings has no /healthz to ask")
        if observe.probed_port == 0:
            raise ConfigError(
                "[observe] health_port is 0, any free port, as it is if port is: take the URL from the worker's log "
                "and pass it with --url"
            )
        url = probe.url_of(observe.host, observe.probed_port, "https" if observe.tls_certfile else "http")
    raise typer.Exit(probe.report(url, observe.tls_certfile, observe.secret("token")))


# -- topics ----------------------------------------------------------------------------------------------


@topics_app.command("create")
def create_command(
    config: ConfigOption = None,
    partitions: Annotated[
        int | None, number("Partitions of a new input topic; the other topics get as many.", min=1)
    ] = None,
    replication: Annotated[int | None, number("Replication factor; default: the brokers' default.", min=1)] = None,
) -> None:
    """Create the missing ones of the five topics.

    Each gets a configuration that loses no data.
    """
    from stream_dedup.kafka.topics import check_topics, create_topics

    settings = common.settings_of(config)
    created = create_topics(settings, partitions, replication)
    typer.echo(f"created: {', '.join(created)}" if created else "all five topics exist; nothing was created")
    source = settings.topics.input
    present = check_topics(settings)[source].partitions
    remarks = {
        f"{source}, the input, is new and empty. If your feed writes to another topic, set [topics] input to that "
        "topic and run this command again": source in created,
        f"--replication {replication} was not used, because nothing was created. To change it for an existing topic, "
        "use kafka-reassign-partitions.sh": replication is not None and not created,
        f"--partitions {partitions} was not used: the input {source} has {counted(present, 'partition')}, and "
        "the other topics get as many. To add partitions, use kafka-topics.sh --alter": (
            partitions not in (None, present)
        ),
    }
    for remark, applies in remarks.items():
        if applies:
            typer.echo(remark, err=True)


@topics_app.command("check")
def check_command(config: ConfigOption = None) -> None:
    """Check the topics as the worker does at its start.

    Each problem comes with the command that fixes it.
    """
    from stream_dedup.kafka.topics import check_topics, weaknesses

    settings = common.settings_of(config)
    for name, topic in check_topics(settings).items():
        is_weak = name != settings.topics.input and weaknesses(topic)
        replicas = f", {counted(topic.replicas, 'replica')}" if topic.replicas else ""
        typer.echo(f"{name}: {counted(topic.partitions, 'partition')}{replicas}, {'see above' if is_weak else 'ok'}")


@topics_app.command("fix")
def fix_command(config: ConfigOption = None) -> None:
    """Set what `topics check` finds wrong.

    Settings of the topics, and partitions of the changelog. Needs the right AlterConfigs (and Alter, for partitions).
    Records, replicas and the input stay as they are.
    """
    from stream_dedup.kafka.topics import fix_topics

    changed = fix_topics(common.settings_of(config))
    typer.echo("\n".join(changed) or "nothing had to be changed")


# -- state -----------------------------------------------------------------------------------------------

state_app = common.command_group()
DirectoryArgument = Annotated[
    Path | None, argument("DIRECTORY", "State directory of `filter --state`; default: the changelog topic.")
]


def _inspect(directory: Path | None, config: Path | None) -> tuple[ChangelogSummary, str]:
    """Return the counts of a changelog, and the id of these settings' scheme."""
    from stream_dedup.changelog.inspection import journal_blocks, summarize, topic_blocks
    from stream_dedup.fingerprint.scheme import Scheme

    settings = common.settings_of(config)
    scheme = Scheme(settings.fingerprint)
    if directory:
        return summarize(journal_blocks(directory), scheme), f"{scheme.id:016x}"
    from stream_dedup.kafka.reader import TopicReader
    from stream_dedup.kafka.record_batch import MOST_BYTES

    with TopicReader(settings, MOST_BYTES) as reader:
        return summarize(topic_blocks(reader, settings.topics.changelog), scheme), f"{scheme.id:016x}"


@state_app.command("inspect")
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
    common.print_table(common.CleanConsole(), (), rows)
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


@state_app.command("verify")
def verify_command(directory: DirectoryArgument = None, config: ConfigOption = None) -> None:
    """Verify the checksum of every block.

    Blocks of the settings' scheme are decoded, too. Exit code 1 if any block is damaged. Records of other programs are
    listed; workers skip them.
    """
    from stream_dedup.changelog.headers import CURE

    counts, scheme = _inspect(directory, config)
    for damage in counts.damaged:
        typer.echo(damage, err=True)
    for place in counts.foreign:
        typer.echo(f"{place}: a record of another program, which workers skip", err=True)
    if counts.skipped > len(counts.foreign):
        typer.echo(f"and {counts.skipped - len(counts.foreign):,} more", err=True)
    typer.echo(
        f"{counted(counts.blocks, 'block')}, {counted(counts.additions, 'addition')}, {len(counts.damaged):,} damaged, "
        f"{counted(counts.skipped, 'record')} of other programs"
    )
    if others := sum(blocks for name, blocks in counts.schemes.items() if name != scheme):
        warn(
            f"{others:,} of them were written under another scheme than that of these settings, so only their "
            "checksums were verified; name the settings of their workers with --config"
        )
    if counts.damaged:
        if directory is None:
            typer.echo(CURE, err=True)
        raise typer.Exit(1)


@state_app.command("copy")
def copy_command(
    target: Annotated[Path, argument("TO", "Settings file that names the empty changelog, and how to log in there.")],
    config: ConfigOption = None,
) -> None:
    """Copy the changelog into an empty one: a backup, or the way back.

    On the same cluster or another one. The workers may run: the copy is the state of one moment.
    """
    from stream_dedup.settings import load_settings
    from stream_dedup.worker.copy_changelog import copy

    settings, into = common.settings_of(config), load_settings(target)
    typer.echo(f"{counted(copy(settings, into), 'record')} copied to {into.topics.changelog}")


# -- give back -------------------------------------------------------------------------------------------


def give_back_command(
    item_id: Annotated[str, argument("ID", "The id of the item, as the status page shows it.")],
    since: Annotated[
        str | None, option("How far back to look: 90m, 2h, 30d. Default: [window] length.", "DURATION")
    ] = None,
    reason: Annotated[str, option("Why, for the header dedup-given-back.", "TEXT")] = "by hand",
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a held-back item out by hand.

    Reads the duplicates topic, the newest records first, and writes the item to the output with its bytes and headers.
    The memory stays as it is, so further copies are held back. The workers may run meanwhile. A second run writes the
    item again. Exit code 1 if there is no such item.
    """
    from stream_dedup.settings.base import duration
    from stream_dedup.worker.give_back import GIVEN_BACK, give_back

    settings = common.settings_of(config)
    begin = common.begin_ms(duration(settings.window.length) if since is None else since)
    with common.progress_bars() as bars:
        given_back = give_back(settings, item_id, begin, reason, lambda read, total: bars("looking", read, total))
    if as_json:
        print_json(given_back)
        return
    original = (given_back.decision.get("original") or {}).get("id")
    typer.echo(
        f"gave {item_id} back: {given_back.found} is {given_back.written} now, with the header {GIVEN_BACK}. It was "
        f"held back as a copy of {original}, which is still remembered"
    )


# -- migrate ---------------------------------------------------------------------------------------------


def migrate_command(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Build the changelog of new [fingerprint] settings.

    Judges the items of the output topic again, and fills the new changelog. Use the settings of the new workers: the
    same group and topics, but a new name in [topics] changelog (create it with `topics create`). Run it beside the old
    workers: it says when to stop them, and ends when the new workers may start. An interrupted run continues where it
    stopped. The output may come from another system that stream_dedup is to replace.
    """
    from stream_dedup.worker.migration import Migration

    settings = common.settings_of(config)
    with _bars() if sys.stderr.isatty() and not as_json else _log_lines() as report:
        result = Migration(settings, report).run()
    if as_json:
        print_json(result)
    else:
        typer.echo(
            f"{settings.topics.changelog} is complete: {result.remembered:,} remembered of {result.read:,} read. "
            "Start the new workers with these settings; do not start the old ones again."
        )


@contextmanager
def _bars() -> Iterator[Callable[[MigrationProgress], None]]:
    with common.progress_bars() as bars:
        yield lambda now: bars(_PHASES[now.phase], now.read, now.total, f"{now.remembered:,} remembered")


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
        typer.echo(f"{_PHASES[progress.phase]} ({counts})", err=True)

    yield report
