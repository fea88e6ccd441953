"""Compare the worker's throughput with alternatives on one real Kafka: same broker, records and batch size.

- `passthrough`: the bare exactly-once loop of kafka-python, which decides nothing (passthrough.py);
- `confluent`: the same loop with confluent-kafka, for comparison;
- `quix_datasketch`: Quix Streams with exactly-once and datasketch's LSH, in its own process.

All read a topic that was filled before. Rounds are interleaved, and the first round does not count.
"""

import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

from stream_dedup.settings import Settings
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.worker import Worker
from tests.benchmarks import apart, passthrough
from tests.benchmarks.interleave import speedup, spread
from tests.benchmarks.kafka_texts import fill, fresh_topics

Cost = tuple[float, float | None]  # seconds an item: wall time, processor time (unknown for other processes)
Contestant = Callable[[Settings, int], Cost]


class _StopAfter(Observer):
    """An observer that stops the worker after `count` items and has the clock of the pass-through."""

    def __init__(self, count: int) -> None:
        self.clock, self.stop = passthrough.Clock(count), threading.Event()

    def batch(self, report: BatchReport) -> None:
        self.clock.committed(report.count)
        if self.clock.is_over:
            self.stop.set()


def run_worker(settings: Settings, count: int, **worker: Any) -> passthrough.Clock:
    """Run a worker until it has processed `count` items; return its clock. `worker`: of the constructor."""
    observer = _StopAfter(count)
    Worker(settings, observer=observer, **worker).run(observer.stop)
    return observer.clock


def measure_worker(
    bootstrap: str,
    news: Sequence[bytes],
    unique: Sequence[bytes],
    rounds: int,
    report: Callable[[str], object],
) -> dict[str, float]:
    """Return `worker_items_per_second_NAME_STREAM`, `worker_vs_NAME_STREAM`, and `worker_cpu_us_NAME_STREAM`."""
    python = apart.python_of("quix_datasketch", report)

    def quix(settings: Settings, count: int) -> Cost:
        topics = settings.topics
        with tempfile.TemporaryDirectory() as state:
            result = apart.run(
                python, "quix_datasketch", bootstrap, topics.input, topics.output, f"{settings.kafka.group_id}-quix",
                str(count), state,
            )  # fmt: skip
        return result["seconds"] / result["items"], None

    contestants: dict[str, Contestant] = {
        "ours": lambda settings, count: run_worker(settings, count).seconds_per_item,
        "passthrough": lambda settings, count: passthrough.kafka_python(settings, count).seconds_per_item,
        "confluent": lambda settings, count: passthrough.confluent(settings, count).seconds_per_item,
    }
    if python is not None:
        contestants["quix_datasketch"] = quix
    figures = _measure(bootstrap, "news", news, contestants, rounds)
    contestants.pop("quix_datasketch", None)  # it spends its time on sketches, whatever the stream
    return figures | _measure(bootstrap, "unique", unique, contestants, rounds)


def _measure(
    bootstrap: str, stream: str, records: Sequence[bytes], contestants: dict[str, Contestant], rounds: int
) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    processor: dict[str, list[float]] = {name: [] for name in contestants}
    for n in range(rounds + 1):
        for name, run in contestants.items():
            if n == 0 and name == "quix_datasketch":
                continue  # it runs in its own process, so there is nothing to warm
            settings = fresh_topics(bootstrap, f"bench-{stream}-{name}-{n}")
            fill(settings, records)
            wall, cpu = run(settings, len(records))
            if n:
                seconds[name].append(wall)
                processor[name] += [] if cpu is None else [cpu]
    figures: dict[str, float] = {f"worker_items_{stream}": len(records)}
    for name, values in seconds.items():
        figures |= spread(f"worker_items_per_second_{name}_{stream}", [1 / value for value in values])
        if processor[name]:
            figures |= spread(f"worker_cpu_us_{name}_{stream}", [value * 1e6 for value in processor[name]])
        if name != "ours":
            # Quix is measured on one stream only, so its ratio does not name the stream.
            ratio = f"worker_vs_{name}" if name == "quix_datasketch" else f"worker_vs_{name}_{stream}"
            figures |= speedup(ratio, seconds["ours"], values)
    return figures
