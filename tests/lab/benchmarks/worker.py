"""Compare the worker's throughput with alternatives on one real Kafka: same broker, records and batch size.

- `passthrough`: the minimal cost of exactly-once (bare.py);
- `confluent`: the same loop with confluent-kafka (librdkafka, C), for comparison;
- `quix_datasketch`: Quix Streams with exactly-once and datasketch's LSH, in its own process.

The clock runs from the end of the first commit, when clients are connected and prefetch, to the end of the last commit.
It also counts the processor time of this process, which varies less on a busy machine.

All read a topic that was filled before. Rounds are interleaved, and the first round does not count.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Sequence

import click
import confluent_kafka

from stream_dedup.settings import Settings
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.worker import Worker
from tests.broker import EmbeddedKafka
from tests.lab.benchmarks import apart, bare, corpus
from tests.lab.benchmarks.corpus import Run
from tests.lab.benchmarks.interleave import speedup, spread
from tests.lab.benchmarks.kafka_texts import fill, fresh_topics

Cost = tuple[float, float | None]  # seconds an item: wall time, processor time (unknown for other processes)
Contestant = Callable[[Settings, int], Cost]


def ours(settings: Settings, count: int) -> Cost:
    """Run a worker until it has processed `count` items."""
    clock, stop = Clock(count), threading.Event()

    class Timing(Observer):
        def batch(self, report: BatchReport) -> None:
            clock.committed(report.count)
            if clock.is_over:
                stop.set()

    Worker(settings, observer=Timing()).run(stop)
    return clock.seconds_per_item


def measure(run: Run) -> dict[str, float]:
    """Return `worker_items_per_second_NAME_STREAM`, `worker_vs_NAME_STREAM`, and `worker_cpu_us_NAME_STREAM`."""
    python = apart.python_of("quix_datasketch", click.echo)

    def quix(settings: Settings, count: int) -> Cost:
        topics, kafka = settings.topics, settings.kafka
        with tempfile.TemporaryDirectory() as state:
            result = apart.run(
                python, "quix_datasketch", kafka.bootstrap_servers, topics.input, topics.output,
                f"{kafka.group_id}-quix", str(count), state,
            )  # fmt: skip
        return result["seconds"] / result["items"], None

    contestants: dict[str, Contestant] = {"ours": ours, "passthrough": kafka_python, "confluent": confluent}
    with EmbeddedKafka(say=click.echo) as broker:
        # The clock starts after the first commit; the 7,000 records or so that were prefetched by then count for less.
        unique = [record for record, _ in corpus.all_unique(3 * run.news)]
        figures = _measure(broker.bootstrap, "unique", unique, contestants, run.rounds)
        if python is not None:  # on one stream: it spends its time on sketches, whatever the stream
            contestants["quix_datasketch"] = quix
        news = corpus.lengthened([record for record, _ in run.news], 3)
        return _measure(broker.bootstrap, "news", news, contestants, run.rounds) | figures


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


def kafka_python(settings: Settings, count: int) -> Cost:
    """Forward `count` records with kafka-python."""
    clock, commits = Clock(count), bare.forward(settings)
    while not clock.is_over:
        clock.committed(next(commits))
    commits.close()
    return clock.seconds_per_item


def confluent(settings: Settings, count: int) -> Cost:
    """Forward `count` records with confluent-kafka."""
    group = f"{settings.kafka.group_id}-confluent"
    common = {"bootstrap.servers": settings.kafka.bootstrap_servers}
    config = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    reader = confluent_kafka.Consumer(common | config | {"isolation.level": "read_committed"})
    reader.subscribe([settings.topics.input])
    writer = confluent_kafka.Producer(common | {"transactional.id": group, "compression.type": "lz4", "linger.ms": 5})
    writer.init_transactions()
    clock, failed = Clock(count), []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    while not clock.is_over:
        records = reader.consume(settings.worker.batch_items, 0.2)
        if not records:
            continue
        writer.begin_transaction()
        for record in records:
            more = {"timestamp": record.timestamp()[1], "headers": record.headers() or [], "on_delivery": delivered}
            writer.produce(settings.topics.output, record.value(), record.key(), record.partition(), **more)
        writer.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata())
        writer.flush()
        if failed:
            raise confluent_kafka.KafkaException(failed[0])
        writer.commit_transaction()
        clock.committed(len(records))
    reader.close()
    return clock.seconds_per_item


class Clock:
    """A clock of wall and processor time that runs from the end of the first commit to the end of the last."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._commits: list[tuple[float, float, int]] = []  # wall time, processor time, items

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    @property
    def seconds_per_item(self) -> tuple[float, float]:
        """Seconds an item: wall time, processor time. Raises ValueError after fewer than two commits."""
        (wall, cpu, _), *_, (wall_end, cpu_end, _) = self._commits
        counted = sum(items for *_, items in self._commits[1:])
        return (wall_end - wall) / counted, (cpu_end - cpu) / counted

    def committed(self, items: int) -> None:
        self._left -= items
        self._commits.append((time.perf_counter(), time.process_time(), items))
