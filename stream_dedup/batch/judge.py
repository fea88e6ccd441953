"""Judge lines of files: decode them and ask the Deduplicator. Everything that works on files uses this module.

A Kafka record has a timestamp; a line has only the date in its item (`published`). A line without a date, or with one
in the future, takes the watermark (`Deduplicator.judge`), so the wall clock never changes a verdict: the same file
gives the same verdicts today and tomorrow. Undated lines at the head of a dated file count as of 1970 and are soon
forgotten, while a file without any dates never forgets.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from operator import attrgetter

from stream_dedup.batch.lines import Line
from stream_dedup.batches import batches
from stream_dedup.dedup.batch import Batch, Prepared
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.news.survey import Summary, Survey
from stream_dedup.settings import Settings


def item_of(decode: Decoder, line: Line) -> Item | Tombstone | BadItem:
    """The item of a line, or what is wrong with it."""
    if line.fault is not None:
        return line.fault
    return decode(line.value, None, None, line.input, line.number)


class LineJudge:
    """Judges lines with a Deduplicator. `now` (ms since 1970) bounds how late a line may claim to be.

    `place` makes the text that names a line of an input in the survey.
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
        """The verdicts in the order of the lines. Nothing is remembered before `Deduplicator.apply`."""
        items = [item_of(self._decode, line) for line in lines]
        for line, item in zip(lines, items, strict=True):
            self._survey.add(item, line.value, line.input, line.number)
        return self._dedup.judge(items, self._latest, one_clock=True)

    def summary(self) -> Summary | None:
        """How the lines so far were understood; None if there were none."""
        return summary if (summary := self._survey.summary()).items else None


def judge_lines(
    lines: Iterable[bytes], settings: Settings, clock: Callable[[], float] = time.time
) -> Iterator[Verdict]:
    """The verdict on each line, in order, from an empty index; nothing is written."""
    with closing(Deduplicator(settings)) as dedup:
        for _, batch in judge_batches(dedup, numbered(lines), clock):
            yield from batch.verdicts


def numbered(values: Iterable[bytes]) -> Iterator[Line]:
    """The lines of one input."""
    return (Line(value, 0, number) for number, value in enumerate(values, 1))


def judge_batches(
    dedup: Deduplicator, lines: Iterable[Line], clock: Callable[[], float] = time.time
) -> Iterator[tuple[Prepared, Batch]]:
    """Each batch of lines, prepared and judged. It is applied when the next one is asked for."""
    decode, latest = Decoder(dedup.settings.item), dedup.settings.window.latest(int(clock() * 1000))
    for chunk in batched(lines, dedup.settings):
        ready = dedup.prepare([item_of(decode, line) for line in chunk])
        batch = dedup.judge(ready, latest, one_clock=True)
        yield ready, batch
        dedup.apply(batch)


def batched(lines: Iterable[Line], settings: Settings) -> Iterator[list[Line]]:
    """Cut lines into batches as the Kafka worker cuts records: bounded in number and in bytes."""
    return batches(lines, attrgetter("size"), settings.worker.batch_items, settings.worker.batch_bytes)
