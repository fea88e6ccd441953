"""`stream-dedup feeds`: poll a list of feeds, and write each new or changed entry as a JSON line."""

import asyncio
import signal
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_dedup.cli import common
from stream_dedup.errors import UsageError
from stream_dedup.observe import logs

if TYPE_CHECKING:
    from stream_dedup.feeds.poller import Totals
    from stream_dedup.settings import Settings


def feeds_command(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE", help="An OPML file, a file with one URL a line, or the URL of a feed."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(help="The entries, one JSON object each; - is standard output, the default. Packed by suffix."),
    ] = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Write to the worker's input topic instead, in transactions.")
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(help="File for what was seen: the next run continues with it, a killed run where it stopped."),
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="Least time between two polls of a feed, such as 90s or 1h.")
    ] = "10m",
    once: Annotated[bool, typer.Option("--once", help="Poll each feed that is due once, and end.")] = False,
    force: common.ForceOption = False,
    config: common.ConfigOption = None,
) -> None:
    """Poll RSS, Atom and JSON feeds for new and changed entries.

    Runs until SIGTERM or Ctrl-C, or with --once. Exit code 1 if --once could read no feed of those that it polled.
    """
    from stream_dedup.settings import load_settings, parse_duration, secrets_of

    try:
        seconds = parse_duration(every).total_seconds()
    except ValueError as error:
        raise UsageError(f"--every {every}: {error}") from None
    common.refuse_all(
        {
            "--output and --kafka are two outputs; give one of them": kafka and output is not None,
            "--force is for --output FILE": force and str(output or "-") == "-",
            "--every is at least 1s": seconds < 1,
        }
    )
    settings = load_settings(config)
    if kafka:
        logs.set_up(logs.form_of(settings, sys.stderr.isatty()), secrets_of(settings))
    with common.exit_on_broken_pipe():
        totals = asyncio.run(
            _run(sources, None if kafka else output or Path("-"), state, seconds, once, force, settings)
        )
    if once and totals.polls and not totals.read:
        raise typer.Exit(1)


async def _run(
    sources: list[str],
    output: Path | None,
    path: Path | None,
    every: float,
    once: bool,
    force: bool,
    settings: "Settings",
) -> "Totals":
    from stream_dedup.batch.outputs import check_free, checked_outputs
    from stream_dedup.batch.tables import FileFormat
    from stream_dedup.feeds.fetch import Fetcher
    from stream_dedup.feeds.outputs import FileDelivery, KafkaDelivery
    from stream_dedup.feeds.poller import MOST_POLLS, Clock, Poller
    from stream_dedup.feeds.sources import read_sources
    from stream_dedup.feeds.state import State

    urls, stop = read_sources(sources), asyncio.Event()
    files = [name for name in sources if Path(name).is_file()]
    to = checked_outputs(files, {"--output": (output, [FileFormat.JSONL])}).get("--output")
    loop = asyncio.get_running_loop()

    def end(number: signal.Signals) -> None:
        stop.set()
        loop.remove_signal_handler(number)  # the second one ends the process at once

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    async with Fetcher(MOST_POLLS) as fetcher:
        with ExitStack() as stack:
            memory = stack.enter_context(closing(State(path, str(to or f"topic {settings.topics.input}"))))
            if to and not force and not memory.sequence:
                check_free({"--output": to})
            delivery = stack.enter_context(
                closing(FileDelivery(to, memory.length) if to else KafkaDelivery(settings, memory.owner, stop.is_set))
            )
            poller = Poller(memory.feeds(urls, Clock().now()), memory, delivery, fetcher, every=every, once=once)
            try:
                await poller.run(stop)
            finally:
                poller.report()
            return poller.totals
