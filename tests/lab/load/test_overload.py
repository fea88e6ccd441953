"""A producer faster than the worker: memory stays within the plan, throughput stays, and the metrics show the lag.

LOAD_MINUTES (3 by default) with each size of a batch. The budget is that from which the bound of originals follows
(settings/memory.py), without large records, and what `plan` computes for the originals while tables merge.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import footprint, peak_bytes
from stream_dedup.settings import Settings, load_settings
from stream_dedup.settings.memory import work_bytes
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from tests.harness.feed import article
from tests.harness.member import Command
from tests.harness.topics import make_settings, ready
from tests.harness.wait import holds
from tests.lab.load.process import flood, metric, parts_of, processor, resident
from tests.lab.load.texts import VOCABULARY
from tests.lab.measured import record

MINUTES = float(os.environ.get("LOAD_MINUTES", "3"))
ORIGINALS = 20_000
# The first large batches are through.
WARM = 20_000
_WORDS = 200


def articles(seed: int) -> Iterator[bytes]:
    """Articles of 1.3 KB that are cut out of random words, without end; a few overlap."""
    rng = random.Random(seed)
    words = rng.choices(VOCABULARY, k=2_000_000)
    number = 0
    while True:
        at = rng.randrange(len(words) - _WORDS)
        title = " ".join(words[at // 2 : at // 2 + 8])
        yield article(f"{seed}-{number}", " ".join(words[at : at + _WORDS]), title, f"site{number % 50}.example")
        number += 1


class Sample(NamedTuple):
    """What a worker shows at a moment, s."""

    at: float
    processor: float
    resident: int
    items: float
    lag: float


def sampled(worker: Command, seconds: float) -> list[Sample]:
    """Look at a worker every second."""
    samples, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(1)
        with suppress(OSError):  # the worker is busy
            items, lag = (metric(worker.address, f"stream_dedup_{name}") for name in ("items_total", "lag_records"))
            samples.append(Sample(time.monotonic(), processor(worker.pid), resident(worker.pid), items, lag))
    return samples


@contextmanager
def two_floods(settings: Settings, worker: Command, warm: float) -> Iterator[Callable[[], int]]:
    """Send articles from two processes; yield their number so far when the worker has judged `warm` of them."""
    sources = [partial(articles, seed) for seed in (1, 2)]
    bootstrap, topic = settings.kafka.bootstrap_servers, settings.topics.input
    with flood(bootstrap, topic, sources[0]) as one, flood(bootstrap, topic, sources[1]) as other:
        items = partial(metric, worker.address, "stream_dedup_items_total")
        assert holds(lambda: items() >= warm, 600, 0.5), worker.log()[-2000:]
        yield lambda: int(one.value + other.value)


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mebibytes", [8, 32])
def test_a_faster_producer_fills_the_topic_and_not_the_memory(
    kafka: EmbeddedKafka,
    topic_name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mebibytes: int,
) -> None:
    monkeypatch.setenv("STREAM_DEDUP_WINDOW__MAX_ORIGINALS", str(ORIGINALS))
    monkeypatch.setenv("STREAM_DEDUP_WINDOW__LENGTH", "1d")
    limits = {"session_timeout": "10s", "batch_bytes": mebibytes * 2**20}
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker=limits), 4)
    originals = peak_bytes(ORIGINALS, footprint(Scheme(load_settings().fingerprint), ORIGINALS))
    budget = work_bytes(settings.worker.batch_bytes, 0) + originals
    with Command("a", settings, tmp_path) as worker:
        worker.start().wait_until("ok")
        with two_floods(settings, worker, WARM) as produced_so_far:
            samples = sampled(worker, 60 * MINUTES)
            produced = produced_so_far()
    assert len(samples) > 30, worker.log()[-2000:]
    parts = parts_of(samples, 3)
    # Of processor time: seconds depend on what else the machine does.
    costs = [(part[-1].processor - part[0].processor) / (part[-1].items - part[0].items) for part in parts]
    sizes = [median(sample.resident for sample in part) for part in parts]
    seconds = samples[-1].at - samples[0].at
    lags = [max(sample.lag for sample in part) for part in parts]
    figures = {
        "minutes": MINUTES, "produced": produced, "judged": int(samples[-1].items),
        "produced_to_judged": produced / samples[-1].items,
        "items_a_second": (samples[-1].items - samples[0].items) / seconds,
        "us_of_processor_an_item_thirds": [round(cost * 1e6) for cost in costs], "lag_most_thirds": lags,
        "resident_mib_thirds": [round(size / 2**20) for size in sizes],
        "resident_mib_most": round(max(sample.resident for sample in samples) / 2**20),
        "budget_mib": round(budget / 2**20),
    }  # fmt: skip
    record("load", {f"a producer faster than the worker, batches of {mebibytes} MiB": figures})
    assert produced > 1.2 * samples[-1].items, "the producer was not faster"
    assert lags[2] > lags[0], "the metrics do not show the lag"
    assert max(sample.resident for sample in samples) < budget
    assert sizes[2] < 1.1 * sizes[1]
    assert costs[2] < 1.3 * costs[0]
