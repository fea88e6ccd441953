"""`stream-dedup feeds`: poll a list of feeds, and write each new or changed entry as a JSON line."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from stream_dedup import cli
from stream_dedup.cli import option
from stream_dedup.extras import require
from stream_dedup.observe import logs
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import argument

if TYPE_CHECKING:
    from stream_dedup.tools.feeds.delivery import Delivery


def feeds_command(
    sources: Annotated[
        tuple[str, ...], argument("SOURCE", "An OPML file, a file with one URL a line, or the URL of a feed.")
    ],
    output: Annotated[
        Path | None, option("The entries, one JSON object each; - is standard output, the default. Packed by suffix.")
    ] = None,
    kafka: Annotated[bool, option("Write to the worker's input topic instead, in transactions.")] = False,
    state: Annotated[
        Path | None,
        option("File of the entries seen so far. The next run continues with it, a killed run where it stopped."),
    ] = None,
    every: Annotated[str, option("Least time between two polls of a feed, such as 90s or 1h.", "DURATION")] = "10m",
    pages: Annotated[bool, option("Take the text of each new entry from its page (extra pages).")] = False,
    internal: Annotated[
        tuple[str, ...],
        option("A host or network of yours that is not public but may be asked; replaces [feeds] internal.", "HOST"),
    ] = (),
    once: Annotated[bool, option("Poll each feed that is due once, and end.")] = False,
    force: shared.ForceOption = False,
    config: cli.ConfigOption = None,
) -> None:
    """Poll RSS, Atom and JSON feeds for new and changed entries.

    Runs until SIGTERM or Ctrl-C, or with --once. Exit code 1 if --once could read no feed of those that it polled.
    """
    require("httpx", "`feeds`")
    from stream_dedup.settings import secrets_of
    from stream_dedup.tools.batch.output_files import check_free, checked_outputs
    from stream_dedup.tools.feeds.database import State
    from stream_dedup.tools.feeds.delivery import FileDelivery, KafkaDelivery
    from stream_dedup.tools.feeds.pages import Pages
    from stream_dedup.tools.feeds.poller import MOST_POLLS, Poller
    from stream_dedup.tools.feeds.subscriptions import read_sources
    from stream_dedup.tools.feeds.web import Fetcher
    from stream_dedup.tools.inputs.file_format import FileFormat

    seconds = shared.seconds_of("--every", every)
    output = output or Path("-")
    shared.refuse(
        (kafka and str(output) != "-", "--output and --kafka are two outputs; give one of them"),
        (force and str(output) == "-", "--force is for --output FILE"),
        (seconds < 1, "--every is at least 1s"),
    )
    settings = cli.settings_of(config, feeds={"internal": ",".join(internal)} if internal else {})
    urls, stop = read_sources(sources), cli.stop_on_signals()
    files = [name for name in sources if Path(name).is_file()]
    destination = checked_outputs(files, {"--output": (output, [FileFormat.JSONL])})["--output"]
    if kafka:
        logs.set_up("text" if sys.stderr.isatty() else "json", secrets_of(settings), waits=False)
    with shared.exit_on_broken_pipe(), ExitStack() as stack:
        memory = stack.enter_context(
            closing(State(state, f"topic {settings.topics.input}" if kafka else str(destination)))
        )
        if not force and not memory.sequence:
            check_free({"--output": destination})
        delivery: Delivery = (
            KafkaDelivery(settings, memory.owner, stop) if kafka else FileDelivery(destination, memory.length)
        )
        stack.enter_context(closing(delivery))
        fetcher = Fetcher(MOST_POLLS, settings.feeds)
        page = Pages(fetcher, delivery.largest) if pages else None
        poller = Poller(memory.feeds(urls), memory, delivery, fetcher, every=seconds, once=once, pages=page)
        asyncio.run(poller.run(stop))
    if once and poller.polls and not poller.read:
        sys.exit(1)
