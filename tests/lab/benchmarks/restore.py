"""Measure a restore from Kafka of two changelogs: a trickle (one original a transaction) and a flood (2,000).

Measured are the seconds until an empty index is restored and has judged its first item; and the seconds from a worker's
start, without a standby, to its first commit (joining the group included, the start of Python not).

The worker's own classes write the changelogs. The trickle's first hundred and last three thousand transactions are
single ones, since a restore reads blocks only there. The transactions between are joined by the hundred to save time.
Each fold has its own transaction, as with a worker.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import click

from stream_dedup.changelog.block import decode, encode
from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.decider import Decider
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.broker import EmbeddedKafka
from tests.lab.benchmarks.corpus import Run
from tests.lab.benchmarks.interleave import spread
from tests.lab.benchmarks.kafka_texts import fill, fresh_topics
from tests.lab.benchmarks.memory import deltas
from tests.worker.remembered import Remembering
from tests.worker.support import open_store, run_until

_FIRST_SINGLE, _LAST_SINGLE, _JOINED = 100, 3000, 100
ORIGINALS_PER_TRANSACTION = {"trickle": 1, "flood": 2000}
_DAY = 86_400_000
_FIRST_ITEM = Item(
    "first", "Elm bridge opens", "The bridge over the Elm opened on Monday after two years.", "a.example", 0
)
_RECORD = (
    b'{"id": "%d", "title": "Elm bridge opens", "text": "The bridge over the Elm opened on Monday.", "source": "a"}'
)


def deltas_since_yesterday(settings: Settings, originals: int, per_transaction: int) -> Iterator[Delta]:
    """Yield the deltas of a worker that has let `originals` distinct items through since yesterday."""
    yesterday = int(time.time() * 1000) - _DAY
    for delta in deltas(settings, originals, per_transaction):
        delta.signatures["time"] += yesterday
        delta.signatures["headline_size"] = 16
        yield replace(delta, watermark=delta.watermark + yesterday)


def fill_changelog(settings: Settings, originals: int, per_transaction: int) -> None:
    """Write a changelog of `originals` originals with a task's producer."""
    transactions = -(-originals // per_transaction)
    joined: list[Delta] = []
    with Remembering(settings) as writer:
        for number, delta in enumerate(deltas_since_yesterday(settings, originals, per_transaction)):
            if per_transaction > 1 or not _FIRST_SINGLE <= number < transactions - _LAST_SINGLE:
                writer.write(*joined, delta)
                joined = []
                continue
            joined.append(delta)
            if len(joined) == _JOINED:
                writer.write(*joined)
                joined = []


def _restore(settings: Settings) -> tuple[float, int]:
    """Restore a state store and judge one item; return the seconds and the number of entries read."""
    start = time.perf_counter()
    store = open_store(settings)
    restored = store.complete(lambda done, total: None)
    store.dedup.judge([_FIRST_ITEM])
    seconds = time.perf_counter() - start
    store.close()
    return seconds, restored.blocks


def _first_commit(settings: Settings) -> float:
    """Return the seconds from a worker's start to its first commit."""
    committed: list[float] = []
    start = time.perf_counter()
    run_until(settings, 1, on_batch=lambda _: committed.append(time.perf_counter()))
    return committed[0] - start


def _from_memory(originals: int, rounds: int) -> dict[str, float]:
    """Return the seconds to restore a million originals until the first verdict, and the seconds of a start.

    The restore reads changelog blocks from memory. A start is a new process with an empty state: import, the first
    item judged. Both are without Kafka.
    """
    settings, dedup = load_settings(), Decider()
    scheme = dedup.scheme
    dedup.close()
    seconds: dict[str, list[float]] = {"decode": [], "restore": [], "first": []}
    size = 0
    for _ in range(rounds):
        dedup = Decider()
        spent = dict.fromkeys(seconds, 0.0)
        size = 0
        for delta in deltas(settings, originals, settings.worker.batch_items):
            block = encode(delta, scheme.id)
            size += len(block)
            start = time.perf_counter()
            decoded = decode(block, scheme.id, scheme.signature_dtype)
            spent["decode"] += time.perf_counter() - start
            start = time.perf_counter()
            dedup.restore(decoded)
            spent["restore"] += time.perf_counter() - start
        start = time.perf_counter()
        dedup.judge([_FIRST_ITEM])
        spent["first"] += time.perf_counter() - start
        dedup.close()
        for name, value in spent.items():
            seconds[name].append(value / originals * 1e6)
    total = [sum(durations) for durations in zip(*seconds.values(), strict=True)]
    return {
        "restore_s_per_million": statistics.median(total),
        **{f"restore_{name}_s_per_million": statistics.median(values) for name, values in seconds.items()},
        "changelog_bytes_per_original": size / originals,
        "start_s": statistics.median(_starts(rounds)),
    }


_START = """
from stream_dedup import Deduplicator, Item
dedup = Deduplicator()
dedup.apply(dedup.judge([Item("1", "Elm bridge opens", "The bridge over the Elm opened on Monday.", "a.example", 0)]))
dedup.close()
"""


def _starts(rounds: int) -> Iterator[float]:
    subprocess.run([sys.executable, "-c", _START], check=True)
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", _START], check=True)
        yield time.perf_counter() - start


def measure(run: Run, originals: int = 10**6, rounds: int = 3) -> dict[str, float]:
    """Return the figures of both restores, whatever the run."""
    with EmbeddedKafka(say=click.echo) as kafka:
        return _from_memory(originals, rounds) | _from_kafka(kafka.bootstrap, originals, rounds, click.echo)


def _from_kafka(bootstrap: str, originals: int, rounds: int, report: Callable[[str], object]) -> dict[str, float]:
    """Return `restore_kafka_NAME_FIGURE`: median seconds `s` and `open_s`, entries read `pieces`; and the ratio."""
    settings, seconds, commits, entries = {}, {}, {}, {}
    for name, per_transaction in ORIGINALS_PER_TRANSACTION.items():
        settings[name] = fresh_topics(bootstrap, f"restore-{name}")
        start = time.monotonic()
        fill_changelog(settings[name], originals, per_transaction)
        report(f"{originals} originals, {per_transaction} a transaction: {time.monotonic() - start:.0f} s")
        seconds[name], commits[name] = [], []
    for number in range(rounds):
        for name, topic_settings in settings.items():
            duration, entries[name] = _restore(topic_settings)
            seconds[name].append(duration)
            fill(topic_settings, [_RECORD % number], int(time.time() * 1000))
            commits[name].append(_first_commit(topic_settings))
            report(f"{name}: restored in {duration:.2f} s, first commit after {commits[name][-1]:.2f} s")
    figures: dict[str, float] = {}
    for name in settings:
        figures |= spread(f"restore_kafka_{name}_s", seconds[name])
        figures |= spread(f"restore_kafka_{name}_open_s", commits[name])
        figures[f"restore_kafka_{name}_pieces"] = entries[name]
    ratios = [trickle / flood for trickle, flood in zip(seconds["trickle"], seconds["flood"], strict=True)]
    return figures | {"restore_kafka_trickle_vs_flood": statistics.median(ratios)}
