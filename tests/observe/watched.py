"""A fake worker without Kafka: it judges items and reports the verdicts to a `Watch` as the worker does."""

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import msgspec

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Kind, Stage, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.observe.watch import Watch
from stream_dedup.settings import load_settings
from stream_dedup.tools.page.board import Recent
from stream_dedup.tools.page.show import show
from stream_dedup.worker.observer import BatchReport, CommitStep

START = 1_700_000_000.0


class Clock:
    """A clock that tests advance, in seconds."""

    passed = 0.0

    def __call__(self) -> float:
        return START + self.passed


def unique(name: str) -> Verdict:
    return Verdict(name, Kind.UNIQUE, Stage.NONE, True)


def bad(reason: str, name: str = "") -> Verdict:
    return Verdict(name, Kind.BAD, Stage.NONE, False, reason=reason)


def report(
    items: Sequence[Item | Tombstone | BadItem],
    verdicts: Sequence[Verdict],
    lag: dict[int, int] | None = None,
    seconds: float = 0.01,
) -> BatchReport:
    times = [item.time for item in items if not isinstance(item, BadItem)]
    return BatchReport(
        "global",
        items,
        verdicts,
        Counter(verdict.kind for verdict in verdicts),
        dict.fromkeys(CommitStep, seconds),
        1,
        max(times, default=0),
        lag or {0: 0},
        records=[_record(item) for item in items],
    )


def _record(item: Item | Tombstone | BadItem) -> SimpleNamespace:
    """Return an object with the fields of a Kafka record that observers read."""
    value = None if isinstance(item, Tombstone) else b"{"
    if isinstance(item, Item):
        fields = {"id": item.id, "title": item.title, "text": item.text, "source": item.source, "published": item.time}
        value = msgspec.json.encode(fields)
    return SimpleNamespace(
        topic="news.raw",
        value=value,
        partition=getattr(item, "partition", 0),
        offset=getattr(item, "offset", 0),
        timestamp=max(getattr(item, "time", 0), 0),
        headers=(),
    )


class Watched:
    """A decider with a `Watch` that observes it, for the duration of a `with` block."""

    def __init__(self, **tables: Any) -> None:
        self.settings = load_settings(observe={"port": 0, **tables.pop("observe", {})}, **tables)
        self.watch = Watch(self.settings, "1.2.3", show=show)
        self.recent = next(one for one in self.watch._observers if isinstance(one, Recent))
        self._dedup: Decider = self.watch.decider(self.settings)
        self.watch.task_opened("global", [0, 1], 0, 0.4)
        self.watch.positions_advanced("global", {0: 0, 1: 0})
        self.watch.loop_completed(["global"])

    def judge(self, items: Sequence[Item | Tombstone | BadItem], **options: object) -> list[Verdict]:
        batch = self._dedup.judge(items)
        self._dedup.apply(batch)
        self.watch.batch(report(items, batch.verdicts, **options))  # type: ignore[arg-type]
        return batch.verdicts

    @property
    def url(self) -> str:
        assert self.watch.url is not None
        return self.watch.url

    def __enter__(self) -> "Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self._dedup.close()
        self.watch.__exit__()
