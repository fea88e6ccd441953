"""`trial` shows what a worker would hold back of a live topic.

It reads the topic (tools/topics/live_reader.py), judges in memory (tools/topics/trial.py), and prints counts, sources,
how the records were understood, and examples.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

from stream_dedup import cli
from stream_dedup.cli import option
from stream_dedup.errors import InputError
from stream_dedup.phrases import moment, span
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import number
from stream_dedup.tools.terminal import Console, ProgressLine, cut, one_line, print_table

if TYPE_CHECKING:
    from stream_dedup.settings import Settings
    from stream_dedup.tools.topics.live_reader import LiveReader
    from stream_dedup.tools.topics.trial import Ended, TrialResult


def trial_command(
    bootstrap: shared.BootstrapOption = None,
    input: Annotated[
        str | None,
        option("The topic to read. Default: the settings' input.", "TOPIC", "--input", "--topic"),
    ] = None,
    since: Annotated[str, option("How far back to begin: 90m, 2h, 7d. Default: 24h.", "DURATION")] = "24h",
    items: Annotated[int, number("End after this many items.", min=1)] = 10_000,
    minutes: Annotated[
        float | None,
        number("End after this many minutes, waiting for new items. Default: end at the end of the topic.", min=0.01),
    ] = None,
    report: shared.ReportOption = None,
    force: shared.ForceOption = False,
    config: cli.ConfigOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Show what a worker would hold back of a live topic.

    It writes nothing to Kafka, joins no group and commits nothing. It decides in memory with these settings, as a
    worker would. Ctrl-C ends it and shows the results so far. Exit code 1 if the topic cannot be read, has no items, or
    none of them can be judged.
    """
    from stream_dedup.tools.topics.live_reader import LiveReader
    from stream_dedup.tools.topics.trial import Trial, run_trial

    begin = shared.begin_ms(since)
    settings = cli.settings_of(config, kafka={"bootstrap_servers": bootstrap})
    topic = settings.topics.input if input is None else input
    stop = cli.stop_on_signals()
    started = time.monotonic()
    page = shared.report_of(settings, report, topic)
    with (
        shared.report_output(report, force) as write,
        LiveReader(settings, topic) as reader,
        Trial(settings, topic, look=page.add if page else None) as trial,
    ):
        expected = reader.begin(begin)
        if not expected and minutes is None:
            raise InputError(_no_items(reader, begin))
        seconds = None if minutes is None else minutes * 60
        total = min(items, expected) if minutes is None else None
        with ProgressLine() as status:

            def update() -> None:
                state = "at the end, waiting" if reader.caught_up else "reading"
                status("trial", trial.items, total, f"{trial.items:,} items, {trial.held:,} held back, {state}")

            ended, error = run_trial(reader, trial, items=items, seconds=seconds, stop=stop.is_set, on_progress=update)
        if not trial.items:
            raise error or InputError(_no_items(reader, begin))
        result = trial.result()
        if page:
            write(page.html())
    console = shared.result_console(report)
    if as_json:
        shared.print_json({"topic": topic, "ended": str(ended), **result.as_json()}, err=console.stderr)
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
    from stream_dedup.tools.wording import STAGES

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
        (one_line(source.source) or "(none)", source.items, source.held_back, _share(source.held_back, source.items))
        for source in result.sources
    ]
    print_table(
        console, ("verdict", "items", "share", "what a worker would do"), [*verdicts, ("all", result.items, "", "")]
    )
    if stages:
        print_table(console, ("held back because of", "items", "share"), stages)
    if sources:
        print_table(console, ("source", "items", "held back", "share"), sources)
    shared.print_rules(console, settings, result.rules)
    shared.print_short_summary(console, result.summary)
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
            text = f"  {name}  {source}{one_line(side.title) or '(no headline) id ' + one_line(side.id)}"
            console.print(cut(text, console.width))
    console.print()


def _print_notes(console: Console, result: TrialResult, settings: Settings, topic: str, seconds: float) -> None:
    window = settings.window.length_ms
    console.print()
    console.print(f"{result.items:,} items in {seconds:.1f} s.")
    begin, end, dates = result.first, result.last, result.summary.dates
    if settings.item.time == "published" and dates.earliest is not None and dates.latest is not None:
        begin, end = dates.earliest, dates.latest
    if end - begin < window:
        console.print(
            f"The index began empty and covers {span(end - begin)} of the window of {span(window)}; a worker that has "
            "run for longer holds back more."
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
