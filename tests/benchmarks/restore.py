"""Measure a restore from Kafka of two changelogs: a trickle (one original a transaction) and a flood (2,000).

In: a broker. Out: the seconds until an empty index is restored and has judged its first item; and the seconds from a
worker's start, without a standby, to its first commit (joining the group included, the start of Python not).

The worker's own classes write the changelogs. The trickle's first hundred and last three thousand transactions are
single ones, since a restore reads blocks only there. The transactions between are joined by the hundred to save time.
Each fold has its own transaction, as with a worker.
"""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from stream_dedup.dedup.batch import Delta
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.kafka.bounded import no_deadline
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.observer import BatchReport, Observer
from stream_dedup.worker.state_store import StateStore
from stream_dedup.worker.worker import Worker
from tests.benchmarks.kafka_texts import fill, fresh_topics
from tests.benchmarks.memory import deltas
from tests.worker.remembered import Remembering

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
    store = StateStore(WorkerContext(settings, Observer(), time.time, Deduplicator, no_deadline), "global", 0)
    restored = store.complete(lambda done, total: None)
    store.dedup.judge([_FIRST_ITEM])
    seconds = time.perf_counter() - start
    store.close()
    return seconds, restored.blocks


def _first_commit(settings: Settings) -> float:
    """Return the seconds from a worker's start to its first commit."""
    committed, stop = threading.Event(), threading.Event()

    class FirstCommit(Observer):
        def batch(self, report: BatchReport) -> None:
            committed.set()

    start = time.perf_counter()
    worker = threading.Thread(target=Worker(settings, observer=FirstCommit()).run, args=(stop,))
    worker.start()
    while worker.is_alive() and not committed.wait(0.001):
        pass
    seconds = time.perf_counter() - start
    stop.set()
    worker.join()
    if not committed.is_set():
        raise RuntimeError("the worker ended before its first commit")
    return seconds


def measure_restore_from_kafka(
    bootstrap: str, originals: int, rounds: int, report: Callable[[str], None]
) -> dict[str, float]:
    """Return `restore_kafka_NAME_FIGURE`: median seconds `s` and `open_s`, entries read `pieces`; and the ratio."""
    settings, seconds, commits, entries = {}, {}, {}, {}
    for name, per_transaction in ORIGINALS_PER_TRANSACTION.items():
        settings[name] = fresh_topics(bootstrap, f"restore-{name}")
        start = time.monotonic()
        fill_changelog(settings[name], originals, per_transaction)
        report(
            f"{originals} originals in the changelog, {per_transaction} a transaction: {time.monotonic() - start:.0f} s"
        )
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
        for kind, values in (("s", seconds[name]), ("open_s", commits[name])):
            figure = f"restore_kafka_{name}_{kind}"
            figures |= {figure: statistics.median(values), f"{figure}_low": min(values), f"{figure}_high": max(values)}
        figures[f"restore_kafka_{name}_pieces"] = entries[name]
    ratios = [trickle / flood for trickle, flood in zip(seconds["trickle"], seconds["flood"], strict=True)]
    return figures | {"restore_kafka_trickle_vs_flood": statistics.median(ratios)}
