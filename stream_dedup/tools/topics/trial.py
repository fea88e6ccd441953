"""Judge the records of a live topic in memory, and summarise what a worker would hold back.

People want to see the verdicts on their own news before they run the program on a topic that others depend on. A worker
that reads the same records with the same settings and an empty index gives the same verdicts. A trial leaves out only
the limits of the topics that a worker writes to: records too large for them, or without the key that a compacted one
needs. Nothing is written.
"""

import random
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Evidence, Kind, Stage, Verdict
from stream_dedup.errors import BadItem, StreamError
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.phrases import counted, span
from stream_dedup.settings import Settings
from stream_dedup.tools.survey.summary import Summary
from stream_dedup.tools.survey.survey import Survey
from stream_dedup.tools.topics.live_reader import LiveReader
from stream_dedup.worker.judge import item_of

Place = Callable[[int, int], str]
"""Makes the text that names a partition and an offset."""
Look = Callable[[Sequence[Item | Tombstone | BadItem], Sequence[Verdict], Place], object]
"""Sees the items of a batch, their verdicts, and how to name their places."""

EXAMPLES = 10
# Originals whose headlines are retained for the examples, some 200 bytes each. Older originals appear in no example.
_HEADLINES = 200_000
_HEADLINE_CHARACTERS = 200
_SOURCES = 10


class Ended(StrEnum):
    """Why a trial ended."""

    ITEMS = "items"
    MINUTES = "minutes"
    CAUGHT_UP = "caught up"
    STOPPED = "stopped"
    FAILED = "failed"  # Kafka could not be read any further


@dataclass(frozen=True, slots=True)
class Headline:
    """The part of an item that an example shows."""

    id: str
    title: str
    source: str
    time: int


@dataclass(frozen=True, slots=True)
class Example:
    """An item that would be held back, and the original it repeats."""

    original: Headline
    held_back: Headline
    stage: Stage
    reason: str  # for a person
    doubt: float  # its novelty


@dataclass(frozen=True, slots=True)
class SourceCount:
    """How many items of a source there were, and how many of them would be held back."""

    source: str
    items: int
    held_back: int


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Counts and examples so far."""

    items: int
    verdicts: dict[Kind, int]
    held_back: int
    stages: dict[Stage, int]  # items that would be held back, by deciding stage
    sources: list[SourceCount]  # those with the most items that would be held back
    examples: list[Example]
    rules: dict[str, int]  # verdicts that each rule for sources has changed
    odd_times: dict[str, int]
    evicted: int
    first: int  # timestamp of the first record, ms
    last: int  # timestamp of the last record, ms
    summary: Summary

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "summary": self.summary.as_json()}


class Trial:
    """Judges records in their order of arrival. `look` sees each batch. Use it in a `with`."""

    def __init__(self, settings: Settings, topic: str, *, look: Look | None = None) -> None:
        self._settings, self._look = settings, look
        self._place: Place = lambda part, number: f"{topic}/{part}/{number}"
        self._decode = Decoder(settings.item, settings.registry)
        self._dedup = Decider(settings)
        self._survey = Survey(
            self._decode.read,
            settings,
            is_record=True,
            every=1,  # read every item, at 10 µs each
            place=self._place,
        )
        self._random = random.Random(1)
        self.items = self.held = 0
        self._verdicts: Counter[Kind] = Counter()
        self._stages: Counter[Stage] = Counter()
        self._odd_times: Counter[str] = Counter()
        self._rules: Counter[str] = Counter()
        self._items_by_source: Counter[str] = Counter()
        self._held_by_source: Counter[str] = Counter()
        self._headlines: OrderedDict[tuple[int, int], Headline] = OrderedDict()
        # Of each stage a reservoir sample with at most one example for each original.
        self._samples: defaultdict[Stage, list[Example]] = defaultdict(list)
        self._offered: Counter[Stage] = Counter()
        self._first = self._last = 0

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *_: object) -> None:
        self._dedup.close()

    def judge(self, records: Sequence[Any]) -> list[Verdict]:
        """Judge the next records and remember the originals among them."""
        size = self._settings.worker.batch_items
        return [verdict for i in range(0, len(records), size) for verdict in self._judge_batch(records[i : i + size])]

    def _judge_batch(self, records: Sequence[Any]) -> list[Verdict]:
        latest = self._settings.window.latest(int(time.time() * 1000))
        items = [item_of(record, self._decode) for record in records]
        batch = self._dedup.judge(items, latest)
        self._dedup.apply(batch)
        self._survey.latest = latest
        for record, item, verdict in zip(records, items, batch.verdicts, strict=True):
            self._survey.add(item, record.value, record.partition, record.offset, record.headers)
            self._verdicts[verdict.kind] += 1
            if isinstance(item, Item):
                self._count(item, verdict)
        self.items += len(records)
        self._odd_times.update(batch.odd_times())
        self._rules.update(batch.source_rules())
        times = [record.timestamp for record in records]
        if self._look:
            self._look(items, batch.verdicts, self._place)
        self._first = min(times) if not self._first else min(self._first, *times)
        self._last = max(self._last, *times)
        return batch.verdicts

    def _count(self, item: Item, verdict: Verdict) -> None:
        self._items_by_source[item.source] += 1
        headline = Headline(item.id, item.title[:_HEADLINE_CHARACTERS], item.source, item.time)
        if verdict.forward:
            self._headlines[item.partition, item.offset] = headline
            if len(self._headlines) > _HEADLINES:
                self._headlines.popitem(last=False)
            return
        self.held += 1
        self._held_by_source[item.source] += 1
        self._stages[verdict.stage] += 1
        original = verdict.original
        earlier = original and self._headlines.get((original.partition, original.offset))
        if earlier:
            apart = item.time - earlier.time if min(item.time, earlier.time) >= 0 else None
            reason = _reason(verdict, apart, self._settings.decision.threshold)
            doubt = verdict.evidence and verdict.evidence.novelty  # none: the same id or text
            self._sample(Example(earlier, headline, verdict.stage, reason, doubt or 0.0))

    def _sample(self, example: Example) -> None:
        drawn = self._samples[example.stage]
        if any(earlier.original.id == example.original.id for earlier in drawn):
            return
        self._offered[example.stage] += 1
        if len(drawn) < EXAMPLES:
            drawn.append(example)
        elif (i := self._random.randrange(self._offered[example.stage])) < EXAMPLES:
            drawn[i] = example

    def result(self) -> TrialResult:
        """Return the counts and examples so far."""
        # Round robin over the stages, so that rare stages appear too. A reader judges the program by the first ones.
        rounds = zip_longest(*(sorted(drawn, key=_doubt) for drawn in self._samples.values()))
        examples = [example for one_round in rounds for example in one_round if example is not None][:EXAMPLES]
        most_held = self._held_by_source.most_common(_SOURCES)
        return TrialResult(
            items=self.items,
            verdicts={kind: self._verdicts[kind] for kind in Kind},
            held_back=self.held,
            stages=dict(self._stages.most_common()),
            sources=[SourceCount(name, self._items_by_source[name], held) for name, held in most_held],
            examples=sorted(examples, key=_doubt),
            rules=dict(self._rules),
            odd_times=dict(self._odd_times),
            evicted=self._dedup.evicted,
            first=self._first,
            last=self._last,
            summary=self._survey.summary(),
        )


def run_trial(
    reader: LiveReader,
    trial: Trial,
    *,
    items: int,
    seconds: float | None,
    stop: Callable[[], bool],
    on_progress: Callable[[], None] = lambda: None,
) -> tuple[Ended, StreamError | None]:
    """Judge what the reader returns, up to `items` items or for `seconds`; None: up to the topic's end.

    Returns why it ended, with the error if Kafka could not be read any further.
    """
    end = time.monotonic() + (seconds if seconds is not None else float("inf"))
    while True:
        if stop():
            return Ended.STOPPED, None
        if time.monotonic() >= end:
            return Ended.MINUTES, None
        try:
            records = reader.poll()
        except StreamError as error:
            return Ended.FAILED, error
        if records:
            trial.judge(records[: items - trial.items])
        on_progress()
        if trial.items >= items:
            return Ended.ITEMS, None
        if seconds is None and reader.caught_up:
            return Ended.CAUGHT_UP, None


def _doubt(example: Example) -> float:
    return example.doubt


def _reason(verdict: Verdict, apart: int | None, passes: float) -> str:
    """Say in one line why an item is held back.

    `apart`: ms after the original, None without a date. `passes`: the novelty that is let through.

    >>> body = Evidence(body=0.93, containment=1.0, novelty=0.02, new_words=0.0)
    >>> _reason(Verdict("b", Kind.DUPLICATE, Stage.BODY, False, evidence=body), 7_200_000, 0.45)
    'texts 93 % alike, no new words, 2 hours later'
    >>> cut = Evidence(body=0.21, containment=0.97, cut="shorter", novelty=0.02, new_words=0.0)
    >>> _reason(Verdict("b", Kind.DUPLICATE, Stage.BODY, False, evidence=cut), None, 0.45)
    'a shorter version, 97 % of it is in the other, no new words'
    """
    e = verdict.evidence or Evidence()
    # Of a cut the share of the whole text says how short it is, and not how alike.
    held = "of it is in the other" if e.cut == "shorter" else "of the other is in it"
    cut = f"a {e.cut} version, {_percent(e.containment)} {held}"
    texts = {
        Stage.ID: "the same id again",
        Stage.EXACT: "the same text",
        Stage.HEADLINE: f"headlines {_percent(e.headline)} alike",
        Stage.BODY: cut if e.cut else f"texts {_percent(e.body)} alike",
        Stage.PROSE: f"{_percent(e.covered)} of its article is in the other",
        Stage.POLICY: "an update, which [policy] updates holds back",
    }
    parts = [texts.get(verdict.stage, str(verdict.stage))]
    if e.cut and verdict.stage is not Stage.BODY:
        parts.append(f"a {e.cut} version")
    if e.new_words is not None and verdict.stage not in (Stage.ID, Stage.EXACT):
        words = round(e.new_words)
        parts.append(counted(words, "new word") if words else "no new words")
        if words and e.novelty is not None and not verdict.forward and verdict.kind is Kind.DUPLICATE:
            parts[-1] += f" (novelty {e.novelty:.2f}; let through from {passes:.2f} on)"
    if apart is not None:
        parts.append(f"{span(abs(apart))} {'later' if apart > 0 else 'earlier'}" if apart else "at the same time")
    return ", ".join(parts)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}".replace("%", " %")
