"""Ten thousand items of one template: the cost of an item does not grow with their number.

In the deduplicator alone an item of a template costs three to seven times as much as an unlike one of its length, which
has no candidate at all: up to 48 candidates are compared, half of them in its batch. That is bounded by
[index] bucket_limit: it does not grow with the template, and the metric shows the limit. `make bench` measures the
throughput (`engine_flood`).
"""

import time
from collections import Counter
from collections.abc import Sequence
from statistics import median

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.load.process import parts_of
from tests.load.texts import template, unlike
from tests.measured import record

COUNT, BATCH = 10_000, 500
# Of the last quarter against the second one, in which buckets of 24 are full already.
FLAT = 1.4


class Stream:
    """Judges items batch by batch, and keeps the processor time of each batch."""

    def __init__(self, settings: Settings, items: Sequence[Item]) -> None:
        self._items = items
        self.dedup = Deduplicator(settings)
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
    record(
        "load",
        {
            f"hot bucket, {words} words, {own} of its own": {
                "items": COUNT,
                "us_an_item": hot.cost(3) * 1e6,
                "us_an_unlike_item": usual.cost(3) * 1e6,
                "cost_ratio_in_the_deduplicator": hot.cost(3) / usual.cost(3),
                "cost_last_to_second_quarter": growth,
                "crowded_keys_an_item": crowded / COUNT,
                "crowded_keys_an_unlike_item": usual.dedup.index.stats().crowded / COUNT,
                "originals": len(hot.dedup),
                "index_bytes_ratio": sizes[0] / sizes[1],
            }
        },
    )
    for stream in (hot, usual):
        stream.dedup.close()
    assert usual.kinds["unique"] > 0.95 * COUNT
    assert len(hot.dedup) > COUNT / 2, f"the template is held back instead of remembered: {hot.kinds}"
    assert crowded > COUNT
    assert growth < FLAT
    assert sizes[0] < 1.1 * sizes[1]
