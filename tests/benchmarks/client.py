"""What the patches of kafka-python gain: processor time an item with each of them and without, on one real Kafka.

Consumption alone (fast_fetch.py), production alone in transactions (bulk_producer.py), and the whole worker with all
patches, without one of the two, and with `[kafka] client = "public"`. Processor time is that of the whole process, all
threads, so a busy machine changes it little. Rounds are interleaved, and a first round is not counted.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

from kafka import KafkaConsumer, TopicPartition

from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.bounded import no_deadline
from stream_dedup.stream.client_access import ClientAccess, PublicAccess
from stream_dedup.stream.client_internals.patches import PatchedAccess
from stream_dedup.stream.producer import TaskProducer
from stream_dedup.stream.transaction import Outgoing
from tests.benchmarks.interleave import speedup, spread
from tests.benchmarks.kafka_texts import fill, fresh_topics
from tests.benchmarks.worker import run_worker

_BATCH = 1000
_SETS = {"patched": client.access("patched"), "public": client.access("public")}


def measure_client(bootstrap: str, news: Sequence[bytes], rounds: int) -> dict[str, float]:
    """`client_cpu_us_TASK_WAY`, and `client_gain_TASK_WAY`: times the processor time of the patched client."""
    settings = fresh_topics(bootstrap, "bench-client")
    fill(settings, news)
    values = [value for value in news for _ in range(2)]
    tasks: dict[str, dict[str, Callable[[int], float]]] = {
        "consume": {name: partial(_consume, settings, access, len(news)) for name, access in _SETS.items()},
        "produce": {name: partial(_produce, settings, access, values) for name, access in _SETS.items()},
        "worker": {
            name: partial(_work, bootstrap, name, news)
            for name in ("patched", "without_fast_fetch", "without_bulk_producer", "public")
        },
    }
    figures: dict[str, float] = {"client_items": len(news)}
    for task, ways in tasks.items():
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for n in range(rounds + 1):
            for name, run in ways.items():
                one = run(n)
                if n:
                    seconds[name].append(one)
        for name, some in seconds.items():
            figures |= spread(f"client_cpu_us_{task}_{name}", [each * 1e6 for each in some])
            if name != "patched":
                figures |= speedup(f"client_gain_{task}_{name}", seconds["patched"], some)
    return figures


def _consume(settings: Settings, access: ClientAccess, count: int, n: int) -> float:
    """Processor seconds of an item that is read."""
    config = client.changelog_reader(settings) | {"max_partition_fetch_bytes": 16 * 2**20, "max_poll_records": _BATCH}
    consumer, place = client.make(KafkaConsumer, config), TopicPartition(settings.topics.input, 0)
    access.prepare_consumer(consumer, 2**25)
    consumer.assign([place])
    consumer.seek(place, 0)
    start, read = time.process_time(), 0
    while read < count:
        read += sum(len(some) for some in consumer.poll(500).values())
    seconds = time.process_time() - start
    consumer.close()
    return seconds / count


def _produce(settings: Settings, access: ClientAccess, values: Sequence[bytes], n: int) -> float:
    """Processor seconds of an item that is sent and committed."""
    producer = TaskProducer(client.producer(settings, "bench-client"), 60, no_deadline, access=access)
    headers: list[tuple[str, bytes | None]] = [("dedup-verdict", b"unique"), ("dedup-source", b"news/0/1")]
    topic = settings.topics.output
    records = [Outgoing(topic, 0, b"key", value, headers, 1_700_000_000_000, i) for i, value in enumerate(values)]
    start = time.process_time()
    for i in range(0, len(records), _BATCH):
        producer.begin()
        producer.send(producer.pack(records[i : i + _BATCH]))
        producer.flush()
        producer.commit()
    seconds = time.process_time() - start
    producer.close()
    return seconds / len(records)


def _work(bootstrap: str, way: str, news: Sequence[bytes], n: int) -> float:
    """Processor seconds of an item in the whole worker."""
    kind: Any = "public" if way == "public" else "patched"
    settings = fresh_topics(bootstrap, f"bench-client-{way}-{n}", client=kind)
    fill(settings, news)
    without: dict[str, AbstractContextManager[object]] = {
        "without_fast_fetch": patch.object(PatchedAccess, "prepare_consumer", PublicAccess.prepare_consumer),
        "without_bulk_producer": patch.object(PatchedAccess, "sender", PublicAccess.sender),
    }
    with without.get(way, nullcontext()):
        return run_worker(settings, len(news)).seconds_per_item[1]
