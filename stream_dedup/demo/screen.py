"""What a person sees of the worker while it works: counts, rate, and the last items with the reason.

An `Observer` that the worker tells of each committed batch; `picture()` draws what it knows. The titles come
from the items of the batch and, for originals, from a bounded memory of what passed here before.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import StreamDedupError
from stream_dedup.news.item import Item
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.transaction import CommitStep

# What fits on a small terminal beside the counts.
_SHOWN = 8
# Titles of originals to show beside their copies; a sample feed has fewer.
_TITLES = 50_000
# Batches whose judging is told: some seconds of a feed.
_TIMED = 100
_COLOURS = {
    Kind.UNIQUE: "green",
    Kind.DUPLICATE: "yellow",
    Kind.UPDATE: "cyan",
    Kind.BAD: "red",
    Kind.TOMBSTONE: "magenta",
}
# They are more than the unique items, and a person asks why.
_REMEMBERED = "what is let through, and its variants (held-back copies, cut or re-headlined)"


class Screen(Observer):
    """Counts what was committed; thread-safe, the worker writes and the screen reads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._titles: OrderedDict[str, str] = OrderedDict()
        self._passed: deque[tuple[Verdict, str]] = deque(maxlen=3)
        self._held: deque[tuple[Verdict, str]] = deque(maxlen=_SHOWN)
        self.counts = dict.fromkeys(Kind, 0)
        self.stages: dict[str, int] = {}
        self._judging: deque[tuple[int, float]] = deque(maxlen=_TIMED)  # items of a batch, seconds to judge them
        self.remembered = 0
        self.problem = ""
        self.first: float | None = None
        self.last: float | None = None

    @property
    def judged(self) -> int:
        """Records with a committed verdict."""
        return sum(self.counts.values())

    @property
    def seconds(self) -> float:
        """From the first committed batch's beginning to the last one's end."""
        return 0.0 if self.first is None or self.last is None else self.last - self.first

    @property
    def judged_us(self) -> float:
        """Microseconds to read and judge an item, over the last batches; without Kafka's part."""
        items = sum(count for count, _ in self._judging)
        return 1e6 * sum(seconds for _, seconds in self._judging) / items if items else 0.0

    @property
    def batch_items(self) -> float:
        """Items a batch, of the same batches: the smaller a batch, the more an item costs."""
        return sum(count for count, _ in self._judging) / len(self._judging) if self._judging else 0.0

    def batch(self, report: BatchReport) -> None:
        now = self._clock()
        with self._lock:
            if self.first is None:
                self.first = now - sum(report.seconds.values())
            self.last = now
            self._judging.append((len(report.items), report.seconds.get(CommitStep.JUDGE, 0.0)))
            self.remembered = report.remembered
            self.problem = ""
            for item, verdict in zip(report.items, report.verdicts, strict=True):
                self.counts[verdict.kind] += 1
                if verdict.kind not in (Kind.UNIQUE, Kind.BAD) or verdict.stage == Stage.GUARD:
                    self.stages[f"{verdict.kind}: {verdict.stage}"] = (
                        self.stages.get(f"{verdict.kind}: {verdict.stage}", 0) + 1
                    )
                title = item.title if isinstance(item, Item) else ""
                if verdict.forward and isinstance(item, Item):
                    self._titles[item.id] = title
                    if len(self._titles) > _TITLES:
                        self._titles.popitem(last=False)
                (self._passed if verdict.forward else self._held).append((verdict, title))

    def error(self, error: StreamDedupError, retry_in: float | None) -> None:
        with self._lock:
            self.problem = str(error) + ("" if retry_in is None else f"; again in {retry_in:.1f} s")

    def task_opened(self, task: str, partitions: Any, remembered: int, seconds: float) -> None:
        with self._lock:
            self.remembered = remembered

    def picture(self, heading: str) -> RenderableType:
        """The whole screen as it stands now."""
        with self._lock:
            rate = self.judged / self.seconds if self.seconds else 0.0
            counts = Table.grid(padding=(0, 3))
            counts.add_row(*(Text(f"{kind} {count}", _COLOURS[kind]) for kind, count in self.counts.items()))
            stages = "  ".join(f"{name} {count}" for name, count in sorted(self.stages.items()))
            parts: list[RenderableType] = [
                Text(heading, "bold"),
                counts,
                Text(f"{self.judged} judged, {rate:,.0f} a second; {self.remembered} remembered: {_REMEMBERED}", "dim"),
                Text(f"judging takes {self.judged_us:,.0f} µs an item, in batches of {self.batch_items:.1f}", "dim"),
                Text(stages, "dim"),
                _table("let through", [(v, t, "") for v, t in self._passed]),
                _table("held back", [(v, t, self._of(v)) for v, t in self._held]),
            ]
            if self.problem:
                parts.append(Text(self.problem, "red"))
            return Group(*parts)

    def _of(self, verdict: Verdict) -> str:
        return self._titles.get(verdict.original.id, verdict.original.id) if verdict.original else ""


def _table(name: str, rows: list[tuple[Verdict, str, str]]) -> Table:
    # An earlier original's headline stands under the copy's, so that a person sees at once what was decided.
    table = Table(title=name, title_justify="left", expand=True, show_edge=False, pad_edge=False)
    table.add_column("verdict", no_wrap=True, width=9)
    table.add_column("headline", ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column("why", no_wrap=True, max_width=44, overflow="ellipsis")
    for verdict, title, original in rows:
        text = Text(title or f"({verdict.id or 'no id'})")
        if original:
            text.append(f"\n= {original}", "dim")
        table.add_row(Text(str(verdict.kind), _COLOURS[verdict.kind]), text, Text(why(verdict)))
    return table


def why(verdict: Verdict) -> str:
    """The reason in a few words.

    >>> from stream_dedup.dedup.verdict import Evidence
    >>> why(Verdict("1", Kind.DUPLICATE, Stage.LEAD, False, None, Evidence(body=0.41, lead=0.97, headline=1.0)))
    'lead: headline 1.00 lead 0.97 body 0.41'
    >>> why(Verdict("2", Kind.UPDATE, Stage.POLICY, True, None, Evidence(body=0.0, lead=0.04, headline=0.0)))
    'same id, new text'
    >>> why(Verdict("3", Kind.UNIQUE, Stage.NONE, True, None, Evidence(body=0.1, lead=0.2, headline=0.0)))
    'another article: headline 0.00 lead 0.20 body 0.10'
    """
    if verdict.kind == Kind.UPDATE and verdict.stage == Stage.POLICY:
        return "same id, new text"  # what it is compared with says nothing of why
    if verdict.kind == Kind.BAD or verdict.evidence is None:
        return verdict.reason or str(verdict.stage)
    views = " ".join(
        f"{name} {value:.2f}"
        for name in ("headline", "lead", "body")
        if (value := getattr(verdict.evidence, name)) is not None
    )
    stage = "another article" if verdict.stage == Stage.NONE else verdict.stage
    return f"{verdict.evidence.guard or stage}: {views}"
