"""A fake worker without Kafka: it judges items and reports the verdicts to a `Watch` as the worker does."""

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace

import msgspec

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.errors import BadItem
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.observe.watch import Watch
from stream_dedup.settings import Settings
from stream_dedup.worker.commit import CommitStep
from stream_dedup.worker.observer import BatchReport


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
        fields = {"id": item.id, "title": item.title, "text": item.text, "source": item.source}
        value = msgspec.json.encode(fields)
    return SimpleNamespace(
        topic="news.raw",
        value=value,
        partition=getattr(item, "partition", 0),
        offset=getattr(item, "offset", 0),
        timestamp=0,
        headers=(),
    )


class Watched:
    """A deduplicator with a `Watch` that observes it. Call `close` at the end."""

    def __init__(self, settings: Settings) -> None:
        self.watch = Watch(settings, "1.2.3")
        self._dedup: Deduplicator = self.watch.deduplicator(settings)
        self.watch.task_opened("global", [0, 1], 0, 0.4)
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

    def close(self) -> None:
        self._dedup.close()
        self.watch.__exit__()
