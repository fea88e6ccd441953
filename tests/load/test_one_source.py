"""A million items of one source: time an item and memory stay flat, because nothing is kept for each item but the rows.

LOAD_ITEMS (a million by default). Half of the items are of one template, the others unlike, and all are of one site and
share a sentence, as the items of a site do. The window of a twentieth of them is full early;
from then on nothing may grow.
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
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.kafka.record_batch import Record
from stream_dedup.news.decode import Decoder
from stream_dedup.observe.watch import Watch
from stream_dedup.settings import load_settings
from stream_dedup.worker.commit import CommitStep
from stream_dedup.worker.observer import BatchReport
from tests.load.process import as_json, parts_of, resident
from tests.load.texts import START, template, unlike
from tests.measured import record

ITEMS = int(os.environ.get("LOAD_ITEMS", "1000000"))
# 20,000: the least that [window] max_originals allows.
ORIGINALS, BATCH, PARTS = max(20_000, ITEMS // 20), 1000, 10
# In the second half. Merges and the allocator: 16 MiB in 500,000 items are 33 bytes an item, less than any object.
GROWTH_MIB = 16
MOST_SERIES = 1000


def records() -> Iterator[tuple[bytes, int]]:
    """(value, timestamp) of items of one site."""
    for number, (hot, usual) in enumerate(zip(template(ITEMS, 80, 12), unlike(ITEMS, 80, seed=2), strict=True)):
        for item in (hot, usual):
            text = f"{item.text} This article was first published by the Evening Post, and all rights are reserved."
            yield as_json(item.id, item.title, text, "https://www.post.example/news"), START + number


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_million_items_of_one_source() -> None:
    settings = load_settings(window={"max_originals": ORIGINALS, "length": "1d"})
    decode, watch = Decoder(settings.item), Watch(settings, "load")
    seconds: list[float] = []
    sizes: list[int] = []
    made, kinds = records(), Counter[str]()
    with Deduplicator(settings) as dedup:
        for start in range(0, ITEMS, BATCH):
            some = [
                Record("news", 0, start + n, time_ms, None, value, ())
                for n, (value, time_ms) in enumerate(islice(made, BATCH))
            ]
            began = time.process_time()
            items = [decode(one.value, one.key, one.timestamp, 0, one.offset) for one in some]
            batch = dedup.judge(items)
            dedup.apply(batch)
            watch.batch(report(items, batch, some, len(dedup)))
            seconds.append(time.process_time() - began)
            kinds.update(str(verdict.kind) for verdict in batch.verdicts)
            if start % (ITEMS // 100) == 0:
                sizes.append(resident(os.getpid()))
        crowded, evicted = dedup.index.stats().crowded, dedup.evicted
    costs = [median(part) / BATCH * 1e6 for part in parts_of(seconds, PARTS)]
    memory = [max(part) / 2**20 for part in parts_of(sizes, PARTS)]
    series = sum(len(metric.samples) for metric in watch.registry.collect())
    record(
        "load",
        {
            "items of one source": {
                "items": ITEMS,
                "us_an_item_tenths": [round(cost, 1) for cost in costs],
                "cost_last_to_third_tenth": costs[-1] / costs[2],
                "resident_mib_tenths": [round(size) for size in memory],
                "kinds": dict(sorted(kinds.items())),
                "crowded_keys_an_item": crowded / ITEMS,
                "evicted": evicted,
                "series": series,
            }
        },
    )
    assert evicted > 0.7 * ITEMS
    assert costs[-1] < 1.3 * costs[2]
    assert max(memory[PARTS // 2 :]) < max(memory[: PARTS // 2]) + GROWTH_MIB
    assert series < MOST_SERIES


def report(items: Sequence[Any], batch: Batch, some: Sequence[Record], held: int) -> BatchReport:
    """What the worker tells its observers about a batch."""
    return BatchReport(
        task="global",
        items=items,
        verdicts=batch.verdicts,
        counts=batch.counts(),
        seconds=dict.fromkeys(CommitStep, 0.001),
        remembered=held,
        watermark=max(batch.delta.watermark, 0),
        lag={0: 0},
        records=some,
    )
