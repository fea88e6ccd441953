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

from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.news.decode import Decoder
from stream_dedup.news.summary import Summary
from stream_dedup.news.survey import Survey
from stream_dedup.settings import Settings


class Line(NamedTuple):
    """One line and its place: the input's number and the line's, which become the item's partition and offset."""

    value: bytes
    input: int
    number: int


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
        self._latest = now + int(dedup.settings.window.future.total_seconds() * 1000)
        length = int(dedup.settings.window.length.total_seconds() * 1000)
        self._survey = Survey(self._decode.read, dedup.settings.item, latest=self._latest, window=length, place=place)

    def judge(self, lines: Sequence[Line]) -> Batch:
        """Verdicts in the lines' order; nothing is remembered before `Deduplicator.apply`."""
        items = [self._decode(line.value, None, None, line.input, line.number) for line in lines]
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
    batch: list[Line] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line.value)
        if len(batch) >= settings.worker.batch_items or size >= settings.worker.batch_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
