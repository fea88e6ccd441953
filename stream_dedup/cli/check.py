"""`stream-dedup check FILE...` (or `--topic NAME`): show how the program understands a feed, before it decides."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_dedup.cli.common import ConfigOption, JsonOption, new_console, print_json
from stream_dedup.cli.pipes import FormatOption
from stream_dedup.errors import UsageError

if TYPE_CHECKING:
    from stream_dedup.batch.tables import FileFormat
    from stream_dedup.news.decode import DecodedRecord
    from stream_dedup.news.survey import Summary, Survey
    from stream_dedup.settings import Settings

# The number of records that a survey reads in full before it samples (news/survey.py).
_ITEMS = 1000


def check_command(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT", help="JSON Lines, .csv, .tsv or .parquet, packed or not, as `filter` reads them; or -."
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="Read this Kafka topic instead: nothing is written, no group is joined."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option("--bootstrap", metavar="HOST:PORT", help="With --topic: the brokers. Default: the settings'."),
    ] = None,
    items: Annotated[
        int | None,
        typer.Option(
            "--items",
            metavar="NUMBER",
            min=1,
            help=f"With --topic: this many records from the end of each partition. Default: {_ITEMS}.",
        ),
    ] = None,
    file_format: FormatOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is understood of a feed, before it is judged.

    Fields, dates, sources, bad records, and what looks wrong. Nothing is decided or written. Exit code 1 if
    there is nothing, or nothing that can be judged.
    """
    from stream_dedup.cli.summary import print_summary
    from stream_dedup.settings import load_settings

    if bool(inputs) == (topic is not None):
        raise UsageError("name one or more files (or - for standard input), or a topic with --topic NAME")
    wrong = {
        "--bootstrap goes with --topic NAME": bootstrap is not None and topic is None,
        "--items goes with --topic NAME: a file is read to its end": items is not None and topic is None,
        "--format says what files hold; a topic has records": file_format is not None and topic is not None,
    }
    for reason, applies in wrong.items():
        if applies:
            raise UsageError(f"{reason}: leave it out")
    settings = load_settings(config, kafka={} if bootstrap is None else {"bootstrap_servers": bootstrap})
    if topic is not None:
        summary = _of_topic(settings, topic, _ITEMS if items is None else items)
    else:
        summary = _of_files(settings, inputs or [], file_format)
    if as_json:
        print_json(summary.as_json())
    else:
        print_summary(new_console(), summary)
    if summary.all_bad:
        raise typer.Exit(1)


def _of_files(settings: "Settings", inputs: list[str], file_format: "FileFormat | None") -> "Summary":
    from stream_dedup.batch.lines import LineReader, item_of
    from stream_dedup.batch.outputs import check_inputs
    from stream_dedup.batch.state import as_text
    from stream_dedup.cli.console import progress_bars
    from stream_dedup.news.decode import Decoder

    check_inputs(inputs, "; if it is a topic, write --topic {}")
    decode, names = Decoder(settings.item), [as_text(name) for name in inputs]
    survey = _survey(settings, decode.read, place=lambda index, number: f"{names[index]}:{number}")
    with progress_bars() as bars:
        for count, line in enumerate(LineReader(inputs, file_format, most=settings.worker.max_record_bytes), 1):
            survey.add(item_of(decode, line), line.value, line.input, line.number)
            bars("records", count)
    return survey.summary()


def _of_topic(settings: "Settings", topic: str, items: int) -> "Summary":
    from stream_dedup.cli.console import progress_bars
    from stream_dedup.kafka.reader import TopicReader  # loading the client takes as long as reading a file
    from stream_dedup.news.decode import Decoder

    decode = Decoder(settings.item)
    survey = _survey(
        settings, decode.read, is_record=True, place=lambda partition, offset: f"{topic}/{partition}/{offset}"
    )
    with progress_bars() as bars, TopicReader(settings) as reader:
        for count, record in enumerate(reader.last(topic, items), 1):
            place = record.partition, record.offset
            survey.add(decode(record.value, record.key, record.timestamp, *place), record.value, *place)
            bars("records", count)
    return survey.summary()


def _survey(settings: "Settings", read: "Callable[[bytes], DecodedRecord]", **options: Any) -> "Survey":
    from stream_dedup.news.survey import Survey

    latest = settings.window.latest(int(time.time() * 1000))
    return Survey(read, settings, latest=latest, every=1, **options)  # exact, at 10 µs an item
