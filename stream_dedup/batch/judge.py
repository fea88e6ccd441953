"""Lines of a file -> verdicts: decoding and the Deduplicator, the same for all that works on files.

A Kafka record has a timestamp; a line has what it says of itself (`published`). A line that says nothing, or a
moment that lies in the future, takes the watermark (`Deduplicator.judge`), so the clock on the wall never enters
a verdict: the same file gives the same verdicts today and tomorrow. Undated lines at the head of a dated file count
as of 1970 and are soon forgotten, while a file without any dates never forgets.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from stream_dedup.batch.lines import InputLines
from stream_dedup.batch.rows import Form, Kept, form_of
from stream_dedup.batches import batches
from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import BadItem, ConfigError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.news.summary import Summary
from stream_dedup.news.survey import Survey
from stream_dedup.settings import Settings


class Line(NamedTuple):
    """One line and its place: the input's number and the line's, which become the item's partition and offset.

    Of a table's row `value` is its JSON object, `kept` the row as it came, `fault` why it is none.
    """

    value: bytes
    input: int
    number: int
    kept: Kept | None = None
    fault: str = ""


def line_of(reading: InputLines, value: bytes, input: int) -> Line:
    """The line that was just read."""
    return Line(value, input, reading.number, reading.kept, reading.fault)


def item_of(decode: Decoder, line: Line) -> Item | Tombstone | BadItem:
    """The item of a line, or what is wrong with it; `row` is the reason where a table has no such row."""
    if line.fault:
        return BadItem("row", line.fault)
    return decode(line.value, None, None, line.input, line.number)


def check_items(inputs: Sequence[str], form: Form | None, settings: Settings) -> None:
    """Raises ConfigError where the settings ask for raw text, and an input is a table."""
    for one in inputs:
        if settings.item.format == "text" and (form or form_of(one)) is not Form.JSONL:
            raise ConfigError(
                f"[item] format = 'text' takes each line as one text, but {one} is a table with columns; with 'json' "
                "each row is read by the names of its columns"
            )


class LineJudge:
    """Judges lines with a Deduplicator. `now` (ms since 1970) bounds how late a line may say it is.

    `place` names an input and a line of it in what the survey says.
    """

    def __init__(
        self,
        dedup: Deduplicator,
        now: int,
        place: Callable[[int, int], str] = lambda number, line: f"{number}:{line}",
    ) -> None:
        self._dedup = dedup
        self._decode = Decoder(dedup.settings.item)
        self._latest = dedup.settings.window.latest(now)
        self._survey = Survey(self._decode.read, dedup.settings, latest=self._latest, place=place)

    def judge(self, lines: Sequence[Line]) -> Batch:
        """Verdicts in the lines' order; nothing is remembered before `Deduplicator.apply`."""
        items = [item_of(self._decode, line) for line in lines]
        for line, item in zip(lines, items, strict=True):
            self._survey.add(item, line.value, line.input, line.number)
        return self._dedup.judge(items, self._latest, one_clock=True)

    def summary(self) -> Summary:
        """What the lines so far were understood to be."""
        return self._survey.summary()


def judge_lines(
    lines: Iterable[bytes], settings: Settings, clock: Callable[[], float] = time.time
) -> Iterator[Verdict]:
    """The verdict of each line, in order, from an empty memory; nothing is written. See `LineJudge`."""
    with closing(Deduplicator(settings)) as dedup:
        judge = LineJudge(dedup, int(clock() * 1000))
        numbered = (Line(value, 0, number) for number, value in enumerate(lines, 1))
        for batch_of in batched(numbered, settings):
            batch = judge.judge(batch_of)
            dedup.apply(batch)
            yield from batch.verdicts


def batched(lines: Iterable[Line], settings: Settings) -> Iterator[list[Line]]:
    """As many lines at a time as the worker on Kafka takes records: bounded in number and in bytes."""
    return batches(lines, bytes_of, settings.worker.batch_items, settings.worker.batch_bytes)


def bytes_of(line: Line) -> int:
    return len(line.value)
