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


class _Until(Observer):
    """Stops the worker after so many items; its clock is the pass-through's."""

    def __init__(self, count: int) -> None:
        self.clock, self.stop = passthrough.Clock(count), threading.Event()

    def batch(self, report: BatchReport) -> None:
        self.clock.committed(len(report.verdicts))
        if self.clock.over:
            self.stop.set()


def _worker(settings: Settings, count: int) -> float:
    until = _Until(count)
    Worker(settings, observer=until).run(until.stop)
    return until.clock.seconds_an_item


def measure_worker(
    bootstrap: str, news: Sequence[bytes], unique: Sequence[bytes], rounds: int, say: Callable[[str], object]
) -> dict[str, float]:
    """Items a second of each as `worker_items_per_second_NAME_STREAM`, and `worker_vs_NAME_STREAM`."""
    python = apart.python_of("quix_datasketch", say)

    def quix(settings: Settings, count: int) -> float:
        topics = settings.topics
        with tempfile.TemporaryDirectory() as state:
            found = apart.run(
                python, "quix_datasketch", bootstrap, topics.input, topics.output, f"{settings.kafka.group_id}-quix",
                str(count), state,
            )  # fmt: skip
        return float(found["seconds"] / found["items"])

    contestants = {"ours": _worker, "passthrough": passthrough.kafka_python, "confluent": passthrough.confluent}
    if python is not None:
        contestants["quix_datasketch"] = quix
    figures = _measure(bootstrap, "news", news, contestants, rounds)
    contestants.pop("quix_datasketch", None)  # its time goes into the sketches, on any stream
    return figures | _measure(bootstrap, "unique", unique, contestants, rounds)


def _measure(
    bootstrap: str,
    stream: str,
    records: Sequence[bytes],
    contestants: dict[str, Callable[[Settings, int], float]],
    rounds: int,
) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for n in range(rounds + 1):
        for name, run in contestants.items():
            if n == 0 and name == "quix_datasketch":
                continue  # a process of its own: nothing stays warm
            settings = fresh_topics(bootstrap, f"bench-{stream}-{name}-{n}")
            fill(settings, records)
            one = run(settings, len(records))
            if n:
                seconds[name].append(one)
    figures: dict[str, float] = {f"worker_items_{stream}": len(records)}
    for name, some in seconds.items():
        figures |= spread(f"worker_items_per_second_{name}_{stream}", [1 / one for one in some])
        if name != "ours":
            # Quix is measured on one stream, so its ratio needs no name of it.
            ratio = f"worker_vs_{name}" if name == "quix_datasketch" else f"worker_vs_{name}_{stream}"
            figures |= speedup(ratio, seconds["ours"], some)
    return figures
