"""`check` shows how a feed is understood, before a worker runs. It reads files or a topic, and decides nothing."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

from stream_dedup import cli
from stream_dedup.cli import option
from stream_dedup.phrases import moment
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import argument, number
from stream_dedup.tools.inputs.file_format import FileFormat
from stream_dedup.tools.terminal import Console, ProgressLine, cut, one_line, print_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stream_dedup.news.decode import Decoder
    from stream_dedup.news.item import Item
    from stream_dedup.settings import Settings
    from stream_dedup.tools.survey.summary import Summary

# The number of records that a survey reads in full before it samples (tools/survey/survey.py).
_ITEMS = 1000
_FIRST_ITEMS, _WIDTH = 3, 20  # items that --query shows, and characters of a field


def check_command(
    inputs: Annotated[
        tuple[str, ...],
        argument("INPUT", "Files of any format that `filter` reads, packed or not, or directories of them; or -."),
    ] = (),
    topic: Annotated[str | None, option("Read this Kafka topic instead, writing nothing and joining no group.")] = None,
    bootstrap: shared.BootstrapOption = None,
    items: Annotated[
        int | None, number(f"With --topic: this many records from the end of each partition. Default: {_ITEMS}.", min=1)
    ] = None,
    file_format: shared.FormatOption = None,
    query: Annotated[
        str | None, option("Try this query in place of [item] query, and show the items that it gives.", "JMESPATH")
    ] = None,
    config: cli.ConfigOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Show what is understood of a feed, before it is judged.

    Fields, dates, sources, bad records, and what looks wrong. Nothing is decided or written. Exit code 1 if the feed is
    empty, or if none of its items can be judged.
    """
    from stream_dedup.tools.survey.summary import conclusion

    is_topic = topic is not None
    shared.refuse(
        (bool(inputs) == is_topic, "name one or more files (or - for standard input), or a topic with --topic NAME"),
        (bootstrap is not None and not is_topic, "--bootstrap goes with --topic NAME: leave it out"),
        (items is not None and not is_topic, "--items goes with --topic NAME, and files are read whole: leave it out"),
        (file_format is not None and is_topic, "--format says what files hold; a topic has records: leave it out"),
    )
    settings = cli.settings_of(config, kafka={"bootstrap_servers": bootstrap}, item={"query": query})
    first: list[Item] = []
    if topic is None:
        summary = _of_files(settings, inputs, file_format, first)
    else:
        summary = _of_topic(settings, topic, _ITEMS if items is None else items, first)
    if as_json:
        shared.print_json(summary.as_json())
    else:
        console = Console()
        _print_summary(console, summary)
        if query is not None:
            names = ("id", "title", "text", "source", "date")
            rows = [[one_line(value)[:_WIDTH] for value in _shown(item)] for item in first]
            print_table(console, names, rows, "the first items that the query gives")
        console.print(conclusion(summary), soft_wrap=True)
    if summary.all_bad:
        sys.exit(1)


# Width of the table of fields without its samples.
_COLUMNS_BESIDE_SAMPLE = 40


def _print_summary(console: Console, summary: Summary) -> None:
    """Print a whole survey in 80 columns: its fields as a table, the other figures, reasons of bad items, warnings."""
    from stream_dedup.news.names import FIELDS
    from stream_dedup.tools.survey.summary import rows_of, share

    if summary.looked:
        fields = []
        for name in FIELDS:
            stands_in = "the site of its url" if name == "source" and summary.largest else ""
            sample = cut(summary.samples.get(name, stands_in), max(console.width - _COLUMNS_BESIDE_SAMPLE, 10))
            fields.append((name, share(summary, name), summary.filled[name], sample))
        print_table(console, ("field", "filled", "items", "first value"), fields)
    shared.print_rows(console, [row for row in rows_of(summary) if row[0] != "filled"])
    shared.print_reasons(console, summary)
    shared.print_notes(console, summary)


def _shown(item: Item) -> tuple[str, ...]:
    return item.id, item.title, item.text, item.source, moment(item.time) if item.time >= 0 else ""


def _of_files(settings: Settings, given: Sequence[str], file_format: FileFormat | None, first: list[Item]) -> Summary:
    from stream_dedup.news.decode import Decoder
    from stream_dedup.tools.inputs.lines import LineReader, item_of
    from stream_dedup.tools.inputs.packing import as_text, check_inputs, files_of

    inputs = files_of(given)
    check_inputs(inputs, "; if it is a topic, write --topic {}")
    decode, names = Decoder(settings.item), [as_text(name) for name in inputs]
    lines = LineReader(inputs, file_format, most=settings.worker.max_record_bytes, query=settings.item.query)
    records = ((item_of(decode, line), line.value, line.input, line.number) for line in lines)
    place = lambda index, number: f"{names[index]}:{number}"  # noqa: E731
    return _summarize(settings, decode, records, first, lines.notes, place=place)


def _of_topic(settings: Settings, topic: str, items: int, first: list[Item]) -> Summary:
    from stream_dedup.news.decode import Decoder
    from stream_dedup.tools.topics.reader import TopicReader

    decode = Decoder(settings.item, settings.registry)

    def decoded(record: Any) -> tuple[Any, ...]:
        place = record.partition, record.offset, record.headers
        return decode(record.value, record.key, record.timestamp, *place), record.value, *place

    with TopicReader(settings) as reader:
        records = map(decoded, reader.all(topic, items))
        return _summarize(
            settings,
            decode,
            records,
            first,
            is_record=True,
            place=lambda *position: "/".join(map(str, (topic, *position))),
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
    from stream_dedup.tools.survey.survey import Survey

    latest = settings.window.latest(int(time.time() * 1000))
    survey = Survey(decode.read, settings, latest=latest, every=1, **options)  # exact, at 10 µs an item
    survey.notes = notes
    with ProgressLine() as status:
        for count, record in enumerate(records, 1):
            survey.add(*record)
            if len(first) < _FIRST_ITEMS and isinstance(record[0], Item):
                first.append(record[0])
            status("records", count)
    return survey.summary()
