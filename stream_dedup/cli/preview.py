"""Show a feed before a worker runs: `check` shows how it is understood, `trial` what would be held back.

`check` reads files or a topic, and decides nothing. `trial` reads a live topic (kafka/reader.py), judges in memory
(worker/trial.py), and prints counts, sources, how the records were understood, and examples.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from stream_dedup.batch.file_format import FileFormat
from stream_dedup.cli import common
from stream_dedup.cli.common import argument, number, one_line, option, print_table
from stream_dedup.errors import InputError
from stream_dedup.phrases import moment, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from stream_dedup.kafka.reader import LiveReader
    from stream_dedup.news.decode import Decoder
    from stream_dedup.news.item import Item
    from stream_dedup.news.summary import Summary
    from stream_dedup.settings import Settings
    from stream_dedup.worker.trial import Ended, TrialResult

# -- check -----------------------------------------------------------------------------------------------

# The number of records that a survey reads in full before it samples (news/survey.py).
_ITEMS = 1000
_FIRST_ITEMS, _WIDTH = 3, 20  # items that --query shows, and characters of a field


def check_command(
    inputs: Annotated[
        list[str] | None,
        argument("INPUT", "Files of any format that `filter` reads, packed or not, or directories of them; or -."),
    ] = None,
    topic: Annotated[str | None, option("Read this Kafka topic instead, writing nothing and joining no group.")] = None,
    bootstrap: common.BootstrapOption = None,
    items: Annotated[
        int | None, number(f"With --topic: this many records from the end of each partition. Default: {_ITEMS}.", min=1)
    ] = None,
    file_format: common.FormatOption = None,
    query: Annotated[
        str | None, option("Try this query in place of [item] query, and show the items that it gives.", "JMESPATH")
    ] = None,
    config: common.ConfigOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Show what is understood of a feed, before it is judged.

    Fields, dates, sources, bad records, and what looks wrong. Nothing is decided or written. Exit code 1 if the feed is
    empty, or if none of its items can be judged.
    """
    from stream_dedup.news.summary import conclusion

    is_topic = topic is not None
    common.refuse(
        (bool(inputs) == is_topic, "name one or more files (or - for standard input), or a topic with --topic NAME"),
        (bootstrap is not None and not is_topic, "--bootstrap goes with --topic NAME: leave it out"),
        (items is not None and not is_topic, "--items goes with --topic NAME, and files are read whole: leave it out"),
        (file_format is not None and is_topic, "--format says what files hold; a topic has records: leave it out"),
    )
    tables: dict[str, dict[str, Any]] = {"kafka": {"bootstrap_servers": bootstrap}} if bootstrap is not None else {}
    settings = common.settings_of(config, **tables, **({"item": {"query": query}} if query is not None else {}))
    first: list[Item] = []
    if topic is None:
        summary = _of_files(settings, inputs or [], file_format, first)
    else:
        summary = _of_topic(settings, topic, _ITEMS if items is None else items, first)
    if as_json:
        common.print_json(summary.as_json())
    else:
        console = common.CleanConsole()
        common.print_summary(console, summary)
        if query is not None:
            names = ("id", "title", "text", "source", "date")
            rows = [[one_line(each)[:_WIDTH] for each in _shown(item)] for item in first]
            print_table(console, names, rows, "the first items that the query gives")
        console.print(Text(conclusion(summary)), soft_wrap=True)
    if summary.all_bad:
        raise typer.Exit(1)


def _settings(config: Path | None, bootstrap: str | None) -> Settings:
    return common.settings_of(config, kafka={"bootstrap_servers": bootstrap} if bootstrap is not None else {})


def _shown(item: Item) -> tuple[str, ...]:
    return item.id, item.title, item.text, item.source, moment(item.time) if item.time >= 0 else ""


def _of_files(settings: Settings, inputs: list[str], file_format: FileFormat | None, first: list[Item]) -> Summary:
    from stream_dedup.batch.filter_state import as_text
    from stream_dedup.batch.inputs import check_inputs, files_of
    from stream_dedup.batch.lines import LineReader, item_of
    from stream_dedup.news.decode import Decoder

    inputs = files_of(inputs)
    check_inputs(inputs, "; if it is a topic, write --topic {}")
    decode, names = Decoder(settings.item), [as_text(name) for name in inputs]
    lines = LineReader(inputs, file_format, most=settings.worker.max_record_bytes, query=settings.item.query)
    records = ((item_of(decode, line), line.value, line.input, line.number) for line in lines)
    place = lambda index, number: f"{names[index]}:{number}"  # noqa: E731
    return _summarize(settings, decode, records, first, lines.notes, place=place)


def _of_topic(settings: Settings, topic: str, items: int, first: list[Item]) -> Summary:
    from stream_dedup.kafka.reader import TopicReader
    from stream_dedup.news.decode import Decoder

    decode = Decoder(settings.item, settings.registry)

    def decoded(record: Any) -> tuple[Any, ...]:
        place = record.partition, record.offset, record.headers
        return decode(record.value, record.key, record.timestamp, *place), record.value, *place

    with TopicReader(settings) as reader:
        records = map(decoded, reader.all(topic, items))
        return _summarize(
            settings, decode, records, first, is_record=True, place=lambda *at: "/".join(map(str, (topic, *at)))
        )


def _summarize(
    settings: Settings,
    decode: Decoder,
    records: Iterable[tuple[Any, ...]],
    first: list[Item],
    notes: Sequence[str] = (),
    **options: Any,
) -> Summary:
    """Survey records, each an item, its bytes and its place. `first` gets some; `notes`: how they were read."""
    from stream_dedup.news.item import Item
    from stream_dedup.news.survey import Survey

    latest = settings.window.latest(int(time.time() * 1000))
    survey = Survey(decode.read, settings, latest=latest, every=1, **options)  # exact, at 10 µs an item
    survey.notes = notes
    with common.progress_bars() as bars:
        for count, record in enumerate(records, 1):
            survey.add(*record)
            if len(first) < _FIRST_ITEMS and isinstance(record[0], Item):
                first.append(record[0])
            bars("records", count)
    return survey.summary()


# -- trial -----------------------------------------------------------------------------------------------


def trial_command(
    bootstrap: common.BootstrapOption = None,
    input: Annotated[
        str | None,
        typer.Option("--input", "--topic", metavar="TOPIC", help="The topic to read. Default: the settings' input."),
    ] = None,
    since: Annotated[str, option("How far back to begin: 90m, 2h, 7d. Default: 24h.", "DURATION")] = "24h",
    items: Annotated[int, number("End after this many items.", min=1)] = 10_000,
    minutes: Annotated[
        float | None,
        number("End after this many minutes, waiting for new items. Default: end at the end of the topic.", min=0.01),
    ] = None,
    report: common.ReportOption = None,
    force: common.ForceOption = False,
    config: common.ConfigOption = None,
    as_json: common.JsonOption = False,
) -> None:
    """Show what a worker would hold back of a live topic.

    It writes nothing to Kafka, joins no group and commits nothing. It decides in memory with these settings, as a
    worker would. Ctrl-C ends it and shows the results so far. Exit code 1 if the topic cannot be read, has no items, or
    none of them can be judged.
    """
    from stream_dedup.kafka.reader import LiveReader
    from stream_dedup.worker.trial import Trial, run_trial

    begin = common.begin_ms(since)
    settings = _settings(config, bootstrap)
    topic = settings.topics.input if input is None else input
    stop = common.stop_on_signals()
    started = time.monotonic()
    page = common.report_of(settings, report, topic)
    with (
        common.report_output(report, force) as write,
        LiveReader(settings, topic) as reader,
        Trial(settings, topic, look=page.add if page else None) as trial,
    ):
        expected = reader.begin(begin)
        if not expected and minutes is None:
            raise InputError(_no_items(reader, begin))
        seconds = None if minutes is None else minutes * 60
        total = min(items, expected) if minutes is None else None
        with common.progress_bars() as bars:

            def update() -> None:
                state = "at the end, waiting" if reader.caught_up else "reading"
                bars("trial", trial.items, total, f"{trial.items:,} items, {trial.held:,} held back, {state}")

            ended, error = run_trial(reader, trial, items=items, seconds=seconds, stop=stop.is_set, on_progress=update)
        if not trial.items:
            raise error or InputError(_no_items(reader, begin))
        result = trial.result()
        if page:
            write(page.html())
    console = common.result_console(report)
    if as_json:
        common.print_json({"topic": topic, "ended": str(ended), **result.as_json()}, err=console.stderr)
    else:
        _print(console, result, ended, settings, topic, time.monotonic() - started)
    if error is not None:
        raise error
    if result.summary.all_bad:
        raise InputError(f"none of the {result.items:,} items of {topic} can be judged; see the reasons above")


def _no_items(reader: LiveReader, begin: int) -> str:
    if reader.is_empty:
        return f"{reader.topic} is empty; to wait for new items, add --minutes 10"
    return (
        f"{reader.topic} has had no records since {moment(begin)}; begin earlier (--since 30d), or wait for new ones "
        "(--minutes 10)"
    )


_ENDED = {
    "items": "ended after --items",
    "minutes": "ended after --minutes",
    "caught up": "ended at the end of the topic",
    "stopped": "ended by Ctrl-C",
    "failed": "ended because Kafka could not be read any further",
}


def _print(console: Console, result: TrialResult, ended: Ended, settings: Settings, topic: str, seconds: float) -> None:
    from stream_dedup.dedup.verdict import STAGES

    console.print(f"{topic}, {moment(result.first)} to {moment(result.last)}; {_ENDED[ended]}. Nothing was written.")
    actions = {
        "unique": "let through",
        "update": "hold back" if settings.policy.updates == "drop" else "let through as an update",
        "duplicate": "hold back",
        "bad": "send to the dead letters",
        "tombstone": "let through, forget the original",
    }
    verdicts = [
        (str(kind), count, _share(count, result.items), actions[kind])
        for kind, count in result.verdicts.items()
        if count or kind != "tombstone"
    ]
    stages = [(STAGES[name], count, _share(count, result.held_back)) for name, count in result.stages.items()]
    sources = [
        (one_line(one.source) or "(none)", one.items, one.held_back, _share(one.held_back, one.items))
        for one in result.sources
    ]
    print_table(
        console, ("verdict", "items", "share", "what a worker would do"), [*verdicts, ("all", result.items, "", "")]
    )
    if stages:
        print_table(console, ("held back because of", "items", "share"), stages)
    if sources:
        print_table(console, ("source", "items", "held back", "share"), sources)
    common.print_rules(console, settings, result.rules)
    common.print_short_summary(console, result.summary)
    for reason in result.summary.reasons:
        console.print(f"bad: {one_line(reason)}")
    _print_examples(console, result)
    _print_notes(console, result, settings, topic, seconds)


def _print_examples(console: Console, result: TrialResult) -> None:
    if not result.examples:
        return
    console.print(
        f"\n{len(result.examples)} of the {result.held_back:,} items that would be held back, each below its original, "
        "the least doubtful first:"
    )
    for example in result.examples:
        console.print(f"\n{example.reason}", style="bold")
        for name, side in (("original ", example.original), ("held back", example.held_back)):
            source = f"{one_line(side.source)}: " if side.source else ""
            text = Text(f"  {name}  {source}{one_line(side.title) or '(no headline) id ' + one_line(side.id)}")
            text.truncate(console.width, overflow="ellipsis")
            console.print(text)
    console.print()


def _print_notes(console: Console, result: TrialResult, settings: Settings, topic: str, seconds: float) -> None:
    window = settings.window.length_ms
    console.print()
    console.print(f"{result.items:,} items in {seconds:.1f} s.")
    if result.last - result.first < window:
        console.print(
            f"The index began empty and covers {span(result.last - result.first)} of the window of {span(window)}; a "
            "worker that has run for longer holds back more."
        )
    if result.held_back:
        console.print(
            "Examples prove little. To measure, run the worker in shadow mode, which lets everything through, and "
            "label its verdicts with `stream-dedup sample DIRECTORY --config FILE`. FILE has, beside your settings:"
        )
        console.print(
            f"  [kafka]\n  bootstrap_servers = {json.dumps(settings.kafka.bootstrap_servers)}\n"
            f"  [topics]\n  input = {json.dumps(topic)}\n  [policy]\n  shadow = true",
            soft_wrap=True,
        )


def _share(count: int, whole: int) -> str:
    return f"{100 * count / whole:.1f} %" if whole else "-"
