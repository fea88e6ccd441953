"""What a worker would hold back of a live topic, found out in memory: records in, counts and examples out.

In: a `Reading`. Out: `Trial.result()` at any time. Why: before anybody lets the program near a topic that others depend
on they want to see its verdicts on their own news. They are those of a worker that reads the same records with the same
settings and an empty memory; only what depends on the topics a worker writes to is left out (records too large for
them, or without the key that a compacted one needs). Nothing is written anywhere.
"""

import random
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import Any, NamedTuple

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Evidence, Kind, Stage, Verdict
from stream_dedup.errors import StreamError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.news.summary import Summary, span
from stream_dedup.news.survey import Survey
from stream_dedup.settings import Settings
from stream_dedup.stream.judge import item_of
from stream_dedup.stream.live_reader import LiveReader

EXAMPLES = 10
# Headlines of originals that are kept for the examples, some 200 bytes each; of an older original none is shown.
_HEADLINES = 200_000
_HEADLINE = 200  # characters
_SOURCES = 10


class Ended(StrEnum):
    """Why a trial ended."""

    ITEMS = "items"
    MINUTES = "minutes"
    CAUGHT_UP = "caught up"
    STOPPED = "stopped"
    FAILED = "failed"  # Kafka could not be read any further


class Headline(NamedTuple):
    """Of an item, as much as an example shows."""

    id: str
    title: str
    source: str
    time: int


@dataclass(frozen=True, slots=True)
class Example:
    """Something that would be held back, and the original it repeats; `reason` is for a person."""

    original: Headline
    held_back: Headline
    stage: Stage
    reason: str


@dataclass(frozen=True, slots=True)
class TrialResult:
    """`held`: items that would be held back, of them `stages`: by the stage that settled it. `sources`: (source, its
    items, of them held back) of those with most held back. `first`, `last`: timestamps of the records, ms.
    `judging`: seconds that the decision took an item, without the first batch, which loads the kernels; None: there was
    but one.
    """

    items: int
    verdicts: dict[Kind, int]
    held: int
    stages: dict[Stage, int]
    sources: list[tuple[str, int, int]]
    examples: list[Example]
    odd_times: dict[str, int]
    evicted: int
    first: int
    last: int
    judging: float | None
    summary: Summary

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "items": self.items,
            "verdicts": {str(kind): count for kind, count in self.verdicts.items()},
            "held_back": self.held,
            "stages": {str(stage): count for stage, count in self.stages.items()},
            "sources": [{"source": name, "items": items, "held_back": held} for name, items, held in self.sources],
            "examples": [
                {
                    "original": one.original._asdict(),
                    "held_back": one.held_back._asdict(),
                    "stage": str(one.stage),
                    "reason": one.reason,
                }
                for one in self.examples
            ],
            "odd_times": self.odd_times,
            "evicted": self.evicted,
            "first": self.first,
            "last": self.last,
            "judging_us": None if self.judging is None else round(1e6 * self.judging, 1),
            "summary": self.summary.as_json(),
        }


@dataclass
class _Drawn:
    """Examples of one stage, of different originals: one with a thousand copies shows once. `seen`: drawn from."""

    seen: int = 0
    examples: list[Example] = field(default_factory=list)


class Trial:
    """Judges records in the order they come. `clock`: wall time in seconds. Use it in a `with`."""

    def __init__(self, settings: Settings, topic: str, *, clock: Callable[[], float] = time.time) -> None:
        self._settings, self._clock = settings, clock
        self._decode = Decoder(settings.item)
        self._dedup = Deduplicator(settings)
        self._survey = Survey(
            self._decode.read,
            settings,
            is_record=True,
            every=1,  # exact, at 10 µs an item
            place=lambda part, number: f"{topic}/{part}/{number}",
        )
        self._chance = random.Random(1)
        self.items = self.held = 0
        self._verdicts: Counter[Kind] = Counter()
        self._stages: Counter[Stage] = Counter()
        self._odd_times: Counter[str] = Counter()
        self._of_source: Counter[str] = Counter()
        self._held_of_source: Counter[str] = Counter()
        self._headlines: OrderedDict[tuple[int, int], Headline] = OrderedDict()
        self._drawn: dict[Stage, _Drawn] = {}
        self._first = self._last = 0
        self._judging, self._loading = 0.0, 0  # seconds, and the items of the first batch

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *_: object) -> None:
        self._dedup.close()

    def take(self, records: Sequence[Any]) -> list[Verdict]:
        """The verdicts of these records, which come after all before."""
        size = self._settings.worker.batch_items
        return [verdict for i in range(0, len(records), size) for verdict in self._take(records[i : i + size])]

    def _take(self, records: Sequence[Any]) -> list[Verdict]:
        began = time.perf_counter()
        latest = self._settings.window.latest(int(self._clock() * 1000))
        items = [item_of(record, self._decode) for record in records]
        batch = self._dedup.judge(items, latest)
        self._dedup.apply(batch)
        if self.items:
            self._judging += time.perf_counter() - began
        else:
            self._loading = len(records)
        self._survey.latest = latest
        for record, item, verdict in zip(records, items, batch.verdicts, strict=True):
            self._survey.add(item, record.value, record.partition, record.offset)
            self._verdicts[verdict.kind] += 1
            if isinstance(item, Item):
                self._note(item, verdict)
        self.items += len(records)
        self._odd_times.update(batch.odd_times())
        times = [record.timestamp for record in records]
        self._first = min(times) if not self._first else min(self._first, *times)
        self._last = max(self._last, *times)
        return batch.verdicts

    def _note(self, item: Item, verdict: Verdict) -> None:
        self._of_source[item.source] += 1
        shown = Headline(item.id, item.title[:_HEADLINE], item.source, item.time)
        if verdict.forward:
            self._headlines[item.partition, item.offset] = shown
            if len(self._headlines) > _HEADLINES:
                self._headlines.popitem(last=False)
            return
        self.held += 1
        self._held_of_source[item.source] += 1
        self._stages[verdict.stage] += 1
        original = verdict.original
        earlier = original and self._headlines.get((original.partition, original.offset))
        if earlier:
            why = _why(verdict, item.time - earlier.time, self._settings.decision.novelty)
            self._draw(Example(earlier, shown, verdict.stage, why))

    def _draw(self, example: Example) -> None:
        drawn = self._drawn.setdefault(example.stage, _Drawn())
        if any(one.original.id == example.original.id for one in drawn.examples):
            return
        drawn.seen += 1
        if len(drawn.examples) < EXAMPLES:
            drawn.examples.append(example)
        elif (place := self._chance.randrange(drawn.seen)) < EXAMPLES:
            drawn.examples[place] = example

    def result(self) -> TrialResult:
        """All of it by now."""
        sources = [(name, self._of_source[name], held) for name, held in self._held_of_source.most_common(_SOURCES)]
        return TrialResult(
            self.items,
            {kind: self._verdicts[kind] for kind in Kind},
            self.held,
            dict(self._stages.most_common()),
            sources,
            self._examples(),
            dict(self._odd_times),
            self._dedup.evicted,
            self._first,
            self._last,
            self._judging / (self.items - self._loading) if self.items > self._loading else None,
            self._survey.summary(),
        )

    def _examples(self) -> list[Example]:
        """In turn of each stage, so that the rare ones show too."""
        turns = zip_longest(*(one.examples for one in self._drawn.values()))
        chosen = [example for turn in turns for example in turn if example is not None]
        return sorted(chosen[:EXAMPLES], key=lambda one: one.stage)


def run_trial(
    reading: LiveReader,
    trial: Trial,
    *,
    items: int,
    seconds: float | None,
    stop: Callable[[], bool],
    tell: Callable[[], None] = lambda: None,
) -> tuple[Ended, StreamError | None]:
    """Judges what `reading` brings until there were so many items, or so many seconds are over; None: until it has
    come to the topic's end. Returns why it ended, and the error if Kafka could not be read any further.
    """
    end = time.monotonic() + (seconds if seconds is not None else float("inf"))
    while True:
        if stop():
            return Ended.STOPPED, None
        if time.monotonic() >= end:
            return Ended.MINUTES, None
        try:
            records = reading.poll()
        except StreamError as error:
            return Ended.FAILED, error
        if records:
            trial.take(records[: items - trial.items])
        tell()
        if trial.items >= items:
            return Ended.ITEMS, None
        if seconds is None and reading.caught_up:
            return Ended.CAUGHT_UP, None


def _why(verdict: Verdict, apart: int, passes: float) -> str:
    """For a person, in a line. `passes`: the novelty from which an item is let through.

    >>> body = Evidence(body=0.93, containment=1.0, novelty=0.02, new_words=0.0)
    >>> _why(Verdict("b", Kind.DUPLICATE, Stage.BODY, False, evidence=body), 7_200_000, 0.45)
    'texts 93 % alike, no new words, 2 hours later'
    """
    e = verdict.evidence or Evidence()
    told = {
        Stage.ID: "the same id again",
        Stage.EXACT: "the same text",
        Stage.HEADLINE: f"headlines {_percent(e.headline)} alike",
        Stage.LEAD: f"{_percent(e.lead)} of its opening stands in the other",
        Stage.BODY: f"texts {_percent(e.body)} alike",
        Stage.PROSE: "a known headline, and no article of its own under it",
        Stage.POLICY: "an update, which [policy] updates holds back",
    }
    parts = [told.get(verdict.stage, str(verdict.stage))]
    if e.cut:
        parts.append(f"a {e.cut} version of it")
    if e.new_words is not None and verdict.stage not in (Stage.ID, Stage.EXACT):
        words = round(e.new_words)
        parts.append(f"{words} new word{'s' * (words != 1)}" if words else "no new words")
        if words and e.novelty is not None and not verdict.forward and verdict.kind is Kind.DUPLICATE:
            parts[-1] += f" (novelty {e.novelty:.2f}; let through from {passes:.2f} on)"
    parts.append(f"{span(abs(apart))} {'later' if apart >= 0 else 'earlier'}")
    return ", ".join(parts)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}".replace("%", " %")
