"""The demo's live screen: counts, rates, and the last items with the reasons for their verdicts.

`Screen` is an `Observer`, which the worker calls with each committed batch. `picture` draws the current state.
Headlines come from the items of the batch; those of originals from a bounded cache of the items that were let through.
"""

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from stream_dedup.dedup.source_rules import rule_of
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import StreamDedupError
from stream_dedup.news.item import Item
from stream_dedup.tools.demo.newsroom import MEANT
from stream_dedup.tools.terminal import Line, beside, cut, one_line, wrapped
from stream_dedup.worker.observer import BatchReport, CommitStep, Observer

if TYPE_CHECKING:
    from stream_dedup.tools.demo.run import DemoRecord

# Held-back items that fit on a small terminal below the counts.
_HELD_BACK_ROWS = 8
_LET_THROUGH_ROWS = 3
_WHY = 44  # columns of the reasons, two lines of which hold the longest
# Headlines of originals to show beside their copies; a sample feed has fewer.
_TITLES = 50_000
_COLOURS = {
    Kind.UNIQUE: "green",
    Kind.DUPLICATE: "yellow",
    Kind.UPDATE: "cyan",
    Kind.BAD: "red",
    Kind.TOMBSTONE: "magenta",
}
_FINDINGS = {Kind.DUPLICATE: "nothing new", Kind.UPDATE: "something new", Kind.UNIQUE: "another article"}


class Screen(Observer):
    """Counts committed items and draws them. Thread-safe: the worker writes while the display reads.

    `feed_rate`: the limit of the feed, in items a second; None: no limit.
    """

    def __init__(self, feed_rate: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._feed_rate = feed_rate
        self._clock = clock
        self._lock = threading.Lock()
        self._titles: OrderedDict[str, str] = OrderedDict()
        self._let_through: deque[tuple[Verdict, str]] = deque(maxlen=_LET_THROUGH_ROWS)
        self._held_back: deque[tuple[Verdict, str]] = deque(maxlen=_HELD_BACK_ROWS)
        self._judging = 0.0  # seconds
        self._began: float | None = None
        self._problem = ""
        self.counts: Counter[Kind] = Counter()
        self.seconds = 0.0
        """Seconds from the begin of the first committed batch to the end of the last one."""
        self._meant: deque[str] = deque()
        self.with_meaning = 0
        """Items of which the feed says what their authors meant."""
        self.otherwise: Counter[str] = Counter()
        """Items of these that were decided otherwise, by kind and verdict."""

    def announced(self, records: "Iterable[DemoRecord]") -> "Iterator[DemoRecord]":
        """Pass on the records of a feed of one partition, and remember what their authors meant."""
        for record in records:
            self._meant.append(record.meant)
            yield record

    @property
    def judged(self) -> int:
        """Records with a committed verdict."""
        return self.counts.total()

    @property
    def judged_us(self) -> float:
        """Microseconds to decode and judge an item, without Kafka."""
        return 1e6 * self._judging / self.judged if self.judged else 0.0

    @property
    def items_per_second(self) -> float:
        return self.judged / self.seconds if self.seconds else 0.0

    def batch(self, report: BatchReport) -> None:
        now = self._clock()
        with self._lock:
            if self._began is None:
                self._began = now - sum(report.seconds.values())
            self.seconds = now - self._began
            self._judging += report.seconds.get(CommitStep.JUDGE, 0.0)
            self._problem = ""
            self.counts.update(report.counts)
            for item, verdict in zip(report.items, report.verdicts, strict=True):
                title = item.title if isinstance(item, Item) else ""
                if verdict.forward and isinstance(item, Item):
                    self._titles[item.id] = title
                    if len(self._titles) > _TITLES:
                        self._titles.popitem(last=False)
                self._compare(verdict)
                (self._let_through if verdict.forward else self._held_back).append((verdict, title))

    def _compare(self, verdict: Verdict) -> None:
        if self._meant and (meant := self._meant.popleft()):
            self.with_meaning += 1
            if verdict.kind not in MEANT[meant]:
                self.otherwise[f"{meant} as {verdict.kind}"] += 1

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        with self._lock:
            self._problem = str(error) + ("" if retry_in is None else f"; again in {retry_in:.1f} s")

    def picture(self, heading: str, width: int) -> list[Line]:
        """Draw the whole screen in so many columns."""
        with self._lock:
            limit = f"; the feed's rate is {self._feed_rate:,.0f} (--rate)" if self._feed_rate else ""
            rates = f"{self.judged:,} judged, {self.items_per_second:,.0f} a second{limit}"
            right = self.with_meaning - self.otherwise.total()
            meant = f"; {right:,} of {self.with_meaning:,} decided as meant" if self.with_meaning else ""
            lines: list[Line] = [
                [(heading, "bold")],
                [(f"{kind} {self.counts[kind]:,}   ", _COLOURS[kind]) for kind in Kind],
                [(f"{rates}; judged in {self.judged_us:,.0f} µs an item{meant}", "dim")],
                [(self._problem, "red")],
            ]
            return [
                *(part for line in lines for part in wrapped(line, width)),
                *_table("let through", width, [(v, t, "") for v, t in self._let_through]),
                [],
                *_table("held back", width, [(v, t, self._original_title(v)) for v, t in self._held_back]),
                [],
            ]

    def _original_title(self, verdict: Verdict) -> str:
        return self._titles.get(verdict.original.id, verdict.original.id) if verdict.original else ""


def _table(name: str, width: int, rows: list[tuple[Verdict, str, str]]) -> Iterator[Line]:
    # The original's headline is below that of the copy, so that a glance compares them.
    why = min(_WHY, width * 2 // 5)
    room = width - len("let through") - why - 4
    widths = len("let through"), room, why
    yield from beside([[(text, "bold")] for text in (name, "headline", "why")], widths)
    for verdict, title, original in rows:
        text: Line = [(cut(one_line(title) or f"({verdict.id or 'no id'})", room), "")]
        if original:
            text.append((f"\n{cut(f'= {one_line(original)}', room)}", "dim"))
        yield from beside([[(str(verdict.kind), _COLOURS[verdict.kind])], text, reason_of(verdict)], widths)


def reason_of(verdict: Verdict) -> str:
    """Say in a few words why an item has its verdict.

    >>> from stream_dedup.dedup.verdict import Evidence
    >>> cut = Evidence(body=0.5, headline=1.0, cut="shorter", novelty=0.07)
    >>> reason_of(Verdict("1", Kind.DUPLICATE, Stage.BODY, False, None, cut))
    'nothing new, a shorter cut: headline 1.00 body 0.50 novelty 0.07'
    >>> reason_of(Verdict("2", Kind.UPDATE, Stage.POLICY, True, None, Evidence(body=0.0, headline=0.0)))
    'same id, new text'
    >>> reason_of(Verdict("3", Kind.UNIQUE, Stage.NONE, True, None, Evidence(body=0.1, headline=0.0, novelty=0.98)))
    'another article: headline 0.00 body 0.10 novelty 0.98'
    >>> reason_of(Verdict("4", Kind.UNIQUE, Stage.NONE, True))
    'nothing like it'
    """
    if rule_of(verdict.reason):
        return verdict.reason
    if verdict.kind == Kind.UPDATE and verdict.stage == Stage.POLICY:
        return "same id, new text"  # the reason is not in the evidence
    if verdict.stage == Stage.EXACT:
        return "the same words"
    evidence = verdict.evidence
    if verdict.kind not in _FINDINGS or verdict.stage == Stage.ID or evidence is None:
        return verdict.reason or ("nothing like it" if verdict.kind == Kind.UNIQUE else str(verdict.stage))
    cut = f", a {evidence.cut} cut" if evidence.cut and verdict.kind == Kind.DUPLICATE else ""
    values = " ".join(
        f"{name} {value:.2f}"
        for name in ("headline", "body", "novelty")
        if (value := getattr(evidence, name)) is not None
    )
    return f"{_FINDINGS[verdict.kind]}{cut}: {values}"
