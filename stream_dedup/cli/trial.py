"""`stream-dedup trial --bootstrap HOST:PORT --input TOPIC`: show what would be held back of a live topic.

It only reads (kafka/reader.py) and judges in memory (worker/trial.py). Out: counts, sources, examples, and a
summary of how the records were read.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_dedup.cli.common import ConfigOption, JsonOption, new_console, print_json
from stream_dedup.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from stream_dedup.kafka.reader import LiveReader
    from stream_dedup.settings import Settings
    from stream_dedup.worker.trial import Ended, Trial, TrialResult

# The time of the decision is printed from this many items on.
_MEASURED_ITEMS = 1000
_STAGES = {
    "id": "the same id",
    "exact": "the same text",
    "headline": "similar headlines",
    "body": "similar texts",
    "prose": "nothing new",
    "policy": 'an update ([policy] updates = "drop")',
}


def trial_command(
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="The brokers. Default: the settings'.")
    ] = None,
    input: Annotated[
        str | None,
        typer.Option("--input", "--topic", metavar="TOPIC", help="The topic to read. Default: the settings' input."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", help="How far back to begin: 90m, 2h, 7d. Default: 24h."),
    ] = None,
    moment: Annotated[
        str | None, typer.Option("--from", metavar="TIMESTAMP", help="When to begin: 2026-11-22 or 2026-11-22T08:00Z.")
    ] = None,
    items: Annotated[int, typer.Option("--items", metavar="NUMBER", min=1, help="End after this many items.")] = 10_000,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            metavar="NUMBER",
            min=0.01,
            help="End after this many minutes; until then wait for new items. Default: end at the end of the topic.",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a worker would hold back of a live topic.

    It writes nothing, joins no group and commits nothing. It decides in memory with these settings, as a worker would.
    Ctrl-C ends it and shows the results so far. Exit code 1 if the topic cannot be read, has no items, or none of them
    can be judged.
    """
    from stream_dedup.cli.run import stop_on_signals
    from stream_dedup.kafka.reader import LiveReader
    from stream_dedup.precompile.compilations import report_long_compilation
    from stream_dedup.settings import load_settings
    from stream_dedup.worker.trial import Trial, run_trial

    begin = _begin_ms(since, moment)
    settings = load_settings(config, kafka={} if bootstrap is None else {"bootstrap_servers": bootstrap})
    topic = settings.topics.input if input is None else input
    stop = stop_on_signals()
    started = time.monotonic()
    with (
        report_long_compilation(_print_stderr),
        LiveReader(settings, topic) as reader,
        Trial(settings, topic) as trial,
    ):
        expected = reader.begin(begin)
        if not expected and minutes is None:
            raise InputError(_no_items(reader, begin))
        seconds = None if minutes is None else minutes * 60
        with _progress(trial, reader, min(items, expected) if minutes is None else None) as update:
            ended, error = run_trial(reader, trial, items=items, seconds=seconds, stop=stop.is_set, on_progress=update)
        if not trial.items:
            raise error or InputError(_no_items(reader, begin))
        result = trial.result()
    if as_json:
        print_json({"topic": topic, "ended": str(ended), **result.as_json()})
    else:
        _print(result, ended, settings, topic, time.monotonic() - started, begin)
    if error is not None:
        raise error
    if result.summary.all_bad:
        raise InputError(f"none of the {result.items:,} items of {topic} can be judged; see the reasons above")


def _print_stderr(text: str) -> None:
    typer.echo(text, err=True)


def _begin_ms(since: str | None, moment: str | None) -> int:
    """Return when to start reading, in ms since 1970."""
    from stream_dedup.settings import parse_duration

    if since is not None and moment is not None:
        raise UsageError("--since and --from exclude each other; leave one out")
    if moment is not None:
        try:
            begin = datetime.fromisoformat(moment)
        except ValueError:
            raise UsageError(
                f"--from {moment}: not a date; write 2026-11-22, 2026-11-22T08:00 (UTC) or 2026-11-22T08:00+01:00"
            ) from None
        # Kafka has no time before 1970, and takes some negative numbers as commands.
        return max(0, int((begin if begin.tzinfo else begin.replace(tzinfo=UTC)).timestamp() * 1000))
    try:
        return max(0, int((time.time() - parse_duration("24h" if since is None else since).total_seconds()) * 1000))
    except (ValueError, AttributeError):
        raise UsageError(f"--since {since}: write a number and a unit: 30s, 90m, 2h, 7d") from None


def _no_items(reader: "LiveReader", begin: int) -> str:
    from stream_dedup.phrases import moment

    if reader.is_empty:
        return f"{reader.topic} is empty; to wait for new items, add --minutes 10"
    return (
        f"{reader.topic} has had no records since {moment(begin)}; begin earlier (--since 30d), or wait for new ones "
        "(--minutes 10)"
    )


@contextmanager
def _progress(trial: "Trial", reader: "LiveReader", total: int | None) -> "Iterator[Callable[[], None]]":
    """A progress line on a terminal; what it yields updates it."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = new_console(stderr=True)
    columns = (
        BarColumn(20),
        TextColumn("{task.fields[items]} items, {task.fields[held]} held back, {task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("trial", total=total, items="0", held="0", state="")

        def update() -> None:
            state = "at the end, waiting" if reader.caught_up else "reading"
            bars.update(bar, completed=trial.items, items=f"{trial.items:,}", held=f"{trial.held:,}", state=state)

        yield update


_ENDED = {
    "items": "ended after --items",
    "minutes": "ended after --minutes",
    "caught up": "ended at the end of the topic",
    "stopped": "ended by Ctrl-C",
    "failed": "ended because Kafka could not be read any further",
}


def _print(result: "TrialResult", ended: "Ended", settings: "Settings", topic: str, seconds: float, begin: int) -> None:
    from rich.table import Table

    from stream_dedup.cli.side_by_side import one_line
    from stream_dedup.cli.summary import print_short
    from stream_dedup.phrases import moment

    console = new_console()
    console.print(f"{topic}, {moment(result.first)} to {moment(result.last)}; {_ENDED[ended]}. Nothing was written.")
    if note := _older_records(result.first, begin):
        console.print(note)
    table = Table("verdict", "items", "share", "what a worker would do")
    _align_right(table, 1, 2)
    actions = {
        "unique": "let through",
        "update": "hold back" if settings.policy.updates == "drop" else "let through as an update",
        "duplicate": "hold back",
        "bad": "send to the dead letters",
        "tombstone": "let through, forget the original",
    }
    for kind, count in result.verdicts.items():
        if count or kind != "tombstone":
            table.add_row(str(kind), f"{count:,}", _share(count, result.items), actions[kind])
    table.add_section()
    table.add_row("all", f"{result.items:,}", "", "")
    console.print(table)
    if result.stages:
        table = Table("held back because of", "items", "share")
        _align_right(table, 1, 2)
        for stage, count in result.stages.items():
            table.add_row(f"{_STAGES.get(stage, stage)}", f"{count:,}", _share(count, result.held))
        console.print(table)
    if result.sources:
        table = Table("source", "items", "held back", "share")
        _align_right(table, 1, 2, 3)
        for name, items, count in result.sources:
            table.add_row(one_line(name) or "(none)", f"{items:,}", f"{count:,}", _share(count, items))
        console.print(table)
    _print_examples(console, result)
    print_short(console, result.summary)
    for reason in result.summary.reasons:
        console.print(f"bad: {one_line(reason)}")
    _print_notes(console, result, settings, topic, seconds)


def _older_records(first: int, begin: int) -> str:
    """A note if the oldest record read is older than the beginning that the user named; else empty.

    >>> _older_records(1_700_000_000_000, 1_700_000_000_000)
    ''
    >>> _older_records(1000, 1_700_000_000_000)[:53]
    'Also read: records dated before 2023-11-14 22:13 UTC.'
    """
    from stream_dedup.phrases import moment

    if not 0 <= first < begin:
        return ""
    return (
        f"Also read: records dated before {moment(begin)}. The times of this topic are out of order, and reading "
        "begins at the first record that is not older."
    )


def _print_examples(console: "Console", result: "TrialResult") -> None:
    from rich.text import Text

    from stream_dedup.cli.side_by_side import one_line

    if not result.examples:
        return
    console.print(
        f"\n{len(result.examples)} of the {result.held:,} items that would be held back, each below its original:"
    )
    for example in result.examples:
        console.print(f"\n{example.reason}", style="bold")
        for name, side in (("original ", example.original), ("held back", example.held_back)):
            source = f"{one_line(side.source)}: " if side.source else ""
            text = Text(f"  {name}  {source}{one_line(side.title) or '(no headline) id ' + one_line(side.id)}")
            text.truncate(console.width, overflow="ellipsis")
            console.print(text)
    console.print()


def _print_notes(console: "Console", result: "TrialResult", settings: "Settings", topic: str, seconds: float) -> None:
    import json

    from stream_dedup.phrases import span

    window = settings.window.length_ms
    console.print()
    if result.judging is not None and result.items >= _MEASURED_ITEMS:
        console.print(f"{result.items:,} items in {seconds:.1f} s; each decision took {1e6 * result.judging:,.0f} µs.")
    if result.last - result.first < window:
        console.print(
            f"The index began empty and covers {span(result.last - result.first)} of the window of {span(window)}; a "
            "worker that has run for longer holds back more."
        )
    if result.held:
        console.print(
            "Examples prove little. To measure, run the worker in shadow mode, which lets everything through, and "
            "label its verdicts with `stream-dedup sample DIRECTORY --config FILE`. Its settings:"
        )
        for table, name, value in (
            ("kafka", "bootstrap_servers", json.dumps(settings.kafka.bootstrap_servers)),
            ("topics", "input", json.dumps(topic)),
            ("policy", "shadow", "true"),
        ):
            console.print(f"  [{table}]\n  {name} = {value}", soft_wrap=True)


def _align_right(table: Any, *columns: int) -> None:
    for number in columns:
        table.columns[number].justify = "right"


def _share(count: int, whole: int) -> str:
    return f"{100 * count / whole:.1f} %" if whole else "-"
