"""The cost of an item stays flat: in a template of ten thousand, and among a million of one source.

Templates: in the `Decider` alone an item of a template costs three to seven times as much as an unlike one of its
length, which has no candidate at all: up to 48 candidates are compared, half of them in its batch. That is bounded by
[index] bucket_limit: it does not grow with the template, and the metric shows the limit. `make bench` measures the
throughput (`engine_flood`).

A million items of one source (LOAD_ITEMS): time an item and memory stay flat, because nothing is kept for each item but
the rows. Half of the items are of one template, the others unlike, and all are of one site and share a sentence, as the
items of a site do. The window of a twentieth of them is full early; from then on nothing may grow.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from statistics import median
from typing import Any

import pytest

from stream_dedup.dedup.batch import Batch
from stream_dedup.dedup.decider import Decider
from stream_dedup.kafka.record_batch import Record
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.observe.watch import Watch
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.page.show import show
from stream_dedup.worker.observer import BatchReport, CommitStep
from tests.harness.feed import START, article
from tests.lab.load.process import parts_of, resident
from tests.lab.load.texts import template, unlike
from tests.lab.measured import record

COUNT, BATCH = 10_000, 500
# Of the last quarter against the second one, in which buckets of 24 are full already.
FLAT = 1.4


class Stream:
    """Judges items batch by batch, and keeps the processor time of each batch."""

    def __init__(self, settings: Settings, items: Sequence[Item]) -> None:
        self._items = items
        self.dedup = Decider(settings)
        self.seconds: list[float] = []
        self.kinds: Counter[str] = Counter()

    def step(self, start: int) -> None:
        began = time.process_time()
        batch = self.dedup.judge(self._items[start : start + BATCH])
        self.dedup.apply(batch)
        self.dedup.index.catch_up()
        self.seconds.append(time.process_time() - began)
        self.kinds.update(str(verdict.kind) for verdict in batch.verdicts)

    def cost(self, quarter: int) -> float:
        """Seconds an item in a quarter of the stream; of its batches the median."""
        return median(parts_of(self.seconds, 4)[quarter]) / BATCH


@pytest.mark.soak
@pytest.mark.parametrize("words", [60, 300])
@pytest.mark.parametrize("own_share", [0.1, 0.2, 0.4])
def test_the_cost_of_a_template_does_not_grow_with_it(words: int, own_share: float) -> None:
    """The two streams take turns, so that a busy machine slows both."""
    settings = load_settings()
    own = int(words * own_share)
    hot = Stream(settings, list(template(COUNT, words, own)))
    usual = Stream(settings, list(unlike(COUNT, words)))
    for start in range(0, COUNT, BATCH):
        for stream in (hot, usual):
            stream.step(start)
    growth = hot.cost(3) / hot.cost(1)
    crowded = hot.dedup.index.stats().crowded
    sizes = [stream.dedup.index.stats().bytes / len(stream.dedup) for stream in (hot, usual)]
    figures = {
        "items": COUNT, "us_an_item": hot.cost(3) * 1e6, "us_an_unlike_item": usual.cost(3) * 1e6,
        "cost_ratio_in_the_deduplicator": hot.cost(3) / usual.cost(3), "cost_last_to_second_quarter": growth,
        "crowded_keys_an_item": crowded / COUNT,
        "crowded_keys_an_unlike_item": usual.dedup.index.stats().crowded / COUNT,
        "originals": len(hot.dedup), "index_bytes_ratio": sizes[0] / sizes[1],
    }  # fmt: skip
    record("load", {f"hot bucket, {words} words, {own} of its own": figures})
    for stream in (hot, usual):
        stream.dedup.close()
    assert usual.kinds["unique"] > 0.95 * COUNT
    assert len(hot.dedup) > COUNT / 2, f"the template is held back instead of remembered: {hot.kinds}"
    assert crowded > COUNT
    assert growth < FLAT
    assert sizes[0] < 1.1 * sizes[1]


ITEMS = int(os.environ.get("LOAD_ITEMS", "1000000"))
AT_ONCE = 1000
# 20,000: the least that [window] max_originals allows.
ORIGINALS, PARTS = max(20_000, ITEMS // 20), 10
# In the second half. Merges and the allocator: 16 MiB in 500,000 items are 33 bytes an item, less than any object.
GROWTH_MIB = 16
MOST_SERIES = 1000


def records() -> Iterator[tuple[bytes, int]]:
    """(value, timestamp) of items of one site."""
    for number, (hot, usual) in enumerate(zip(template(ITEMS, 80, 12), unlike(ITEMS, 80, seed=2), strict=True)):
        for item in (hot, usual):
            text = f"{item.text} This article was first published by the Evening Post, and all rights are reserved."
            yield article(item.id, text, item.title, "https://www.post.example/news"), START + number


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_million_items_of_one_source() -> None:
    settings = load_settings(window={"max_originals": ORIGINALS, "length": "1d"})
    decode, watch = Decoder(settings.item), Watch(settings, "load", show=show)
    seconds: list[float] = []
    sizes: list[int] = []
    made, kinds = records(), Counter[str]()
    with Decider(settings) as dedup:
        for start in range(0, ITEMS, AT_ONCE):
            some = [
                Record("news", 0, start + n, time_ms, None, value, ())
                for n, (value, time_ms) in enumerate(islice(made, AT_ONCE))
            ]
            began = time.process_time()
            items = [decode(record.value, record.key, record.timestamp, 0, record.offset) for record in some]
            batch = dedup.judge(items)
            dedup.apply(batch)
            watch.batch(report(items, batch, some, len(dedup)))
            seconds.append(time.process_time() - began)
            kinds.update(str(verdict.kind) for verdict in batch.verdicts)
            if start % (ITEMS // 100) == 0:
                sizes.append(resident(os.getpid()))
        crowded, evicted = dedup.index.stats().crowded, dedup.evicted
    costs = [median(part) / AT_ONCE * 1e6 for part in parts_of(seconds, PARTS)]
    memory = [max(part) / 2**20 for part in parts_of(sizes, PARTS)]
    series = sum(len(metric.samples) for metric in watch.registry.collect())
    figures = {
        "items": ITEMS, "us_an_item_tenths": [round(cost, 1) for cost in costs],
        "cost_last_to_third_tenth": costs[-1] / costs[2], "resident_mib_tenths": [round(size) for size in memory],
        "kinds": dict(sorted(kinds.items())), "crowded_keys_an_item": crowded / ITEMS, "evicted": evicted,
        "series": series,
    }  # fmt: skip
    record("load", {"items of one source": figures})
    assert evicted > 0.7 * ITEMS
    assert costs[-1] < 1.3 * costs[2]
    assert max(memory[PARTS // 2 :]) < max(memory[: PARTS // 2]) + GROWTH_MIB
    assert series < MOST_SERIES


def report(items: Sequence[Any], batch: Batch, some: Sequence[Record], held: int) -> BatchReport:
    """What the worker tells its observers about a batch."""
    return BatchReport(
        task="global", items=items, verdicts=batch.verdicts, counts=batch.counts(), remembered=held,
        seconds=dict.fromkeys(CommitStep, 0.001), watermark=max(batch.delta.watermark, 0), lag={0: 0}, records=some,
    )  # fmt: skip
