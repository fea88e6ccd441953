"""`demo`: the worker at work on a synthetic feed; `kafka`: an embedded Kafka; `feed`: the synthetic feed alone."""

from __future__ import annotations

import io
import logging
import shlex
import sys
import time
from contextlib import ExitStack, contextmanager, redirect_stderr
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any

import click

from stream_dedup import cli
from stream_dedup.cli import option
from stream_dedup.phrases import counted, version_text
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import number
from stream_dedup.tools.terminal import Console, Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stream_dedup.settings import Settings
    from stream_dedup.tools.demo.run import DemoRecord, DemoResult

# Items a second. The synthetic world is small, and its accidents repeat: of the first 4,000 items .997 are decided as
# meant, of the first 24,000 .991.
_DEMO_RATE = 200.0
# Items a second of `feed`: fewer, because a trial of a stack may run for days, and Kafka keeps every record.
_FEED_RATE = 40.0
_SAMPLE_ITEMS = 400
_REDRAW_SECONDS = 0.25

# What to paste, with the address and the program.
_TO_PASTE = """\
It is empty, listens on this machine only, and runs until Ctrl-C, which deletes its topics. In another terminal:

export STREAM_DEDUP_KAFKA__BOOTSTRAP_SERVERS={0}
{1} topics create
{1} feed &
{1} run

`feed` sends invented news; the status page of `run` shows what becomes of it. Your own, in place of `feed`:
`send FILE`, or `feeds LIST --kafka`."""

# The demo reads the topics back and expects each item in exactly one of them.
_NO_SHADOW = {"shadow": False}


def demo_command(
    bootstrap: Annotated[str | None, option("Brokers to use; default: an embedded real Kafka.", "HOST:PORT")] = None,
    input: Annotated[Path | None, option("JSON Lines feed (.gz, .zst); default: a synthetic feed.")] = None,
    rate: Annotated[
        float | None,
        number("Items a second; default: 200 for the synthetic feed, no limit for a file and with --once.", min=0.1),
    ] = None,
    once: Annotated[bool, option("Stop at the end of the feed; the default without a terminal.")] = False,
    as_json: shared.JsonOption = False,
    config: cli.ConfigOption = None,
) -> None:
    """See it work: a feed, the worker, what it holds back and why.

    Starts an embedded real Kafka, or uses your cluster with --bootstrap, in new topics of its own.
    """
    from stream_dedup.observe.watch import Watch
    from stream_dedup.tools.demo.embedded import EmbeddedKafka
    from stream_dedup.tools.demo.jars import require_packages
    from stream_dedup.tools.demo.run import run_demo
    from stream_dedup.tools.demo.screen import Screen
    from stream_dedup.tools.page.show import show
    from stream_dedup.worker.cluster_watch import BrokerWatch

    live = sys.stdout.isatty() and not as_json
    once = once or not live
    console = Console(stderr=as_json)
    stop = cli.stop_on_signals()
    say = partial(console.print, style="dim")
    # Log lines would disrupt the live display, which shows the same information.
    logging.getLogger("stream_dedup").setLevel(logging.WARNING)
    with ExitStack() as stack:
        overrides: dict[str, Any] = {"group_id": "stream-dedup-demo"}
        topics: dict[str, str] = {}
        if bootstrap is None:
            require_packages()
        else:
            # A group and topics for this run alone, so that the demo touches nothing else on the cluster.
            run = f"dedup-demo-{int(time.time())}"
            overrides = {"bootstrap_servers": bootstrap, "group_id": run}
            roles = ("input", "output", "duplicates", "dead_letters", "changelog")
            topics = {role: f"{run}.{role.replace('_', '-')}" for role in roles}

        def settings_of_run() -> Settings:
            # Port 0, any free port: a worker may run on this machine, too.
            return cli.settings_of(config, kafka=overrides, topics=topics, observe={"port": 0}, policy=_NO_SHADOW)

        # Wrong settings fail before Kafka starts, which takes seconds, and minutes the first time.
        settings = settings_of_run()
        if bootstrap is None:
            overrides["bootstrap_servers"] = stack.enter_context(EmbeddedKafka(say=say)).bootstrap
            settings = settings_of_run()
        records = _file_records(input, settings) if input else _sample_records(endless=not once)
        pace = rate or (None if input or once else _DEMO_RATE)
        screen = Screen(pace)
        watch = stack.enter_context(Watch(settings, version_text(), screen, show=show))
        stack.enter_context(BrokerWatch(settings, watch))
        end = "the end of the feed; in a terminal without --once, until Ctrl-C" if once else "Ctrl-C"
        console.print(f"status page on {watch.url}/, metrics on {watch.url}/metrics, until {end}", style="dim")
        servers, topics_of_run = overrides["bootstrap_servers"], settings.topics
        heading = f"stream-dedup demo on {servers}: {topics_of_run.input} -> {topics_of_run.output}"
        if live:
            stack.enter_context(_live(console, partial(screen.picture, heading + " (Ctrl-C ends)")))
        result = run_demo(settings, records, rate=pace, screen=screen, watch=watch, stop=stop, once=once)
        if not live:
            console.print_lines(screen.picture(heading, console.width))
    _report(result, console)
    if as_json:
        shared.print_json(result)


@contextmanager
def _live(console: Console, picture: Callable[[int], list[Line]]) -> Iterator[None]:
    """Draw a picture again and again in the same place. What others print on standard error comes after it."""
    ended = Event()

    def draw() -> None:
        shown, is_last = 0, False
        while not is_last:
            is_last = ended.wait(_REDRAW_SECONDS)
            lines = picture(console.width)[: console.height - 1]
            console.print_lines(lines, over=shown)
            shown = len(lines)

    thread = Thread(target=draw, name="screen")
    with redirect_stderr(io.StringIO()) as printed:
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
    click.echo(printed.getvalue(), err=True, nl=False)


def kafka_command(port: Annotated[int, number("Port of 127.0.0.1.", min=1, max=65535)] = 9092) -> None:
    """Run a real Kafka on this machine, to try things out.

    Needs no Docker and no Java. Prints what to paste into another terminal; ends at Ctrl-C, and deletes its topics.
    """
    from stream_dedup.tools.demo.embedded import EmbeddedKafka

    stop, console = cli.stop_on_signals(), Console()
    with EmbeddedKafka(port=port, say=partial(console.print, style="dim")) as kafka:
        name = shlex.quote(sys.argv[0])
        program = name if Path(sys.argv[0]).name == "stream-dedup" else f"{shlex.quote(sys.executable)} -m stream_dedup"
        console.print(_TO_PASTE.format(kafka.bootstrap, program), soft_wrap=True)
        while not stop.wait(1.0):
            kafka.check()


def feed_command(
    rate: Annotated[float, number("Items a second.", min=0.1)] = _FEED_RATE, config: cli.ConfigOption = None
) -> None:
    """Send a synthetic feed to the input topic, to try out a stack.

    Stops on SIGTERM. Do not use it on a topic in production: its news is invented.
    """
    from stream_dedup.tools.topics.send import Sender

    settings = cli.settings_of(config)
    topic, stop = settings.topics.input, cli.stop_on_signals()
    feed = Sender(settings, topic, _sample_records(endless=True), stop, rate=rate)
    feed.run()
    click.echo(f"sent {counted(feed.sent, 'item')} to {topic}")


def _sample_records(endless: bool) -> Iterator[DemoRecord]:
    from stream_dedup.tools.demo.newsroom import endless_records, meant
    from stream_dedup.tools.demo.run import DemoRecord

    for key, value in islice(endless_records(), None if endless else _SAMPLE_ITEMS):
        yield DemoRecord(key, value, int(time.time() * 1000), meant=meant(value))


def _file_records(path: Path, settings: Settings) -> Iterator[DemoRecord]:
    """Read a file's items, with the timestamps that `filter` would give them; brokers reject the far future."""
    from stream_dedup.news.decode import Decoder
    from stream_dedup.news.item import Item
    from stream_dedup.tools.demo.run import DemoRecord
    from stream_dedup.tools.inputs.lines import read_lines
    from stream_dedup.tools.topics.send import key_of

    decode, watermark = Decoder(settings.item), 0
    latest = settings.window.latest(int(time.time() * 1000))
    for line in read_lines(path):
        item = decode(line, None, None)
        if isinstance(item, Item) and 0 <= item.time <= latest:
            moment = item.time
            watermark = max(watermark, moment)
        else:
            moment = watermark
        yield DemoRecord(key_of(item), line, moment)


def _report(result: DemoResult, console: Console) -> None:
    parts = [f"{result.unique:,} unique"]
    parts += [counted(getattr(result, name), name) for name in ("duplicate", "update")]
    parts.append(counted(result.bad, "dead letter"))
    if result.tombstone:
        parts.append(counted(result.tombstone, "tombstone"))
    console.print(
        f"{counted(result.items, 'item')} = {' + '.join(parts)}, {result.items_per_second:,.0f} items a second, "
        f"{result.judged_us:,.0f} µs to judge an item."
    )
    console.print(
        f"Read back from Kafka: {result.read_output:,} in the output, {counted(result.read_duplicates, 'duplicate')}, "
        f"{counted(result.read_dead_letters, 'dead letter')}: each item exactly once."
    )
    if result.with_meaning:
        right = result.with_meaning - sum(result.otherwise.values())
        listed = ", ".join(f"{number:,} {decision}" for decision, number in result.otherwise.items())
        ending = f"; otherwise: {listed}." if listed else "."
        console.print(f"{right:,} of {result.with_meaning:,} decided as their authors meant{ending}")
