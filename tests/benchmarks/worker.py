"""The worker against what a team would run instead, on one real Kafka: same broker, records and batch size.

- `passthrough`: the bare exactly-once loop of kafka-python, which decides nothing (passthrough.py);
- `confluent`: the same loop with confluent-kafka, for the record;
- `quix_datasketch`: Quix Streams with exactly-once and datasketch's LSH, in a process of its own.

All read a topic that was filled before; rounds are interleaved, and a first round is not counted.
"""

import tempfile
import threading
from collections.abc import Callable, Sequence

from stream_dedup.settings import Settings
from stream_dedup.stream.observer import BatchReport, Observer
from stream_dedup.stream.worker import Worker
from tests.benchmarks import apart, passthrough
from tests.benchmarks.interleave import speedup, spread
from tests.benchmarks.kafka_texts import fill, fresh_topics

Cost = tuple[float, float | None]  # seconds an item: on the wall, of the processor (unknown of other processes)
Contestant = Callable[[Settings, int], Cost]


class _Until(Observer):
    """Stops the worker after so many items; its clock is the pass-through's."""

    def __init__(self, count: int) -> None:
        self.clock, self.stop = passthrough.Clock(count), threading.Event()

    def batch(self, report: BatchReport) -> None:
        self.clock.committed(len(report.verdicts))
        if self.clock.over:
            self.stop.set()


def until_judged(settings: Settings, count: int) -> passthrough.Clock:
    """The clock of a worker that has judged `count` items."""
    until = _Until(count)
    Worker(settings, observer=until).run(until.stop)
    return until.clock


def measure_worker(
    bootstrap: str, news: Sequence[bytes], unique: Sequence[bytes], rounds: int, say: Callable[[str], object]
) -> dict[str, float]:
    """`worker_items_per_second_NAME_STREAM`, `worker_vs_NAME_STREAM`, processor time `worker_cpu_us_NAME_STREAM`."""
    python = apart.python_of("quix_datasketch", say)

    def quix(settings: Settings, count: int) -> Cost:
        topics = settings.topics
        with tempfile.TemporaryDirectory() as state:
            found = apart.run(
                python, "quix_datasketch", bootstrap, topics.input, topics.output, f"{settings.kafka.group_id}-quix",
                str(count), state,
            )  # fmt: skip
        return found["seconds"] / found["items"], None

    contestants: dict[str, Contestant] = {
        "ours": lambda settings, count: until_judged(settings, count).an_item,
        "passthrough": lambda settings, count: passthrough.kafka_python(settings, count).an_item,
        "confluent": lambda settings, count: passthrough.confluent(settings, count).an_item,
    }
    if python is not None:
        contestants["quix_datasketch"] = quix
    figures = _measure(bootstrap, "news", news, contestants, rounds)
    contestants.pop("quix_datasketch", None)  # its time goes into the sketches, on any stream
    return figures | _measure(bootstrap, "unique", unique, contestants, rounds)


def _measure(
    bootstrap: str, stream: str, records: Sequence[bytes], contestants: dict[str, Contestant], rounds: int
) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    processor: dict[str, list[float]] = {name: [] for name in contestants}
    for n in range(rounds + 1):
        for name, run in contestants.items():
            if n == 0 and name == "quix_datasketch":
                continue  # a process of its own: nothing stays warm
            settings = fresh_topics(bootstrap, f"bench-{stream}-{name}-{n}")
            fill(settings, records)
            wall, cpu = run(settings, len(records))
            if n:
                seconds[name].append(wall)
                processor[name] += [] if cpu is None else [cpu]
    figures: dict[str, float] = {f"worker_items_{stream}": len(records)}
    for name, some in seconds.items():
        figures |= spread(f"worker_items_per_second_{name}_{stream}", [1 / one for one in some])
        if processor[name]:
            figures |= spread(f"worker_cpu_us_{name}_{stream}", [one * 1e6 for one in processor[name]])
        if name != "ours":
            # Quix is measured on one stream, so its ratio needs no name of it.
            ratio = f"worker_vs_{name}" if name == "quix_datasketch" else f"worker_vs_{name}_{stream}"
            figures |= speedup(ratio, seconds["ours"], some)
    return figures
