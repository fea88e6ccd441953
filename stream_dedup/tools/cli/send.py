"""`send`: put the items of files, or tombstones, into a topic; tools/topics/send.py sends them."""

from __future__ import annotations

import sys
from itertools import chain
from threading import Event
from typing import TYPE_CHECKING, Annotated

import click

from stream_dedup import cli
from stream_dedup.cli import option
from stream_dedup.errors import BadItem, InputError, StreamError
from stream_dedup.phrases import counted
from stream_dedup.tools.cli import shared
from stream_dedup.tools.cli.shared import argument
from stream_dedup.tools.terminal import ProgressLine, one_line, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stream_dedup.settings import Settings
    from stream_dedup.tools.topics.send import Record

# If none of so many items can be judged, it is the wrong file, or the settings are wrong.
_FIRST = 100
_MOST_LISTED = 10


def send_command(
    inputs: Annotated[
        tuple[str, ...],
        argument("INPUT", "Files of any format that `filter` reads, packed or not, or directories of them; or -."),
    ] = (),
    tombstone: Annotated[
        tuple[str, ...], option("Send a tombstone, which withdraws the item of this id. Repeatable.", "ID")
    ] = (),
    topic: Annotated[str | None, option("The topic to write to. Default: the settings' input.")] = None,
    config: cli.ConfigOption = None,
) -> None:
    """Send the items of files to the input topic.

    Each item becomes a record as it stands, with its id as the key and the present time as the timestamp. Says how many
    were sent, how many of them cannot be judged, and what could not be sent, with exit code 1. Ctrl-C ends it.
    """
    from stream_dedup.tools.topics.send import Record, Sender

    shared.refuse((not inputs and not tombstone, "name one or more files (or - for standard input), or --tombstone ID"))
    settings = cli.settings_of(config)
    name = settings.topics.input if topic is None else topic
    items = _Items(settings, inputs)
    withdrawn = [Record(item_id.encode(), None, place=f"--tombstone {item_id}") for item_id in tombstone]
    with ProgressLine() as status:
        records = items.records(lambda count: status("sending", count))
        sender = Sender(settings, name, chain(records, withdrawn), Event(), refuse=items.refuse)
        try:
            sender.run()
        except KeyboardInterrupt:
            warn(f"ended by Ctrl-C: up to {counted(sender.sent, 'record')} went to {name}")
            raise
        except (StreamError, InputError) as error:
            if not sender.sent:
                raise
            raise type(error)(
                f"{error}; of {counted(sender.sent, 'record')} the last may be missing in {name}. Send all again: a "
                "worker holds back what comes twice, by its id"
            ) from error
    click.echo(f"sent {counted(sender.sent, 'record')} to {name}")
    items.report(settings)
    if items.refused:
        sys.exit(1)


class _Items:
    """The items of files as records. Counts those that cannot be judged, have no id, or are refused."""

    def __init__(self, settings: Settings, inputs: Sequence[str]) -> None:
        from stream_dedup.news.decode import Decoder
        from stream_dedup.tools.inputs.packing import as_text, check_inputs, files_of

        self._inputs, self._query = files_of(inputs), settings.item.query
        check_inputs(self._inputs)
        self._names = [as_text(name) for name in self._inputs]
        self._decode = Decoder(settings.item)
        self._bad, self._first_bad, self._without_id = 0, "", 0
        self.refused = 0
        self._listed: list[str] = []  # the first that are refused, and why

    def records(self, report: Callable[[int], None]) -> Iterator[Record]:
        """Yield a record for each item. Raises InputError, before any, if none of the first ones can be judged."""
        every = enumerate(self._all(), 1)
        first: list[Record] = []
        for count, record in every:
            first.append(record)
            if self._bad < count or count == _FIRST:
                break
        if first and self._bad == len(first):
            raise InputError(
                f"nothing was sent: none of the first {len(first)} can be judged. "
                f"{self._first_bad}. `stream-dedup check` shows how a file is read"
            )
        if self._inputs and not first:  # no error: an hour may bring no news
            warn("the input is empty: it has no items")
        yield from first
        for count, record in every:
            report(count)
            yield record

    def _all(self) -> Iterator[Record]:
        from stream_dedup.tools.inputs.lines import LineReader
        from stream_dedup.tools.topics.send import Record, key_of

        for line in LineReader(self._inputs, query=self._query):
            place = f"{self._names[line.input]}:{line.number}"
            if line.fault is not None:  # it could not be read whole
                self._refuse(place, str(line.fault))
                continue
            item = self._decode(line.value, None, None)
            if isinstance(item, BadItem):
                self._bad += 1
                self._first_bad = self._first_bad or f"{place}: {item}"
            key = key_of(item)
            self._without_id += key is None
            yield Record(key, line.value, place=place)

    def refuse(self, record: Record, problem: str) -> None:
        """Note a record that the topic does not take."""
        self._refuse(record.place, problem)

    def _refuse(self, place: str, problem: str) -> None:
        self.refused += 1
        if self.refused <= _MOST_LISTED:
            self._listed.append(f"{place}: {problem}")

    def report(self, settings: Settings) -> None:
        """Print what a person should know of what was sent, and what was not."""
        if self._without_id:
            warn(
                f"{counted(self._without_id, 'record')} without an id, and so without a key; a worker takes the place "
                "in the topic as the id"
            )
        if self._bad:
            warn(
                f"{counted(self._bad, 'record')} that cannot be judged: a worker puts them into "
                f"{settings.topics.dead_letters}. The first: {one_line(self._first_bad)}"
            )
        for problem in self._listed:
            warn(f"not sent: {one_line(problem)}")
        if self.refused > _MOST_LISTED:
            warn(f"not sent: {self.refused - _MOST_LISTED:,} more")
