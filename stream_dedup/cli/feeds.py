"""`stream-dedup feeds`: poll a list of feeds, and write each new or changed entry as a JSON line."""

import asyncio
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated

import typer

from stream_dedup.batch.outputs import check_free, checked_outputs
from stream_dedup.batch.tables import FileFormat
from stream_dedup.cli import common
from stream_dedup.cli.operate import stop_on_signals
from stream_dedup.errors import UsageError
from stream_dedup.feeds.database import State
from stream_dedup.feeds.delivery import Delivery, FileDelivery, KafkaDelivery
from stream_dedup.feeds.pages import Pages
from stream_dedup.feeds.poller import MOST_POLLS, Poller
from stream_dedup.feeds.subscriptions import read_sources
from stream_dedup.feeds.web import Fetcher
from stream_dedup.observe import logs
from stream_dedup.settings import load_settings, parse_duration, secrets_of


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
    pages: Annotated[
        bool, typer.Option("--pages", help="Take the text of each new entry from its page (extra pages).")
    ] = False,
    internal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A host or network of yours that is not public, to be asked too; replaces [feeds] internal.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Poll each feed that is due once, and end.")] = False,
    force: common.ForceOption = False,
    config: common.ConfigOption = None,
) -> None:
    """Poll RSS, Atom and JSON feeds for new and changed entries.

    Runs until SIGTERM or Ctrl-C, or with --once. Exit code 1 if --once could read no feed of those that it polled.
    """
    try:
        seconds = parse_duration(every).total_seconds()
    except ValueError as error:
        raise UsageError(f"--every {every}: {error}") from None
    output = output or Path("-")
    common.refuse_all(
        {
            "--output and --kafka are two outputs; give one of them": kafka and str(output) != "-",
            "--force is for --output FILE": force and str(output) == "-",
            "--every is at least 1s": seconds < 1,
        }
    )
    settings = load_settings(config, feeds={"internal": ",".join(internal)} if internal else {})
    urls, stop = read_sources(sources), stop_on_signals()
    files = [name for name in sources if Path(name).is_file()]
    to = checked_outputs(files, {"--output": (output, [FileFormat.JSONL])})["--output"]
    if kafka:
        logs.set_up(logs.form_of(settings, sys.stderr.isatty()), secrets_of(settings), waits=False)
    with common.exit_on_broken_pipe(), ExitStack() as stack:
        memory = stack.enter_context(closing(State(state, f"topic {settings.topics.input}" if kafka else str(to))))
        if not force and not memory.sequence:
            check_free({"--output": to})
        delivery: Delivery = KafkaDelivery(settings, memory.owner, stop) if kafka else FileDelivery(to, memory.length)
        stack.enter_context(closing(delivery))
        fetcher = Fetcher(MOST_POLLS, settings.feeds)
        page = Pages(fetcher, delivery.largest) if pages else None
        poller = Poller(memory.feeds(urls), memory, delivery, fetcher, every=seconds, once=once, pages=page)
        asyncio.run(poller.run(stop))
    if once and poller.polls and not poller.read:
        raise typer.Exit(1)
