"""Measure partitions keyed by language: one worker for both languages, then two workers with one each.

The records of each language fill a partition. Each worker is a process in scope "partition". Measured are: items a
second while all partitions are being worked on (the second half of that time, when all workers have joined), the
workers' processor time an item, and the resident memory of a worker. Workers and broker share the machine's cores: with
few of them, the processor time says more than the rate about what a worker adds.
"""

import time

import click
from kafka import KafkaConsumer
from kafka.structs import TopicPartition

from stream_dedup.kafka import client
from tests.broker import EmbeddedKafka
from tests.lab.benchmarks import corpus
from tests.lab.benchmarks.corpus import Run
from tests.lab.benchmarks.kafka_texts import fill, fresh_topics, start
from tests.lab.load.process import processor, resident


def measure(run: Run) -> dict[str, float]:
    """Return for N workers `partitions_items_per_second_N`, `partitions_cpu_us_N` (an item) and `partitions_mib_N`."""
    several = len(run.corpora) > 1
    news = [corpus.news([path], run.items) for path in run.corpora] if several else [run.news, run.news]
    languages = [corpus.lengthened([record for record, _ in each], 4) for each in news]
    with EmbeddedKafka(say=click.echo) as kafka:
        return _measured(kafka.bootstrap, languages)


def _measured(bootstrap: str, languages: list[list[bytes]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for count in (1, len(languages)):
        settings = fresh_topics(bootstrap, f"bench-partitions-{count}", partitions=len(languages))
        for partition, records in enumerate(languages):
            fill(settings, records, partition=partition)
        members = [start(settings) for _ in range(count)]
        consumer = KafkaConsumer(**client.connection(settings), group_id=settings.kafka.group_id)
        partitions = [TopicPartition(settings.topics.input, number) for number in range(len(languages))]
        samples: list[tuple[float, float, int]] = []  # time, processor time, items, while all partitions are in work
        offsets = [0]
        while offsets != [len(records) for records in languages]:
            if any(member.poll() is not None for member in members):
                raise ChildProcessError("a worker has ended")
            offsets = [consumer.committed(partition) or 0 for partition in partitions]
            used = sum(processor(member.pid) for member in members)
            if all(0 < offset < len(records) for offset, records in zip(offsets, languages, strict=True)):
                samples.append((time.perf_counter(), used, sum(offsets)))
            time.sleep(0.1)
        (begin, used_before, items_before), (end, used_after, items_after) = samples[len(samples) // 2], samples[-1]
        items = items_after - items_before
        figures |= {
            f"partitions_items_per_second_{count}": items / (end - begin),
            f"partitions_cpu_us_{count}": (used_after - used_before) / items * 1e6,
            f"partitions_mib_{count}": sum(resident(member.pid) for member in members) / count / 2**20,
        }
        consumer.close()
        for member in members:
            member.terminate()
            member.wait()
    return figures
