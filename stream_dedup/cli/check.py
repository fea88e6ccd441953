"""`stream-dedup check FILE...` (or `--topic NAME`): what the program understands of a feed, before it decides."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_dedup.cli.common import ConfigOption, JsonOption, new_console
from stream_dedup.cli.pipes import FormatOption
from stream_dedup.errors import ConfigError, InputError

if TYPE_CHECKING:
    from rich.progress import Progress

    from stream_dedup.batch.rows import Form
    from stream_dedup.news.decode import DecodedRecord
    from stream_dedup.news.summary import Summary
    from stream_dedup.news.survey import Survey
    from stream_dedup.settings import Settings

# As many as are read in full before a survey only samples (news/survey.py).
_ITEMS = 1000
# So often a person is told how far it is.
_TOLD = 1000


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
        int,
        typer.Option(
            "--items", metavar="NUMBER", min=1, help="With --topic: so many records from the end of each partition."
        ),
    ] = _ITEMS,
    form: FormatOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is understood of a feed, before it is judged.

    Fields, dates, languages, sources, what is bad, and what looks wrong. Nothing is decided or written. Exit code 1 if
    there is nothing, or nothing that can be judged.
    """
    import msgspec

    from stream_dedup.cli.summary import print_summary
    from stream_dedup.settings import load_settings

    if inputs and topic:
        raise ConfigError("check reads files or, with --topic NAME, a topic: leave one of them out")
    if not inputs and not topic:
        raise ConfigError("name one or more files (or - for standard input), or a topic with --topic NAME")
    if bootstrap is not None and topic is None:
        raise ConfigError("--bootstrap goes with --topic NAME")
    settings = load_settings(config, kafka={"bootstrap_servers": bootstrap} if bootstrap else {})
    summary = _of_topic(settings, topic, items) if topic else _of_files(settings, inputs or [], form)
    if as_json:
        sys.stdout.write(msgspec.json.encode(summary.as_json()).decode() + "\n")
    else:
        print_summary(new_console(), summary)
    if summary.all_bad:
        raise typer.Exit(1)


def _of_files(settings: "Settings", inputs: list[str], form: "Form | None") -> "Summary":
    from stream_dedup.batch.judge import check_items, item_of, line_of
    from stream_dedup.batch.lines import STDIN, InputLines, is_blank
    from stream_dedup.news.decode import Decoder

    if inputs.count(STDIN) > 1:
        raise InputError("standard input (-) can be read only once")
    for name in inputs:
        if name != STDIN and not Path(name).exists():
            raise InputError(f"there is no file {name}; if it is a topic, write --topic {name}")
        if Path(name).is_dir():
            raise InputError(f"{name} is a directory; name its files")
    check_items(inputs, form, settings)
    decode = Decoder(settings.item)
    survey = _survey(settings, decode.read, place=lambda part, number: f"{inputs[part]}:{number}")
    with _progress() as tell:
        for part, name in enumerate(inputs):
            with InputLines(name, form) as lines:
                for value in lines:
                    if not is_blank(value):
                        survey.add(item_of(decode, line_of(lines, value, part)), value, part, lines.number)
                    tell()
    return survey.summary()


def _of_topic(settings: "Settings", topic: str, count: int) -> "Summary":
    from stream_dedup.news.decode import Decoder
    from stream_dedup.stream.topic_reader import TopicReader  # the client takes as long to load as a file to be read

    decode = Decoder(settings.item)
    survey = _survey(settings, decode.read, is_record=True, place=lambda part, number: f"{topic}/{part}/{number}")
    with _progress() as tell, TopicReader(settings) as reader:
        for record in reader.last(topic, count):
            place = record.partition, record.offset
            survey.add(decode(record.value, record.key, record.timestamp, *place), record.value, *place)
            tell()
    return survey.summary()


def _survey(settings: "Settings", read: "Callable[[bytes], DecodedRecord]", **more: Any) -> "Survey":
    from stream_dedup.news.survey import Survey

    latest = settings.window.latest(int(time.time() * 1000))
    return Survey(read, settings, latest=latest, every=1, **more)  # exact, at 10 µs an item


class _Tell:
    def __init__(self, bars: "Progress") -> None:
        self._bars, self._task, self._count = bars, bars.add_task("check", total=None, records="0"), 0

    def __call__(self) -> None:
        self._count += 1
        if self._count % _TOLD == 0:
            self._bars.update(self._task, records=f"{self._count:,}")


@contextmanager
def _progress() -> Iterator[_Tell]:
    from rich.progress import Progress, TextColumn

    console = new_console(stderr=True)
    column = TextColumn("{task.fields[records]} records read")
    with Progress(column, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield _Tell(bars)
